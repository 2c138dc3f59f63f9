//! The file guid2lid in OSM_CACHE_DIR, in OpenSM's format: the LIDs of every port, so that ports
//! keep them across restarts.
//!
//! A record is one line, followed by an empty line: port GUID, first LID, last LID, in hexadecimal.
//!
//! ```text
//! 0x0002c90300000001 0x0004 0x0007
//!
//! ```
//!
//! Invalid records are reported and dropped; their ports keep the LIDs that they have.

use super::Diagnostic;
use super::cache_record::{RecordError, diagnostic, end, lines, number, words};
use crate::ids::{Guid, Lid};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// First and last LID by port GUID.
pub type Guid2Lid = BTreeMap<Guid, (Lid, Lid)>;

/// Parses the text of a file guid2lid. With `lmc` (0..=7) of the subnet, a range of several LIDs
/// must start at a multiple of 2^lmc, and only its first 2^lmc LIDs are in use.
///
/// Among records with the same GUID or a common LID, the first in the file applies.
pub fn parse(file: &Path, text: &str, lmc: u8) -> (Guid2Lid, Vec<Diagnostic>) {
    let mut map = Guid2Lid::new();
    let mut diagnostics = Vec::new();
    let mut owners: BTreeMap<u16, (Guid, u16)> = BTreeMap::new();
    for (number, line) in lines(text) {
        let checked =
            record(line).and_then(|record| check(&map, &owners, &record, lmc).map(|()| record));
        match checked {
            Ok(LidRecord { guid, first, last }) => {
                owners.insert(first.0, (guid, last_in_use(first, last, lmc)));
                map.insert(guid, (first, last));
            }
            Err(error) => diagnostics.push(diagnostic(file, number, error)),
        }
    }
    (map, diagnostics)
}

/// A line of the file.
struct LidRecord {
    guid: Guid,
    first: Lid,
    last: Lid,
}

fn record(line: &str) -> Result<LidRecord, RecordError> {
    let mut words = words(line);
    let guid = number(words.next(), "a port GUID", u64::MAX)?;
    let first = number(words.next(), "the first LID", 0xBFFF)?;
    let last = number(words.next(), "the last LID", 0xBFFF)?;
    end(words, "the last LID")?;
    Ok(LidRecord { guid: Guid(guid), first: Lid(first as u16), last: Lid(last as u16) })
}

/// Last LID of a range that is in use.
fn last_in_use(first: Lid, last: Lid, lmc: u8) -> u16 {
    let width = (1 << lmc.min(7)) - 1;
    last.0.min(first.0.saturating_add(width))
}

fn check(
    map: &Guid2Lid,
    owners: &BTreeMap<u16, (Guid, u16)>,
    &LidRecord { guid, first, last }: &LidRecord,
    lmc: u8,
) -> Result<(), RecordError> {
    if guid.0 == 0 || first.0 == 0 || first > last {
        return error(format!("invalid LID range [{first}:{last}] for {guid}"));
    }
    if let Some((first, last)) = map.get(&guid) {
        return error(format!("{guid} already has the LID range [{first}:{last}]"));
    }
    if first != last && first.0 % (1 << lmc.min(7)) != 0 {
        let range = format!("LID range [{first}:{last}] for {guid}");
        return error(format!("{range} does not start at a multiple of 2^LMC, LMC {lmc}"));
    }
    let before = owners.range(..=last_in_use(first, last, lmc)).next_back();
    if let Some((_, &(owner, end))) = before
        && end >= first.0
    {
        return error(format!("LID range [{first}:{last}] for {guid} overlaps that of {owner}"));
    }
    Ok(())
}

fn error(message: String) -> Result<(), (u32, String)> {
    Err((0, message))
}

/// Renders the file, with records in ascending order of GUIDs.
pub fn emit(map: &Guid2Lid) -> String {
    let mut text = String::with_capacity(map.len() * 35);
    for (guid, (first, last)) in map {
        // Writing to a String cannot fail.
        let _ = write!(text, "{guid} 0x{:04x} 0x{:04x}\n\n", first.0, last.0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str, lmc: u8) -> (Vec<u64>, Vec<(u32, u32)>) {
        let (map, diagnostics) = parse(Path::new("guid2lid"), text, lmc);
        let places = diagnostics.iter().map(|finding| (finding.line, finding.column)).collect();
        (map.keys().map(|guid| guid.0).collect(), places)
    }

    #[test]
    fn reads_a_file_of_opensm() {
        let text = "0x0000000000200000 0x0001 0x0001\n\n0x0000000000100001 0x0004 0x0007\n\n";
        let (map, diagnostics) = parse(Path::new("guid2lid"), text, 2);
        assert_eq!(diagnostics, []);
        assert_eq!(map[&Guid(0x10_0001)], (Lid(4), Lid(7)));
        assert_eq!(map[&Guid(0x20_0000)], (Lid(1), Lid(1)));
    }

    #[test]
    fn invalid_records_are_located_and_dropped() {
        for (text, lmc, kept, places) in [
            ("0x1 0x1 0x1\n\nnonsense 1 1\n", 0, vec![1], vec![(3, 1)]),
            ("0x1 0x1\n", 0, vec![], vec![(1, 0)]),
            ("0x1 0x1 0xc000\n", 0, vec![], vec![(1, 9)]),
            ("0x1 0x0 0x1\n", 0, vec![], vec![(1, 0)]),
            ("0x1 0x2 0x1\n", 0, vec![], vec![(1, 0)]),
            ("0x1 0x1 0x1 0x1\n", 0, vec![], vec![(1, 13)]),
            ("0x1 1 1\n0x1 2 2\n", 0, vec![1], vec![(2, 0)]),
            ("0x1 4 7\n0x2 6 6\n0x3 8 8", 2, vec![1, 3], vec![(2, 0)]),
            ("0x2 6 6\n0x1 4 7\n", 2, vec![2], vec![(2, 0)]),
            ("0x1 5 8\n", 2, vec![], vec![(1, 0)]),
            // Ranges of a larger LMC: only the first LID is in use, in any order.
            ("0x3 2 4\n0x1 1 2\n", 0, vec![1, 3], vec![]),
            ("0x1 1 2\n0x3 2 4\n", 0, vec![1, 3], vec![]),
        ] {
            assert_eq!(read(text, lmc), (kept, places), "{text}");
        }
    }

    proptest! {
        #[test]
        fn emitted_maps_are_read_back(entries in prop::collection::btree_map(1u64.., 1u16..100, 0..9)) {
            let map: Guid2Lid = (entries.keys().zip((1u16..).step_by(128)))
                .map(|(&guid, first)| (Guid(guid), (Lid(first), Lid(first))))
                .collect();
            let (back, diagnostics) = parse(Path::new("guid2lid"), &emit(&map), 0);
            prop_assert_eq!(diagnostics, vec![]);
            prop_assert_eq!(back, map);
        }

        #[test]
        fn any_text_is_read_without_panic(text: String, lmc in 0u8..8) {
            let (map, _) = parse(Path::new("guid2lid"), &text, lmc);
            prop_assert!(map.values().all(|(first, last)| first <= last));
        }
    }
}
