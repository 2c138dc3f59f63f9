//! Dumps of routes that the engine `file` loads: `lfts_file` in the format of opensm-lfts.dump, and
//! `lid_matrix_dump_file` in that of opensm-lid-matrix.dump (opensm(8), options -U and -M).

use super::Diagnostic;
use crate::config::text_file::without_comment;
use crate::ids::{Guid, Lid};
use crate::notes::Severity;
use std::path::Path;

/// The forwarding tables of a dump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LftDump {
    /// Node GUIDs of the switches with their entries, in file order.
    pub switches: Vec<(Guid, Vec<LftEntry>)>,
}

/// An entry of a forwarding table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LftEntry {
    pub lid: Lid,
    /// Output port.
    pub port: u8,
    /// Port GUID of the destination, if the line has it.
    pub destination: Option<Guid>,
    /// Line of the file, from 1.
    pub line: u32,
}

/// The min hop tables of a dump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LidMatrixDump {
    /// Node GUIDs of the switches with the hops by LID, in file order.
    pub switches: Vec<(Guid, Vec<LidHops>)>,
}

/// The hops to a LID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LidHops {
    pub lid: Lid,
    /// Hops by port, of which port 0 has the least; 0xFF is no path.
    pub hops: Vec<u8>,
    /// Port GUID of the destination, if the line has it.
    pub destination: Option<Guid>,
}

/// Parses a dump of forwarding tables.
///
/// # Errors
/// The first line that is not in the format, as OpenSM does not load the rest either; or that the
/// file ends inside a section although other sections have a line for their end.
pub fn lfts(file: &Path, text: &str) -> Result<LftDump, Diagnostic> {
    let mut dump = LftDump::default();
    let mut ended_sections = 0;
    let mut last_line = None;
    for line in lines(file, text) {
        if line.text.ends_with("lids dumped") {
            ended_sections = dump.switches.len();
        }
        if line.text.is_empty() {
            continue;
        }
        if line.text.starts_with("Multicast mlids") {
            return Err(line.error(line.text, "this is a dump of multicast tables"));
        }
        if line.text.starts_with("Unicast lids") {
            dump.switches.push((line.switch_guid()?, Vec::new()));
        } else if let (Some((_, entries)), Some(rest)) =
            (dump.switches.last_mut(), line.text.strip_prefix("0x"))
        {
            let (lid, rest) = line.lid(rest, |c| c.is_ascii_whitespace())?;
            let word = rest.split_ascii_whitespace().next().unwrap_or("");
            let port = word.parse().map_err(|_| line.error(word, "an output port is missing"))?;
            let destination = line.destination();
            entries.push(LftEntry { lid, port, destination, line: line.number });
        }
        last_line = Some(line);
    }
    match (last_line, dump.switches.last()) {
        (Some(line), Some((guid, _))) if (1..dump.switches.len()).contains(&ended_sections) => {
            let message = format!(
                "the file is incomplete: it ends inside the section of switch {guid}, without the \
                 line \"N lids dumped\" that ends other sections"
            );
            Err(line.error(line.text, &message))
        }
        _ => Ok(dump),
    }
}

/// Parses a dump of min hop tables.
///
/// # Errors
/// The first line that is not in the format.
pub fn lid_matrix(file: &Path, text: &str) -> Result<LidMatrixDump, Diagnostic> {
    let mut dump = LidMatrixDump::default();
    for line in lines(file, text) {
        if line.text.starts_with("Switch") {
            dump.switches.push((line.switch_guid()?, Vec::new()));
        } else if let (Some((_, rows)), Some(rest)) =
            (dump.switches.last_mut(), line.text.strip_prefix("0x"))
        {
            let (lid, rest) = line.lid(rest, |c| c == ':' || c.is_ascii_whitespace())?;
            let numbers = without_comment(rest);
            let words = numbers.trim_start_matches(':').split_ascii_whitespace();
            let hops = words.map(|word| {
                u8::from_str_radix(word, 16)
                    .map_err(|_| line.error(word, "a number of hops from 00 to ff is expected"))
            });
            let hops: Vec<u8> = hops.collect::<Result<_, _>>()?;
            rows.push(LidHops { lid, hops, destination: line.destination() });
        }
    }
    Ok(dump)
}

/// A line without blanks at its ends and its number.
struct DumpLine<'a> {
    file: &'a Path,
    number: u32,
    whole: &'a str,
    text: &'a str,
}

/// The lines that are not comments.
fn lines<'a>(file: &'a Path, text: &'a str) -> impl Iterator<Item = DumpLine<'a>> {
    let lines = (1..).zip(text.lines());
    let lines =
        lines.map(move |(number, whole)| DumpLine { file, number, whole, text: whole.trim() });
    lines.filter(|line| !line.text.starts_with('#'))
}

