//! The channel dependency graph of a torus, which stays acyclic while dependencies are added.
//!
//! A node is a channel (the cables from a switch in one direction) with a VL of the lower QoS level:
//! 24 nodes for each position. The second level has the same dependencies on VLs of its own. The
//! successors of a node leave the same switch, its predecessors enter the same switch, so one mask of
//! 24 bits holds either.
//!
//! What the graph accepts follows from its dependencies alone; the work that it counts follows from these and
//! from the cycles that it remembers. The order decides only how fast that is: with the order of an earlier
//! pass, few dependencies are against it, and with its [`cycles`](super::cycles) few need a search.

use super::cycle_search::{CycleSearch, Searched};
use super::cycles::Cycles;
use super::links::Links;
use super::nodes::{Dependency, GraphNode, NODES, VLS, bits, end, forerunners, node, own_bit};
use super::order::NodeOrder;
use crate::plan::routing::torus::lattice::Lattice;
use rustc_hash::FxHashSet;
use std::collections::HashSet;
use std::sync::Arc;

/// The work of adding a dependency, in lookups: the searches that it needs are short with a good order.
const WORK_OF_ADDING: u64 = 8;

/// The result of an attempt to add a dependency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Added {
    Present,
    New,
    /// It would close a cycle, and was not added.
    Cycle,
}

/// What is known of a dependency without a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DependencyState {
    Present,
    Absent,
    /// It is known to close a cycle.
    Blocked,
}

/// An acyclic channel dependency graph.
#[derive(Clone)]
pub(super) struct ChannelGraph {
    /// The neighbours in the complete torus, which all graphs of a torus share.
    links: Arc<Links>,
    nodes: Vec<GraphNode>,
    order: NodeOrder,
    search: CycleSearch,
    /// Pairs of dependencies of which the graph can have one only, the smaller one first.
    conflicts: FxHashSet<[Dependency; 2]>,
    /// Those that were found. They save searches, and change no result.
    pub cycles: Cycles,
    /// The work so far of the graph and of those who use it, in dependencies looked up. It does not depend on the
    /// order.
    pub work: u64,
}

impl ChannelGraph {
    /// The graph with the dependencies in `successors`, by node; `None` if they have a cycle.
    pub(super) fn new(links: &Links, successors: Vec<u32>) -> Option<Self> {
        let count = successors.len();
        let mut graph = Self::unordered(links, count);
        for (node, successors) in graph.nodes.iter_mut().zip(successors) {
            node.successors = successors;
        }
        for from in 0..count as u32 {
            for to in graph.followers(from) {
                graph.nodes[to as usize].predecessors |= own_bit(from);
            }
        }
        graph.order = NodeOrder::new(&graph.sorted()?);
        Some(graph)
    }

    /// A graph of a torus without dependencies and order, to which any dependency can be added.
    pub(super) fn empty(links: &Links, lattice: &Lattice) -> Self {
        Self::unordered(links, NODES as usize * lattice.len())
    }

    fn unordered(links: &Links, count: usize) -> Self {
        Self {
            links: Arc::new(links.clone()),
            nodes: vec![GraphNode::default(); count],
            order: NodeOrder::equal(count),
            search: CycleSearch::new(count / NODES as usize),
            conflicts: FxHashSet::default(),
            cycles: Cycles::default(),
            work: 0,
        }
    }

    /// Copies the state of another graph of the same links, but for the work.
    pub(super) fn reset_to(&mut self, base: &Self) {
        self.shrink_to(base);
        self.order.reset_to(&base.order);
    }

    /// Takes over the dependencies of a graph that has no others than this one. The order remains valid.
    pub(super) fn shrink_to(&mut self, base: &Self) {
        self.nodes.clone_from(&base.nodes);
        self.conflicts.clone_from(&base.conflicts);
    }

    /// All nodes in their order.
    pub(super) fn order(&self) -> Vec<u32> {
        self.order.nodes()
    }

    /// Orders the nodes like `order`, that of another graph with the same nodes, as far as the dependencies
    /// allow it. This counts as no work.
    pub(super) fn order_like(&mut self, order: &[u32]) {
        self.order = NodeOrder::new(order);
        let mut against = Vec::new();
        for from in 0..self.nodes.len() as u32 {
            let label = self.order.label(from);
            let mask = self.nodes[from as usize].successors;
            let end = if mask == 0 { 0 } else { end(&self.links, from) };
            let branches = bits(mask).filter(|&branch| self.order.label(end + branch) < label);
            against.extend(branches.map(|branch| Dependency { node: from, branch }));
        }
        self.remove(&against);
        let work = self.work;
        for dependency in against {
            let added = self.add(dependency);
            debug_assert_eq!(added, Added::New, "the graph is acyclic");
        }
        self.work = work;
    }

