//! Parsers of the dump files that OpenSM and torus-sm write, and comparison of tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Output port by (switch GUID, destination port GUID).
pub type Lfts = BTreeMap<(u64, u64), u8>;

/// Reads `opensm-lfts.dump`.
pub fn read_lfts(file: &Path) -> Lfts {
    let lfts = lfts(&read(file));
    assert!(!lfts.is_empty(), "{} has no entries", file.display());
    lfts
}

/// The entries in the text of `opensm-lfts.dump`, or in the output of dump_fts.
pub fn lfts(text: &str) -> Lfts {
    let mut lfts = Lfts::new();
    let mut switch = 0;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" guid 0x") {
            switch = hex(rest);
        } else if let Some((left, right)) = line.split_once(" portguid 0x") {
            let port = left.split_whitespace().nth(1).and_then(|port| port.parse().ok());
            lfts.insert((switch, hex(right)), port.expect("a port number"));
        }
    }
    lfts
}

/// Output port by (switch GUID, LID), and the port GUID of each LID.
#[derive(Clone, Default)]
pub struct LidLfts {
    pub entries: BTreeMap<(u64, u16), u8>,
    pub owners: BTreeMap<u16, u64>,
}

/// Reads `opensm-lfts.dump` with one entry for each LID; LIDs without an owner are left out.
pub fn read_lid_lfts(file: &Path) -> LidLfts {
    let mut lfts = LidLfts::default();
    let mut switch = 0;
    for line in read(file).lines() {
        if let Some((_, rest)) = line.split_once(" guid 0x") {
            switch = hex(rest);
        } else if let Some((left, right)) = line.split_once(" portguid 0x") {
            let lid = hex(left.strip_prefix("0x").expect("a LID")) as u16;
            let port = left.split_whitespace().nth(1).and_then(|port| port.parse().ok());
            lfts.entries.insert((switch, lid), port.expect("a port number"));
            lfts.owners.insert(lid, hex(right));
        }
    }
    lfts
}

/// Output ports by MLID and switch GUID.
pub type Mfts = BTreeMap<(u16, u64), Vec<u8>>;

/// Reads `opensm.mcfdbs`, whose end may not be written yet.
pub fn mfts(text: &str) -> Mfts {
    let mut mfts = Mfts::new();
    let mut switch = 0;
    for line in text.lines() {
        if let Some(guid) = line.strip_prefix("Switch ") {
            switch = prefixed_hex(guid.trim()).unwrap_or(0);
        } else if let Some((mlid, ports)) = line.split_once(':')
            && let Some(mlid) = prefixed_hex(mlid.trim())
        {
            let ports = ports.split_whitespace().filter_map(|port| Some(prefixed_hex(port)? as u8));
            mfts.insert((mlid as u16, switch), ports.collect());
        }
    }
    mfts
}

fn prefixed_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// VLs of SL 0..=15 by (port owner's GUID, input port, output port).
pub type SlToVls = BTreeMap<(u64, u8, u8), Vec<u8>>;

/// Reads the file `opensm-sl2vl.dump`, which must have entries.
pub fn read_sl_to_vls(file: &Path) -> SlToVls {
    let tables = sl_to_vls(&read(file));
    assert!(!tables.is_empty(), "{} has no entries", file.display());
    tables
}

/// Reads `opensm-sl2vl.dump`, whose end may not be written yet.
pub fn sl_to_vls(text: &str) -> SlToVls {
    let mut tables = SlToVls::new();
    let mut owner = 0;
    for line in text.lines() {
        if let Some((head, _)) = line.split_once(", base LID") {
            owner = hex(head.split_once("0x").expect("a GUID").1);
        } else if let Some((ports, vls)) = line.split_once(':')
            && !line.starts_with('#')
            && let [input, output] = numbers(ports)[..]
        {
            tables.insert((owner, input, output), numbers(vls));
        }
    }
    tables
}

fn numbers(text: &str) -> Vec<u8> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn hex(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).expect("a hexadecimal number")
}

/// A description of the first ten differences between two tables; empty if they are equal.
pub fn differences<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    ours: &BTreeMap<K, V>,
    theirs: &BTreeMap<K, V>,
) -> String {
    let mut text = String::new();
    let keys = ours.keys().chain(theirs.keys().filter(|key| !ours.contains_key(key)));
    let differing = keys.filter(|key| ours.get(key) != theirs.get(key));
    for key in differing.take(10) {
        let our = ours.get(key);
        let their = theirs.get(key);
        text.push_str(&format!("{key:x?}: ours {our:?}, theirs {their:?}\n"));
    }
    text
}
