//! Virtual ports of simulated adapter ports, as the devices hold them: VirtualizationInfo and the
//! attributes of each vport.
//!
//! While virtualization is not enabled, or the link of the physical port is down, all vports are Down.
//! A vport that is up otherwise is in INIT until the subnet manager makes it ACTIVE.

use super::devices::Devices;
use super::net::Net;
use super::sim_fabric::SimFabric;
use super::sma::AttributeResult;
use super::tables::AttributeData;
use super::vendor::VendorProfile;
use super::vports::{self, GUID_CAP, PARTITION_CAP, SimVport, SimVports, VportSpec};
use crate::ids::{Guid, Pkey, PortNum};
use crate::wire::attr::tables::{GUID_BLOCK, GuidBlock, PKEY_BLOCK, PkeyBlock};
use crate::wire::attr::{AttrId, CapMask, CapMask2, NodeDescription, NodeKind, PortState};
use crate::wire::mad::Status;
use crate::wire::smp::DATA_SIZE;
use crate::wire::vendor::capabilities::Capabilities;
use crate::wire::vendor::facts::{TRAP_VPORT_CHANGES, TRAP_VPORT_STATE};
use crate::wire::vendor::virtual_ports::{
    VirtualizationInfo, VnodeInfo, VportBlock, VportInfo, VportStates,
};

fn is_known(id: u16) -> bool {
    is_read_only(id)
        || [
            AttrId::VIRTUALIZATION_INFO,
            AttrId::VPORT_INFO,
            AttrId::VPORT_GUID_INFO,
            AttrId::VPORT_PKEY_TABLE,
        ]
        .contains(&id)
}

fn is_read_only(id: u16) -> bool {
    [AttrId::VPORT_STATE, AttrId::VNODE_INFO, AttrId::VNODE_DESCRIPTION].contains(&id)
}

impl Devices {
    pub(super) fn vport_state(&self, slot: u32, index: u16) -> PortState {
        let Some(port) = self.vendor.virtualized(slot) else { return PortState::Down };
        let has_link = self.port(slot).info.port_state() != PortState::Down;
        match port.vports.get(usize::from(index)) {
            Some(vport) if port.is_enabled && has_link && vport.spec.is_up => {
                if vport.is_active {
                    PortState::Active
                } else {
                    PortState::Init
                }
            }
            _ => PortState::Down,
        }
    }

    /// Reads or sets an attribute of virtual ports, of a request received through the port `slot`.
    pub(super) fn virtual_port_attribute(
        &mut self,
        slot: u32,
        profile: VendorProfile,
        id: u16,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        if !profile.capabilities.has(Capabilities::VIRTUALIZATION) {
            return Err(Status::BAD_METHOD_ATTR);
        }
        let port = self.vendor.virtualized(slot).ok_or(Status::BAD_METHOD_ATTR)?;
        if !is_known(id) || write.is_some() && is_read_only(id) {
            return Err(Status::BAD_METHOD_ATTR);
        }
        if id == AttrId::VIRTUALIZATION_INFO {
            return if modifier == 0 {
                self.virtualization_info(slot, write)
            } else {
                Err(Status::BAD_FIELD)
            };
        }
        let VportBlock { index: table, block } = VportBlock::of(modifier);
        let index = match id {
            AttrId::VPORT_STATE => modifier.saturating_mul(VportStates::COUNT.into()),
            AttrId::VPORT_GUID_INFO | AttrId::VPORT_PKEY_TABLE => table.into(),
            _ => modifier,
        };
        let index = u16::try_from(index).map_err(|_| Status::BAD_FIELD)?;
        if usize::from(index) >= port.vports.len() {
            return Err(Status::BAD_FIELD);
        }
        match id {
            AttrId::VPORT_STATE => Ok(self.vport_states(slot, index)),
            AttrId::VPORT_INFO => self.vport_info(slot, index, write),
            AttrId::VNODE_INFO => self.vnode_info(slot, index),
            AttrId::VNODE_DESCRIPTION => {
                Ok(NodeDescription::new(&self.vport(slot, index)?.spec.description).0)
            }
            AttrId::VPORT_GUID_INFO => self.vport_guids(slot, index, block, write),
            _ => self.vport_pkeys(slot, index, block, write),
        }
    }

