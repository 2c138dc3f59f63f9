//! The file neighbors in OSM_CACHE_DIR, in OpenSM's format: the ports at both ends of each cable.
//! With guid2mkey it tells the M_Key of a port that is still to be reached.
//!
//! A record is one line, followed by an empty line: port GUID and port number of either end. All
//! ports of a switch have the GUID of its port 0. Each cable has a record for each of its ends.
//!
//! ```text
//! 0x0002c90300000001:1 0x0002c90300000010:12
//!
//! 0x0002c90300000010:12 0x0002c90300000001:1
//!
//! ```
//!
//! Invalid records are reported and dropped.

use super::Diagnostic;
use super::cache_record::{self, RecordError};
use crate::ids::{Guid, PortNum};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// End of a cable: port GUID and port number.
pub type End = (Guid, PortNum);

/// The far end of each end of a cable.
pub type Neighbors = BTreeMap<End, End>;

/// Parses the text of a file neighbors. Among records for the same end, the first applies. A record
/// without one for the way back is invalid.
pub fn parse(file: &Path, text: &str) -> (Neighbors, Vec<Diagnostic>) {
    let mut found: BTreeMap<End, (End, u32)> = BTreeMap::new();
    let mut errors: Vec<(u32, RecordError)> = Vec::new();
    for (number, line) in cache_record::lines(text) {
        match record(line) {
            Ok((near, _)) if found.contains_key(&near) => {
                errors.push((number, (0, format!("{} already has a neighbor", display(near)))));
            }
            Ok((near, far)) => drop(found.insert(near, (far, number))),
            Err(error) => errors.push((number, error)),
        }
    }
    let mut map = Neighbors::new();
    let mut stale: Vec<(u32, String)> = Vec::new();
    for (&near, &(far, number)) in &found {
        if found.get(&far).is_some_and(|&(back, _)| back == near) {
            map.insert(near, far);
        } else {
            let near = display(near);
            let far = display(far);
            stale.push((number, format!("{far} does not name its neighbor {near}")));
        }
    }
    errors.extend(stale_records(stale));
    errors.sort_by_key(|(number, _)| *number);
    let diagnostics =
        errors.into_iter().map(|(number, error)| cache_record::diagnostic(file, number, error));
    (map, diagnostics.collect())
}

/// One error for all records without one for the way back, which cables leave that were exchanged
/// while no SM was running.
fn stale_records(mut stale: Vec<(u32, String)>) -> Option<(u32, RecordError)> {
    stale.sort();
    let count = stale.len();
    let (number, first) = stale.into_iter().next()?;
    let text = match count {
        1 => first,
        _ => format!("{count} records are stale, the first: {first}"),
    };
    Some((number, (0, text)))
}

fn record(line: &str) -> Result<(End, End), RecordError> {
    let mut words = cache_record::words(line);
    let near = end(words.next(), "a port")?;
    let far = end(words.next(), "the neighbor")?;
    cache_record::end(words, "the neighbor")?;
    if near == far {
        return Err((0, format!("{} is its own neighbor", display(near))));
    }
    Ok((near, far))
}

/// Parses one end, such as `0x0002c90300000001:12`.
fn end(word: Option<(u32, &str)>, what: &str) -> Result<End, RecordError> {
    let (column, word) = cache_record::present(word, what)?;
    let (guid, num) = word
        .split_once(':')
        .ok_or_else(|| wrong(what, word, "a port number after \":\" is missing", column))?;
    let guid = cache_record::parse_number(guid).filter(|&guid| guid != 0);
    let guid = guid.ok_or_else(|| wrong(what, word, "the port GUID is invalid", column))?;
    let num = cache_record::parse_number(num).filter(|num| (1..=254).contains(num));
    let num =
        num.ok_or_else(|| wrong(what, word, "the port number is not between 1 and 254", column))?;
    Ok((Guid(guid), PortNum(num as u8)))
}

fn wrong(what: &str, word: &str, problem: &str, column: u32) -> (u32, String) {
    (column, format!("{what} {word}: {problem}"))
}

fn display((guid, num): End) -> String {
    format!("{guid}:{num}")
}

