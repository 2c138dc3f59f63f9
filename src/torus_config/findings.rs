//! What a reading of the fabric as a torus leaves unexplained, and how large its groups of
//! ports are.

use super::graph::Graph;
use super::map::Map;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::plan::routing::torus::Wiring;
use crate::plan::routing::torus::{Coordinates, Direction};
use std::collections::BTreeMap;

/// `portgroup_max_ports` unless a fabric needs more.
const DEFAULT_GROUP: usize = 16;

/// Two neighbours with fewer cables between them than is usual along the dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The switch below.
    pub from: Coordinates,
    /// The switch above, over the dateline where need be.
    pub to: Coordinates,
    /// Cables there are.
    pub present: u32,
    /// Cables that most neighbours along the dimension have.
    pub usual: u32,
}

/// The two ports of a cable that does not join neighbours.
pub type Stray = [PortId; 2];

/// Room for the largest bundle and the largest group of host ports (with port 0), but no less
/// than OpenSM's default.
pub(super) fn portgroup_max_ports(graph: &Graph, wiring: &Wiring, map: &Map) -> u32 {
    let bundles = graph.edges.iter().filter(|edge| map.direction(edge.ends).is_some());
    let widest = bundles.map(|edge| edge.cables as usize).max().unwrap_or(0);
    let placed = map.switches.iter().flatten();
    let local = placed.map(|&vertex| wiring.hosts(SwitchId(vertex)).len() + 1).max().unwrap_or(0);
    widest.max(local).max(DEFAULT_GROUP) as u32
}

/// Neighbours that are both there, with fewer cables than usual, by dimension and position.
pub(super) fn gaps(graph: &Graph, map: &Map) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for axis in 0..3 {
        let up = Direction::plus(axis);
        let pairs: Vec<_> = map
            .lattice
            .positions()
            .filter_map(|at| {
                let (below, above) = (map.switches[at.index()]?, map.neighbor(at, up)?);
                let edge = graph.edge(below, above);
                let cables = edge.map_or(0, |edge| graph.edges[edge as usize].cables);
                Some((at, map.lattice.step(at, up), cables))
            })
            .collect();
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        pairs.iter().for_each(|&(.., cables)| *counts.entry(cables).or_default() += 1);
        let most = counts.iter().max_by_key(|&(&cables, &count)| (count, cables));
        let Some((&usual, _)) = most else { continue };
        for (from, to, present) in pairs.into_iter().filter(|&(.., cables)| cables < usual) {
            let [from, to] = [from, to].map(|at| map.lattice.coordinates(at));
            gaps.push(Gap { from, to, present, usual });
        }
    }
    gaps
}

/// True for cables that do not lead back to the switch they come from.
pub(super) fn is_between_switches(fabric: &Fabric, cable: &[PortId; 2]) -> bool {
    fabric.port(cable[0]).node != fabric.port(cable[1]).node
}

/// Cables between switches that are no neighbours.
pub(super) fn strays(wiring: &Wiring, map: &Map, fabric: &Fabric) -> Vec<Stray> {
    let ends = |cable: &[PortId; 2]| {
        let [a, b] = cable.map(|port| fabric.node_of(port).switch);
        Some([a?.0, b?.0])
    };
    let is_stray = |cable: &&[PortId; 2]| {
        is_between_switches(fabric, cable)
            && ends(cable).is_none_or(|ends| map.direction(ends).is_none())
    };
    wiring.cables.iter().filter(is_stray).copied().collect()
}