    /// All nodes in topological order; `None` if there is a cycle.
    fn sorted(&self) -> Option<Vec<u32>> {
        let mut pending: Vec<u32> =
            self.nodes.iter().map(|node| node.predecessors.count_ones()).collect();
        let mut sorted: Vec<u32> =
            (0..pending.len() as u32).filter(|&node| pending[node as usize] == 0).collect();
        let mut next = 0;
        while let Some(&node) = sorted.get(next) {
            next += 1;
            for to in self.followers(node) {
                pending[to as usize] -= 1;
                if pending[to as usize] == 0 {
                    sorted.push(to);
                }
            }
        }
        (sorted.len() == pending.len()).then_some(sorted)
    }

    #[inline]
    fn followers(&self, node: u32) -> impl Iterator<Item = u32> + use<> {
        let mask = self.nodes[node as usize].successors;
        let end = if mask == 0 { 0 } else { end(&self.links, node) };
        bits(mask).map(move |branch| end + branch)
    }

    /// Looks a dependency up.
    #[inline]
    pub(super) fn state(&mut self, dependency: Dependency) -> DependencyState {
        self.work += 1;
        let bit = 1 << dependency.branch;
        if self.nodes[dependency.node as usize].successors & bit != 0 {
            DependencyState::Present
        } else if self.nodes[dependency.node as usize].blocked & bit != 0 {
            DependencyState::Blocked
        } else {
            DependencyState::Absent
        }
    }

    /// Adds a dependency unless it closes a cycle.
    pub(super) fn add(&mut self, dependency: Dependency) -> Added {
        match self.state(dependency) {
            DependencyState::Present => return Added::Present,
            DependencyState::Blocked => return Added::Cycle,
            DependencyState::Absent => {}
        }
        self.work += WORK_OF_ADDING;
        let Dependency { node: from, branch } = dependency;
        let to = end(&self.links, from) + branch;
        if self.order.label(from) > self.order.label(to) && !self.make_room(dependency, to) {
            return Added::Cycle;
        }
        self.nodes[from as usize].successors |= 1 << branch;
        self.nodes[to as usize].predecessors |= own_bit(from);
        Added::New
    }

    /// Removes all dependencies of a channel. The order remains valid.
    pub(super) fn remove_channel(&mut self, at: u32, direction: u8) {
        for vl in 0..VLS as u8 {
            let removed = node(at, direction, vl);
            for to in self.followers(removed) {
                self.nodes[to as usize].predecessors &= !own_bit(removed);
            }
            self.nodes[removed as usize].successors = 0;
            let Self { links, nodes, .. } = self;
            for from in forerunners(links, removed, nodes[removed as usize].predecessors) {
                from.nodes().for_each(|from| nodes[from as usize].successors &= !own_bit(removed));
            }
            self.nodes[removed as usize].predecessors = 0;
        }
    }

    /// Adds dependencies unless one of them closes a cycle; false, without a change, if so.
    ///
    /// Dependencies that were there before must never be removed: what closes a cycle with them is remembered
    /// for good.
    pub(super) fn add_all(&mut self, dependencies: &[Dependency]) -> bool {
        if self.has_conflict(dependencies) {
            return false;
        }
        for (index, &dependency) in dependencies.iter().enumerate() {
            if self.add(dependency) == Added::Cycle {
                let before = &dependencies[..index];
                self.remove(before);
                self.remember_cycle(before, dependency);
                return false;
            }
        }
        true
    }

    /// Remembers what closes a cycle together with a dependency: those that stay, or one of those `before` it,
    /// which are not in the graph.
    fn remember_cycle(&mut self, before: &[Dependency], dependency: Dependency) {
        if before.is_empty() || self.add(dependency) == Added::Cycle {
            self.nodes[dependency.node as usize].blocked |= 1 << dependency.branch;
            return;
        }
        if let &[other] = before {
            self.remember_conflict(other, dependency);
        } else {
            for &other in before {
                match self.add(other) {
                    Added::Cycle => self.remember_conflict(other, dependency),
                    Added::New => self.remove(&[other]),
                    Added::Present => {}
                }
            }
        }
        self.remove(&[dependency]);
    }

    fn remember_conflict(&mut self, one: Dependency, other: Dependency) {
        for Dependency { node, branch } in [one, other] {
            self.nodes[node as usize].conflicting |= 1 << branch;
        }
        self.conflicts.insert([one.min(other), one.max(other)]);
    }

    /// True if two of the dependencies are known to close a cycle.
    fn has_conflict(&self, dependencies: &[Dependency]) -> bool {
        let mut candidates = dependencies
            .iter()
            .filter(|one| self.nodes[one.node as usize].conflicting >> one.branch & 1 != 0);
        while let Some(&one) = candidates.next() {
            if candidates.clone().any(|other| is_conflict(&self.conflicts, &other, one)) {
                return true;
            }
        }
        false
    }

    /// Removes dependencies. The order remains valid.
    pub(super) fn remove(&mut self, dependencies: &[Dependency]) {
        for &Dependency { node: from, branch } in dependencies {
            let to = end(&self.links, from) + branch;
            self.nodes[from as usize].successors &= !(1 << branch);
            self.nodes[to as usize].predecessors &= !own_bit(from);
        }
    }

