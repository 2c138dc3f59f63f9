//! Which nodes of a small directed graph can reach each other.

/// A node on the way of the search: itself, its place in the order of discovery and the nodes
/// that are still to be looked at.
struct Visit<I> {
    node: u32,
    next: I,
}

/// By node: the number of its strongly connected component. Two nodes have the same number if
/// each is reached from the other (Tarjan 1972, without recursion).
pub(super) fn rings<I: Iterator<Item = u32>>(count: u32, next: impl Fn(u32) -> I) -> Vec<u32> {
    const NEW: u32 = u32::MAX;
    let mut found = vec![NEW; count as usize];
    let mut low = vec![0; count as usize];
    let mut ring = vec![NEW; count as usize];
    let (mut open, mut path) = (Vec::new(), Vec::new());
    let (mut discovered, mut rings) = (0, 0);
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
                } else if ring[to as usize] == NEW {
                    low[at] = low[at].min(found[to as usize]);
                }
                continue;
            }
            if low[at] == found[at] {
                while let Some(member) = open.pop() {
                    ring[member as usize] = rings;
                    if member as usize == at {
                        break;
                    }
                }
                rings += 1;
            }
            path.pop();
            if let Some(before) = path.last() {
                let before = before.node as usize;
                low[before] = low[before].min(low[at]);
            }
        }
    }
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_reach_each_other_share_a_number() {
        // 0 → 1 → 2 → 0, 2 → 3 → 4 → 3, 5 alone.
        let next: [&[u32]; 6] = [&[1], &[2], &[0, 3], &[4], &[3], &[]];
        let ring = rings(6, |node| next[node as usize].iter().copied());
        assert!(ring[0] == ring[1] && ring[1] == ring[2]);
        assert!(ring[3] == ring[4] && ring[3] != ring[0]);
        assert!(ring[5] != ring[0] && ring[5] != ring[3]);
    }
}
