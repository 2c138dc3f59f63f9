//! prefix-routes.conf: routers of subnet prefixes (opensm(8), "Prefix routes").
//!
//! A line is the 64-bit prefix of another subnet and the port GUID of a router of this subnet, both
//! hexadecimal with or without 0x. `*` is any prefix, or the first router of the subnet. `#` starts
//! a comment. The first line that matches a prefix applies. Invalid lines are reported and
//! skipped.

use super::guid_lists::Parsed;
use crate::ids::Guid;
use std::path::Path;

/// A line of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefixRoute {
    /// Prefix of the other subnet; `None` for any.
    pub prefix: Option<u64>,
    /// Port of the router; `None` for the first router of the subnet.
    pub router: Option<Guid>,
}

/// The router port for a prefix, by the first line that matches; `None` for the first router of the
/// subnet.
///
/// # Errors
/// No line matches the prefix.
pub fn router(routes: &[PrefixRoute], prefix: u64) -> Result<Option<Guid>, NoRoute> {
    routes
        .iter()
        .find(|route| route.prefix.is_none_or(|wanted| wanted == prefix))
        .map(|route| route.router)
        .ok_or(NoRoute)
}

/// No line of the file matches a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no prefix route matches")]
pub struct NoRoute;

/// Parses the text of `file`.
pub fn parse(file: &Path, text: &str) -> Parsed<PrefixRoute> {
    Parsed::of_lines(file, text, entry)
}

/// Parses a line without its comment. An error is a byte offset and a message.
fn entry(line: &str) -> Result<Option<PrefixRoute>, (usize, String)> {
    let mut words = line.split_ascii_whitespace();
    let Some(prefix) = words.next() else { return Ok(None) };
    let Some(router) = words.next() else {
        let end = column_of(prefix, line) + prefix.len();
        return Err((end, "the port GUID of a router, or *, is missing here".to_owned()));
    };
    let prefix = number(prefix, "subnet prefix", line)?;
    let router = number(router, "port GUID", line)?.map(Guid);
    match words.next() {
        Some(word) => {
            let message = format!("`{word}` is unexpected: a line is a prefix and a GUID");
            Err((column_of(word, line), message))
        }
        None => Ok(Some(PrefixRoute { prefix, router })),
    }
}

fn number(word: &str, what: &str, line: &str) -> Result<Option<u64>, (usize, String)> {
    if word == "*" {
        Ok(None)
    } else {
        hexadecimal(word)
            .map(Some)
            .ok_or_else(|| (column_of(word, line), invalid_number(word, what)))
    }
}

fn column_of(word: &str, line: &str) -> usize {
    word.as_ptr() as usize - line.as_ptr() as usize
}

/// Message for a word that is not a prefix or GUID.
fn invalid_number(word: &str, what: &str) -> String {
    let digits: String = word.chars().filter(|c| !matches!(c, ':' | ',')).collect();
    let without_marks = digits.len() < word.len() && digits.len() == MAX_DIGITS;
    match hexadecimal(&digits).filter(|_| without_marks) {
        Some(_) => format!("write the {what} without colons and commas: {digits}"),
        None => format!(
            "`{word}` is not a {what}; expected 1 to {MAX_DIGITS} hexadecimal digits other than 0, or *"
        ),
    }
}

/// Hexadecimal digits of a prefix or GUID.
const MAX_DIGITS: usize = 16;

/// Parses a nonzero number of up to 16 hexadecimal digits, with or without 0x.
fn hexadecimal(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
    let is_number = digits.bytes().all(|c| c.is_ascii_hexdigit());
    let value = is_number.then(|| u64::from_str_radix(digits, 16).ok())?;
    value.filter(|&value| value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_line_applies() {
        let text = "# routers\n0xfec0000000000001 0x12\nfec0000000000002 *\n\n* 13 # the rest\n";
        let parsed = parse(Path::new("prefix-routes.conf"), text);
        assert_eq!(parsed.diagnostics, []);
        let routes = parsed.entries;
        assert_eq!(router(&routes, 0xfec0_0000_0000_0001), Ok(Some(Guid(0x12))));
        assert_eq!(router(&routes, 0xfec0_0000_0000_0002), Ok(None));
        assert_eq!(router(&routes, 3), Ok(Some(Guid(0x13))));
        assert_eq!(router(&routes[..2], 3), Err(NoRoute));
        assert_eq!(router(&[], 3), Err(NoRoute));
    }

    #[test]
    fn errors_are_located() {
        let text = "fec0:: 0x12\n 0xfec0\n* zwölf\n* 1 2\n0 1\n* 0x10000000000000000\n";
        let parsed = parse(Path::new("p"), text);
        assert_eq!(parsed.entries, []);
        let places: Vec<_> = parsed.diagnostics.iter().map(|d| (d.line, d.column)).collect();
        assert_eq!(places, [(1, 1), (2, 8), (3, 3), (4, 5), (5, 1), (6, 3)]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(?s).*") {
            let parsed = parse(Path::new("f"), &text);
            proptest::prop_assert!(parsed.entries.len() <= text.lines().count());
        }
    }
}
