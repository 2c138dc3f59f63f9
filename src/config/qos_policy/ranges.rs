//! Sets of numbers as lists of ranges.

/// A set of numbers, kept as disjoint ranges in ascending order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The union of ranges, each from its first to its last number.
    pub fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut set = Self::default();
        set.extend(ranges);
        set
    }

    /// Adds ranges.
    pub fn extend(&mut self, ranges: impl IntoIterator<Item = (u64, u64)>) {
        self.0.extend(ranges);
        self.0.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.0.len());
        for (first, last) in self.0.drain(..) {
            match merged.last_mut() {
                Some(before) if before.1.checked_add(1).is_none_or(|next| first <= next) => {
                    before.1 = before.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        self.0 = merged;
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after.checked_sub(1).is_some_and(|index| number <= self.0[index].1)
    }

    /// The ranges in ascending order, with gaps between them.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn adjacent_ranges_are_merged() {
        let set = Ranges::new([(7, 9), (11, 11), (10, 10), (u64::MAX, u64::MAX), (20, 30)]);
        let ranges: Vec<_> = set.iter().collect();
        assert_eq!(ranges, [(7, 11), (20, 30), (u64::MAX, u64::MAX)]);
    }

    proptest! {
        #[test]
        fn a_set_contains_exactly_its_ranges(
            ranges in proptest::collection::vec((0_u64..60, 0_u64..9), 0..9),
            number in 0_u64..80,
        ) {
            let ranges: Vec<_> = ranges.iter().map(|(first, more)| (*first, first + more)).collect();
            let has = ranges.iter().any(|(first, last)| (*first..=*last).contains(&number));
            let set = Ranges::new(ranges);
            prop_assert_eq!(set.contains(number), has);
            let gaps = set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.1 + 1 < b.0);
            prop_assert!(gaps);
        }
    }
}
