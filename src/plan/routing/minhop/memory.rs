//! When entries of the last pass are kept.
//!
//! As long as a fabric only loses links, hosts and switches, entries that still lie on shortest
//! paths stay as they are, as in OpenSM: a lost cable must not reshuffle the tables of switches
//! far away. As soon as anything is added or the rules change, everything is balanced afresh,
//! so that a cable that comes back restores the tables from before.

use super::hops::linked_peer;
use super::{MinHopPolicy, Tuning};
use crate::config::guid_lists::GuidLists;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Guid, Lid, PortNum};
use crate::plan::LidTable;
use crate::plan::routing::{Lft, Routing};
use std::sync::Arc;

/// What a pass had before it.
#[derive(Debug)]
pub(super) struct Memory {
    pub lists: Arc<GuidLists>,
    tuning: Tuning,
    /// Node GUIDs of the switches, ascending: the order of the tables.
    switches: Vec<Guid>,
    /// All links from both ends, ascending.
    links: Vec<[(Guid, PortNum); 2]>,
    /// Node GUID, port and LIDs of all end ports, ascending.
    lids: Vec<(Guid, PortNum, Lid, u8)>,
}

impl Memory {
    pub(super) fn new(
        fabric: &Fabric,
        lids: &LidTable,
        lists: Arc<GuidLists>,
        tuning: Tuning,
    ) -> Self {
        let end = |id: PortId| (fabric.node_of(id).guid(), fabric.port(id).num);
        let with_lids = fabric.end_ports().filter_map(|id| {
            let (guid, num) = end(id);
            Some((guid, num, lids.base(id)?, lids.lmc(id)))
        });
        let links =
            fabric.port_ids().filter_map(|id| Some([end(id), end(linked_peer(fabric, id)?)]));
        Self {
            lists,
            tuning,
            switches: fabric.switch_ids().map(|switch| fabric.switch(switch).guid()).collect(),
            links: links.collect(),
            lids: with_lids.collect(),
        }
    }

    /// The tables of `previous` by switch of this pass, as far as they may be kept.
    pub(super) fn kept<'a>(
        &'a self,
        previous: Option<&'a Routing>,
    ) -> impl Fn(SwitchId) -> Option<&'a Lft> + Sync {
        let before = previous.and_then(|routing| {
            let policy = routing.policy.as_any().downcast_ref::<MinHopPolicy>()?;
            policy.memory.covers(self).then_some((&policy.memory, &routing.lfts))
        });
        move |switch| {
            let (memory, lfts) = before?;
            let index = memory.switches.binary_search(&self.switches[switch.index()]).ok()?;
            lfts.get(index).map(Arc::as_ref)
        }
    }

    /// True if `now` has the same rules and nothing that this memory lacks.
    fn covers(&self, now: &Self) -> bool {
        self.tuning == now.tuning
            && self.lists == now.lists
            && is_subset(&now.switches, &self.switches)
            && is_subset(&now.links, &self.links)
            && is_subset(&now.lids, &self.lids)
    }
}

/// True if every item of `part` is in `whole`; both ascend.
fn is_subset<T: Ord>(part: &[T], whole: &[T]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|item| whole.by_ref().find(|other| *other >= item) == Some(item))
}
