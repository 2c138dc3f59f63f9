//! Values in configuration files: codes of the InfiniBand specification, or the quantities that
//! they stand for.

use crate::ids::{Guid, Pkey};

/// MTUs in bytes, indexed by code - 1 (IBA vol. 1, 9.4.1.5).
const MTUS: [u64; 5] = [256, 512, 1024, 2048, 4096];

/// Rate codes with their rates in units of 0.1 Gb/s, by ascending rate (IBA vol. 1, 15.2.5.16).
const RATES: [(u8, u64); 23] = [
    (2, 25),
    (5, 50),
    (3, 100),
    (11, 140),
    (6, 200),
    (15, 250),
    (19, 280),
    (4, 300),
    (7, 400),
    (20, 500),
    (12, 560),
    (8, 600),
    (9, 800),
    (16, 1000),
    (13, 1120),
    (10, 1200),
    (14, 1680),
    (17, 2000),
    (18, 3000),
    (21, 4000),
    (22, 6000),
    (23, 8000),
    (24, 12000),
];

/// Names of multicast scopes (RFC 4291, 2.7).
const SCOPES: [(&str, u8); 6] = [
    ("interface-local", 1),
    ("link-local", 2),
    ("admin-local", 4),
    ("site-local", 5),
    ("organization-local", 8),
    ("global", 14),
];

/// Parses a number as C's strtoull does with base 0, without a sign: decimal, hexadecimal after 0x,
/// octal after 0. Returns `None` for other text and for numbers of more than 64 bits.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // from_str_radix would accept a sign.
    digits.starts_with(|c: char| c.is_ascii_hexdigit()).then_some(())?;
    u64::from_str_radix(digits, radix).ok()
}

/// Parses a number up to `max`. The error message calls it `what`.
pub(super) fn at_most(text: &str, what: &str, max: u64) -> Result<u64, String> {
    number(text).filter(|value| *value <= max).ok_or_else(|| {
        format!("{what} is a number from 0 to {}, not {}", shown_value(max), quoted(text))
    })
}

fn shown_value(value: u64) -> String {
    if value > 255 { format!("{value:#x}") } else { value.to_string() }
}

/// The text in backquotes for messages, or "nothing" for an empty text.
pub(super) fn quoted(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { format!("`{text}`") }
}

/// Parses an MTU, given as code or in bytes, and returns its code.
pub(super) fn mtu(text: &str) -> Result<u8, String> {
    let value = number(text);
    if let Some(code @ 1..=5) = value {
        return Ok(code as u8);
    }
    let known = value.and_then(|bytes| MTUS.iter().position(|&mtu| mtu == bytes));
    if let Some(index) = known {
        return Ok(index as u8 + 1);
    }
    let meant = value.filter(|&bytes| bytes > 5).map_or_else(String::new, |bytes| {
        // A number up to 16 is a wrong code: suggest the largest code. Others are sizes in bytes.
        let least = MTUS.iter().position(|&mtu| bytes > 16 && mtu >= bytes);
        let least = least.unwrap_or(MTUS.len() - 1);
        format!("; {} means {}", least + 1, MTUS[least])
    });
    Err(format!(
        "{} is not an MTU: write 1, 2, 3, 4 or 5, or the bytes they mean: 256, 512, 1024, 2048 or \
         4096{meant}",
        quoted(text)
    ))
}

/// Parses a rate, given as code or in Gb/s with unit, and returns its code.
pub(super) fn rate(text: &str) -> Result<u8, String> {
    if let Some(tenths) = gigabits(text) {
        let known = RATES.iter().find(|(_, rate)| *rate == tenths);
        return known.map(|(code, _)| *code).ok_or_else(|| {
            let nearest = RATES.iter().rev().find(|(_, rate)| *rate <= tenths).unwrap_or(&RATES[0]);
            format!("no link rate is {text}; {} means {}", nearest.0, in_gigabits(nearest.1))
        });
    }
    let value = number(text);
    let known = RATES.iter().find(|(code, _)| Some(u64::from(*code)) == value);
    if let Some((code, _)) = known {
        return Ok(*code);
    }
    let meant = RATES.iter().find(|(_, rate)| rate % 10 == 0 && value == Some(rate / 10));
    let hint = match meant {
        Some((code, rate)) => {
            let rate = in_gigabits(*rate);
            format!("; {code} means {rate}, which may be written with its unit")
        }
        None => ", or Gb/s with the unit, such as 100Gbps".to_owned(),
    };
    Err(format!("{} is not a rate: write a code from 2 to 24{hint}", quoted(text)))
}

/// Parses a number with a unit of Gb/s; the result is in units of 0.1 Gb/s.
fn gigabits(text: &str) -> Option<u64> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (digits, unit) = text.split_at(unit);
    let units = ["g", "gb", "gb/s", "gbps", "gbit", "gbit/s"];
    units.contains(&unit.trim().to_ascii_lowercase().as_str()).then_some(())?;
    let (whole, tenth) = digits.trim().split_once('.').unwrap_or((digits.trim(), "0"));
    let is_tenth = tenth.len() == 1;
    let whole: u64 = digit(whole)?;
    let tenth: u64 = digit(tenth)?;
    is_tenth.then(|| whole.checked_mul(10)?.checked_add(tenth))?
}

