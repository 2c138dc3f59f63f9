//! Ranks of switches: the distance from the nearest root, 0 at the roots.

use crate::fabric::SwitchId;
use crate::plan::routing::switch_graph::SwitchGraph;
use std::collections::VecDeque;

/// The rank of a switch that no root reaches.
pub(super) const UNRANKED: u32 = u32::MAX;

/// The ranks of all switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TreeRanks {
    pub by_switch: Vec<u32>,
    /// The largest rank of a ranked switch.
    pub max: u32,
}

impl TreeRanks {
    /// Ranks the switches by their distance from `roots`.
    pub(super) fn from_roots(graph: &SwitchGraph, roots: &[SwitchId]) -> Self {
        let mut by_switch = vec![UNRANKED; graph.len()];
        let mut queue = VecDeque::new();
        for &root in roots {
            by_switch[root.index()] = 0;
            queue.push_back(root);
        }
        let mut max = 0;
        while let Some(switch) = queue.pop_front() {
            let next = by_switch[switch.index()] + 1;
            for link in graph.links(switch) {
                let rank = &mut by_switch[link.to.index()];
                if *rank > next {
                    *rank = next;
                    max = next;
                    queue.push_back(link.to);
                }
            }
        }
        Self { by_switch, max }
    }

    /// Takes the switches that are farthest from all switches with channel adapters as roots.
    pub(super) fn from_hosts(graph: &SwitchGraph, with_hosts: &[SwitchId]) -> Self {
        let heights = Self::from_roots(graph, with_hosts);
        let ranked = heights.by_switch.iter().zip(0..).filter(|&(&rank, _)| rank == heights.max);
        let roots: Vec<_> = ranked.map(|(_, index)| SwitchId(index)).collect();
        Self::from_roots(graph, &roots)
    }

    pub(super) fn of(&self, switch: SwitchId) -> u32 {
        self.by_switch[switch.index()]
    }
}
