//! The numbers of the groups of a switch.
//!
//! A group that was there before keeps its number; a group that replaces a similar one, as after the loss
//! of a cable, takes over its number, so that entries that name it stay as they are. Any other group gets
//! the number of its lowest port, or the lowest one that is free. Without earlier groups, the numbers
//! depend on the groups only.

use crate::plan::routing::PortMask;

pub(super) struct GroupNumbering {
    before: Vec<PortMask>,
    is_taken: Vec<bool>,
}

/// The `capacity` most used sets, the first of equal ones, in their order.
pub(super) fn most_used(uses: &[usize], capacity: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..uses.len()).collect();
    order.sort_by_key(|&set| std::cmp::Reverse(uses[set]));
    order.truncate(capacity);
    order.sort_unstable();
    order
}

impl GroupNumbering {
    /// Numbers 1 to `capacity` are available.
    pub(super) fn new(before: &[PortMask], capacity: usize) -> Self {
        let before = before.iter().take(capacity + 1).copied().collect();
        let mut is_taken = vec![false; capacity + 1];
        is_taken[0] = true;
        Self { before, is_taken }
    }

    /// The number of each set, 0 for those that are not in `kept`.
    pub(super) fn assign(&mut self, sets: &[PortMask], kept: &[usize]) -> Vec<u16> {
        let mut numbers = vec![0u16; sets.len()];
        for rule in [Self::of_equal, Self::of_similar, Self::of_lowest_port, Self::of_any] {
            for &set in kept.iter().filter(|&&set| !sets[set].is_empty()) {
                if numbers[set] == 0
                    && let Some(number) = rule(self, &sets[set])
                {
                    numbers[set] = number as u16;
                    self.is_taken[number] = true;
                }
            }
        }
        numbers
    }

    fn is_free(&self, number: usize) -> bool {
        self.is_taken.get(number) == Some(&false)
    }

    fn of_equal(&self, set: &PortMask) -> Option<usize> {
        let equal = (0..self.before.len()).filter(|&number| self.before[number] == *set);
        equal.into_iter().find(|&number| self.is_free(number))
    }

    /// The earlier group with the most ports in common, if most of its ports are.
    fn of_similar(&self, set: &PortMask) -> Option<usize> {
        let free = (0..self.before.len()).filter(|&number| self.is_free(number));
        // The lowest number of several.
        free.filter(|number| {
            common_ports(set, &self.before, *number) * 2 > count(&self.before[*number])
        })
        .rev()
        .max_by_key(|&number| common_ports(set, &self.before, number))
    }

    fn of_lowest_port(&self, set: &PortMask) -> Option<usize> {
        let lowest = usize::from(set.iter().next()?);
        self.is_free(lowest).then_some(lowest)
    }

    fn of_any(&self, _: &PortMask) -> Option<usize> {
        self.is_taken.iter().position(|is_taken| !is_taken)
    }
}

fn common_ports(set: &PortMask, before: &[PortMask], number: usize) -> u32 {
    overlap(set, &before[number])
}

fn count(mask: &PortMask) -> u32 {
    mask.0.iter().map(|word| word.count_ones()).sum()
}

fn overlap(a: &PortMask, b: &PortMask) -> u32 {
    a.0.iter().zip(b.0).map(|(a, b)| (a & b).count_ones()).sum()
}