    fn virtualization_info(&mut self, slot: u32, write: Option<&AttributeData>) -> AttributeResult {
        let port = self.vendor.virtualized_mut(slot).ok_or(Status::BAD_FIELD)?;
        if let Some(data) = write {
            port.set_info(&VirtualizationInfo(*data));
        }
        Ok(port.info().0)
    }

    /// The block of states that begins with the index `first`.
    fn vport_states(&self, slot: u32, first: u16) -> AttributeData {
        let mut states = VportStates([0; DATA_SIZE]);
        let vports = self.vendor.virtualized(slot).map_or(0, |port| port.vports.len()) as u16;
        for index in first..vports.min(first.saturating_add(VportStates::COUNT)) {
            states.set_state(index - first, self.vport_state(slot, index));
        }
        states.0
    }

    fn vnode_info(&self, slot: u32, index: u16) -> AttributeResult {
        let mut info = VnodeInfo::default();
        info.set_partition_cap(PARTITION_CAP);
        info.set_local_port(PortNum(1));
        info.set_num_ports(1);
        info.set_guid(self.vport(slot, index)?.spec.vnode);
        Ok(info.0)
    }

    fn vport_guids(
        &mut self,
        slot: u32,
        index: u16,
        block: u16,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        if usize::from(block) * GUID_BLOCK >= usize::from(GUID_CAP) {
            return Err(Status::BAD_FIELD);
        }
        let vport = self.vport_mut(slot, index)?;
        if let Some(data) = write {
            vport.guids = GuidBlock::read(data);
            vport.guids.0[0] = vport.spec.guid;
        }
        Ok(vport.guids.to_wire())
    }

    pub(super) fn vport(&self, slot: u32, index: u16) -> Result<&SimVport, u16> {
        let port = self.vendor.virtualized(slot).ok_or(Status::BAD_FIELD)?;
        port.vports.get(usize::from(index)).ok_or(Status::BAD_FIELD)
    }

    pub(super) fn vport_mut(&mut self, slot: u32, index: u16) -> Result<&mut SimVport, u16> {
        let port = self.vendor.virtualized_mut(slot).ok_or(Status::BAD_FIELD)?;
        port.vports.get_mut(usize::from(index)).ok_or(Status::BAD_FIELD)
    }

    fn vport_info(
        &mut self,
        slot: u32,
        index: u16,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        let state = self.vport_state(slot, index);
        if let Some(data) = write {
            let wanted = VportInfo(*data);
            let is_valid = match wanted.state() {
                PortState::NoChange => true,
                PortState::Active => state != PortState::Down,
                _ => false,
            };
            let vport = self.vport_mut(slot, index)?;
            let has_lid = wanted.lid().is_unicast();
            let needs_lid = vport.spec.lid_required && wanted.state() == PortState::Active;
            if !is_valid || needs_lid && !has_lid {
                return Err(Status::BAD_FIELD);
            }
            if vport.spec.lid_required {
                vport.lid = wanted.lid();
            }
            vport.is_active |= wanted.state() == PortState::Active;
            vport.reregistrations += u64::from(wanted.client_reregister());
        }
        let state = self.vport_state(slot, index);
        let vport = self.vport(slot, index)?;
        let mut info = VportInfo::default();
        info.set_state(state);
        info.set_lid_required(vport.spec.lid_required);
        info.set_guid_cap(GUID_CAP);
        info.set_lid(vport.lid);
        info.set_lid_by_vport_index(vport.spec.lid_by_vport_index);
        info.set_guid(vport.spec.guid);
        Ok(info.0)
    }

    fn vport_pkeys(
        &mut self,
        slot: u32,
        index: u16,
        block: u16,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        let vport = self.vport_mut(slot, index)?;
        let start = usize::from(block) * PKEY_BLOCK;
        let end = start + PKEY_BLOCK;
        if end > usize::from(PARTITION_CAP) {
            return Err(Status::BAD_FIELD);
        }
        if let Some(data) = write {
            let count = vport.pkeys.len().max(end);
            vport.pkeys.resize(count, Pkey(0));
            vport.pkeys[start..end].copy_from_slice(&PkeyBlock::read(data).0);
        }
        let mut keys = PkeyBlock::default();
        if let Some(held) = vport.pkeys.get(start..end) {
            keys.0.copy_from_slice(held);
        }
        Ok(keys.to_wire())
    }
}

