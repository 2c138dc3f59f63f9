//! The multicast tree of a repaired torus: its dependencies are reserved in the channel dependency
//! graph.
//!
//! Packets of a group start at any switch of the tree and leave each switch on all cables of the tree
//! but the one on which they came. Their SL is 0 or 8, so that no dateline bit is set; turns back to an
//! earlier dimension use VLs of their own. A channel of the tree carries VL 0, from its switch, and
//! VL 2 if its switch has a cable of the tree along a later dimension.

use super::graph::{Added, ChannelGraph};
use super::healthy::VlRule;
use super::links::{Links, NONE};
use super::nodes::{Dependency, branch, node};
use crate::plan::routing::torus::grid::Grid;
use crate::plan::routing::torus::lattice::{Direction, Lattice, Position};

/// Number of roots that are tried.
const MAX_ROOTS: usize = 8;

/// What a tree follows from.
#[derive(Clone, Copy)]
pub(super) struct TreeInputs<'a> {
    pub lattice: &'a Lattice,
    pub present: &'a Links,
    pub vls: VlRule,
}

/// A spanning tree of all placed switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::plan::routing::torus) struct SpanningTree {
    pub root: Position,
    /// By position: direction of the step from the parent; `None` for the root and for positions
    /// without a switch.
    pub from: Vec<Option<Direction>>,
    /// Positions in the order of joining the tree.
    pub order: Vec<Position>,
}

/// Possible roots, the best first: `own`, that of torus-2QoS if it has one, then those with the fewest missing switches in
/// their rings, then those closest to the centre.
pub(super) fn roots(grid: &Grid, own: Option<Position>) -> Vec<Position> {
    let lattice = &grid.lattice;
    let mut missing_in_lines = vec![0u32; lattice.len()];
    for missing in grid.missing() {
        for axis in 0..3 {
            let line = lattice.line(lattice.with(missing, axis, 0), axis);
            line.for_each(|at| missing_in_lines[at.index()] += 1);
        }
    }
    let mut roots: Vec<Position> = grid.placed().map(|(at, _)| at).collect();
    roots.sort_by_cached_key(|&at| (missing_in_lines[at.index()], from_centre(lattice, at)));
    if let Some(own) = own {
        roots.retain(|&at| at != own);
        roots.insert(0, own);
    }
    roots
}

fn from_centre(lattice: &Lattice, at: Position) -> u32 {
    (0..3).map(|axis| lattice.coordinate(at, axis).abs_diff(lattice.radix(axis) / 2)).sum()
}

/// Grows a tree from one of the first roots that allow it, and adds its dependencies to the graph;
/// `None` if there is no tree without a cycle.
pub(super) fn grow(
    graph: &mut ChannelGraph,
    inputs: TreeInputs<'_>,
    roots: &[Position],
    switches: usize,
) -> Option<SpanningTree> {
    roots.iter().take(MAX_ROOTS).find_map(|&root| {
        let mut growth = Growth::new(graph, inputs, root);
        growth.add_rows();
        growth.add_rest();
        if growth.tree.order.len() == switches {
            return Some(growth.tree);
        }
        let added = std::mem::take(&mut growth.added);
        graph.remove(&added);
        None
    })
}

/// The dependencies of the tree of a torus without damage, whose root is the centre.
pub(super) fn of_complete(inputs: TreeInputs<'_>) -> Vec<Dependency> {
    let centre = inputs.lattice.radices().map(|radix| i64::from(radix / 2));
    let mut graph = ChannelGraph::empty(inputs.present, inputs.lattice);
    let mut growth = Growth::new(&mut graph, inputs, inputs.lattice.position(centre));
    growth.add_rows();
    growth.added
}

/// A tree under construction.
struct Growth<'a> {
    graph: &'a mut ChannelGraph,
    inputs: TreeInputs<'a>,
    tree: SpanningTree,
    /// By position: mask of the directions in which cables of the tree lead.
    branches: Vec<u8>,
    added: Vec<Dependency>,
}

impl<'a> Growth<'a> {
    fn new(graph: &'a mut ChannelGraph, inputs: TreeInputs<'a>, root: Position) -> Self {
        let count = inputs.lattice.len();
        let tree = SpanningTree { root, from: vec![None; count], order: vec![root] };
        Self { graph, inputs, tree, branches: vec![0; count], added: Vec::new() }
    }

    fn is_reached(&self, at: Position) -> bool {
        at == self.tree.root || self.tree.from[at.index()].is_some()
    }

