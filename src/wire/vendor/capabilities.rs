//! The capability mask of GeneralInfo, with which a device announces its vendor-specific attributes.

use super::facts::{CAPABILITIES, CAPABILITY_WORD_BITS, CAPABILITY_WORDS};
use crate::wire::smp::DATA_SIZE;
use std::fmt;

const WORD_BITS: usize = CAPABILITY_WORD_BITS.value;
const WORD_BYTES: usize = WORD_BITS / 8;
const BYTES: usize = WORD_BYTES * CAPABILITY_WORDS.value;

/// A set of capabilities; number n is bit n.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(pub u128);

impl Capabilities {
    pub const NONE: Self = Self(0);
    /// Adaptive routing with the revised forwarding table.
    pub const ADAPTIVE_ROUTING: u8 = 2;
    /// The receiver puts packets in order.
    pub const OUT_OF_ORDER: u8 = 30;
    /// Virtual ports.
    pub const VIRTUALIZATION: u8 = 15;
    /// QosConfigSL of physical ports.
    pub const RATE_LIMIT: u8 = 24;
    /// QosConfigSL of virtual ports.
    pub const VPORT_RATE_LIMIT: u8 = 25;

    /// The capabilities of a GeneralInfo with the modifier of the capability mask.
    pub fn read(data: &[u8; DATA_SIZE]) -> Self {
        let words = data[..BYTES].chunks_exact(WORD_BYTES).zip(0..);
        Self(words.fold(0, |all, (bytes, index)| {
            let word = bytes.iter().fold(0u128, |word, &byte| word << 8 | u128::from(byte));
            all | word << (WORD_BITS * index)
        }))
    }

    /// The GeneralInfo with these capabilities.
    pub fn write(self) -> [u8; DATA_SIZE] {
        let mut data = [0; DATA_SIZE];
        for (bytes, index) in data[..BYTES].chunks_exact_mut(WORD_BYTES).zip(0..) {
            let word = (self.0 >> (WORD_BITS * index)) as u32;
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        data
    }

    pub fn has(self, number: u8) -> bool {
        1u128.checked_shl(number.into()).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Adds a capability; numbers above 127 have no effect.
    #[must_use]
    pub fn with(self, number: u8) -> Self {
        Self(self.0 | 1u128.checked_shl(number.into()).unwrap_or(0))
    }

    /// The numbers of the capabilities, in order.
    pub fn numbers(self) -> impl Iterator<Item = u8> {
        (0..128).filter(move |&number| self.has(number))
    }

    /// The name of each capability; its number if it has none.
    pub fn names(self) -> impl Iterator<Item = String> {
        self.numbers()
            .map(|number| name(number).map_or_else(|| number.to_string(), |name| name.to_owned()))
    }

    /// The names that [`Self::number`] accepts.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        CAPABILITIES.iter().map(|&(_, name, _)| name)
    }

    /// The number of a capability that is given by its name or number.
    pub fn number(text: &str) -> Option<u8> {
        let named = CAPABILITIES.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(text));
        let number = named.map(|&(number, ..)| number).or_else(|| text.parse().ok());
        number.filter(|&number| number < 128)
    }
}

fn name(number: u8) -> Option<&'static str> {
    CAPABILITIES.iter().find(|(known, ..)| *known == number).map(|&(_, name, _)| name)
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names().collect();
        write!(f, "Capabilities({})", names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_a_bit_of_a_big_endian_word() {
        // Number, byte and bit of that byte.
        for (number, byte, bit) in [
            (0, 3, 0),
            (7, 3, 7),
            (24, 0, 0),
            (25, 0, 1),
            (31, 0, 7),
            (32, 7, 0),
            (81, 9, 1),
            (127, 12, 7),
        ] {
            let data = Capabilities::NONE.with(number).write();
            let mut expected = [0; DATA_SIZE];
            expected[byte] = 1 << bit;
            assert_eq!(data, expected, "capability {number}");
            let read = Capabilities::read(&data);
            assert!(read.has(number) && read.numbers().eq([number]), "capability {number}");
        }
    }

    #[test]
    fn bytes_after_the_mask_are_no_capabilities() {
        let mut data = [0xFF; DATA_SIZE];
        data[..BYTES].fill(0);
        assert_eq!(Capabilities::read(&data), Capabilities::NONE);
    }

    #[test]
    fn a_capability_has_a_name_or_its_number() {
        assert_eq!(Capabilities::number("rate-limit"), Some(Capabilities::RATE_LIMIT));
        assert_eq!(Capabilities::number("Vport-Rate-Limit"), Some(Capabilities::VPORT_RATE_LIMIT));
        assert_eq!(Capabilities::number("127"), Some(127));
        assert_eq!(Capabilities::number("128"), None);
        assert_eq!(Capabilities::number("rate"), None);
        let names: Vec<String> = Capabilities::NONE.with(24).with(99).with(200).names().collect();
        assert_eq!(names, ["rate-limit", "99"]);
    }

    #[test]
    fn numbers_and_names_are_unique_and_in_order() {
        assert!(CAPABILITIES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut names: Vec<&str> = CAPABILITIES.iter().map(|&(_, name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CAPABILITIES.len());
    }
}
