//! Records of the files in OSM_CACHE_DIR: a line of words, followed by an empty line.

use super::Diagnostic;
use crate::notes::Severity;
use std::path::Path;

/// Column (0 for the whole record) and message of an error.
pub(super) type RecordError = (u32, String);

/// Line numbers and lines of the records of a file.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u32, &str)> {
    (1u32..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

/// Words of a line with their columns.
pub(super) fn words(line: &str) -> impl Iterator<Item = (u32, &str)> {
    line.split([' ', '\t', '\r']).filter(|word| !word.is_empty()).map(move |word| {
        let offset = word.as_ptr().addr() - line.as_ptr().addr();
        (line[..offset].chars().count() as u32 + 1, word)
    })
}

/// A number, hexadecimal after 0x, else decimal.
pub(super) fn parse_number(word: &str) -> Option<u64> {
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let value = match hex {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    value.ok()
}

/// A number of at most `max`; `what` names it in errors.
pub(super) fn number(word: Option<(u32, &str)>, what: &str, max: u64) -> Result<u64, RecordError> {
    let (column, word) = present(word, what)?;
    match parse_number(word) {
        Some(value) if value <= max => Ok(value),
        Some(_) => Err((column, format!("{what} {word} is greater than {max:#x}"))),
        None => Err((column, format!("\"{word}\" is not {what}"))),
    }
}

/// A word that must not be missing.
pub(super) fn present<'a>(
    word: Option<(u32, &'a str)>,
    what: &str,
) -> Result<(u32, &'a str), RecordError> {
    word.ok_or_else(|| (0, format!("{what} is missing")))
}

/// An error if another word follows the last one, which `what` names.
pub(super) fn end<'a>(
    mut words: impl Iterator<Item = (u32, &'a str)>,
    what: &str,
) -> Result<(), RecordError> {
    match words.next() {
        Some((column, word)) => Err((column, format!("unexpected \"{word}\" after {what}"))),
        None => Ok(()),
    }
}

/// The diagnostic of a wrong record.
pub(super) fn diagnostic(file: &Path, line: u32, (column, message): RecordError) -> Diagnostic {
    Diagnostic {
        file: file.to_owned(),
        line,
        column,
        severity: Severity::Error,
        message,
        code: None,
    }
}
