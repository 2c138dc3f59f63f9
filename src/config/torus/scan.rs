//! Words and numbers of torus-2QoS.conf.

/// A word of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct TorusToken<'a> {
    pub text: &'a str,
    /// Column of the first byte, from 1.
    pub column: u32,
}

/// Words of a line, separated by blanks, tabs and carriage returns.
pub(super) fn tokens(line: &str) -> impl Iterator<Item = TorusToken<'_>> {
    let words = line.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty());
    words.map(move |text| {
        // Words are slices of the line, so the difference of addresses is the offset.
        let offset = text.as_ptr().addr() - line.as_ptr().addr();
        TorusToken { text, column: u32::try_from(offset + 1).unwrap_or(u32::MAX) }
    })
}

/// Parses a number as `strtoul(…, 0)` does: optional sign, `0x` hexadecimal, leading `0` octal,
/// else decimal; too large values saturate. Returns whether it is negative, its magnitude and the
/// rest of the word. A word without digits is 0, and all of it is the rest.
fn number(text: &str) -> (bool, u64, &str) {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    let hex = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
    let (digits, radix) = match hex {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_hexdigit()) => (digits, 16),
        _ if unsigned.starts_with('0') => (unsigned, 8),
        _ => (unsigned, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return (false, 0, text);
    }
    let value = digits[..end]
        .chars()
        .filter_map(|c| c.to_digit(radix))
        .fold(0u64, |value, digit| value.saturating_mul(radix.into()).saturating_add(digit.into()));
    (negative, value, &digits[end..])
}

/// Parses an unsigned number; returns it with the rest of the word. A minus sign negates modulo
/// 2^64, as in C.
pub(super) fn unsigned_prefix(text: &str) -> (u64, &str) {
    let (negative, value, rest) = number(text);
    (if negative { value.wrapping_neg() } else { value }, rest)
}

/// Parses an unsigned number and ignores the rest of the word.
pub(super) fn unsigned(text: &str) -> u64 {
    unsigned_prefix(text).0
}

/// Parses a signed number and ignores the rest of the word.
pub(super) fn signed(text: &str) -> i64 {
    let (negative, value, _) = number(text);
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    if negative { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_c() {
        for (text, value, rest) in [
            ("12", 12, ""),
            ("0x1F", 31, ""),
            ("0X1fg", 31, "g"),
            ("010", 8, ""),
            ("08", 0, "8"),
            ("0", 0, ""),
            ("0x", 0, "x"),
            ("3T", 3, "T"),
            ("+7m", 7, "m"),
            ("abc", 0, "abc"),
            ("#", 0, "#"),
            ("-1", u64::MAX, ""),
            ("99999999999999999999", u64::MAX, ""),
        ] {
            assert_eq!(unsigned_prefix(text), (value, rest), "{text}");
        }
        assert_eq!(signed("-0x10"), -16);
        assert_eq!(signed("-99999999999999999999"), -i64::MAX);
    }

    #[test]
    fn tokens_have_columns() {
        let words: Vec<_> = tokens(" a\tbc \r").map(|word| (word.text, word.column)).collect();
        assert_eq!(words, [("a", 2), ("bc", 4)]);
    }
}
