//! Types of the keys of congestion control. Their repairs give what OpenSM makes of invalid text.

use super::value::{NULL, Value, ValueFormat, range};
use std::fmt::Write as _;

/// Maximum number of entries in `cc_cct`, as in OpenSM: two blocks of 64.
const MAX_CCT_ENTRIES: usize = 128;

/// Digits of a [`SwitchPortMask`].
const MASK_DIGITS: usize = 64;

/// One bit for each switch port; the first byte has ports 255 to 248.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchPortMask(pub [u8; 32]);

impl SwitchPortMask {
    fn parse(digits: &str) -> Result<Self, String> {
        let mut mask = [0; 32];
        for (place, digit) in digits.chars().rev().enumerate() {
            let value = digit.to_digit(16).ok_or_else(|| format!("'{digit}' is no digit"))? as u8;
            mask[31 - place / 2] |= if place % 2 == 0 { value } else { value << 4 };
        }
        Ok(Self(mask))
    }
}

/// The digits after 0x, if there is one.
fn hex_digits(text: &str) -> &str {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text)
}

impl Value for SwitchPortMask {
    fn assign(&mut self, text: &str, _: ValueFormat) -> Result<(), String> {
        let digits = hex_digits(text);
        if digits.is_empty() || digits.len() > MASK_DIGITS {
            return Err(format!("'{text}' is not 1 to 64 hexadecimal digits"));
        }
        *self = Self::parse(digits).map_err(|problem| format!("'{text}': {problem}"))?;
        Ok(())
    }

    /// OpenSM uses the first 64 digits of a longer mask.
    fn repair(&mut self, text: &str, _: ValueFormat) -> bool {
        let digits = hex_digits(text);
        let is_hex = digits.chars().all(|digit| digit.is_ascii_hexdigit());
        let first = digits.get(..MASK_DIGITS).filter(|_| is_hex);
        let repaired = first.and_then(|first| Self::parse(first).ok());
        repaired.map(|mask| *self = mask).is_some()
    }

    fn lines(&self, _: ValueFormat) -> Vec<String> {
        let mut text = String::from("0x");
        for byte in self.0 {
            let _ = write!(text, "{byte:02x}");
        }
        vec![text]
    }

    fn expects(_: ValueFormat) -> String {
        "up to 64 hexadecimal digits, such as 0x1e for the ports 1 to 4".into()
    }
}

/// An entry of the congestion control table: the injection rate as shift and multiplier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InjectionRate {
    /// CCT_Shift, 2 bits.
    pub shift: u8,
    /// CCT_Multiplier, 14 bits.
    pub multiplier: u16,
}

impl InjectionRate {
    fn parse(text: &str) -> Result<Self, String> {
        let (shift, multiplier) =
            text.split_once(':').ok_or_else(|| format!("'{text}' has no ':'"))?;
        let mut entry = Self::default();
        entry.shift.assign(shift.trim(), range(0, 3))?;
        entry.multiplier.assign(multiplier.trim(), range(0, 0x3fff))?;
        Ok(entry)
    }

    /// The entry as OpenSM writes it to the devices, which it does not check: shift * 2^14 +
    /// multiplier, in 16 bits. `None` if there is no colon.
    fn repaired(text: &str) -> Option<Self> {
        let (shift, multiplier) = text.split_once(':')?;
        let shift = u16::from(leading_number(shift) as u8);
        let raw = shift << 14 | leading_number(multiplier) as u16;
        Some(Self { shift: (raw >> 14) as u8, multiplier: raw & 0x3FFF })
    }
}

