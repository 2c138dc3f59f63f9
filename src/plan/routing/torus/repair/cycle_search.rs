//! The search that a dependency against the topological order needs, from both of its ends. The side that
//! ends first is moved in the order; if the sides meet, the dependency would close a cycle.

use super::links::Links;
use super::nodes::{Branches, GraphNode, NODES, end, forerunners, own_bit};
use super::order::NodeOrder;

/// A graph, and the order that the search changes.
pub(super) struct Searched<'a> {
    pub links: &'a Links,
    pub nodes: &'a [GraphNode],
    pub order: &'a mut NodeOrder,
}

/// What searches need, kept from one to the next.
#[derive(Clone)]
pub(super) struct CycleSearch {
    /// Number of the last search.
    number: u32,
    /// By position.
    reached: Vec<Reached>,
    /// The nodes that the search under way has visited from either side.
    ahead: Vec<u32>,
    behind: Vec<u32>,
}

/// The nodes of a position that a search has reached.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// Number of the last search that came here; that of another one has reached nothing.
    search: u32,
    /// From its first node on.
    ahead: u32,
    /// From its last node back.
    behind: u32,
}

/// Where the two sides of a search meet: a dependency whose start is ahead, and whose end is behind.
struct Meeting {
    ahead: u32,
    behind: u32,
}

impl CycleSearch {
    pub(super) fn new(positions: usize) -> Self {
        let reached = vec![Reached::default(); positions];
        Self { number: 0, reached, ahead: Vec::new(), behind: Vec::new() }
    }

    /// Changes the order so that `from` comes before `to`.
    ///
    /// # Errors
    /// Returns the nodes of a path from `to` to `from`, if there is one.
    pub(super) fn reorder(
        &mut self,
        graph: Searched<'_>,
        from: u32,
        to: u32,
    ) -> Result<(), Box<[u32]>> {
        let Searched { links, nodes, order } = graph;
        self.number += 1;
        self.ahead.clear();
        self.ahead.push(to);
        self.behind.clear();
        self.behind.push(from);
        self.reached_at(to / NODES).ahead |= own_bit(to);
        self.reached_at(from / NODES).behind |= own_bit(from);
        self.search(Searched { links, nodes, order }, from, to)
            .map_err(|Meeting { ahead, behind }| self.path_by(links, nodes, ahead, behind))
    }

    fn search(&mut self, graph: Searched<'_>, from: u32, to: u32) -> Result<(), Meeting> {
        let lower = graph.order.label(to);
        let upper = graph.order.label(from);
        for step in 0.. {
            let Some(&next) = self.ahead.get(step) else {
                self.ahead.sort_unstable_by_key(|&node| graph.order.label(node));
                graph.order.move_behind(from, &self.ahead);
                return Ok(());
            };
            self.look_ahead(&graph, next, upper)?;
            let Some(&next) = self.behind.get(step) else {
                self.behind.sort_unstable_by_key(|&node| graph.order.label(node));
                graph.order.move_before(to, &self.behind);
                return Ok(());
            };
            self.look_behind(&graph, next, lower)?;
        }
        unreachable!("the graph is finite")
    }

    /// Adds the successors of a node below a label to those that the search has reached, unless it meets
    /// the other side.
    #[inline]
    fn look_ahead(&mut self, graph: &Searched<'_>, node: u32, upper: u64) -> Result<(), Meeting> {
        let mask = graph.nodes[node as usize].successors;
        if mask == 0 {
            return Ok(());
        }
        let at = end(graph.links, node) / NODES;
        let reached = self.reached_at(at);
        if let Some(behind) = (Branches { at, mask: mask & reached.behind }).nodes().next() {
            return Err(Meeting { ahead: node, behind });
        }
        let new = Branches { at, mask: mask & !reached.ahead };
        reached.ahead |= mask;
        self.ahead.extend(new.nodes().filter(|&node| graph.order.label(node) < upper));
        Ok(())
    }

    /// Adds the predecessors of a node above a label to those that the search has reached, unless it meets
    /// the other side.
    #[inline]
    fn look_behind(&mut self, graph: &Searched<'_>, node: u32, lower: u64) -> Result<(), Meeting> {
        let predecessors = graph.nodes[node as usize].predecessors;
        for Branches { at, mask } in forerunners(graph.links, node, predecessors) {
            let reached = self.reached_at(at);
            if let Some(ahead) = (Branches { at, mask: mask & reached.ahead }).nodes().next() {
                return Err(Meeting { ahead, behind: node });
            }
            let new = Branches { at, mask: mask & !reached.behind };
            reached.behind |= mask;
            self.behind.extend(new.nodes().filter(|&node| graph.order.label(node) > lower));
        }
        Ok(())
    }

    /// The path from the first node of the last search to its last one, by a dependency where its sides meet.
    /// The graph is acyclic, so that each step leads closer to the end of its side.
    fn path_by(&self, links: &Links, nodes: &[GraphNode], ahead: u32, behind: u32) -> Box<[u32]> {
        let mut path = vec![ahead];
        let mut here = ahead;
        while let Some(before) = forerunners(links, here, nodes[here as usize].predecessors)
            .map(|of| Branches { mask: of.mask & self.found_at(of.at).ahead, ..of })
            .find_map(|of| of.nodes().next())
        {
            path.push(before);
            here = before;
        }
        path.reverse();
        let mut next = Some(behind);
        while let Some(here) = next {
            path.push(here);
            let successors = nodes[here as usize].successors;
            next = if successors == 0 {
                None
            } else {
                let at = end(links, here) / NODES;
                Branches { at, mask: successors & self.found_at(at).behind }.nodes().next()
            };
        }
        path.into_boxed_slice()
    }

    /// What the search under way has reached at a position, to add to it.
    #[inline]
    fn reached_at(&mut self, at: u32) -> &mut Reached {
        let reached = &mut self.reached[at as usize];
        if reached.search != self.number {
            *reached = Reached { search: self.number, ..Reached::default() };
        }
        reached
    }

    /// What the last search has reached at a position.
    fn found_at(&self, at: u32) -> Reached {
        let reached = self.reached[at as usize];
        if reached.search == self.number { reached } else { Reached::default() }
    }
}
