//! The root switches.

use super::ROOTS_FILE;
use super::name;
use crate::config::guid_lists::GuidLists;
use crate::fabric::{Fabric, SwitchId};
use crate::notes::{Note, counted};
use crate::plan::routing::Dump;
use crate::plan::routing::balancing::hops::HopMatrix;
use crate::plan::routing::switch_graph::{NO_PATH, SwitchGraph};

/// Distances from this on are not counted, as in OpenSM.
const MAX_HOPS: usize = 64;

/// The root switches of a fabric.
pub(super) struct Roots {
    /// In ascending order.
    pub switches: Vec<SwitchId>,
    /// Messages about the search.
    pub notes: Vec<Note>,
    /// True if `root_guid_file` names the roots.
    from_file: bool,
}

impl Roots {
    /// The roots that the file names; without a file, those that the distances to hosts suggest.
    pub(super) fn find(fabric: &Fabric, graph: &SwitchGraph, lists: &GuidLists) -> Self {
        let Some(guids) = &lists.roots else {
            let switches = suggested(fabric, graph);
            let count = counted(switches.len(), "root switch", "root switches");
            let first = switches.first().map_or_else(String::new, |&switch| {
                format!(", the first is {}", name(fabric, switch))
            });
            let note = Note::info(format!("found {count} by the distances to the hosts{first}"));
            return Self { switches, notes: vec![note], from_file: false };
        };
        let mut switches = Vec::new();
        let mut notes = Vec::new();
        for &guid in guids {
            let node = fabric.node_by_guid(guid).map(|node| fabric.node(node));
            match node.and_then(|node| node.switch) {
                Some(switch) => switches.push(switch),
                None => notes.push(Note::info(format!(
                    "root_guid_file: {guid} is not the node GUID of a switch of this fabric"
                ))),
            }
        }
        switches.sort_unstable();
        switches.dedup();
        Self { switches, notes, from_file: true }
    }

    /// False if `connect_roots` has no effect: a single root of `root_guid_file`.
    pub(super) fn may_be_connected(&self) -> bool {
        !self.from_file || self.switches.len() > 1
    }

    /// A warning if the search took switches with cables to each other for roots. The hosts of such
    /// a fabric do not show its levels, and links between roots may close credit loops.
    pub(super) fn adjacency_warning(&self, fabric: &Fabric, graph: &SwitchGraph) -> Option<Note> {
        if self.from_file {
            return None;
        }
        let (from, to) = self.switches.iter().find_map(|&from| {
            let to = graph
                .links(from)
                .iter()
                .map(|link| link.to)
                .find(|&to| is_root(&self.switches, to))?;
            Some((from, to))
        })?;
        Some(Note::warning(format!(
            "{} of {} were found as roots, with cables between them, for instance from {} to {}: \
             paths between roots are not ordered and may close credit loops; name the roots in \
             root_guid_file",
            self.switches.len(),
            counted(fabric.switches().len(), "switch", "switches"),
            name(fabric, from),
            name(fabric, to),
        )))
    }

    /// The reason why there are none.
    pub(super) fn missing(&self) -> Note {
        let text = if self.from_file {
            "no GUID in root_guid_file is that of a switch of this fabric".to_owned()
        } else {
            "no root switch found: no switch has nearly all hosts (90 %) at one distance and \
                 nearly none (5 %) at any other; name the roots in root_guid_file"
                .to_owned()
        };
        Note::error("AA0A", text)
    }

    /// opensm-updn-roots.dump: the node GUIDs in OpenSM's order.
    pub(super) fn dump(&self, fabric: &Fabric) -> Dump {
        let guids = self.switches.iter().map(|&switch| fabric.switch(switch).guid());
        let mut guids: Vec<_> = guids.collect();
        guids.sort_unstable_by_key(|guid| guid.opensm_order());
        let text = guids.iter().map(|guid| format!("0x{:x}\n", guid.0)).collect();
        Dump { file: ROOTS_FILE.into(), text }
    }
}

fn is_root(switches: &[SwitchId], switch: SwitchId) -> bool {
    switches.binary_search(&switch).is_ok()
}

/// The switches from which more than 90 % of the hosts are equally far, and no other distance has
/// more than 5 % of them. The roots of a fat tree are such switches.
fn suggested(fabric: &Fabric, graph: &SwitchGraph) -> Vec<SwitchId> {
    let hosts = hosts(fabric);
    let total: u64 = hosts.iter().map(|&hosts| u64::from(hosts)).sum();
    let matrix = HopMatrix::new(graph);
    let roots = graph.switches().filter(|&switch| {
        let mut by_distance = [0u64; MAX_HOPS];
        for (&hops, &hosts) in matrix.row(switch).iter().zip(&hosts) {
            if hops != NO_PATH
                && let Some(count) = by_distance.get_mut(usize::from(hops))
            {
                *count += u64::from(hosts);
            }
        }
        share_above(&by_distance, 90, total) == 1 && share_above(&by_distance, 5, total) == 1
    });
    roots.collect()
}

fn share_above(by_distance: &[u64; 64], percent: u64, total: u64) -> usize {
    by_distance.iter().filter(|&&count| count * 100 > total * percent).count()
}

/// The number of end ports of channel adapters and routers at each switch.
fn hosts(fabric: &Fabric) -> Vec<u32> {
    let mut hosts = vec![0; fabric.switches().len()];
    for port in fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()) {
        if let Some(switch) = fabric.switch_behind(port) {
            hosts[switch.index()] += 1;
        }
    }
    hosts
}
