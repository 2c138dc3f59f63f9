//! Pseudo-random numbers for faults.

use std::time::Duration;

/// Pseudo-random number generator (SplitMix64).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `limit`, which must not be 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True with this probability (0.0 to 1.0).
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A duration from zero to `longest`, exclusive.
    pub(super) fn duration_below(&mut self, longest: Duration) -> Duration {
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 { Duration::ZERO } else { Duration::from_nanos(self.next() % nanos) }
    }

    /// Fills `bytes` with random bits.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
