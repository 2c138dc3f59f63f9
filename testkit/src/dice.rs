//! Pseudo-random numbers from a seed, the same on every machine.

/// Pseudo-random numbers (SplitMix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % limit
    }

    /// An index of something with `len` entries.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.index(among.len())].clone()
    }

    /// True with a probability of one in `odds`.
    pub fn one_in(&mut self, odds: usize) -> bool {
        self.index(odds) == 0
    }
}