impl<'a> DumpLine<'a> {
    /// An error at a part of the line.
    fn error(&self, part: &str, message: &str) -> Diagnostic {
        let offset = (part.as_ptr() as usize).checked_sub(self.whole.as_ptr() as usize);
        let before = offset.and_then(|offset| self.whole.get(..offset)).unwrap_or("");
        Diagnostic {
            file: self.file.to_path_buf(),
            line: self.number,
            column: before.chars().count() as u32 + 1,
            severity: Severity::Error,
            message: message.to_owned(),
            code: None,
        }
    }

    /// The GUID after " guid 0x".
    fn switch_guid(&self) -> Result<Guid, Diagnostic> {
        let digits = self.text.split_once(" guid 0x").map(|(_, rest)| word(rest));
        let guid = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        guid.map(Guid).ok_or_else(|| {
            self.error(self.text, "the header of a switch has no \"guid 0x\" with its node GUID")
        })
    }

    /// The LID at the begin of `rest`, and what follows; `ends` accepts the next character.
    fn lid(&self, rest: &'a str, ends: fn(char) -> bool) -> Result<(Lid, &'a str), Diagnostic> {
        let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or("");
        let after = &rest[digits.len()..];
        match u16::from_str_radix(digits, 16) {
            Ok(lid) if after.starts_with(ends) => Ok((Lid(lid), after)),
            _ => Err(self.error(rest, "a LID of 4 hexadecimal digits is expected")),
        }
    }

    /// The port GUID after " portguid 0x".
    fn destination(&self) -> Option<Guid> {
        let (_, rest) = self.text.split_once(" portguid 0x")?;
        let digits = rest.split([':', ' ']).next()?;
        u64::from_str_radix(digits, 16).ok().filter(|&guid| guid != 0).map(Guid)
    }
}

/// The text up to the first blank.
fn word(text: &str) -> &str {
    text.split_ascii_whitespace().next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_with_their_destinations() {
        let text = "# tables\nUnicast lids [0-3] of switch Lid 2 guid 0x0000000000000a01 ('s'):\n\
                    0x0001 003 # Channel Adapter portguid 0x0000000000000b02: 'h'\n\
                    0x0002 000 # Switch portguid 0x0000000000000a01: 's'\n\
                    0x0003 004 # unknown node and type\n3 lids dumped\n";
        let dump = lfts(Path::new("dump"), text).expect("a dump");
        let [(guid, entries)] = &dump.switches[..] else { panic!("{dump:?}") };
        assert_eq!(*guid, Guid(0xa01));
        let found: Vec<_> =
            entries.iter().map(|e| (e.lid.0, e.port, e.destination, e.line)).collect();
        let expected =
            [(1, 3, Some(Guid(0xb02)), 3), (2, 0, Some(Guid(0xa01)), 4), (3, 4, None, 5)];
        assert_eq!(found, expected);
    }

    #[test]
    fn hops_are_read_as_they_are_dumped() {
        let text = "Switch: guid 0x0a01\n0x0001: 01 ff 01 02 # portguid 0x0000000000000b02\n";
        let dump = lid_matrix(Path::new("dump"), text).expect("a dump");
        let hops =
            LidHops { lid: Lid(1), hops: vec![1, 0xff, 1, 2], destination: Some(Guid(0xb02)) };
        assert_eq!(dump.switches, [(Guid(0xa01), vec![hops])]);
    }

    #[test]
    fn mistakes_are_located() {
        let header = "Unicast lids [0-3] of switch Lid 2 guid 0x0a01 ('s'):\n";
        let cases = [
            ("Unicast lids [0-3] of switch Lid 2\n".to_owned(), "dump:1:1: "),
            (format!("{header}0xzz 3\n"), "dump:2:3: a LID of 4 hexadecimal digits is expected"),
            (format!("{header}0x0001 x\n"), "dump:2:8: an output port is missing"),
            (format!("{header}Multicast mlids\n"), "dump:2:1: this is a dump of multicast tables"),
            (
                format!("{header}0x0001 003\n1 lids dumped\n{header}0x0001 003 # Chan"),
                "dump:5:1: the file is incomplete: it ends inside the section of switch 0x",
            ),
        ];
        for (text, expected) in cases {
            let error = lfts(Path::new("dump"), &text).expect_err("a mistake").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = lid_matrix(Path::new("m"), "Switch: guid 0x1\n0x0001: 01 zz\n");
        let error = error.expect_err("a mistake").to_string();
        assert_eq!(error, "m:2:12: a number of hops from 00 to ff is expected");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(?s).*") {
            for header in ["", "Unicast lids guid 0x1 \n", "Switch guid 0x1 \n"] {
                let text = format!("{header}{text}");
                let _ = (lfts(Path::new("f"), &text), lid_matrix(Path::new("f"), &text));
            }
        }
    }
}
