//! The node name map (`node_name_map_name`), in the format of ibnetdiscover(8) and OpenSM.
//!
//! A line is a node GUID and a name: `0x0008f10400411a08 "spine 1" # rack 4`. The GUID is decimal,
//! hexadecimal after `0x` or octal after `0`. The name ends at a quotation mark, at `#` or with the
//! line; the quotation marks may be omitted. `#` starts a comment. As in OpenSM, the first name of
//! a GUID counts, and a line without a GUID makes the whole map invalid: it is not used.

use super::Diagnostic;
use super::literal;
use super::options::Options;
use super::text_file::ReadError;
use crate::ids::Guid;
use crate::notes::{Note, Severity};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// The map that is read without the key; it need not exist. Debian's OpenSM has it, too.
pub const DEFAULT_PATH: &str = "/etc/opensm/ib-node-name-map";

/// A line of the map.
pub type NamedNode = (Guid, Arc<str>);

/// Parses the text of `file`. A diagnostic of severity [`Severity::Error`] makes the map invalid.
pub fn parse(file: &Path, text: &str) -> (Vec<NamedNode>, Vec<Diagnostic>) {
    let mut names = Vec::new();
    let mut diagnostics = Vec::new();
    let mut seen = HashSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let finding = match entry(line) {
            Ok(None) => None,
            Ok(Some(NameLine { guid, .. })) if !seen.insert(guid) => {
                let at = line.len() - line.trim_start().len();
                let message = format!("GUID {guid} is repeated; its first name is used");
                Some(LineFinding { at, severity: Severity::Warning, message })
            }
            Ok(Some(NameLine { guid, name, warning })) => {
                names.push((guid, name.into()));
                warning
            }
            Err(finding) => Some(finding),
        };
        let Some(LineFinding { at, severity, message }) = finding else { continue };
        diagnostics.push(Diagnostic {
            file: file.to_path_buf(),
            line: number,
            column: line.get(..at).map_or(0, |before| before.chars().count() as u32) + 1,
            severity,
            message,
            code: None,
        });
    }
    (names, diagnostics)
}

struct LineFinding {
    /// Byte offset in the line.
    at: usize,
    severity: Severity,
    message: String,
}

/// A line with an entry.
struct NameLine {
    guid: Guid,
    name: String,
    warning: Option<LineFinding>,
}

/// Parses a line; `None` for a line without an entry.
fn entry(line: &str) -> Result<Option<NameLine>, LineFinding> {
    let start = line.trim_start();
    let at = line.len() - start.len();
    if start.is_empty() || start.starts_with('#') {
        return Ok(None);
    }
    let end = start.find(|c: char| c.is_ascii_whitespace() || c == '#').unwrap_or(start.len());
    let (word, rest) = start.split_at(end);
    let Some(guid) = literal::number(word) else {
        let message = format!("`{word}` is not a node GUID, such as 0x0008f10400411a08");
        return Err(LineFinding { at, severity: Severity::Error, message });
    };
    let name_at = at + end + (rest.len() - rest.trim_start().len());
    let rest = rest.trim_start();
    let is_quoted = rest.starts_with('"');
    let text = if is_quoted { &rest[1..] } else { rest };
    let (name, after) = text.split_at(text.find(['"', '#']).unwrap_or(text.len()));
    let after_at = name_at + usize::from(is_quoted) + name.len();
    let name = printable(if is_quoted { name } else { name.trim_end() });
    if name.is_empty() {
        return Err(warn(name_at, "a name is missing here; the line is ignored"));
    }
    let extra = after.strip_prefix('"').map_or("", str::trim_start);
    let warning = if is_quoted && after.is_empty() {
        Some(warn(after_at, "a quotation mark is missing"))
    } else if is_quoted && after.starts_with('#') {
        Some(warn(after_at, "the name ends at `#`, as in OpenSM"))
    } else if !extra.is_empty() && !extra.starts_with('#') {
        Some(warn(after_at + 1, "text after the name is ignored"))
    } else {
        None
    };
    Ok(Some(NameLine { guid: Guid(guid), name, warning }))
}

fn warn(at: usize, message: &str) -> LineFinding {
    LineFinding { at, severity: Severity::Warning, message: message.to_owned() }
}

/// The name with blanks in place of control characters.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The note for a map that cannot be read; `None` for the default map that does not exist.
pub(super) fn unreadable(options: &Options, error: &ReadError) -> Option<Note> {
    let is_optional = options.node_name_map_name.is_none() && error.is_not_found();
    (!is_optional).then(|| Note::new(Severity::Error, None, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<(u64, String)>, Vec<String>) {
        let (names, found) = parse(Path::new("map"), text);
        let names = names.into_iter().map(|(guid, name)| (guid.0, name.to_string())).collect();
        (names, found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_are_read_as_by_opensm() {
        let text = "# names\n\n0x10 \"spine 1\" # rack 4\n  0x11\tleaf 2  # x\n18 \"a\n022 one\n\
                    0x13 \"a\u{7}b\"\r\n";
        let (names, found) = parsed(text);
        let wanted = [(16, "spine 1"), (17, "leaf 2"), (18, "a"), (19, "a b")];
        assert_eq!(names, wanted.map(|(guid, name)| (guid, name.to_owned())));
        assert_eq!(
            found,
            [
                "map:5:6: a quotation mark is missing",
                "map:6:1: GUID 0x0000000000000012 is repeated; its first name is used"
            ]
        );
    }

    #[test]
    fn errors_and_doubtful_lines_are_located() {
        let text = "spine 1\n0x5\n0x6 \"\"\n0x7 \"a#b\"\n0x8 \"a\" b\n 0x1g x\n";
        let (names, found) = parsed(text);
        assert_eq!(names, [(7, "a".to_owned()), (8, "a".to_owned())]);
        assert_eq!(
            found,
            [
                "map:1:1: `spine` is not a node GUID, such as 0x0008f10400411a08",
                "map:2:4: a name is missing here; the line is ignored",
                "map:3:5: a name is missing here; the line is ignored",
                "map:4:7: the name ends at `#`, as in OpenSM",
                "map:5:8: text after the name is ignored",
                "map:6:2: `0x1g` is not a node GUID, such as 0x0008f10400411a08",
            ]
        );
        let (_, found) = parse(Path::new("map"), text);
        let errors = found.iter().filter(|found| found.severity == Severity::Error);
        assert_eq!(errors.count(), 2);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(?s).*") {
            let (names, _) = parse(Path::new("f"), &text);
            proptest::prop_assert!(names.len() <= text.lines().count());
        }

        #[test]
        fn written_names_are_read(names in proptest::collection::btree_map(
            proptest::num::u64::ANY, "[ -!$-~]*[!$-~]", 0..8,
        )) {
            let lines = names.iter().map(|(guid, name)| format!("{guid:#x} \"{name}\" # c\n"));
            let text: String = lines.collect();
            let (read, found) = parsed(&text);
            proptest::prop_assert_eq!(found, Vec::<String>::new());
            proptest::prop_assert_eq!(read, names.into_iter().collect::<Vec<_>>());
        }
    }
}
