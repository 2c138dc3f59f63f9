//! Missing and surplus parts of an embedding, and the size of its port groups.

use super::embedding::Embedding;
use super::graph::SimpleGraph;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::plan::routing::torus::Cabling;
use crate::plan::routing::torus::{Coordinates, Direction};
use std::collections::BTreeMap;

/// OpenSM's default of `portgroup_max_ports`.
const DEFAULT_PORTGROUP_MAX_PORTS: usize = 16;

/// Two neighbours with fewer cables than most along the dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingCables {
    /// Coordinates of the lower switch.
    pub from: Coordinates,
    /// Coordinates of the upper switch, across the dateline where necessary.
    pub to: Coordinates,
    /// Number of cables between them.
    pub present: u32,
    /// Number of cables between most neighbours along the dimension.
    pub usual: u32,
}

/// The two ports of a cable that does not join neighbours.
pub type StrayCable = [PortId; 2];

/// The size of the largest port group, local ones included, but at least the default.
pub(super) fn portgroup_max_ports(
    graph: &SimpleGraph,
    cabling: &Cabling,
    embedding: &Embedding,
) -> u32 {
    let bundles = graph.edges.iter().filter(|edge| embedding.direction(edge.ends).is_some());
    let widest = bundles.map(|edge| edge.cables as usize).max().unwrap_or(0);
    let placed = embedding.switches.iter().flatten();
    let local = placed.map(|&vertex| cabling.hosts(SwitchId(vertex)).len() + 1).max().unwrap_or(0);
    widest.max(local).max(DEFAULT_PORTGROUP_MAX_PORTS) as u32
}

/// Neighbours with fewer cables than most, by dimension and position.
pub(super) fn missing_cables(graph: &SimpleGraph, embedding: &Embedding) -> Vec<MissingCables> {
    let mut gaps = Vec::new();
    for axis in 0..3 {
        let up = Direction::plus(axis);
        let pairs: Vec<_> = embedding
            .lattice
            .positions()
            .filter_map(|at| {
                let below = embedding.switches[at.index()]?;
                let above = embedding.neighbor(at, up)?;
                let edge = graph.edge(below, above);
                let cables = edge.map_or(0, |edge| graph.edges[edge as usize].cables);
                Some((at, embedding.lattice.step(at, up), cables))
            })
            .collect();
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        pairs.iter().for_each(|&(.., cables)| *counts.entry(cables).or_default() += 1);
        let most = counts.iter().max_by_key(|&(&cables, &count)| (count, cables));
        let Some((&usual, _)) = most else { continue };
        for (from, to, present) in pairs.into_iter().filter(|&(.., cables)| cables < usual) {
            let [from, to] = [from, to].map(|at| embedding.lattice.coordinates(at));
            gaps.push(MissingCables { from, to, present, usual });
        }
    }
    gaps
}

/// False for cables from a switch to itself.
pub(super) fn is_between_switches(fabric: &Fabric, cable: &[PortId; 2]) -> bool {
    fabric.port(cable[0]).node != fabric.port(cable[1]).node
}

/// Cables between switches that are not neighbours.
pub(super) fn strays(cabling: &Cabling, embedding: &Embedding, fabric: &Fabric) -> Vec<StrayCable> {
    cabling
        .cables
        .iter()
        .filter(|cable| {
            is_between_switches(fabric, cable)
                && ends(fabric, cable).is_none_or(|ends| embedding.direction(ends).is_none())
        })
        .copied()
        .collect()
}

fn ends(fabric: &Fabric, cable: &[PortId; 2]) -> Option<[u32; 2]> {
    let [a, b] = cable.map(|port| fabric.node_of(port).switch);
    Some([a?.0, b?.0])
}
