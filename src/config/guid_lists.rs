//! Files that tune routing, one GUID per line: `guid_routing_order_file`, `port_prof_ignore_file`,
//! `hop_weights_file`, `port_search_ordering_file`, `root_guid_file`, `ids_guid_file`,
//! `cn_guid_file` and `io_guid_file` (opensm(8), options -X, -i, -w, -O, -a, -m, -u and -G).
//!
//! A line is a GUID and its numbers, separated by blanks; `#` starts a comment. Numbers are
//! decimal, hexadecimal after `0x` or octal after `0`, as in OpenSM. An invalid line is reported
//! and skipped: these files only balance load, and a typing error must not leave a fabric without
//! routes. Routing checks that the nodes and ports exist.

use super::Diagnostic;
use super::route_dumps::{LftDump, LidMatrixDump};
use crate::config::text_file::without_comment;
use crate::ids::{Guid, PortNum};
use crate::notes::{Note, Severity};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// The contents of all these files, and of the dumps that the engine `file` loads; a list is empty
/// without its file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GuidLists {
    /// Port GUIDs in the order of routing.
    pub routing_order: Vec<Guid>,
    /// Switch ports, by node GUID, that load balancing ignores.
    /// Switches with port numbers; number 0 stands for the GUID of a port.
    pub ignored_ports: Vec<(Guid, PortNum)>,
    /// Output ports with a cost other than 1.
    pub hop_weights: Vec<HopWeight>,
    /// Search orders of the ports of switches.
    pub search_orders: Vec<SearchOrder>,
    /// Node GUIDs of the root switches; `None` without a readable file, so that engines find them.
    pub roots: Option<Vec<Guid>>,
    /// IDs that replace the node GUIDs of switches when switches of equal rank are ordered.
    pub ids: Vec<(Guid, u64)>,
    /// Port GUIDs of compute nodes; `None` without a readable file.
    pub compute_nodes: Option<Vec<Guid>>,
    /// Port GUIDs of I/O nodes; `None` without a readable file.
    pub io_nodes: Option<Vec<Guid>>,
    /// The forwarding tables of `lfts_file`, or why they cannot be loaded; `None` without a file.
    pub lfts: Option<Arc<Result<LftDump, Vec<Note>>>>,
    /// The hops of `lid_matrix_dump_file`, likewise.
    pub lid_matrix: Option<Arc<Result<LidMatrixDump, Vec<Note>>>>,
}

/// Cost of an output port of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopWeight {
    /// Node GUID of the switch.
    pub switch: Guid,
    pub port: PortNum,
    /// Cost in hops, from 1.
    pub weight: u8,
}

/// Order in which routing tries the ports of a switch. Ports that are not listed follow in
/// ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchOrder {
    /// Node GUID of the switch.
    pub switch: Guid,
    /// External ports without duplicates.
    pub ports: Vec<PortNum>,
}

/// Entries of a file, and diagnostics about its invalid lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed<T> {
    /// Entries of the valid lines, in file order.
    pub entries: Vec<T>,
    /// Warnings about the invalid lines.
    pub diagnostics: Vec<Diagnostic>,
}

impl<T> Parsed<T> {
    /// Parses each line of `text` with `entry`, after its comment, which `#` starts, was removed.
    /// `entry` returns `None` for a line without an entry; its error is a byte offset and a message.
    pub(super) fn of_lines(
        file: &Path,
        text: &str,
        entry: impl Fn(&str) -> Result<Option<T>, (usize, String)>,
    ) -> Self {
        let mut parsed = Self { entries: Vec::new(), diagnostics: Vec::new() };
        for (number, line) in (1..).zip(text.lines()) {
            let line = without_comment(line);
            match entry(line) {
                Ok(Some(found)) => parsed.entries.push(found),
                Ok(None) => {}
                Err((at, message)) => parsed.diagnostics.push(Diagnostic {
                    file: file.to_path_buf(),
                    line: number,
                    column: line.get(..at).map_or(0, |before| before.chars().count() as u32) + 1,
                    severity: Severity::Warning,
                    message: format!("{message}; the line is ignored"),
                    code: None,
                }),
            }
        }
        parsed
    }
}

