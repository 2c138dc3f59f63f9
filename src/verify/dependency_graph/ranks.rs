//! Topological ranks of the nodes of an acyclic dependency graph.

use super::VLS;

/// The topological rank of (channel, VL) pairs without dependencies.
pub(in crate::verify) const NO_RANK: u32 = u32::MAX;

/// The rank of each node: the length of the longest chain of dependencies from it, [`NO_RANK`] for
/// nodes without any dependency. Only the VLs up to the highest with a rank take memory.
pub(in crate::verify) struct ChainRanks {
    lanes: usize,
    by_channel: Vec<u32>,
}

impl ChainRanks {
    /// From the ranks of all nodes.
    pub(super) fn new(of_nodes: &[u32]) -> Self {
        let lanes = (0..VLS)
            .rev()
            .find(|vl| of_nodes.chunks(VLS).any(|channel| channel[*vl] != NO_RANK))
            .map_or(0, |vl| vl + 1);
        let used = of_nodes.chunks(VLS).flat_map(|channel| &channel[..lanes]);
        Self { lanes, by_channel: used.copied().collect() }
    }

    /// The rank of a node.
    #[inline]
    pub(in crate::verify) fn of(&self, node: u32) -> u32 {
        let vl = node as usize % VLS;
        if vl < self.lanes {
            self.by_channel[node as usize / VLS * self.lanes + vl]
        } else {
            NO_RANK
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_nodes() {
        let mut dense = vec![NO_RANK; 3 * VLS];
        dense[1] = 7;
        dense[VLS + 4] = 0;
        dense[2 * VLS] = 3;
        for nodes in [&dense[..], &[NO_RANK; VLS][..], &[]] {
            let ranks = ChainRanks::new(nodes);
            assert!(nodes.iter().zip(0..).all(|(&rank, node)| ranks.of(node) == rank));
        }
        assert_eq!(ChainRanks::new(&dense).by_channel.len(), 3 * 5);
    }
}
