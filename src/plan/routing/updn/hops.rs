//! The hops over legal paths: up first, then down.
//!
//! The search runs from the destination against the direction of the packets. It is OpenSM's: a
//! switch enters the queue again if a link offers it fewer hops than that link did before, with the
//! direction of this link, unless it waits in the queue already. Where every link leads to a rank
//! one above or below, that is a plain search for shortest paths, in which a switch is followed
//! once: switches above the destination are reached upwards before any way down leads there.

use super::ranks::Ranks;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Guid;
use crate::plan::routing::balancing::graded::is_graded;
use crate::plan::routing::balancing::hops::{HopRule, ShortestPaths, TargetHops};
use crate::plan::routing::switch_graph::{NO_PATH, SwitchGraph};
use std::collections::VecDeque;

/// The direction of a link of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinkDirection {
    Up,
    Down,
}

/// The least hops with which the links of a switch were followed last; [`NO_PATH`] before.
#[derive(Clone, Copy, Debug)]
struct Followed {
    all: u8,
    /// The least hops of the links that lead down, followed alone or with all others.
    down: u8,
}

impl Default for Followed {
    fn default() -> Self {
        Self { all: NO_PATH, down: NO_PATH }
    }
}

impl Followed {
    /// False if the links that an arrival permits were followed with these hops before, so that
    /// they offer nothing new.
    fn is_first(&mut self, least: u8, arrival: LinkDirection) -> bool {
        let last = match arrival {
            LinkDirection::Up => self.all,
            LinkDirection::Down => self.down,
        };
        self.down = least;
        if arrival == LinkDirection::Up {
            self.all = least;
        }
        last != least
    }
}

/// The hops over paths that go up first and then down.
#[derive(Clone, Debug)]
pub(super) struct UpDown {
    pub ranks: Ranks,
    /// IDs by switch, which order switches of equal rank.
    pub ids: Vec<u64>,
    /// True if root switches are reached over the shortest paths, legal or not.
    pub connect_roots: bool,
}

/// The IDs of all switches: their node GUIDs, unless `listed` has others.
pub(super) fn ids(fabric: &Fabric, listed: &[(Guid, u64)]) -> Vec<u64> {
    let mut ids: Vec<u64> =
        fabric.switch_ids().map(|switch| fabric.switch(switch).guid().0).collect();
    for &(guid, id) in listed {
        let node = fabric.node_by_guid(guid).map(|node| fabric.node(node));
        if let Some(switch) = node.and_then(|node| node.switch) {
            ids[switch.index()] = id;
        }
    }
    ids
}

impl UpDown {
    fn direction(&self, from: SwitchId, to: SwitchId) -> LinkDirection {
        let near = self.ranks.of(from);
        let far = self.ranks.of(to);
        let is_up = near > far
            || near == far && (near == 0 || id_of(&self.ids, from) > id_of(&self.ids, to));
        if is_up { LinkDirection::Up } else { LinkDirection::Down }
    }
}

fn id_of(ids: &[u64], switch: SwitchId) -> u64 {
    ids[switch.index()]
}

impl HopRule for UpDown {
    fn hops_to(&self, graph: &SwitchGraph, target: SwitchId, hops: &mut TargetHops) {
        if self.connect_roots && self.ranks.of(target) == 0 {
            ShortestPaths.hops_to(graph, target, hops)
        } else {
            hops.reset(graph, target)
        }
        let mut arrival = vec![LinkDirection::Up; graph.len()];
        let mut is_waiting = vec![false; graph.len()];
        let mut followed = vec![Followed::default(); graph.len()];
        let mut queue = VecDeque::from([target]);
        while let Some(switch) = queue.pop_front() {
            is_waiting[switch.index()] = false;
            let least = hops.least[switch.index()];
            if !followed[switch.index()].is_first(least, arrival[switch.index()]) {
                continue;
            }
            let next = least.saturating_add(1);
            for (index, link) in graph.numbered_links(switch) {
                let direction = self.direction(switch, link.to);
                let is_legal = arrival[switch.index()] == LinkDirection::Up
                    || direction == LinkDirection::Down;
                let back = graph.reverse(index);
                if !is_legal || next >= hops.by_link[back] {
                    continue;
                }
                hops.set(link.to, back, next);
                if !std::mem::replace(&mut is_waiting[link.to.index()], true) {
                    arrival[link.to.index()] = direction;
                    queue.push_back(link.to);
                }
            }
        }
    }

    fn graded_ranks(&self, graph: &SwitchGraph) -> Option<&[u32]> {
        let ranks = self.ranks.all();
        (!self.connect_roots && is_graded(graph, ranks)).then_some(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::plan::routing::balancing::hops::{BestLinks as _, RuleTable};
    use crate::sim::generate::FabricShape;
    use proptest::prelude::*;

    /// A rule without knowledge of ranks.
    #[derive(Debug)]
    struct WithoutRanks(UpDown);

    impl HopRule for WithoutRanks {
        fn hops_to(&self, graph: &SwitchGraph, target: SwitchId, hops: &mut TargetHops) {
            self.0.hops_to(graph, target, hops);
        }
    }

    /// The best links of all switches to all others.
    fn best_links(graph: &SwitchGraph, rule: &dyn HopRule) -> Vec<u64> {
        let table = RuleTable::<u64>::new(graph, rule);
        let mut sets = vec![0; graph.len() * graph.len()];
        for (switch, row) in graph.switches().zip(sets.chunks_exact_mut(graph.len())) {
            table.fill(switch, row);
        }
        sets
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn graded_graphs_have_the_best_links_of_the_search(
            shape in prop::sample::select(&["8x4x2", "10x8x1", "6x4x4", "fattree:3x4x2x2"][..]),
            roots in prop::collection::vec(0u32..32, 1..3),
        ) {
            let shape: FabricShape = shape.parse().expect("a shape");
            let topology = shape.build().expect("a fabric");
            let view = SyntheticView::default();
            let fabric = Fabric::from_topology(&topology, 0, &view).expect("a node");
            let graph = SwitchGraph::new(&fabric, &[]);
            let switches = graph.len() as u32;
            let roots: Vec<_> = roots.iter().map(|root| SwitchId(root % switches)).collect();
            let ranks = Ranks::from(&graph, &roots);
            let rule = UpDown { ranks, ids: ids(&fabric, &[]), connect_roots: false };
            prop_assert!(roots.len() > 1 || rule.graded_ranks(&graph).is_some());
            let expected = best_links(&graph, &WithoutRanks(rule.clone()));
            prop_assert_eq!(best_links(&graph, &rule), expected);
        }
    }
}
