//! Whether dependencies may be added to an acyclic graph without closing a cycle.
//!
//! Every node has a height, and each dependency leads to a lower node. A cycle must climb
//! somewhere, which only added dependencies can do: so the search begins where they lead, and goes
//! no lower than the lowest node from which one of them climbs.

use super::channels::{Graph, UNUSED};
use std::collections::HashMap;

/// True if the graph, whose heights these are, has no cycle with the `added` dependencies and
/// without the nodes of which `is_dead` is true.
pub(super) fn stays_acyclic(
    graph: &Graph,
    heights: &[u32],
    is_dead: impl Fn(u32) -> bool,
    added: &[(u32, u32)],
) -> bool {
    let height = |node: u32| heights[node as usize];
    let climbs = |&&(from, to): &&(u32, u32)| {
        // A node that had no dependency so far has no height, and may stand in for a climb.
        height(from) == UNUSED || height(to) == UNUSED || height(from) <= height(to)
    };
    let climbing = || added.iter().filter(climbs);
    let known = climbing().map(|&(from, _)| height(from)).filter(|&height| height != UNUSED);
    let floor = known.min().unwrap_or(0);
    let mut more: HashMap<u32, Vec<u32>> = HashMap::new();
    for &(from, to) in added {
        more.entry(from).or_default().push(to);
    }
    let is_inside = |node: u32| height(node) >= floor && !is_dead(node);
    let successors = |node: u32| -> Vec<u32> {
        let added = more.get(&node).into_iter().flatten().copied();
        graph.successors(node).chain(added).filter(|&next| is_inside(next)).collect()
    };
    let mut search = Search { marks: vec![Mark::New; graph.len()], path: Vec::new() };
    climbing().filter(|&&(_, to)| is_inside(to)).all(|&(_, to)| search.is_clean(to, &successors))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Done,
}

/// Depth first.
struct Search {
    marks: Vec<Mark>,
    /// The nodes of the path, with those that are still to be tried after each.
    path: Vec<(u32, Vec<u32>)>,
}

impl Search {
    /// False if a cycle can be reached from `start`.
    fn is_clean(&mut self, start: u32, successors: &impl Fn(u32) -> Vec<u32>) -> bool {
        if self.marks[start as usize] == Mark::Done {
            return true;
        }
        self.enter(start, successors);
        while let Some((node, rest)) = self.path.last_mut() {
            let Some(next) = rest.pop() else {
                self.marks[*node as usize] = Mark::Done;
                self.path.pop();
                continue;
            };
            match self.marks[next as usize] {
                Mark::OnPath => return false,
                Mark::Done => {}
                Mark::New => self.enter(next, successors),
            }
        }
        true
    }

    fn enter(&mut self, node: u32, successors: &impl Fn(u32) -> Vec<u32>) {
        self.marks[node as usize] = Mark::OnPath;
        self.path.push((node, successors(node)));
    }
}
