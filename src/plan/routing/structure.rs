//! Structure that a routing engine finds in a fabric: ranks, roots and layers, for reports.

use crate::fabric::SwitchId;

/// The structure by which an engine routed a fabric. Fields that an engine does not know are empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineStructure {
    /// Number of switches by rank, rank 0 first.
    pub ranks: Vec<usize>,
    /// The root switches.
    pub roots: Vec<SwitchId>,
    /// Number of layers of paths that have no credit loop each.
    pub layers: Option<usize>,
}

impl EngineStructure {
    /// The structure of an engine that ranks switches. Values above the number of switches, which
    /// mark switches without a rank, are not counted.
    pub(super) fn of_ranks(by_switch: impl ExactSizeIterator<Item = u32>) -> Self {
        let mut ranks = vec![0; by_switch.len()];
        for rank in by_switch {
            if let Some(count) = ranks.get_mut(rank as usize) {
                *count += 1;
            }
        }
        let used = ranks.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        ranks.truncate(used);
        Self { ranks, ..Self::default() }
    }

    /// The structure of an engine with layers.
    pub(super) fn of_layers(layers: usize) -> Self {
        Self { layers: Some(layers), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted_up_to_the_highest() {
        assert_eq!(ranks(&[0, 1, 1, u32::MAX]), [1, 2]);
        assert_eq!(ranks(&[2, 0, 2]), [1, 0, 2]);
        assert!(ranks(&[]).is_empty());
    }

    fn ranks(ranks: &[u32]) -> Vec<usize> {
        EngineStructure::of_ranks(ranks.iter().copied()).ranks
    }
}
