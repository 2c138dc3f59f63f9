//! The forwarding tables of LASH.

use super::paths::{NONE, Neighbours, Paths};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Lid;
use crate::plan::LidTable;
use crate::plan::routing::Lft;
use crate::plan::routing::switch_graph::{SwitchGraph, linked_peer};
use rayon::prelude::*;
use std::sync::Arc;

/// The cables to the neighbours of switches.
pub(super) struct Cables<'a> {
    neighbours: &'a Neighbours,
    graph: &'a SwitchGraph,
    /// True if LIDs take parallel cables in turn.
    uses_all: bool,
}

impl<'a> Cables<'a> {
    pub(super) fn new(neighbours: &'a Neighbours, graph: &'a SwitchGraph, uses_all: bool) -> Self {
        Self { neighbours, graph, uses_all }
    }

    /// The output ports of a switch to each of its neighbours.
    fn of(&self, switch: SwitchId) -> Vec<Vec<u8>> {
        let neighbours = self.neighbours.of(self.neighbours.numbers[switch.index()]);
        let ports = neighbours.iter().map(|neighbour| {
            let to = self.neighbours.switches[neighbour.switch as usize];
            let parallel = self.graph.links(switch).iter().filter(|link| link.to == to);
            if self.uses_all {
                parallel.map(|link| link.port).collect()
            } else {
                vec![neighbour.port]
            }
        });
        ports.collect()
    }
}

/// A destination.
struct LashTarget {
    lid: Lid,
    /// Number of its switch.
    switch: u32,
    /// Output port there.
    exit: u8,
}

/// The forwarding tables, by [`SwitchId`].
pub(super) fn tables(
    fabric: &Fabric,
    lids: &LidTable,
    cables: &Cables<'_>,
    paths: &Paths,
) -> Vec<Arc<Lft>> {
    let targets = targets(fabric, lids, cables.neighbours);
    let switches: Vec<_> = fabric.switch_ids().collect();
    Lft::shared(
        switches
            .into_par_iter()
            .map(|switch| table(&targets, cables, lids, paths, switch))
            .collect(),
    )
}

fn table(
    targets: &[LashTarget],
    cables: &Cables<'_>,
    lids: &LidTable,
    paths: &Paths,
    switch: SwitchId,
) -> Vec<u8> {
    let own = cables.neighbours.numbers[switch.index()];
    let mut ports: Vec<_> =
        cables.of(switch).into_iter().map(|ports| ports.into_iter().cycle()).collect();
    let mut entries = Lft::unused_entries(lids.max());
    for target in targets {
        let next = paths.to(target.switch)[own as usize];
        entries[target.lid.index()] = match next {
            _ if target.switch == own => target.exit,
            NONE => continue,
            next => match ports[usize::from(next)].next() {
                Some(port) => port,
                None => continue,
            },
        };
    }
    entries
}

/// All LIDs with a switch, in ascending order.
fn targets(fabric: &Fabric, lids: &LidTable, neighbours: &Neighbours) -> Vec<LashTarget> {
    lids.iter()
        .filter_map(|(lid, port)| {
            let (switch, exit) = match fabric.node_of(port).switch {
                Some(switch) => (switch, 0),
                None => {
                    let peer = linked_peer(fabric, port)?;
                    (fabric.node_of(peer).switch?, fabric.port(peer).num.0)
                }
            };
            Some(LashTarget { lid, switch: neighbours.numbers[switch.index()], exit })
        })
        .collect()
}
