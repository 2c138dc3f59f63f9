//! The arguments of a command, read word by word.

use super::ConsoleError;
use super::command::TargetName;
use super::scan::Word;
use crate::ids::Lid;
use std::time::Duration;

/// Longest duration in seconds: one day.
const MAX_DURATION: f64 = 86_400.0;

pub(super) type Parsed<T> = Result<T, ConsoleError>;

impl Word {
    pub(super) fn error(&self, text: impl Into<String>) -> ConsoleError {
        ConsoleError::new(self.column, text)
    }

    pub(super) fn is(&self, word: &str) -> bool {
        !self.quoted && self.port.is_none() && self.text.eq_ignore_ascii_case(word)
    }

    /// The word with its port number, where it does not name a port.
    pub(super) fn whole(&self) -> String {
        match self.port {
            Some(port) => format!("{}/{port}", self.text),
            None => self.text.clone(),
        }
    }
}

/// Arguments of a command.
pub(super) struct Args<'a> {
    pub(super) rest: std::slice::Iter<'a, Word>,
    /// Column after the end of the line.
    pub(super) end: usize,
    pub(super) command: &'a Word,
}

impl<'a> Args<'a> {
    pub(super) fn word(&mut self, what: &str) -> Parsed<&'a Word> {
        self.rest.next().ok_or_else(|| ConsoleError::new(self.end, format!("{what} is missing")))
    }

    pub(super) fn target(&mut self) -> Parsed<TargetName> {
        self.word("a node or port").cloned()
    }

    pub(super) fn peek(&self) -> Option<&'a Word> {
        self.rest.as_slice().first()
    }

    pub(super) fn lid(&mut self) -> Parsed<Lid> {
        self.number(1, Lid::UNICAST_MAX.0, "a LID from 1 to 49151").map(Lid)
    }

    /// A number of times.
    pub(super) fn times(&mut self) -> Parsed<u32> {
        self.number(1, 100_000, "a number of times from 1 to 100000")
    }

    pub(super) fn number<T: TryFrom<u64> + Into<u64> + Copy>(
        &mut self,
        min: T,
        max: T,
        what: &str,
    ) -> Parsed<T> {
        let word = self.word(what)?;
        let value = integer(&word.text).filter(|_| word.port.is_none());
        let value = value.filter(|value| (min.into()..=max.into()).contains(value));
        let value = value.and_then(|value| T::try_from(value).ok());
        value.ok_or_else(|| word.error(format!("expected {what}, not '{}'", word.whole())))
    }

    pub(super) fn probability(&mut self) -> Parsed<f64> {
        let word = self.word("a probability")?;
        let (digits, scale) = match word.text.strip_suffix('%') {
            Some(digits) => (digits, 0.01),
            None => (word.text.as_str(), 1.0),
        };
        let probability =
            decimal(digits).filter(|_| word.port.is_none()).ok_or_else(|| invalid(word))? * scale;
        if probability <= 1.0 { Ok(probability) } else { Err(invalid(word)) }
    }

    pub(super) fn duration(&mut self) -> Parsed<Duration> {
        let word = self.word("a duration")?;
        duration(&word.text).filter(|_| word.port.is_none()).ok_or_else(|| {
            let text = word.whole();
            word.error(format!(
                "'{text}' is not a duration such as 250ms, 1.5s or 2m, of one day at most"
            ))
        })
    }

    pub(super) fn attribute(&mut self) -> Parsed<u16> {
        self.number(0, u16::MAX, "an attribute number")
    }

    /// True if the optional last word is `word`.
    pub(super) fn keyword(&mut self, word: &str) -> Parsed<bool> {
        match self.rest.next() {
            None => Ok(false),
            Some(found) if found.is(word) => Ok(true),
            Some(other) => Err(other.error(format!("expected {word}"))),
        }
    }

    pub(super) fn code(&mut self, names: &[(&str, u8)], what: &str) -> Parsed<u8> {
        let word = self.word(what)?;
        let known = names.iter().find(|(name, _)| word.is(name));
        known.map(|&(_, code)| code).ok_or_else(|| word.error(format!("expected {what}")))
    }
}

fn invalid(word: &Word) -> ConsoleError {
    word.error(format!("'{}' is not a probability such as 0.25 or 25%", word.whole()))
}

/// Parses a duration such as `50us` or `1.5s`, of one day at most; without a unit in seconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = decimal(digits)? * scale;
    (seconds <= MAX_DURATION).then(|| Duration::from_secs_f64(seconds))
}

/// Parses a decimal or, after `0x`, hexadecimal number.
pub(super) fn integer(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, radix).ok())?
}

/// Parses a non-negative decimal fraction without exponent.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok())?
}
