//! Small sets of output ports, as numbers of links of a switch.

/// A set of small numbers. The smallest type that fits all switches is used, because the sets of a
/// switch towards all destinations should fit into the first-level cache.
pub trait SmallSet: Copy + Default + PartialEq + Send + Sync + 'static {
    /// The numbers are below this.
    const CAPACITY: usize;

    /// Adds `number` if `condition` holds.
    fn insert_if(&mut self, number: usize, condition: bool);

    fn contains(self, number: u8) -> bool;

    /// The numbers in ascending order.
    fn iter(self) -> impl Iterator<Item = u8>;
}

/// The numbers of the bits of a word, plus `first`.
fn bits(mut word: u64, first: u8) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as u8)?;
        word &= word - 1;
        Some(first + bit)
    })
}

macro_rules! word {
    ($word:ty) => {
        impl SmallSet for $word {
            const CAPACITY: usize = <$word>::BITS as usize;

            fn insert_if(&mut self, number: usize, condition: bool) {
                *self |= <$word>::from(condition) << number;
            }

            fn contains(self, number: u8) -> bool {
                self.checked_shr(number.into()).unwrap_or(0) & 1 == 1
            }

            fn iter(self) -> impl Iterator<Item = u8> {
                bits(self.into(), 0)
            }
        }
    };
}

word!(u8);
word!(u64);

impl SmallSet for [u64; 4] {
    const CAPACITY: usize = 256;

    fn insert_if(&mut self, number: usize, condition: bool) {
        self[number / 64] |= u64::from(condition) << (number % 64);
    }

    fn contains(self, number: u8) -> bool {
        self[usize::from(number) / 64] >> (number % 64) & 1 == 1
    }

    fn iter(self) -> impl Iterator<Item = u8> {
        self.into_iter().zip([0, 64, 128, 192]).flat_map(|(word, first)| bits(word, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<S: SmallSet>() {
        let numbers: Vec<u8> =
            (0..S::CAPACITY).filter(|number| number % 7 % 3 == 0).map(|n| n as u8).collect();
        let mut set = S::default();
        for number in 0..S::CAPACITY {
            set.insert_if(number, number % 7 % 3 == 0);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), numbers);
        assert!((0..=u8::MAX).all(|number| set.contains(number) == numbers.contains(&number)
            || usize::from(number) >= S::CAPACITY));
        assert_eq!(S::default().iter().next(), None);
    }

    #[test]
    fn sets_of_all_sizes_hold_what_was_inserted() {
        check::<u8>();
        check::<u64>();
        check::<[u64; 4]>();
    }
}