fn digit(text: &str) -> Option<u64> {
    text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?
}

fn in_gigabits(tenths: u64) -> String {
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}Gbps"),
        (whole, tenth) => format!("{whole}.{tenth}Gbps"),
    }
}

/// Size of an MTU code, such as "2048 bytes".
pub fn mtu_in_words(code: u8) -> String {
    let bytes = usize::from(code).checked_sub(1).and_then(|index| MTUS.get(index));
    bytes.map_or_else(|| format!("code {code}"), |bytes| format!("{bytes} bytes"))
}

/// Rate of a rate code, such as "100Gbps".
pub fn rate_in_words(code: u8) -> String {
    let known = RATES.iter().find(|(known, _)| *known == code);
    known.map_or_else(|| format!("code {code}"), |(_, tenths)| in_gigabits(*tenths))
}

/// Parses a multicast scope, given as number or name; 1..=15.
pub(super) fn scope(text: &str) -> Result<u8, String> {
    let named = SCOPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let value = named.map(|(_, scope)| u64::from(*scope)).or_else(|| number(text));
    match value {
        Some(scope @ 1..=15) => Ok(scope as u8),
        _ => Err(format!(
            "{} is not a scope: write a number from 1 to 15, such as 2 (link-local), 5 \
             (site-local), 8 (organization-local) or 14 (global)",
            quoted(text)
        )),
    }
}

/// Parses a P_Key and clears the membership bit; 0 for 0 and 0x8000.
pub(super) fn pkey(text: &str) -> Result<Pkey, String> {
    match number(text) {
        Some(value @ 0..=0xFFFF) => Ok(Pkey(value as u16 & 0x7FFF)),
        Some(_) => {
            Err(format!("P_Key `{text}` has more than 16 bits; the highest P_Key is 0x7fff"))
        }
        None if is_hexadecimal(text) => {
            Err(format!("P_Key `{text}`: hexadecimal numbers begin with 0x, as in 0x{text}"))
        }
        None => Err(format!("{} is not a P_Key such as 0x7fff", quoted(text))),
    }
}

/// Parses a port GUID.
pub(super) fn guid(text: &str) -> Result<Guid, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match number(text) {
        Some(0) => Err("0 is not a valid port GUID".to_owned()),
        Some(value) => Ok(Guid(value)),
        None if digits.is_some_and(|hex| hex.len() > 16 && is_hexadecimal(hex)) => {
            Err(format!("GUID `{text}` has more than 16 hexadecimal digits"))
        }
        None if is_hexadecimal(text) => {
            Err(format!("`{text}`: hexadecimal GUIDs begin with 0x, as in 0x{text}"))
        }
        None => Err(format!("{} is neither a port GUID nor a keyword", quoted(text))),
    }
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_c() {
        let table = [
            ("0", Some(0)),
            ("017", Some(15)),
            ("0x1f", Some(31)),
            ("0X1F", Some(31)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("08", None),
            ("-1", None),
            ("+1", None),
            ("0x", None),
            ("", None),
            ("0x-1", None),
            ("0x+1", None),
        ];
        for (text, value) in table {
            assert_eq!(number(text), value, "{text:?}");
        }
    }

    #[test]
    fn codes_and_quantities_are_equivalent() {
        for (text, code) in [("1", 1), ("256", 1), ("4096", 5), ("0x5", 5)] {
            assert_eq!(mtu(text), Ok(code));
        }
        for (text, code) in [
            ("3", 3),
            ("10Gbps", 3),
            ("2.5Gb/s", 2),
            ("100G", 16),
            ("100 Gb", 16),
            ("1200gbit/s", 24),
            ("0x10", 16),
        ] {
            assert_eq!(rate(text), Ok(code), "{text}");
        }
        assert_eq!(rate_in_words(5), "5Gbps");
        assert_eq!(rate_in_words(2), "2.5Gbps");
        assert_eq!(mtu_in_words(4), "2048 bytes");
        assert_eq!((scope("2"), scope("Global")), (Ok(2), Ok(14)));
        assert_eq!((pkey("0x8001"), pkey("65535")), (Ok(Pkey(1)), Ok(Pkey(0x7FFF))));
    }

    #[test]
    fn messages_suggest_valid_values() {
        let table = [
            (mtu("4000"), "5 means 4096"),
            (mtu("99999"), "5 means 4096"),
            (mtu("1500"), "4 means 2048"),
            (mtu("0"), "write 1, 2"),
            (mtu(""), "nothing"),
            (rate("100"), "16 means 100Gbps"),
            (rate("1"), "100Gbps"),
            (rate("99Gbps"), "9 means 80Gbps"),
            (rate("1Gbps"), "2 means 2.5Gbps"),
            (rate("18446744073709551615"), "code"),
            (rate("99999999999999999999G"), "code"),
            (scope("0"), "link-local"),
            (scope("16"), "link-local"),
        ];
        for (found, hint) in table {
            let text = found.unwrap_err();
            assert!(text.contains(hint), "{text}");
        }
        assert!(guid("2c903").unwrap_err().contains("0x2c903"));
        assert!(guid("0x00000000000000001").is_ok(), "leading zeros are accepted");
        assert!(guid("0x10000000000000001").unwrap_err().contains("16 hexadecimal"));
        assert!(pkey("0x10000").unwrap_err().contains("16 bits"));
    }
}
