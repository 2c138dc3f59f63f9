//! The search for a cycle that additional dependencies would close in an acyclic graph.
//!
//! Each dependency of the graph leads to a node of lower topological rank. A cycle therefore
//! contains an added dependency that does not, and the node of lowest rank on it is the tail of
//! one. The search begins at the heads of these dependencies and visits no node below the lowest of
//! their tails.

use crate::verify::dependency_graph::{ChainRanks, NO_RANK};
use crate::verify::proof::ProvenDependencies;
use std::collections::HashMap;

/// True if the graph of `proven` has no cycle with the `added` dependencies and without the nodes for
/// which `is_dead` holds.
pub(super) fn stays_acyclic(
    proven: &ProvenDependencies,
    added: &[(u32, u32)],
    is_dead: impl Fn(u32) -> bool,
) -> bool {
    let ProvenDependencies { cdg, ranks, .. } = proven;
    let out_of_order: Vec<(u32, u32)> =
        added.iter().copied().filter(|&(from, to)| is_out_of_order(ranks, from, to)).collect();
    let ranks_of_tails = out_of_order.iter().map(|&(from, _)| ranks.of(from));
    let lowest = ranks_of_tails.filter(|&rank| rank != NO_RANK).min().unwrap_or(0);
    let mut more: HashMap<u32, Vec<u32>> = HashMap::new();
    for &(from, to) in added {
        more.entry(from).or_default().push(to);
    }
    let is_inside = |node: u32| ranks.of(node) >= lowest && !is_dead(node);
    let successors = |node: u32| -> Vec<u32> {
        let added = more.get(&node).into_iter().flatten().copied();
        cdg.successors(node).chain(added).filter(|&next| is_inside(next)).collect()
    };
    let mut search = DepthFirstSearch { marks: vec![Mark::New; cdg.len()], path: Vec::new() };
    out_of_order
        .iter()
        .filter(|&&(_, to)| is_inside(to))
        .all(|&(_, to)| search.is_acyclic_from(to, &successors))
}

/// True if a dependency does not lead to a node of lower rank. A node without any dependency in the
/// graph has no rank.
fn is_out_of_order(ranks: &ChainRanks, from: u32, to: u32) -> bool {
    let rank = ranks.of(from);
    let next = ranks.of(to);
    rank == NO_RANK || next == NO_RANK || rank <= next
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Done,
}

/// A depth-first search.
struct DepthFirstSearch {
    marks: Vec<Mark>,
    /// The nodes of the path, each with its unvisited successors.
    path: Vec<(u32, Vec<u32>)>,
}

impl DepthFirstSearch {
    /// True if no cycle can be reached from `start`.
    fn is_acyclic_from(&mut self, start: u32, successors: &impl Fn(u32) -> Vec<u32>) -> bool {
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
