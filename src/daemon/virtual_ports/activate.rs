//! Brings the vports of one physical port to their planned state: P_Keys and alias GUIDs, then LID and ACTIVE.

use super::client::PortClient;
use crate::ids::Lid;
use crate::plan::partitions::virtual_tables::VportTable;
use crate::transport::transactions::SmpRequest;
use crate::vendor::virtual_ports::{ManagedVport, VirtualFailure};
use crate::wire::attr::tables::{GuidBlock, PkeyBlock};
use crate::wire::attr::{AttrId, PortState};
use crate::wire::smp::DATA_SIZE;
use crate::wire::vendor::virtual_ports::{VportInfo, table_modifier};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a vport is to be.
#[derive(Clone, Debug)]
pub(super) struct VportTarget {
    pub index: u16,
    pub table: Arc<VportTable>,
    /// Blocks of the GUID table that clients have written.
    pub guids: Vec<(u8, GuidBlock)>,
    /// The LID of its own; `None` for a vport that shares one.
    pub lid: Option<Lid>,
    /// Its clients are asked to register again when it becomes ACTIVE.
    pub reregister: bool,
}

impl VportTarget {
    /// True if the vport needs a Set.
    pub(super) fn is_due(&self, managed: &ManagedVport) -> bool {
        managed.failure.is_none()
            && (managed.info.state() != PortState::Active
                || self.reregister
                || self.changes_lid(managed)
                || self.changed(managed).next().is_some()
                || self.changed_guids(managed).next().is_some())
    }

    /// The blocks of GUIDs that the device has not acknowledged.
    fn changed_guids<'a>(
        &'a self,
        managed: &'a ManagedVport,
    ) -> impl Iterator<Item = (u8, GuidBlock)> + 'a {
        let blocks = self.guids.iter().copied();
        blocks.filter(|(number, block)| managed.guids.get(number) != Some(block))
    }

    fn changes_lid(&self, managed: &ManagedVport) -> bool {
        self.lid.is_some_and(|lid| lid != managed.info.lid())
    }

    /// The blocks that differ from those of the device.
    fn changed<'a>(
        &'a self,
        managed: &'a ManagedVport,
    ) -> impl Iterator<Item = &'a (u16, PkeyBlock)> {
        let empty = PkeyBlock::default();
        self.table.blocks.iter().filter(move |(number, block)| {
            managed.vport.pkeys.get(usize::from(*number)).unwrap_or(&empty) != block
        })
    }

    /// VPortInfo that is to be set; `None` if nothing changes but P_Keys.
    fn wanted_info(&self, managed: &ManagedVport) -> Option<VportInfo> {
        let is_active = managed.info.state() == PortState::Active;
        let changes_lid = self.changes_lid(managed);
        if is_active && !self.reregister && !changes_lid {
            return None;
        }
        let mut wanted = managed.info;
        wanted.set_state(if is_active { PortState::NoChange } else { PortState::Active });
        // Peers and the SA know the clients of an ACTIVE vport by its earlier LID.
        wanted.set_client_reregister(self.reregister || is_active && changes_lid);
        wanted.set_lid(self.lid.unwrap_or(managed.info.lid()));
        Some(wanted)
    }

    /// Takes over the VPortInfo that the device holds after a Set.
    ///
    /// # Errors
    /// It is another one than was set.
    fn accept(
        &self,
        managed: &mut ManagedVport,
        data: [u8; DATA_SIZE],
    ) -> Result<(), VirtualFailure> {
        let mut held = VportInfo(data);
        held.set_client_reregister(false);
        managed.info = held;
        managed.vport.state = held.state();
        if held.guid() != managed.vport.guid {
            // The hypervisor changed it after it was read.
            return Err(VirtualFailure::GuidChanged);
        }
        managed.vport.lid = held.lid();
        if held.state() != PortState::Active || self.changes_lid(managed) {
            return Err(VirtualFailure::Altered(AttrId::VPORT_INFO));
        }
        managed.is_known = true;
        Ok(())
    }
}

/// Sets what differs: first all P_Keys, then all alias GUIDs, then all LIDs and states. Returns the vports that became ACTIVE.
/// A vport of which a Set failed has that failure; all have what was acknowledged.
pub(super) async fn activate(
    port: &PortClient,
    vports: &mut BTreeMap<u16, ManagedVport>,
    targets: &[VportTarget],
) -> Vec<u16> {
    set_pkeys(port, vports, targets).await;
    set_guids(port, vports, targets).await;
    set_infos(port, vports, targets).await
}