/// Parses a list of GUIDs. Text after a GUID is ignored, as are repetitions of a GUID.
pub fn guids(file: &Path, text: &str) -> Parsed<Guid> {
    let mut seen = HashSet::new();
    parse(file, text, |guid, rest| {
        if seen.insert(guid) {
            Ok(guid)
        } else {
            Err(rest.warning(0, format!("GUID {guid} is repeated")))
        }
    })
}

/// Parses lines of switch GUID and port number, or of a port GUID alone, which has number 0.
pub fn ports(file: &Path, text: &str) -> Parsed<(Guid, PortNum)> {
    parse(file, text, |guid, rest| match rest.words.len() {
        1 => Ok((guid, PortNum::ZERO)),
        _ => Ok((guid, rest.port(1)?)),
    })
}

/// Parses lines of switch GUID, output port and weight (1..=255).
pub fn hop_weights(file: &Path, text: &str) -> Parsed<HopWeight> {
    parse(file, text, |switch, rest| {
        let port = rest.port(1)?;
        let weight = rest.number(2, "a weight from 1 to 255", 1..=255)?;
        Ok(HopWeight { switch, port, weight: weight as u8 })
    })
}

/// Parses lines of switch GUID and ID. The last line of a switch applies.
pub fn ids(file: &Path, text: &str) -> Parsed<(Guid, u64)> {
    parse(file, text, |guid, rest| Ok((guid, rest.number(1, "an ID", 0..=u64::MAX)?)))
}

/// Parses lines of switch GUID and port numbers. The first line of a switch applies.
pub fn search_orders(file: &Path, text: &str) -> Parsed<SearchOrder> {
    let mut seen = HashSet::new();
    parse(file, text, |switch, rest| {
        let mut ports = Vec::new();
        for index in 1..rest.words.len().max(2) {
            let port = rest.port(index)?;
            if ports.contains(&port) {
                return Err(rest.warning(index, format!("port {port} is listed twice")));
            }
            ports.push(port);
        }
        if seen.insert(switch) {
            Ok(SearchOrder { switch, ports })
        } else {
            Err(rest.warning(0, format!("switch {switch} is repeated")))
        }
    })
}

