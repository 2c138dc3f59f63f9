//! A small directed graph whose buffers are used again: there are some thousand in a transition,
//! with few nodes each.

/// Marks the end of a list.
const NONE: u32 = u32::MAX;

/// A directed graph of nodes 0, 1, 2, …, with the edges of each node in a linked list.
#[derive(Default)]
pub(super) struct Graph {
    /// The first edge of each node.
    first: Vec<u32>,
    /// For each edge: the node at its end, and the next edge of the same node.
    edges: Vec<(u32, u32)>,
    /// Nodes from which a search goes on.
    found: Vec<u32>,
}

impl Graph {
    /// Begins a graph of `count` nodes without edges.
    pub(super) fn begin(&mut self, count: usize) {
        self.first.clear();
        self.first.resize(count, NONE);
        self.edges.clear();
    }

    /// Adds an edge. Both nodes must be below the number of nodes.
    pub(super) fn add(&mut self, from: u32, to: u32) {
        let first = &mut self.first[from as usize];
        self.edges.push((to, *first));
        *first = self.edges.len() as u32 - 1;
    }

    /// The edges of a node: the first one, for [`Self::edge`].
    pub(super) fn first(&self, node: u32) -> u32 {
        self.first[node as usize]
    }

    /// The node at the end of an edge, and the next edge of the same node; `None` behind the last
    /// one.
    pub(super) fn edge(&self, edge: u32) -> Option<(u32, u32)> {
        self.edges.get(edge as usize).copied()
    }

    /// Adds all nodes to `set` that are reachable from one of its nodes.
    pub(super) fn spread(&mut self, set: &mut [bool]) {
        let mut found = std::mem::take(&mut self.found);
        found.extend(set.iter().zip(0..).filter_map(|(&is_in, node)| is_in.then_some(node)));
        while let Some(node) = found.pop() {
            let mut edge = self.first(node);
            while let Some((to, next)) = self.edge(edge) {
                if !std::mem::replace(&mut set[to as usize], true) {
                    found.push(to);
                }
                edge = next;
            }
        }
        self.found = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_spreads_along_edges() {
        let mut graph = Graph::default();
        // The second graph has none of the edges of the first one.
        for edges in [&[(0, 1), (1, 2), (3, 0)][..], &[(2, 0)]] {
            graph.begin(4);
            edges.iter().for_each(|&(from, to)| graph.add(from, to));
            let mut set = [false, true, false, false];
            graph.spread(&mut set);
            assert_eq!(set, [false, true, edges.len() == 3, false]);
        }
    }
}
