//! The channel dependency graph of a torus, which stays acyclic while dependencies are added.
//!
//! A node is a channel (the cables from a switch in one direction) with a VL of the lower QoS level:
//! 24 nodes for each position. The second level has the same dependencies on VLs of its own. The
//! successors of a node leave the same switch, its predecessors enter the same switch, so one mask of
//! 24 bits holds either. An edge against the topological order starts a search from both of its
//! ends; the side that ends first is moved.
//!
//! What the graph accepts follows from its dependencies alone, and so does the work that it counts. The
//! order decides only how fast that is: with the order of an earlier pass, few dependencies are against
//! it.

use super::links::Links;
use super::order::NodeOrder;
use crate::plan::routing::torus::lattice::Lattice;
use std::sync::Arc;

/// Nodes of a position: 6 directions by 4 VLs.
const NODES: u32 = 24;
const VLS: u32 = 4;
/// The work of adding a dependency, in lookups: the searches that it needs are short with a good order.
const WORK_OF_ADDING: u64 = 8;

/// The node of the channel from a position in a direction, with a VL.
#[inline]
pub(super) fn node(at: u32, direction: u8, vl: u8) -> u32 {
    at * NODES + branch(direction, vl)
}

/// The number of a node among those of its position.
#[inline]
pub(super) fn branch(direction: u8, vl: u8) -> u32 {
    u32::from(direction) * VLS + u32::from(vl)
}

/// The bit of a node in the masks of its successors' predecessors.
#[inline]
fn own_bit(node: u32) -> u32 {
    1 << (node % NODES)
}

fn bits(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < u32::BITS).then_some(bit)
    })
}

/// A dependency: a node, and the branch that its packets wait for at the next switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dependency {
    pub node: u32,
    pub branch: u32,
}

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

/// What is known of a node, in one place of the processor's cache.
#[derive(Clone, Copy, Default)]
struct Node {
    successors: u32,
    predecessors: u32,
    /// Dependencies that are known to close a cycle.
    blocked: u32,
    /// Number of the last search that visited it: odd from the front, even from behind.
    visited: u32,
}

/// An acyclic channel dependency graph.
#[derive(Clone)]
pub(super) struct ChannelGraph {
    /// The neighbours in the complete torus, which all graphs of a torus share.
    links: Arc<Links>,
    nodes: Vec<Node>,
    order: NodeOrder,
    /// Number of the last search, which is even.
    search: u32,
    /// The work so far, in dependencies looked up. It does not depend on the order.
    pub work: u64,
    /// The nodes that the search under way has visited from either side.
    ahead: Vec<u32>,
    behind: Vec<u32>,
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
            nodes: vec![Node::default(); count],
            order: NodeOrder::equal(count),
            search: 0,
            work: 0,
            ahead: Vec::new(),
            behind: Vec::new(),
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
        // No node has been visited by a later search.
        self.search = self.search.max(base.search);
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
            let end = if mask == 0 { 0 } else { self.end(from) };
            let is_against = |&branch: &u32| self.order.label(end + branch) < label;
            let branches = bits(mask).filter(is_against);
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

    /// First node of the switch to which a channel leads.
    #[inline]
    fn end(&self, node: u32) -> u32 {
        self.links.neighbor(node / NODES, (node % NODES / VLS) as u8) * NODES
    }

    #[inline]
    fn followers(&self, node: u32) -> impl Iterator<Item = u32> + use<> {
        let mask = self.nodes[node as usize].successors;
        let end = if mask == 0 { 0 } else { self.end(node) };
        bits(mask).map(move |branch| end + branch)
    }

