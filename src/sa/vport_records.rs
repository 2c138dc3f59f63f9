//! NodeRecord and PortInfoRecord of vports with a LID of their own (`enable_virt_rec_ext`).

use super::query::Query;
use crate::fabric::virtual_ports::{EndPort, VirtualPort};
use crate::ids::{Guid, Lid};
use crate::wire::attr::{NodeInfo, PortInfo};
use crate::wire::record::{NodeRecord, PortInfoRecord};

/// A vport with a LID of its own.
#[derive(Clone, Copy)]
pub(super) struct VportRecord<'a> {
    pub lid: Lid,
    pub end: EndPort,
    pub vport: &'a VirtualPort,
}

/// The vports that records show: those that share a partition with the requester, and only the owner
/// of `lid` if the mask contains the component `bit`. None without the option.
pub(super) fn vports<'a>(
    query: &'a Query<'_>,
    bit: u64,
    lid: Lid,
) -> impl Iterator<Item = VportRecord<'a>> + 'a {
    let view = &query.view;
    let is_shown = view.options().enable_virt_rec_ext;
    let all = is_shown.then(|| view.lids().of_vports()).into_iter().flatten();
    let selected = all.filter(move |&(own, _)| !query.has(bit) || own == lid);
    let vports = selected.filter_map(move |(lid, end)| {
        // A vnode that has not been read has no record yet.
        let vport = view.fabric().vport(end).filter(|vport| vport.vnode.guid != Guid(0))?;
        Some(VportRecord { lid, end, vport })
    });
    vports.filter(move |record| query.is_visible(record.end))
}

/// True if a query for this LID is for a vport that records show, and not for its physical port.
pub(super) fn is_selected(query: &Query<'_>, bit: u64, lid: Lid) -> bool {
    query.has(bit) && vports(query, bit, lid).next().is_some()
}

impl VportRecord<'_> {
    /// The virtual node as a channel adapter.
    pub(super) fn node(&self, query: &Query<'_>) -> NodeRecord {
        let mut info: NodeInfo = query.view.fabric().node_of(self.end.physical).info;
        info.set_node_guid(self.vport.vnode.guid);
        info.set_port_guid(self.vport.guid);
        info.set_num_ports(self.vport.vnode.num_ports);
        info.set_local_port(self.vport.vnode.port);
        let mut record = NodeRecord::default();
        record.set_lid(self.lid);
        record.set_node_info(&info);
        record.set_description(&self.vport.vnode.description);
        record
    }

    /// The physical port, with the LID of the vport. A planned vport is shown as ACTIVE.
    pub(super) fn port_info(&self, query: &Query<'_>) -> Option<(PortInfoRecord, PortInfo)> {
        let mut info = query.view.port_info(self.end.physical)?;
        info.set_lid(self.lid);
        info.set_lmc(0);
        let mut record = PortInfoRecord::default();
        record.set_lid(self.lid);
        record.set_port(self.vport.vnode.port);
        record.set_port_info(&info);
        Some((record, info))
    }
}