/// Splits `text` into lines and passes GUID and words of each line to `entry`.
fn parse<T>(
    file: &Path,
    text: &str,
    mut entry: impl FnMut(Guid, &ListLine<'_>) -> Result<T, Diagnostic>,
) -> Parsed<T> {
    let mut parsed = Parsed { entries: Vec::new(), diagnostics: Vec::new() };
    for (number, text) in (1..).zip(text.lines()) {
        let line = ListLine::new(file, number, text);
        if line.words.is_empty() {
            continue;
        }
        match line.guid().and_then(|guid| entry(guid, &line)) {
            Ok(value) => parsed.entries.push(value),
            Err(diagnostic) => parsed.diagnostics.push(diagnostic),
        }
    }
    parsed
}

/// A line without its comment, as words with their columns (from 1).
struct ListLine<'a> {
    file: &'a Path,
    number: u32,
    words: Vec<(u32, &'a str)>,
    /// Column after the last word.
    end: u32,
}

impl<'a> ListLine<'a> {
    fn new(file: &'a Path, number: u32, text: &'a str) -> Self {
        let text = without_comment(text);
        let words = text.split_ascii_whitespace().map(|word| {
            let before = &text[..word.as_ptr() as usize - text.as_ptr() as usize];
            (before.chars().count() as u32 + 1, word)
        });
        let end = text.trim_end().chars().count() as u32 + 1;
        Self { file, number, words: words.collect(), end }
    }

    fn warning(&self, index: usize, message: String) -> Diagnostic {
        Diagnostic {
            file: self.file.to_path_buf(),
            line: self.number,
            column: self.words.get(index).map_or(self.end, |&(column, _)| column),
            severity: Severity::Warning,
            message: format!("{message}; the line is ignored"),
            code: None,
        }
    }

    fn guid(&self) -> Result<Guid, Diagnostic> {
        self.number(0, "a GUID such as 0x0002c90300000001", 1..=u64::MAX).map(Guid)
    }

    fn port(&self, index: usize) -> Result<PortNum, Diagnostic> {
        self.number(index, "a port number from 1 to 254", 1..=254).map(|port| PortNum(port as u8))
    }

    fn number(
        &self,
        index: usize,
        wanted: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Diagnostic> {
        let Some(&(_, word)) = self.words.get(index) else {
            return Err(self.warning(index, format!("{wanted} is missing here")));
        };
        let number = parse_number(word).filter(|number| range.contains(number));
        number.ok_or_else(|| self.warning(index, format!("\"{word}\" is not {wanted}")))
    }
}

/// Parses a number as C's strtoull does with base 0, without a sign.
fn parse_number(word: &str) -> Option<u64> {
    let (digits, radix) = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if word.len() > 1 && word.starts_with('0') => (&word[1..], 8),
        None => (word, 10),
    };
    // from_str_radix would take a sign.
    digits.starts_with(|c: char| c.is_ascii_hexdigit()).then_some(())?;
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages<T>(parsed: &Parsed<T>) -> Vec<String> {
        parsed.diagnostics.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn guids_keep_their_order() {
        let text = "# order\n  0x10 host one\n\n0x20#near\n017\n0x10\nH-1 0x3\n-5\n";
        let parsed = guids(Path::new("order"), text);
        assert_eq!(parsed.entries, [Guid(0x10), Guid(0x20), Guid(0o17)]);
        assert_eq!(
            messages(&parsed),
            [
                "order:6:1: GUID 0x0000000000000010 is repeated; the line is ignored",
                "order:7:1: \"H-1\" is not a GUID such as 0x0002c90300000001; the line is ignored",
                "order:8:1: \"-5\" is not a GUID such as 0x0002c90300000001; the line is ignored",
            ]
        );
    }

    #[test]
    fn ports_and_weights_are_checked() {
        let text = "0x1 3 20\n0x1 0 1\n0x1 255 1\n0x1 4 0\n0x1 4 256\n0x1 4\n0x2 0x10 0xff # far\n";
        let parsed = hop_weights(Path::new("w"), text);
        assert_eq!(parsed.entries, [weight(1, 3, 20), weight(2, 16, 255)]);
        let places: Vec<_> = parsed.diagnostics.iter().map(|d| (d.line, d.column)).collect();
        assert_eq!(places, [(2, 5), (3, 5), (4, 7), (5, 7), (6, 6)]);
        let parsed = ports(Path::new("p"), "0x1 3\n0x1\n0x1 x\n");
        assert_eq!(parsed.entries, [(Guid(1), PortNum(3)), (Guid(1), PortNum(0))]);
        assert_eq!(
            messages(&parsed),
            ["p:3:5: \"x\" is not a port number from 1 to 254; the line is ignored"]
        );
    }

    fn weight(switch: u64, port: u8, weight: u8) -> HopWeight {
        HopWeight { switch: Guid(switch), port: PortNum(port), weight }
    }

    #[test]
    fn ids_may_be_zero() {
        let parsed = ids(Path::new("ids"), "0x10 0\n0x11 0x20 # upper\n0x12\n0x13 x\n");
        assert_eq!(parsed.entries, [(Guid(0x10), 0), (Guid(0x11), 0x20)]);
        assert_eq!(
            messages(&parsed),
            [
                "ids:3:5: an ID is missing here; the line is ignored",
                "ids:4:6: \"x\" is not an ID; the line is ignored",
            ]
        );
    }

    #[test]
    fn repeated_ports_and_switches_are_reported() {
        let text = "0x1 3 1 2\n0x2 1 1\n0x3\n0x1 4\n0x4 5 x\n";
        let parsed = search_orders(Path::new("o"), text);
        let ports = vec![PortNum(3), PortNum(1), PortNum(2)];
        assert_eq!(parsed.entries, [SearchOrder { switch: Guid(1), ports }]);
        let places: Vec<_> = parsed.diagnostics.iter().map(|d| (d.line, d.column)).collect();
        assert_eq!(places, [(2, 7), (3, 4), (4, 1), (5, 7)]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(?s).*") {
            let file = Path::new("f");
            let lines = text.lines().count();
            proptest::prop_assert!(guids(file, &text).entries.len() <= lines);
            proptest::prop_assert!(search_orders(file, &text).diagnostics.len() <= lines);
            hop_weights(file, &text);
            ports(file, &text);
            ids(file, &text);
        }
    }
}