    /// Adds the row of the root along x, the columns of the row along y, and those along z.
    fn add_rows(&mut self) {
        let lattice = self.inputs.lattice;
        let root = self.tree.root;
        self.add_line(root, 0);
        for on_x in lattice.line(lattice.with(root, 0, 0), 0) {
            if !self.is_reached(on_x) {
                continue;
            }
            self.add_line(on_x, 1);
            for on_y in lattice.line(lattice.with(on_x, 1, 0), 1) {
                if self.is_reached(on_y) {
                    self.add_line(on_y, 2);
                }
            }
        }
    }

    /// Extends the tree both ways along a dimension: first to the dateline or edge, then across it.
    fn add_line(&mut self, start: Position, axis: usize) {
        let lattice: &Lattice = self.inputs.lattice;
        let at = lattice.coordinate(start, axis);
        let radix = lattice.radix(axis);
        let ways = [(Direction::minus(axis), at), (Direction::plus(axis), radix - 1 - at)];
        let mut tips = ways.map(|(way, steps)| self.extend(Some(start), way, steps));
        for _ in 0..radix {
            for (tip, (way, _)) in tips.iter_mut().zip(ways) {
                *tip = self.extend(*tip, way, 1);
            }
        }
    }

    /// Extends the tree by up to `steps` steps from `tip`; `None` if a step is not possible.
    fn extend(&mut self, tip: Option<Position>, way: Direction, steps: u32) -> Option<Position> {
        let mut tip = tip?;
        for _ in 0..steps {
            tip = self.join(tip, way)?;
        }
        Some(tip)
    }

    /// Reaches all other switches over any cable from a switch of the tree.
    fn add_rest(&mut self) {
        let mut next = 0;
        while let Some(&at) = self.tree.order.get(next) {
            next += 1;
            for way in Direction::ALL {
                self.join(at, way);
            }
        }
    }

    /// Adds the cable from a switch of the tree in a direction; returns the switch at its end, or `None`
    /// if there is no cable, the switch is in the tree, or its dependencies close a cycle.
    fn join(&mut self, at: Position, way: Direction) -> Option<Position> {
        let next = self.inputs.present.neighbor(at.0, way.index() as u8);
        if next == NONE || self.is_reached(Position(next)) {
            return None;
        }
        let before = self.added.len();
        if !self.reserve(at.0, way.index() as u8) {
            self.graph.remove(&self.added[before..]);
            self.added.truncate(before);
            return None;
        }
        self.branches[at.index()] |= 1 << way.index();
        self.branches[next as usize] |= 1 << way.opposite().index();
        self.tree.from[next as usize] = Some(way);
        self.tree.order.push(Position(next));
        Some(Position(next))
    }

    /// Adds the dependencies of packets over the cable from `at` in the direction `way` to a leaf; false
    /// if one of them closes a cycle.
    fn reserve(&mut self, at: u32, way: u8) -> bool {
        let present = self.inputs.present;
        let back = way ^ 1;
        let leaf = present.neighbor(at, way);
        let branches = self.branches[at as usize];
        for other in (0..6u8).filter(|other| branches >> other & 1 == 1) {
            let neighbor = present.neighbor(at, other);
            // Packets from the leaf come on VL 0.
            let out = self.vl(back / 2, other);
            if !self.depend(node(leaf, back, 0), other, out) {
                return false;
            }
            // They may be the first ones on their VL on the next channel.
            let beyond = self.branches[neighbor as usize] & !(1 << (other ^ 1));
            for onward in (0..6u8).filter(|onward| beyond >> onward & 1 == 1) {
                let vl = self.vl(other / 2, onward);
                if !self.depend(node(at, other, out), onward, vl) {
                    return false;
                }
            }
            // Packets to the leaf.
            let to_leaf = self.vl(other / 2, way);
            for vl in self.carried(neighbor, other ^ 1) {
                if !self.depend(node(neighbor, other ^ 1, vl), way, to_leaf) {
                    return false;
                }
            }
        }
        true
    }

    fn vl(&self, axis: u8, direction: u8) -> u8 {
        self.inputs.vls.vl(0, axis, direction)
    }

    /// The VLs of packets on a channel of the tree: 0 for those from the switch itself, and those of
    /// packets that come along the other branches.
    fn carried(&self, at: u32, way: u8) -> impl Iterator<Item = u8> + use<> {
        let branches = self.branches[at as usize] & !(1 << way);
        let has_turn =
            (0..6u8).any(|input| branches >> input & 1 == 1 && self.vl(input / 2, way) == 2);
        [0, 2].into_iter().take(if has_turn { 2 } else { 1 })
    }

    fn depend(&mut self, node: u32, direction: u8, vl: u8) -> bool {
        let dependency = Dependency { node, branch: branch(direction, vl) };
        match self.graph.add(dependency) {
            Added::Present => true,
            Added::New => {
                self.added.push(dependency);
                true
            }
            Added::Cycle => false,
        }
    }
}
