//! The states of vports that a subnet has planned, and the vports that are not in them.

use super::activate::VportTarget;
use crate::fabric::PortId;
use crate::fabric::virtual_ports::{EndPort, VirtualPort, VirtualizedPort};
use crate::ids::{Guid, Lid};
use crate::publish::Subnet;
use crate::vendor::virtual_ports::{ManagedPort, ManagedVport, VirtualFailure};
use crate::wire::attr::tables::GuidBlock;
use rustc_hash::FxHashMap;

/// The vports of a physical port as a subnet has planned them.
struct PlannedVports<'a> {
    subnet: &'a Subnet,
    physical: PortId,
    vports: &'a VirtualizedPort,
}

impl<'a> PlannedVports<'a> {
    /// `None` before the subnet was planned with the vports of this port.
    fn new(subnet: &'a Subnet, guid: Guid) -> Option<Self> {
        let physical = subnet.fabric.port_by_guid(guid)?;
        let vports = subnet.fabric.virtual_ports().of_port(guid)?;
        vports.is_discovered.then_some(Self { subnet, physical, vports })
    }

    /// The vport with the index of `managed`. Another one may have got it since the plan.
    fn vport(&self, managed: &ManagedVport) -> Option<&'a VirtualPort> {
        let own = &managed.vport;
        let planned = self.vports.vport(own.index)?;
        let is_same = planned.guid == own.guid && planned.lid_required == own.lid_required;
        is_same.then_some(planned)
    }

    /// The blocks of the GUID table of a vport that clients have written.
    fn guids(&self, index: u16) -> Vec<(u8, GuidBlock)> {
        let end = EndPort { physical: self.physical, vport: Some(index) };
        let all = &self.subnet.plan.vport_aliases;
        let first = all.partition_point(|block| block.end() < end);
        let own = all.iter().skip(first).take_while(|block| block.end() == end);
        own.map(|block| (block.block, block.guids)).collect()
    }

    /// The LID of a vport of its own. A vport that is the physical port itself has that of the port.
    fn lid(&self, vport: &VirtualPort) -> Option<Lid> {
        let lids = &self.subnet.plan.lids;
        let end = EndPort { physical: self.physical, vport: Some(vport.index) };
        let is_port = vport.guid == self.subnet.fabric.port(self.physical).guid;
        if is_port { lids.base(self.physical) } else { lids.of_vport(end) }
    }
}

/// Marks the vports of a port for which no LID is left, and those for which there is one again.
pub(super) fn find_vports_without_lid(subnet: &Subnet, guid: Guid, port: &mut ManagedPort) {
    let Some(planned) = PlannedVports::new(subnet, guid) else { return };
    for managed in port.vports.values_mut().filter(|managed| managed.vport.lid_required) {
        let is_without = planned.vport(managed).is_some_and(|vport| planned.lid(vport).is_none());
        match managed.failure {
            None if is_without => managed.failure = Some(VirtualFailure::NoLidLeft),
            Some(VirtualFailure::NoLidLeft) if !is_without => managed.failure = None,
            _ => {}
        }
    }
}

/// The vports of a port that are not as the subnet has planned them.
pub(super) fn targets(
    subnet: &Subnet,
    guid: Guid,
    port: &ManagedPort,
    homes: &FxHashMap<Guid, Guid>,
) -> Vec<VportTarget> {
    let Some(planned) = PlannedVports::new(subnet, guid) else { return Vec::new() };
    let tables = &subnet.plan.partitions.virtual_tables;
    let targets = port.vports.iter().filter_map(|(&index, managed)| {
        let vport = planned.vport(managed)?;
        let lid = if vport.lid_required { Some(planned.lid(vport)?) } else { None };
        let table = tables.table(planned.physical, index)?.clone();
        let has_moved = homes.get(&vport.guid).is_some_and(|home| *home != guid);
        let reregister = !managed.is_known
            && !subnet.options.no_clients_rereg
            && (!has_moved || subnet.options.rereg_on_guid_migr);
        let guids = planned.guids(index);
        let target = VportTarget { index, table, guids, lid, reregister };
        target.is_due(managed).then_some(target)
    });
    targets.collect()
}
