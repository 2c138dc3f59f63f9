//! Strongly connected components of a small directed graph.

/// A node on the depth-first search path, with its successors that are still to be visited.
struct Visit<I> {
    node: u32,
    next: I,
}

/// The component number of each node. Two nodes have the same number if each is reachable from the
/// other (Tarjan 1972, without recursion).
pub(super) fn strong_components<I: Iterator<Item = u32>>(
    count: u32,
    next: impl Fn(u32) -> I,
) -> Vec<u32> {
    const NEW: u32 = u32::MAX;
    let mut found = vec![NEW; count as usize];
    let mut low = vec![0; count as usize];
    let mut component = vec![NEW; count as usize];
    let (mut open, mut path) = (Vec::new(), Vec::new());
    let (mut discovered, mut components) = (0, 0);
    for start in 0..count {
        let mut entered = (found[start as usize] == NEW).then_some(start);
        loop {
            if let Some(node) = entered.take() {
                (found[node as usize], low[node as usize]) = (discovered, discovered);
                discovered += 1;
                open.push(node);
                path.push(Visit { node, next: next(node) });
            }
            let Some(visit) = path.last_mut() else { break };
            let at = visit.node as usize;
            if let Some(to) = visit.next.next() {
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
            if let Some(before) = path.last() {
                let before = before.node as usize;
                low[before] = low[before].min(low[at]);
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutually_reachable_nodes_share_a_component() {
        // Edges: 0 → 1 → 2 → 0, 2 → 3 → 4 → 3; node 5 is isolated.
        let next: [&[u32]; 6] = [&[1], &[2], &[0, 3], &[4], &[3], &[]];
        let component = strong_components(6, |node| next[node as usize].iter().copied());
        assert!(component[0] == component[1] && component[1] == component[2]);
        assert!(component[3] == component[4] && component[3] != component[0]);
        assert!(component[5] != component[0] && component[5] != component[3]);
    }
}