/// The number with which a text begins, as `strtoul` reads it; 0 if it begins with none.
fn leading_number(text: &str) -> u64 {
    let text = text.trim_start();
    let (is_negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let hex = hex.filter(|digits| digits.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (radix, digits) = match hex {
        Some(digits) => (16, digits),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = match &digits[..end] {
        "" => 0,
        digits => u64::from_str_radix(digits, radix).unwrap_or(u64::MAX),
    };
    // strtoul negates, except for a number that is too large.
    if is_negative && number != u64::MAX { number.wrapping_neg() } else { number }
}

impl Value for InjectionRate {
    fn assign(&mut self, text: &str, _: ValueFormat) -> Result<(), String> {
        *self = Self::parse(text)?;
        Ok(())
    }

    fn repair(&mut self, text: &str, _: ValueFormat) -> bool {
        Self::repaired(text).map(|entry| *self = entry).is_some()
    }

    fn lines(&self, _: ValueFormat) -> Vec<String> {
        vec![format!("{}:{}", self.shift, self.multiplier)]
    }

    fn expects(_: ValueFormat) -> String {
        "shift:multiplier, such as 1:100".into()
    }
}

/// The congestion control table, at most [`MAX_CCT_ENTRIES`] entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CctList(pub Vec<InjectionRate>);

impl Value for CctList {
    fn assign(&mut self, text: &str, _: ValueFormat) -> Result<(), String> {
        let entries: Vec<InjectionRate> = match text {
            "" | NULL => Vec::new(),
            text => text.split(',').map(InjectionRate::parse).collect::<Result<_, _>>()?,
        };
        if entries.len() > MAX_CCT_ENTRIES {
            return Err(format!("{} entries are more than {MAX_CCT_ENTRIES}", entries.len()));
        }
        self.0 = entries;
        Ok(())
    }

    /// OpenSM skips empty entries, and ignores those after the first [`MAX_CCT_ENTRIES`].
    fn repair(&mut self, text: &str, _: ValueFormat) -> bool {
        let entries = text.split(',').filter(|entry| !entry.is_empty()).take(MAX_CCT_ENTRIES);
        let entries: Option<Vec<InjectionRate>> = entries.map(InjectionRate::repaired).collect();
        entries.map(|entries| self.0 = entries).is_some()
    }

    fn lines(&self, format: ValueFormat) -> Vec<String> {
        let entries: Vec<String> = self.0.iter().flat_map(|entry| entry.lines(format)).collect();
        vec![if entries.is_empty() { NULL.into() } else { entries.join(",") }]
    }

    fn expects(_: ValueFormat) -> String {
        "up to 128 shift:multiplier entries, such as 0:0,1:100,1:200".into()
    }
}

/// A setting of channel adapters by SL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaEntries<T>(pub [T; 16]);

impl<T: Value + Copy + Default + PartialEq> Value for CaEntries<T> {
    fn assign(&mut self, text: &str, format: ValueFormat) -> Result<(), String> {
        let (sl, value) = text
            .split_once(char::is_whitespace)
            .ok_or_else(|| format!("'{text}' is not an SL and a value"))?;
        let mut index = 0_u8;
        index.assign(sl, range(0, 15)).map_err(|error| format!("SL: {error}"))?;
        match self.0.get_mut(usize::from(index)) {
            Some(entry) => entry.assign(value.trim(), format),
            None => Err(format!("SL {index} is out of range")),
        }
    }

    fn lines(&self, format: ValueFormat) -> Vec<String> {
        let used = self.0.iter().enumerate().filter(|(_, value)| **value != T::default());
        let mut lines: Vec<String> = used
            .flat_map(|(sl, value)| {
                value.lines(format).into_iter().map(move |v| format!("{sl} {v}"))
            })
            .collect();
        if lines.is_empty() {
            lines.push("0 0".into());
        }
        lines
    }

    fn expects(_: ValueFormat) -> String {
        "an SL and a value, such as 0 20".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: ValueFormat = ValueFormat::PLAIN;

    #[test]
    fn numbers_are_read_as_by_strtoul() {
        for (text, number) in [
            ("", 0),
            ("x", 0),
            (" 12x", 12),
            ("0x1Fg", 31),
            ("0xg", 0),
            ("017", 15),
            ("08", 0),
            ("+3", 3),
            ("-1", u64::MAX),
            ("99999999999999999999", u64::MAX),
        ] {
            assert_eq!(leading_number(text), number, "{text}");
        }
    }

    #[test]
    fn entries_out_of_range_are_those_that_opensm_writes() {
        for (text, expected) in [
            ("4:1", Some((0, 1))),
            ("5:1", Some((1, 1))),
            ("1:16384", Some((1, 0))),
            ("0:32769", Some((2, 1))),
            ("0:65537", Some((0, 1))),
            ("257:2", Some((1, 2))),
            ("x:y", Some((0, 0))),
            ("12", None),
        ] {
            let mut entry = InjectionRate::default();
            assert!(entry.assign(text, PLAIN).is_err(), "{text}");
            let repaired = entry.repair(text, PLAIN).then_some((entry.shift, entry.multiplier));
            assert_eq!(repaired, expected, "{text}");
        }
    }

    #[test]
    fn long_tables_and_masks_are_cut_as_in_opensm() {
        let mut list = CctList::default();
        let text = "1:2,".repeat(130);
        assert!(list.assign(text.trim_end_matches(','), PLAIN).is_err());
        assert!(list.repair(&text, PLAIN));
        assert_eq!(list.0, [InjectionRate { shift: 1, multiplier: 2 }; MAX_CCT_ENTRIES]);
        assert!(list.assign(&"1:2,".repeat(127), PLAIN).is_err(), "the last entry is empty");
        assert!(!list.repair("1:1,2", PLAIN));
        let mut mask = SwitchPortMask::default();
        let text = format!("0x{}{}", "ab".repeat(32), "cd");
        assert!(mask.assign(&text, PLAIN).is_err());
        assert!(mask.repair(&text, PLAIN));
        assert_eq!(mask, SwitchPortMask([0xAB; 32]));
        assert!(!mask.repair("0x12g", PLAIN));
    }
}