    /// Changes the order so that a dependency can be added, which leads to node `to`; false if it closes a cycle.
    fn make_room(&mut self, dependency: Dependency, to: u32) -> bool {
        let nodes = &self.nodes;
        if self.cycles.has(dependency, |one, next| is_present(nodes, one, next)) {
            return false;
        }
        let order = &mut self.order;
        let graph = Searched { links: &self.links, nodes: &self.nodes, order };
        let Err(path) = self.search.reorder(graph, dependency.node, to) else { return true };
        self.cycles.add(dependency, path);
        false
    }
}

fn is_present(nodes: &[GraphNode], one: u32, next: u32) -> bool {
    nodes[one as usize].successors & own_bit(next) != 0
}

fn is_conflict(
    conflicts: &HashSet<[Dependency; 2], rustc_hash::FxBuildHasher>,
    &&other: &&Dependency,
    one: Dependency,
) -> bool {
    conflicts.contains(&[one.min(other), one.max(other)])
}

#[cfg(test)]
mod tests {
    use super::super::healthy::HealthyRoutes;
    use super::super::nodes::branch;
    use super::*;
    use crate::config::torus::TorusSize;

    fn random(seed: u64) -> impl FnMut(u32) -> u32 {
        let mut state = seed;
        move |limit| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32 % limit
        }
    }

    /// Dependencies are tried in groups as they are in a pass. What is remembered of cycles changes no result.
    #[test]
    fn remembered_cycles_are_those_that_a_search_finds() {
        let size = TorusSize { radix: [4, 4, 3], looped: [true; 3] };
        let lattice = Lattice::new(size).expect("a lattice");
        let links = Links::complete(&lattice);
        let nodes = NODES * lattice.len() as u32;
        let none = vec![0; nodes as usize];
        let mut graph = ChannelGraph::new(&links, none).expect("no cycle");
        let mut plain = graph.clone();
        let mut below = random(11);
        let mut results = [0; 2];
        for _ in 0..8_000 {
            // Around a ring with 2 VLs, cycles are short.
            let direction = below(6) as u8;
            let mut at = below(lattice.len() as u32);
            let mut group = Vec::new();
            for _ in 0..3 {
                group.push(Dependency {
                    node: node(at, direction, below(2) as u8),
                    branch: branch(direction, below(2) as u8),
                });
                at = links.neighbor(at, direction);
            }
            group.retain(|&one| graph.state(one) == DependencyState::Absent);
            group.sort_unstable();
            group.dedup();
            let closing = group.iter().position(|&one| plain.add(one) == Added::Cycle);
            plain.remove(&group[..closing.unwrap_or(0)]);
            assert_eq!(graph.add_all(&group), closing.is_none(), "{group:?}");
            results[usize::from(closing.is_none())] += 1;
            for (node, plain) in graph.nodes.iter().zip(&plain.nodes) {
                assert_eq!(node.successors, plain.successors);
                assert_eq!(node.predecessors, plain.predecessors);
            }
        }
        assert!(results[0] > 50 && graph.conflicts.len() > 10, "{results:?}");
    }

    /// Random dependencies are tried and removed again. A graph with another order accepts the same ones, and
    /// counts the same work. So does one that knows the cycles of an earlier pass.
    #[test]
    fn acceptance_and_work_do_not_depend_on_the_order_or_on_known_cycles() {
        let size = TorusSize { radix: [4, 5, 3], looped: [true; 3] };
        let lattice = Lattice::new(size).expect("a lattice");
        let links = Links::complete(&lattice);
        let of_routes = HealthyRoutes::new(&lattice).dependencies(&lattice, &links);
        let mut graph = ChannelGraph::new(&links, of_routes).expect("no cycle");
        let mut order = graph.order();
        let mut other = graph.clone();
        order.reverse();
        other.order_like(&order);
        assert_ne!(graph.order(), other.order());
        let results = tries(&mut graph, 7);
        assert!((0..3).all(|kind| results.iter().filter(|&&one| one == kind).count() > 50));
        let met = graph.cycles.met();
        assert!(met.len() > 50);
        for (dependency, path) in &*met {
            let start = end(&links, dependency.node) + dependency.branch;
            assert_eq!([path[0], path[path.len() - 1]], [start, dependency.node]);
            let mut steps = path.windows(2);
            assert!(steps.all(|step| end(&links, step[0]) / NODES == step[1] / NODES));
        }
        other.cycles = Cycles::of_pass_before(met);
        assert_eq!(tries(&mut other, 7), results);
        assert_eq!(other.work, graph.work);
    }

    /// The results of random dependencies, some of which are removed again.
    fn tries(graph: &mut ChannelGraph, seed: u64) -> Vec<usize> {
        let mut below = random(seed);
        let mut added = Vec::new();
        let count = graph.nodes.len() as u32;
        let results = (0..5_000).map(|_| {
            let dependency = Dependency { node: below(count), branch: below(NODES) };
            let result = graph.add(dependency);
            if result == Added::New {
                added.push(dependency);
            }
            if below(3) == 0 && !added.is_empty() {
                let removed = added.swap_remove(below(added.len() as u32) as usize);
                graph.remove(&[removed]);
            }
            result as usize
        });
        results.collect()
    }
}