    /// The predecessors of a node, and their number.
    #[inline]
    fn forerunners(&self, node: u32) -> ([u32; NODES as usize], usize) {
        let at = node / NODES;
        let mut nodes = [0; NODES as usize];
        let mut count = 0;
        for branch in bits(self.nodes[node as usize].predecessors) {
            let back = (branch / VLS) as u8 ^ 1;
            nodes[count] = self.links.neighbor(at, back) * NODES + branch;
            count += 1;
        }
        (nodes, count)
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
        let to = self.end(from) + branch;
        if self.order.label(from) > self.order.label(to) && !self.reorder(from, to) {
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
            let (nodes, count) = self.forerunners(removed);
            for &from in &nodes[..count] {
                self.nodes[from as usize].successors &= !own_bit(removed);
            }
            self.nodes[removed as usize].predecessors = 0;
        }
    }

    /// Remembers that a dependency closes a cycle with dependencies that will not be removed.
    pub(super) fn block(&mut self, dependency: Dependency) {
        self.nodes[dependency.node as usize].blocked |= 1 << dependency.branch;
    }

    /// Removes dependencies. The order remains valid.
    pub(super) fn remove(&mut self, dependencies: &[Dependency]) {
        for &Dependency { node: from, branch } in dependencies {
            let to = self.end(from) + branch;
            self.nodes[from as usize].successors &= !(1 << branch);
            self.nodes[to as usize].predecessors &= !own_bit(from);
        }
    }

    /// Changes the order so that `from` comes before `to`; false if `from` can be reached from `to`.
    fn reorder(&mut self, from: u32, to: u32) -> bool {
        self.search += 2;
        let ahead = self.search - 1;
        let behind = self.search;
        let lower = self.order.label(to);
        let upper = self.order.label(from);
        self.ahead.clear();
        self.ahead.push(to);
        self.behind.clear();
        self.behind.push(from);
        self.nodes[to as usize].visited = ahead;
        self.nodes[from as usize].visited = behind;
        for step in 0.. {
            let Some(&next) = self.ahead.get(step) else {
                let order = &self.order;
                self.ahead.sort_unstable_by_key(|&node| order.label(node));
                self.order.move_behind(from, &self.ahead);
                return true;
            };
            for node in self.followers(next) {
                let visited = &mut self.nodes[node as usize].visited;
                if *visited == behind {
                    return false;
                }
                if *visited != ahead && self.order.label(node) < upper {
                    *visited = ahead;
                    self.ahead.push(node);
                }
            }
            let Some(&next) = self.behind.get(step) else {
                let order = &self.order;
                self.behind.sort_unstable_by_key(|&node| order.label(node));
                self.order.move_before(to, &self.behind);
                return true;
            };
            let (nodes, count) = self.forerunners(next);
            for &node in &nodes[..count] {
                let visited = &mut self.nodes[node as usize].visited;
                if *visited == ahead {
                    return false;
                }
                if *visited != behind && self.order.label(node) > lower {
                    *visited = behind;
                    self.behind.push(node);
                }
            }
        }
        unreachable!("the graph is finite")
    }
}

#[cfg(test)]
mod tests {
    use super::super::healthy::HealthyRoutes;
    use super::*;
    use crate::config::torus::TorusSize;

    /// Random dependencies are tried and removed again. A graph with another order accepts the same ones, and
    /// counts the same work.
    #[test]
    fn acceptance_and_work_do_not_depend_on_the_order() {
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
        let mut state = 7u64;
        let mut below = |limit: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32 % limit
        };
        let mut results = [0; 3];
        let mut added = Vec::new();
        for _ in 0..5_000 {
            let node = below(NODES * lattice.len() as u32);
            let dependency = Dependency { node, branch: below(NODES) };
            let result = graph.add(dependency);
            assert_eq!(other.add(dependency), result, "{dependency:?}");
            results[result as usize] += 1;
            if result == Added::New {
                added.push(dependency);
            }
            if below(3) == 0 && !added.is_empty() {
                let removed = added.swap_remove(below(added.len() as u32) as usize);
                graph.remove(&[removed]);
                other.remove(&[removed]);
            }
        }
        assert_eq!(graph.work, other.work);
        assert!(results.iter().all(|&count| count > 50), "{results:?}");
    }
}
