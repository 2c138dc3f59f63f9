//! Decides whether entries of the previous tables are kept.
//!
//! As in OpenSM, entries that still have the least hops are kept while the fabric only loses
//! links, hosts and switches, so that a lost cable does not change the tables of distant switches.
//! If anything is added or the options change, all entries are balanced from scratch, so that the
//! return of a cable restores the tables from before its loss.

use super::BalancingOptions;
use crate::config::guid_lists::GuidLists;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::{Guid, Lid, PortNum};
use crate::plan::LidTable;
use crate::plan::routing::Lft;
use crate::plan::routing::switch_graph::linked_peer;
use std::sync::Arc;

/// The topology, LIDs and options of a routing, for comparison with the next one.
#[derive(Debug)]
pub(super) struct RoutingRecord {
    pub lists: Arc<GuidLists>,
    options: BalancingOptions,
    /// Node GUIDs of the switches, ascending, which is the order of the tables.
    switches: Vec<Guid>,
    /// All links as seen from both ends, ascending.
    links: Vec<[(Guid, PortNum); 2]>,
    /// Node GUID, port number, base LID and LMC of all end ports, ascending.
    lids: Vec<(Guid, PortNum, Lid, u8)>,
}

impl RoutingRecord {
    pub(super) fn new(
        fabric: &Fabric,
        lids: &LidTable,
        lists: Arc<GuidLists>,
        options: BalancingOptions,
    ) -> Self {
        let with_lids = fabric.end_ports().filter_map(|id| {
            let (guid, num) = fabric.end_of(id);
            Some((guid, num, lids.base(id)?, lids.lmc(id)))
        });
        let links = fabric
            .port_ids()
            .filter_map(|id| Some([fabric.end_of(id), fabric.end_of(linked_peer(fabric, id)?)]));
        Self {
            lists,
            options,
            switches: fabric.switch_ids().map(|switch| fabric.switch(switch).guid()).collect(),
            links: links.collect(),
            lids: with_lids.collect(),
        }
    }

    /// A lookup of the tables `lfts`, which were made for the topology `before`, by switch of this
    /// fabric. It gives `None` if entries must not be kept.
    pub(super) fn kept<'a>(
        &'a self,
        before: Option<(&'a Self, &'a [Arc<Lft>])>,
    ) -> impl Fn(SwitchId) -> Option<&'a Lft> + Sync {
        let before = before.filter(|(record, _)| record.covers(self));
        move |switch| {
            let (record, lfts) = before?;
            let index = record.switches.binary_search(&self.switches[switch.index()]).ok()?;
            lfts.get(index).map(Arc::as_ref)
        }
    }

    /// True if `now` has the same options and adds nothing to this record.
    fn covers(&self, now: &Self) -> bool {
        self.options == now.options
            && self.lists == now.lists
            && is_subset(&now.switches, &self.switches)
            && is_subset(&now.links, &self.links)
            && is_subset(&now.lids, &self.lids)
    }
}

/// True if every item of `part` is in `whole`. Both are ascending.
fn is_subset<T: Ord>(part: &[T], whole: &[T]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|item| whole.by_ref().find(|other| *other >= item) == Some(item))
}
