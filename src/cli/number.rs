//! Numbers on the command line.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A decimal number of this range.
///
/// # Errors
/// The text is none; the message has the range.
pub(super) fn within<T>(text: &str, range: &RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = text.parse().ok().filter(|number| range.contains(number));
    let min = range.start();
    let max = range.end();
    number.ok_or_else(|| format!("'{text}' is not a number from {min} to {max}"))
}

/// A number of seconds or repetitions, at least 1.
pub(super) fn positive(text: &str) -> Result<u32, String> {
    within(text, &(1..=u32::MAX)).map_err(|_| format!("'{text}' is not a positive number"))
}

/// A number, 0 included.
pub(super) fn natural<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number, or too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_text_and_the_range() {
        assert_eq!(within("15", &(0..=15)), Ok(15_u8));
        for wrong in ["16", "x", "-1", ""] {
            let problem = format!("'{wrong}' is not a number from 0 to 15");
            assert_eq!(within::<u8>(wrong, &(0..=15)), Err(problem));
        }
        assert_eq!(positive("0"), Err("'0' is not a positive number".to_owned()));
        assert_eq!(natural::<u64>("7"), Ok(7));
        assert!(natural::<u8>("256").is_err());
    }
}