/// Sets the blocks of alias GUIDs that differ. A vport works without those that its device refuses.
async fn set_guids(
    port: &PortClient,
    vports: &mut BTreeMap<u16, ManagedVport>,
    targets: &[VportTarget],
) {
    let mut changed: Vec<(u16, u8, GuidBlock)> = Vec::new();
    for target in targets {
        let Some(managed) = vports.get(&target.index) else { continue };
        let blocks = target.changed_guids(managed);
        changed.extend(blocks.map(|(number, block)| (target.index, number, block)));
    }
    let requests: Vec<SmpRequest> = changed
        .iter()
        .map(|&(index, number, block)| {
            let modifier = table_modifier(index, number.into());
            port.set_request(AttrId::VPORT_GUID_INFO, modifier, block.to_wire())
        })
        .collect();
    for ((index, number, block), reply) in changed.into_iter().zip(port.call_all(&requests).await) {
        let Some(managed) = vports.get_mut(&index) else { continue };
        match reply {
            // What the device made of it is not set again until clients change it.
            Ok(_) | Err(VirtualFailure::Refused(..)) => {
                managed.guids.insert(number, block);
            }
            Err(failure) => managed.failure = Some(failure),
        }
    }
}

/// A block of P_Keys to set.
struct ChangedBlock {
    index: u16,
    number: u16,
    block: PkeyBlock,
}

/// Sets the blocks of P_Keys that differ.
async fn set_pkeys(
    port: &PortClient,
    vports: &mut BTreeMap<u16, ManagedVport>,
    targets: &[VportTarget],
) {
    let mut changed: Vec<ChangedBlock> = Vec::new();
    for target in targets {
        let Some(managed) = vports.get(&target.index) else { continue };
        let index = target.index;
        let blocks = target.changed(managed);
        changed.extend(blocks.map(|&(number, block)| ChangedBlock { index, number, block }));
    }
    let requests: Vec<SmpRequest> = changed
        .iter()
        .map(|changed| {
            let modifier = table_modifier(changed.index, changed.number);
            port.set_request(AttrId::VPORT_PKEY_TABLE, modifier, changed.block.to_wire())
        })
        .collect();
    for (changed, reply) in changed.into_iter().zip(port.call_all(&requests).await) {
        let Some(managed) = vports.get_mut(&changed.index) else { continue };
        match reply {
            Ok(data) => {
                let held = PkeyBlock::read(&data);
                let at = usize::from(changed.number);
                let mut known = managed.vport.pkeys.to_vec();
                let count = known.len().max(at + 1);
                known.resize(count, PkeyBlock::default());
                known[at] = held;
                managed.vport.pkeys = known.into();
                if held != changed.block {
                    managed.failure = Some(VirtualFailure::Altered(AttrId::VPORT_PKEY_TABLE));
                }
            }
            Err(failure) => managed.failure = Some(failure),
        }
    }
}

/// Sets LIDs and states.
async fn set_infos(
    port: &PortClient,
    vports: &mut BTreeMap<u16, ManagedVport>,
    targets: &[VportTarget],
) -> Vec<u16> {
    let mut due: Vec<&VportTarget> = Vec::with_capacity(targets.len());
    let mut requests: Vec<SmpRequest> = Vec::with_capacity(targets.len());
    for target in targets {
        let Some(managed) = vports.get_mut(&target.index) else { continue };
        if managed.failure.is_some() {
            continue;
        }
        match target.wanted_info(managed) {
            Some(wanted) => {
                due.push(target);
                let modifier = target.index.into();
                requests.push(port.set_request(AttrId::VPORT_INFO, modifier, wanted.0));
            }
            None => managed.is_known = true,
        }
    }
    let mut activated = Vec::new();
    for (target, reply) in due.into_iter().zip(port.call_all(&requests).await) {
        let Some(managed) = vports.get_mut(&target.index) else { continue };
        let was_active = managed.info.state() == PortState::Active;
        let accepted = reply.and_then(|data| target.accept(managed, data));
        match accepted {
            Ok(()) if was_active => {}
            Ok(()) => activated.push(target.index),
            Err(failure) => managed.failure = Some(failure),
        }
    }
    activated
}
