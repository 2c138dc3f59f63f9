//! The rank of each switch: its distance from the nearest of some switches in links.

use crate::fabric::SwitchId;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::switch_graph::SwitchGraph;
use std::collections::VecDeque;

/// The rank of switches without a path to rank 0.
pub(in crate::plan::routing) const UNRANKED: u32 = u32::MAX;

/// Ranks by switch.
#[derive(Clone, Debug)]
pub(in crate::plan::routing) struct Ranks(Vec<u32>);

impl Ranks {
    /// Ranks all switches by their distance from those of rank 0.
    pub(in crate::plan::routing) fn from(graph: &SwitchGraph, zero: &[SwitchId]) -> Self {
        let mut ranks = vec![UNRANKED; graph.len()];
        zero.iter().for_each(|switch| ranks[switch.index()] = 0);
        let mut queue: VecDeque<SwitchId> = zero.iter().copied().collect();
        while let Some(switch) = queue.pop_front() {
            let next = ranks[switch.index()] + 1;
            for link in graph.links(switch) {
                if ranks[link.to.index()] > next {
                    ranks[link.to.index()] = next;
                    queue.push_back(link.to);
                }
            }
        }
        Self(ranks)
    }

    /// The number of switches of each rank.
    pub(in crate::plan::routing) fn structure(&self) -> EngineStructure {
        EngineStructure::of_ranks(self.0.iter().copied())
    }

    /// The ranks of all switches.
    pub(in crate::plan::routing) fn all(&self) -> &[u32] {
        &self.0
    }

    pub(in crate::plan::routing) fn of(&self, switch: SwitchId) -> u32 {
        self.0[switch.index()]
    }
}
