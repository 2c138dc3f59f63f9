//! A quick hash of dense numbers.

use std::hash::Hasher;

/// Spreads dense numbers over a table; nobody chooses them, so that this need not be safe against
/// those who would.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|&word| self.write_usize(usize::from_ne_bytes(word)));
        rest.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_usize(number as usize);
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0.rotate_left(5) ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
