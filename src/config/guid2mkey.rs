//! The file guid2mkey in OSM_CACHE_DIR, in OpenSM's format: the M_Keys of all ports, without which
//! a subnet manager cannot change ports that an earlier one has protected.
//!
//! A record is one line, followed by an empty line: port GUID and M_Key, in hexadecimal.
//!
//! ```text
//! 0x0002c90300000001 0x00000000000000aa
//!
//! ```
//!
//! Invalid records are reported and dropped.

use super::Diagnostic;
use super::cache_record::{self, RecordError};
use crate::ids::{Guid, MKey};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// M_Key by port GUID.
pub type Guid2MKey = BTreeMap<Guid, MKey>;

/// Parses the text of a file guid2mkey. Among records with the same GUID, the first applies.
pub fn parse(file: &Path, text: &str) -> (Guid2MKey, Vec<Diagnostic>) {
    let mut map = Guid2MKey::new();
    let mut diagnostics = Vec::new();
    for (number, line) in cache_record::lines(text) {
        match record(line, &map) {
            Ok((guid, key)) => drop(map.insert(guid, key)),
            Err(error) => diagnostics.push(cache_record::diagnostic(file, number, error)),
        }
    }
    (map, diagnostics)
}

/// Messages contain no word of the line: with exchanged columns, the first one is the key.
fn record(line: &str, map: &Guid2MKey) -> Result<(Guid, MKey), RecordError> {
    let mut words = cache_record::words(line);
    let mut number = |what: &str| {
        let (column, word) = cache_record::present(words.next(), what)?;
        cache_record::parse_number(word)
            .ok_or_else(|| (column, format!("{what} is not a number of 64 bits")))
    };
    let guid = Guid(number("the port GUID")?);
    let key = MKey(number("the M_Key")?);
    if let Some((column, _)) = words.next() {
        return Err((column, "unexpected text after the M_Key".into()));
    }
    if guid.0 == 0 {
        return Err((0, "the port GUID is 0".into()));
    }
    if map.contains_key(&guid) {
        return Err((0, "the port has an M_Key in an earlier line".into()));
    }
    Ok((guid, key))
}

/// Renders the file, with records in ascending order of GUIDs.
pub fn emit(map: &Guid2MKey) -> String {
    let mut text = String::with_capacity(map.len() * 39);
    for (guid, key) in map {
        // Writing to a String cannot fail.
        let _ = write!(text, "{guid} 0x{:016x}\n\n", key.0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_a_file_of_opensm() {
        let text =
            "0x0000000000200000 0x0000000000000000\n\n0x0000000000100001 0x11223344aabbccdd\n\n";
        let (map, diagnostics) = parse(Path::new("guid2mkey"), text);
        assert_eq!(diagnostics, []);
        assert_eq!(map[&Guid(0x20_0000)], MKey::NONE);
        assert_eq!(map[&Guid(0x10_0001)], MKey(0x1122_3344_AABB_CCDD));
        assert_eq!(emit(&map).len(), text.len());
    }

    #[test]
    fn invalid_records_are_located_and_dropped_without_their_key() {
        for (text, kept, places) in [
            ("0x1 0x5ec\n\nnonsense 0x5ec\n", vec![1], vec![(3, 1)]),
            ("0x1\n", vec![], vec![(1, 0)]),
            ("0x0 0x5ec\n", vec![], vec![(1, 0)]),
            ("0x1 0x5ecx\n", vec![], vec![(1, 5)]),
            ("0x1 0x5ec00000000000000000\n", vec![], vec![(1, 5)]),
            ("0x1 0x0 0x5ec\n", vec![], vec![(1, 9)]),
            ("0x1 1\n0x1 0x5ec\n\t0x2 2\r\n", vec![1, 2], vec![(2, 0)]),
        ] {
            let (map, diagnostics) = parse(Path::new("guid2mkey"), text);
            let found: Vec<_> = diagnostics.iter().map(|one| (one.line, one.column)).collect();
            assert_eq!((map.keys().map(|guid| guid.0).collect(), found), (kept, places), "{text}");
            for shown in diagnostics.iter().map(ToString::to_string) {
                assert!(!shown.contains("5ec"), "{shown}");
            }
        }
    }

    proptest! {
        #[test]
        fn emitted_maps_are_read_back(entries in prop::collection::btree_map(1u64.., any::<u64>(), 0..9)) {
            let map: Guid2MKey =
                entries.into_iter().map(|(guid, key)| (Guid(guid), MKey(key))).collect();
            prop_assert_eq!(parse(Path::new("guid2mkey"), &emit(&map)), (map, vec![]));
        }

        #[test]
        fn any_text_is_read_without_panic(text: String) {
            let (map, _) = parse(Path::new("guid2mkey"), &text);
            prop_assert!(!map.contains_key(&Guid(0)));
        }
    }
}
