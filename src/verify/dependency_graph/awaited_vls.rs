//! The VLs of a channel that packets of a VL of the channel before it wait for, for all pairs of
//! successive channels.

use super::VLS;
use std::ops::Range;

/// The awaited VLs of all pairs. Only the VLs up to the highest that packets have take memory: in most
/// fabrics few of the 15 data VLs.
#[derive(Clone)]
pub(super) struct AwaitedVls {
    /// Number of VLs of the first channel that have a set.
    lanes: usize,
    /// By pair and VL of its first channel: the awaited VLs of its second one, one bit for each.
    sets: Vec<u16>,
}

impl AwaitedVls {
    /// No pairs, with memory for this number of them whose first channels use the VLs `used`.
    pub(super) fn new(used: u16, pairs: usize) -> Self {
        let lanes = (u16::BITS - used.leading_zeros()).max(1) as usize;
        Self { lanes, sets: Vec::with_capacity(lanes * pairs) }
    }

    /// Number of pairs.
    pub(super) fn len(&self) -> usize {
        self.sets.len() / self.lanes
    }

    /// Appends a pair with the awaited VLs by VL of its first channel.
    pub(super) fn push(&mut self, awaited: &[u16; VLS]) {
        self.sets.extend_from_slice(&awaited[..self.lanes]);
    }

    /// Adds an awaited VL.
    pub(super) fn add(&mut self, pair: usize, vl: usize, awaited: u32) {
        if vl >= self.lanes {
            self.widen(vl + 1);
        }
        self.sets[pair * self.lanes + vl] |= 1 << awaited;
    }

    /// The awaited VLs of a pair.
    #[inline]
    pub(super) fn of(&self, pair: usize, vl: usize) -> u16 {
        if vl < self.lanes { self.sets[pair * self.lanes + vl] } else { 0 }
    }

    /// Removes the dependencies of some pairs.
    pub(super) fn clear(&mut self, pairs: Range<usize>) {
        self.sets[pairs.start * self.lanes..pairs.end * self.lanes].fill(0);
    }

    /// The VLs of the first channel with a dependency in some pairs.
    pub(super) fn used(&self, pairs: Range<usize>) -> u16 {
        (0..self.lanes)
            .filter(|vl| pairs.clone().any(|pair| self.of(pair, *vl) != 0))
            .fold(0, |used, vl| used | 1 << vl)
    }

    /// Number of dependencies.
    pub(super) fn dependencies(&self) -> usize {
        self.sets.iter().map(|set| set.count_ones() as usize).sum()
    }

    fn widen(&mut self, lanes: usize) {
        let mut sets = Vec::with_capacity(self.len() * lanes);
        for pair in self.sets.chunks(self.lanes) {
            sets.extend_from_slice(pair);
            sets.resize(sets.len() + lanes - self.lanes, 0);
        }
        *self = Self { lanes, sets };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add_all(model: &mut [[u16; VLS]], adds: &[(usize, usize, u32)]) {
        let pairs = model.len();
        for &(pair, vl, awaited) in adds {
            model[pair % pairs][vl] |= 1 << awaited;
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_full_table(
            pairs in 1usize..6,
            adds in prop::collection::vec((any::<usize>(), 0..VLS, 0u32..16), 0..20),
            early in 0usize..20,
            cleared in any::<usize>(),
        ) {
            let mut model = vec![[0u16; VLS]; pairs];
            let (first, later) = adds.split_at(early.min(adds.len()));
            add_all(&mut model, first);
            let used = model.iter().flat_map(|sets| sets.iter().zip(0..));
            let used = used.filter(|(set, _)| **set != 0).fold(0, |used, (_, vl)| used | 1u16 << vl);
            let mut table = AwaitedVls::new(used, pairs);
            model.iter().for_each(|sets| table.push(sets));
            for &(pair, vl, awaited) in later {
                table.add(pair % pairs, vl, awaited);
            }
            add_all(&mut model, later);
            let cleared = cleared % pairs;
            table.clear(cleared..cleared + 1);
            model[cleared] = [0; VLS];
            prop_assert_eq!(table.len(), pairs);
            let mut count = 0;
            for (pair, sets) in model.iter().enumerate() {
                for (vl, &set) in sets.iter().enumerate() {
                    prop_assert_eq!(table.of(pair, vl), set);
                    prop_assert_eq!(table.used(pair..pair + 1) >> vl & 1 == 1, set != 0);
                    count += set.count_ones() as usize;
                }
            }
            prop_assert_eq!(table.dependencies(), count);
        }
    }
}