impl Net {
    /// Gives an adapter port vports, and its node the capability of virtualization.
    pub(super) fn set_virtual_ports(&mut self, slot: u32, vports: Vec<VportSpec>) {
        let devices = &mut self.devices;
        let node = devices.port(slot).node;
        let mut profile = devices.vendor.profile(node).unwrap_or_default();
        profile.capabilities = profile.capabilities.with(Capabilities::VIRTUALIZATION);
        devices.set_vendor_profile(node, Some(profile));
        let info = &mut devices.port_mut(slot).info;
        info.set_capability_mask(info.capability_mask() | CapMask::CAP_MASK2);
        info.set_capability_mask2(info.capability_mask2() | CapMask2::VIRTUALIZATION);
        let vports = vports.into_iter().map(SimVport::new).collect();
        let port = SimVports { vports, ..SimVports::default() };
        devices.vendor.set_virtualized(slot, port);
    }

    /// Changes a vport, as its hypervisor does, and reports it: sets VPortStateChange, and sends trap
    /// 1146 or 1144 if `with_trap`. False if there is no such vport.
    pub(super) fn change_virtual_port(
        &mut self,
        slot: u32,
        index: u16,
        with_trap: bool,
        change: impl FnOnce(&mut VportSpec),
    ) -> bool {
        let Ok(vport) = self.devices.vport_mut(slot, index) else { return false };
        let before = vport.spec.clone();
        change(&mut vport.spec);
        let has_restarted = before.guid != vport.spec.guid || before.is_up != vport.spec.is_up;
        if has_restarted {
            *vport = SimVport::new(vport.spec.clone());
        }
        if let Some(port) = self.devices.vendor.virtualized_mut(slot) {
            port.has_changed |= has_restarted;
        }
        if with_trap && has_restarted {
            self.raise_vendor_trap(slot, TRAP_VPORT_STATE.value, |_| {});
        } else if with_trap {
            self.raise_vendor_trap(slot, TRAP_VPORT_CHANGES.value, |notice| {
                notice.set_other_local_changes(true);
                notice.set_change_flags(1);
                notice.set_vport_index(index);
            });
        }
        true
    }
}

impl SimFabric {
    /// Gives an adapter port virtual ports, the first of which is that of the physical port itself,
    /// and its node the capability of virtualization.
    pub fn set_virtual_ports(&self, guid: Guid, num: PortNum, vports: Vec<VportSpec>) -> bool {
        self.at_port(guid, num, |net, slot| net.set_virtual_ports(slot, vports)).is_some()
    }

    /// Gives each port of a channel adapter `count` virtual ports.
    pub fn give_all_virtual_ports(&self, count: u16) {
        let descriptions = vports::descriptions(count);
        let mut net = self.shared.lock();
        for slot in 0..net.devices.ports.len() as u32 {
            let port = net.devices.port(slot);
            let kind = net.devices.node(port.node).info.kind();
            if kind == NodeKind::Ca && port.num != PortNum::ZERO {
                let vports = VportSpec::described(port.guid, &descriptions);
                net.set_virtual_ports(slot, vports);
            }
        }
    }

    /// The vport with an index, as the device holds it, and its state.
    pub fn virtual_port(
        &self,
        guid: Guid,
        num: PortNum,
        index: u16,
    ) -> Option<(SimVport, PortState)> {
        self.at_port(guid, num, |net, slot| {
            let vport = net.devices.vport(slot, index).ok()?.clone();
            Some((vport, net.devices.vport_state(slot, index)))
        })?
    }

    /// Changes a vport, as its hypervisor does, and reports it: sets VPortStateChange, and sends trap
    /// 1146 or 1144 if `with_trap`.
    pub fn change_virtual_port(
        &self,
        guid: Guid,
        num: PortNum,
        index: u16,
        with_trap: bool,
        change: impl FnOnce(&mut VportSpec),
    ) -> bool {
        self.at_port(guid, num, |net, slot| net.change_virtual_port(slot, index, with_trap, change))
            .unwrap_or(false)
    }

    /// Lets a port claim another top index than that of its last vport; `None` ends this.
    pub fn claim_top_index(&self, guid: Guid, num: PortNum, top: Option<u16>) -> bool {
        self.at_port(guid, num, |net, slot| {
            let port = net.devices.vendor.virtualized_mut(slot);
            port.map(|port| port.claimed_top = top).is_some()
        })
        .unwrap_or(false)
    }
}