/// Renders the file, with records in ascending order.
pub fn emit(map: &Neighbors) -> String {
    let mut text = String::with_capacity(map.len() * 45);
    for (&near, &far) in map {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}:{} {}:{}\n\n", near.0, near.1, far.0, far.1);
    }
    text
}

/// Records a cable. Cables that were at its ends before are removed.
pub fn connect(map: &mut Neighbors, a: End, b: End) {
    if map.get(&a) == Some(&b) && map.get(&b) == Some(&a) {
        return;
    }
    for (near, far) in [(a, b), (b, a)] {
        if let Some(last) = map.insert(near, far).filter(|last| *last != far)
            && map.get(&last) == Some(&near)
        {
            map.remove(&last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "neighbors";

    fn at(guid: u64, num: u8) -> End {
        (Guid(guid), PortNum(num))
    }

    #[test]
    fn reads_a_file_of_opensm() {
        let text = "0x0000000000200000:1 0x0000000000100001:12\n\n\
                    0x0000000000100001:12 0x0000000000200000:1\n\n";
        let (map, diagnostics) = parse(Path::new(FILE), text);
        assert_eq!(diagnostics, []);
        assert_eq!(map[&at(0x20_0000, 1)], at(0x10_0001, 12));
        assert_eq!(emit(&map).len(), text.len());
    }

    #[test]
    fn invalid_records_are_located_and_dropped() {
        for (text, kept, places) in [
            ("0x1:1 0x2:2\n\n0x2:2 0x1:1\n", 2, vec![]),
            ("0x1:1 0x2:2\n", 0, vec![(1, 0)]),
            ("0x1:1 0x2:2\n\n0x2:2 0x3:1\n", 0, vec![(1, 0)]),
            ("0x1:1 0x2\n", 0, vec![(1, 7)]),
            ("0x1:1\n", 0, vec![(1, 0)]),
            ("0x1:0 0x2:2\n", 0, vec![(1, 1)]),
            ("0x1:255 0x2:2\n", 0, vec![(1, 1)]),
            ("0x0:1 0x2:2\n", 0, vec![(1, 1)]),
            ("1:1 nonsense:2\n", 0, vec![(1, 5)]),
            ("0x1:1 0x1:1\n", 0, vec![(1, 0)]),
            ("0x1:1 0x2:2 x\n0x1:1 0x2:2\n0x2:2 0x1:1\n", 2, vec![(1, 13)]),
            ("0x1:1 0x2:2\n0x2:2 0x1:1\n0x1:1 0x3:3\n", 2, vec![(3, 0)]),
        ] {
            let (map, diagnostics) = parse(Path::new(FILE), text);
            let found: Vec<_> = diagnostics.iter().map(|one| (one.line, one.column)).collect();
            assert_eq!((map.len(), found), (kept, places), "{text}");
        }
    }

    #[test]
    fn a_cable_replaces_those_at_its_ends() {
        let a = at(1, 1);
        let b = at(2, 1);
        let c = at(3, 1);
        let d = at(4, 1);
        let mut map = Neighbors::new();
        connect(&mut map, a, b);
        connect(&mut map, c, d);
        connect(&mut map, b, c);
        assert_eq!(map, Neighbors::from([(b, c), (c, b)]));
    }

    proptest! {
        #[test]
        fn any_cables_are_read_back(cables in prop::collection::vec(((1u64..9, 1u8..4), (1u64..9, 1u8..4)), 0..20)) {
            let mut map = Neighbors::new();
            for (a, b) in cables.into_iter().filter(|(a, b)| a != b) {
                connect(&mut map, at(a.0, a.1), at(b.0, b.1));
            }
            prop_assert!(map.iter().all(|(near, far)| map.get(far) == Some(near)));
            prop_assert_eq!(parse(Path::new(FILE), &emit(&map)), (map, vec![]));
        }

        #[test]
        fn any_text_is_read_without_panic(text: String) {
            let (map, _) = parse(Path::new(FILE), &text);
            prop_assert!(map.iter().all(|(near, far)| map.get(far) == Some(near)));
        }
    }
}
