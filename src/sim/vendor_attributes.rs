//! Vendor-specific attributes of simulated devices: GeneralInfo and QosConfigSL; those of virtual ports
//! are in `virtual_ports`, those of adaptive routing in `adaptive`.
//!
//! A node has them if it has a profile. A device refuses attributes that it does not know with
//! status 0x000C, and modifiers and values out of range with status 7 (0x001C).

use super::devices::Devices;
use super::node_faults::AttributeFault;
use super::sim_fabric::SimFabric;
use super::sma::AttributeResult;
use super::tables::AttributeData;
use super::vendor::{VendorProfile, VendorSet};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::AttrId;
use crate::wire::mad::Status;
use crate::wire::vendor::MELLANOX;
use crate::wire::vendor::capabilities::Capabilities;
use crate::wire::vendor::facts::GENERAL_INFO_CAPABILITIES;
use crate::wire::vendor::qos_config_sl::{QosConfigSl, QosTarget};

/// DeviceID of an adapter with a profile that had none: ConnectX-5.
const ADAPTER: u16 = 0x1017;
/// DeviceID of a switch with a profile that had none: Quantum.
const SWITCH: u16 = 0xd2f0;

impl Devices {
    /// Gives a node a profile, or removes it. A node with a profile is by Mellanox.
    pub(super) fn set_vendor_profile(&mut self, node: u32, profile: Option<VendorProfile>) {
        let Some(profile) = profile else {
            return self.vendor.set_profile(node, None);
        };
        let device_id = if self.is_switch(node) { SWITCH } else { ADAPTER };
        let info = &mut self.nodes[node as usize].info;
        info.set_vendor_id(MELLANOX);
        if info.device_id() == 0 {
            info.set_device_id(device_id);
        }
        self.vendor.set_profile(node, Some(profile));
    }

    /// Reads or sets a vendor-specific attribute, of a request received through the port `entry`.
    pub(super) fn vendor_attribute(
        &mut self,
        entry: u32,
        id: u16,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        let node = self.port(entry).node;
        let Some(profile) = self.vendor.profile(node) else {
            return Err(Status::BAD_METHOD_ATTR);
        };
        let result = match id {
            AttrId::GENERAL_INFO => general_info(profile, modifier, write),
            AttrId::QOS_CONFIG_SL => self.qos_config_sl(entry, profile, modifier, write),
            AttrId::AR_INFO
            | AttrId::AR_GROUP_TABLE
            | AttrId::AR_LFT
            | AttrId::AR_GROUP_TABLE_COPY => {
                self.adaptive_attribute(node, profile, id, modifier, write)
            }
            id => self.virtual_port_attribute(entry, profile, id, modifier, write),
        };
        if let Some(&data) = write {
            let guid = self.node(node).info.node_guid();
            let status = result.err().unwrap_or(Status::OK);
            self.vendor.log(VendorSet { guid, attr_id: id, attr_mod: modifier, status, data });
        }
        result
    }

    fn qos_config_sl(
        &mut self,
        entry: u32,
        profile: VendorProfile,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        let node = self.port(entry).node;
        let target = QosConfigSl::target(modifier).ok_or(Status::BAD_FIELD)?;
        let needed = match target {
            QosTarget::Port(_) => Capabilities::RATE_LIMIT,
            QosTarget::VirtualPort(_) => Capabilities::VPORT_RATE_LIMIT,
        };
        if !profile.capabilities.has(needed) || self.is_switch(node) {
            return Err(Status::BAD_METHOD_ATTR);
        }
        let num = match target {
            QosTarget::Port(num) => num,
            QosTarget::VirtualPort(index) => {
                let vport = self.vport_mut(entry, index)?;
                if let Some(data) = write {
                    vport.qos = QosConfigSl(*data);
                }
                return Ok(vport.qos.0);
            }
        };
        let num = u8::try_from(num).ok().filter(|&num| num > 0).ok_or(Status::BAD_FIELD)?;
        let slot = self.slot(node, PortNum(num)).ok_or(Status::BAD_FIELD)?;
        if let Some(data) = write {
            self.vendor.set_config(slot, QosConfigSl(*data));
        }
        Ok(self.vendor.config(slot).0)
    }
}

fn general_info(
    profile: VendorProfile,
    modifier: u32,
    write: Option<&AttributeData>,
) -> AttributeResult {
    if write.is_some() {
        return Err(Status::BAD_METHOD_ATTR);
    }
    if modifier == GENERAL_INFO_CAPABILITIES.value {
        Ok(profile.capabilities.write())
    } else {
        Err(Status::BAD_FIELD)
    }
}

impl SimFabric {
    /// Gives a node vendor-specific attributes, or removes them.
    pub fn set_vendor_profile(&self, guid: Guid, profile: Option<VendorProfile>) -> bool {
        self.at_node(guid, |net, node| net.devices.set_vendor_profile(node, profile)).is_some()
    }

    /// Gives all nodes vendor-specific attributes.
    pub fn set_vendor_profiles(&self, profile: VendorProfile) {
        let mut net = self.shared.lock();
        for node in 0..net.devices.nodes.len() as u32 {
            net.devices.set_vendor_profile(node, Some(profile));
        }
    }

    /// Lets a node ignore or refuse all requests for an attribute; `None` ends this.
    pub fn set_attribute_fault(
        &self,
        guid: Guid,
        attr_id: u16,
        fault: Option<AttributeFault>,
    ) -> bool {
        self.at_node(guid, |net, node| {
            net.faults.nodes.change(node, |faults| faults.set_attribute(attr_id, fault));
        })
        .is_some()
    }

    /// The Sets of vendor-specific attributes that devices received, the oldest first.
    pub fn vendor_sets(&self) -> Vec<VendorSet> {
        self.shared.lock().devices.vendor.sets().copied().collect()
    }

    /// The rate limits of an adapter port.
    pub fn qos_config_sl(&self, guid: Guid, num: PortNum) -> Option<QosConfigSl> {
        self.at_port(guid, num, |net, slot| net.devices.vendor.config(slot))
    }

    /// Changes the rate limits of an adapter port, as another program could.
    pub fn change_qos_config_sl(&self, guid: Guid, num: PortNum, config: QosConfigSl) -> bool {
        self.at_port(guid, num, |net, slot| {
            net.devices.vendor.set_config(slot, config);
        })
        .is_some()
    }
}
