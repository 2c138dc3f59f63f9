//! Brings the vports of one physical port to their planned state: P_Keys, then LID and ACTIVE.

use super::discover::PortClient;
use crate::ids::Lid;
use crate::plan::partitions::virtual_tables::VportTable;
use crate::vendor::virtual_ports::{ManagedVport, VirtualFailure};
use crate::wire::attr::tables::PkeyBlock;
use crate::wire::attr::{AttrId, PortState};
use crate::wire::vendor::virtual_ports::{VportInfo, table_modifier};

/// What a vport is to be.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub index: u16,
    pub table: VportTable,
    /// The LID of its own; `None` for a vport that shares one.
    pub lid: Option<Lid>,
    /// Its clients are asked to register again when it becomes ACTIVE.
    pub reregister: bool,
}

impl Target {
    /// True if the vport needs a Set.
    pub(super) fn is_due(&self, managed: &ManagedVport) -> bool {
        managed.failure.is_none()
            && (managed.info.state() != PortState::Active
                || self.reregister
                || self.changes_lid(managed)
                || self.changed(managed).next().is_some())
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
}

/// Sets what differs. Returns true if the vport became ACTIVE.
///
/// # Errors
/// The first Set that failed; `managed` has what was acknowledged before.
pub(super) async fn activate(
    port: &PortClient,
    managed: &mut ManagedVport,
    target: &Target,
) -> Result<bool, VirtualFailure> {
    let changed: Vec<(u16, PkeyBlock)> = target.changed(managed).copied().collect();
    for (number, block) in changed {
        let modifier = table_modifier(target.index, number);
        let reply = port.set(AttrId::VPORT_PKEY_TABLE, modifier, block.to_wire()).await?;
        let held = PkeyBlock::read(&reply);
        let blocks = &mut managed.vport.pkeys;
        let count = blocks.len().max(usize::from(number) + 1);
        blocks.resize(count, PkeyBlock::default());
        blocks[usize::from(number)] = held;
        if held != block {
            return Err(VirtualFailure::Altered(AttrId::VPORT_PKEY_TABLE));
        }
    }
    let was_active = managed.info.state() == PortState::Active;
    let changes_lid = target.changes_lid(managed);
    if was_active && !target.reregister && !changes_lid {
        managed.is_known = true;
        return Ok(false);
    }
    let mut wanted = managed.info;
    wanted.set_state(if was_active { PortState::NoChange } else { PortState::Active });
    // Peers and the SA know the clients of an ACTIVE vport by its earlier LID.
    wanted.set_client_reregister(target.reregister || was_active && changes_lid);
    wanted.set_lid(target.lid.unwrap_or(managed.info.lid()));
    let reply = port.set(AttrId::VPORT_INFO, target.index.into(), wanted.0).await?;
    let mut held = VportInfo(reply);
    held.set_client_reregister(false);
    managed.info = held;
    managed.vport.state = held.state();
    if held.guid() != managed.vport.guid {
        // The hypervisor changed it after it was read.
        return Err(VirtualFailure::GuidChanged);
    }
    managed.vport.lid = held.lid();
    if held.state() != PortState::Active || target.changes_lid(managed) {
        return Err(VirtualFailure::Altered(AttrId::VPORT_INFO));
    }
    managed.is_known = true;
    Ok(!was_active)
}
