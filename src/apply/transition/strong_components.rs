//! Strongly connected components of a small directed graph.

use super::graph::Graph;

/// A node that was not found yet, or that has no component yet.
const NEW: u32 = u32::MAX;

/// A search for strongly connected components (Tarjan 1972, without recursion), with buffers that
/// are used again.
#[derive(Default)]
pub(super) struct StrongComponents {
    /// By node: the order in which nodes were found, the lowest such number that is known to be
    /// reachable, and the component.
    found: Vec<u32>,
    low: Vec<u32>,
    component: Vec<u32>,
    open: Vec<u32>,
    /// The nodes on the path of the depth-first search, each with its edge that is next.
    path: Vec<(u32, u32)>,
}

impl StrongComponents {
    /// The component number of each of the `count` nodes of a graph. Two nodes have the same number
    /// if each is reachable from the other.
    pub(super) fn find(&mut self, count: u32, graph: &Graph) -> &[u32] {
        for numbers in [&mut self.found, &mut self.low, &mut self.component] {
            numbers.clear();
            numbers.resize(count as usize, NEW);
        }
        let Self { found, low, component, open, path } = self;
        let mut discovered = 0;
        let mut components = 0;
        for start in 0..count {
            let mut entered = (found[start as usize] == NEW).then_some(start);
            loop {
                if let Some(node) = entered.take() {
                    (found[node as usize], low[node as usize]) = (discovered, discovered);
                    discovered += 1;
                    open.push(node);
                    path.push((node, graph.first(node)));
                }
                let Some((node, edge)) = path.last_mut() else { break };
                let at = *node as usize;
                if let Some((to, next)) = graph.edge(*edge) {
                    *edge = next;
                    if found[to as usize] == NEW {
                        entered = Some(to);
                    } else if component[to as usize] == NEW {
                        low[at] = low[at].min(found[to as usize]);
                    }
                    continue;
                }
                if low[at] == found[at] {
                    while let Some(member) = open.pop() {
                        component[member as usize] = components;
                        if member as usize == at {
                            break;
                        }
                    }
                    components += 1;
                }
                path.pop();
                if let Some(&(before, _)) = path.last() {
                    let before = before as usize;
                    low[before] = low[before].min(low[at]);
                }
            }
        }
        component
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutually_reachable_nodes_share_a_component() {
        let mut components = StrongComponents::default();
        let mut graph = Graph::default();
        // Node 5 is isolated.
        let edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3)];
        // The second time with buffers that are in use.
        for _ in 0..2 {
            graph.begin(6);
            edges.iter().for_each(|&(from, to)| graph.add(from, to));
            let component = components.find(6, &graph);
            assert!(component[0] == component[1] && component[1] == component[2]);
            assert!(component[3] == component[4] && component[3] != component[0]);
            assert!(component[5] != component[0] && component[5] != component[3]);
        }
    }
}
