//! Tables that OpenSM dumps beside the forwarding tables: `opensm-sl2vl.dump`, the SL to VL mappings, and
//! `opensm.mcfdbs`, the multicast forwarding tables.

use crate::ids::{Guid, Mlid};
use std::collections::BTreeMap;

/// Number of mappings in a row.
const SLS: usize = 16;

/// SL to VL mappings by the GUID of a switch, or of the port of a channel adapter or router, and by input
/// and output port, which are 0 for the latter.
pub type SlToVlDump = BTreeMap<Guid, BTreeMap<(u8, u8), [u8; SLS]>>;

/// Output ports by the GUID of a switch and MLID.
pub type MulticastDump = BTreeMap<Guid, BTreeMap<u16, Vec<u8>>>;

/// Reads the text of opensm-sl2vl.dump.
///
/// # Errors
/// The first line that is not in the format, with its number.
pub fn sl_to_vl(text: &str) -> Result<SlToVlDump, String> {
    read(text, "a mapping", |line| {
        if line.is_empty() || line.starts_with('#') {
            return Some(TableDumpLine::Heading);
        }
        match line.split_ascii_whitespace().find_map(guid) {
            Some(guid) => Some(TableDumpLine::Device(guid)),
            None => mapping(line),
        }
    })
}

/// Reads the text of opensm.mcfdbs.
///
/// # Errors
/// The first line that is not in the format, with its number.
pub fn multicast(text: &str) -> Result<MulticastDump, String> {
    read(text, "an entry", |line| {
        if line.is_empty() || line.starts_with("LID") {
            return Some(TableDumpLine::Heading);
        }
        match line.strip_prefix("Switch") {
            Some(name) => guid(name.trim()).map(TableDumpLine::Device),
            None => entry(line),
        }
    })
}

enum TableDumpLine<K, V> {
    /// An empty line, or headings of columns.
    Heading,
    /// The rows of a device follow.
    Device(Guid),
    Row(K, V),
}

/// Reads a dump, whose lines `parse` understands. `row` names a row in the error.
fn read<K: Ord, V>(
    text: &str,
    row: &str,
    parse: impl Fn(&str) -> Option<TableDumpLine<K, V>>,
) -> Result<BTreeMap<Guid, BTreeMap<K, V>>, String> {
    let mut dump: BTreeMap<Guid, BTreeMap<K, V>> = BTreeMap::new();
    let mut device = None;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let rows = device.and_then(|guid| dump.get_mut(&guid));
        match (parse(line), rows) {
            (Some(TableDumpLine::Heading), _) => {}
            (Some(TableDumpLine::Device(guid)), _) => {
                device = Some(guid);
                dump.entry(guid).or_default();
            }
            (Some(TableDumpLine::Row(key, value)), Some(rows)) => {
                rows.insert(key, value);
            }
            (Some(TableDumpLine::Row(..)) | None, _) => {
                return Err(format!("line {number}: not {row} of this format"));
            }
        }
    }
    Ok(dump)
}

/// Input port, output port and mapping: `1   2   : 0  1  2 …`.
fn mapping(line: &str) -> Option<TableDumpLine<(u8, u8), [u8; SLS]>> {
    let (ports, vls) = line.split_once(':')?;
    let mut ports = ports.split_ascii_whitespace().map(str::parse::<u8>);
    let input = ports.next()?.ok()?;
    let output = ports.next()?.ok()?;
    let vls: Option<Vec<u8>> = vls.split_ascii_whitespace().map(|vl| vl.parse().ok()).collect();
    let vls: [u8; SLS] = vls?.try_into().ok()?;
    let is_valid = ports.next().is_none() && vls.iter().all(|&vl| vl < SLS as u8);
    is_valid.then_some(TableDumpLine::Row((input, output), vls))
}

/// MLID and output ports: `0xC001 : 0x001  0x003`.
fn entry(line: &str) -> Option<TableDumpLine<u16, Vec<u8>>> {
    let (mlid, ports) = line.split_once(':')?;
    let mlid = u16::from_str_radix(mlid.trim().strip_prefix("0x")?, 16).ok()?;
    let ports: Option<Vec<u8>> = ports
        .split_ascii_whitespace()
        .map(|text| u8::from_str_radix(text.strip_prefix("0x")?, 16).ok())
        .collect();
    let ports = ports?;
    (mlid >= Mlid::FIRST.0).then_some(TableDumpLine::Row(mlid, ports))
}

/// A GUID of 16 digits, which may be followed by a comma.
fn guid(word: &str) -> Option<Guid> {
    let digits = word.trim_end_matches(',').strip_prefix("0x")?;
    let number = u64::from_str_radix(digits, 16).ok();
    number.filter(|_| digits.len() == 16).map(Guid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SL_TO_VL: &str = "Switch 0x0000000000200000, base LID 2, \"sw 0,0,0\"\n\
        #in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15\n\
        #--------------------------------------------------------\n\
        0   1   : 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  15 \n\
        1   1   : 0  0  0  0  0  0  0  0  0  0  0  0  0  0  0  0 \n\
        #--------------------------------------------------------\n\n\
        Channel Adapter 0x0000000010000001, base LID 1, \"h : 1\"\n\
        0   0   : 1  1  1  1  1  1  1  1  1  1  1  1  1  1  1  1 \n";
    const MULTICAST: &str =
        "\nSwitch 0x0000000000200000\nLID    : Out Port(s)\n0xC000 : 0x001  0x011 \n0xC001 :\n";

    #[test]
    fn dumps_of_opensm_are_read() {
        let dump = sl_to_vl(SL_TO_VL).expect("a dump");
        let switch = &dump[&Guid(0x20_0000)];
        assert_eq!(switch.len(), 2);
        assert_eq!(switch[&(0, 1)][14..], [6, 15]);
        assert_eq!(dump[&Guid(0x1000_0001)][&(0, 0)], [1; 16]);
        let dump = multicast(MULTICAST).expect("a dump");
        assert_eq!(dump[&Guid(0x20_0000)][&0xC000], [1, 17]);
        assert_eq!(dump[&Guid(0x20_0000)][&0xC001], [0; 0]);
        assert_eq!(multicast(""), Ok(MulticastDump::new()), "there are no groups");
    }

    #[test]
    fn damaged_lines_are_located() {
        let cases = [
            (SL_TO_VL.replace("6  15", "6  16"), 4),
            (SL_TO_VL.replace("6  15", "6"), 4),
            (SL_TO_VL.replacen("Switch 0x", "Switch ", 1), 1),
            (SL_TO_VL.replace("1   1   :", "1   1   1 :"), 5),
        ];
        for (text, line) in cases {
            let error = sl_to_vl(&text).expect_err("damaged");
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
        for (part, other, line) in
            [("0x011", "0x111", 4), ("0xC000", "0x0001", 4), ("Switch 0x", "Switch ", 2)]
        {
            let error = multicast(&MULTICAST.replace(part, other)).expect_err("damaged");
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
    }
}
