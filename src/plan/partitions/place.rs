//! The table index of each key.

use super::members::WantedKeys;
use crate::config::options::Options;
use crate::ids::Pkey;
use crate::wire::attr::tables::PkeyBlock;

/// Marks a key without an index.
const NONE: u16 = u16::MAX;

/// Scratch table from key to index, reused for all ports. All entries are [`NONE`] between uses.
pub struct KeyIndex(Vec<u16>);

impl Default for KeyIndex {
    fn default() -> Self {
        Self(vec![NONE; 1 << 16])
    }
}

/// The table that a port holds before planning.
#[derive(Clone, Copy, Debug)]
pub struct PreviousTable<'a> {
    /// The blocks read from the device.
    pub table: &'a [PkeyBlock],
    /// Removed keys with their former indexes.
    pub removed: &'a [(Pkey, u16)],
}

/// A planned table, and the keys that do not fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedKeys {
    /// The key at each index; 0 for an empty entry.
    pub table: Vec<Pkey>,
    /// Keys for which the table is too small.
    pub left_out: Vec<Pkey>,
    /// Removed keys with their former indexes, for the next plan.
    pub removed: Vec<(Pkey, u16)>,
}

/// Places the keys of `wanted` in a table of `cap` entries.
///
/// With `keep_pkey_indexes`, a present key keeps its index and a returning key gets its former one.
/// A new key is placed behind all present and removed keys, so that an index cached by a client is
/// reused late, and in a gap only if the table has no entry behind them. The key that belongs at
/// index 0 moves there and frees its former index.
pub fn place(
    wanted: &WantedKeys,
    previous: PreviousTable<'_>,
    cap: usize,
    options: &Options,
    key_index: &mut KeyIndex,
) -> PlacedKeys {
    let both = options.allow_both_pkeys;
    let (old, earlier): (Vec<Pkey>, _) = if options.keep_pkey_indexes {
        (previous.table.iter().flat_map(|block| block.0).take(cap).collect(), previous.removed)
    } else {
        (Vec::new(), &[][..])
    };
    for (index, &key) in old.iter().enumerate().filter(|(_, key)| key.base() != 0) {
        let slot = &mut key_index.0[key_name(key, both)];
        // If the limited and the full key share a name, the full one (the greater value) is in use.
        if old.get(usize::from(*slot)).is_none_or(|other| other.0 < key.0) {
            *slot = index as u16;
        }
    }
    let first = first_key(wanted, both);
    let mut table = vec![Pkey(0); cap];
    let mut new = Vec::new();
    for &key in &wanted.keys {
        let found = usize::from(key_index.0[key_name(key, both)]);
        match table.get(found) {
            _ if Some(key) == first => table[0] = key,
            Some(Pkey(0)) if found > 0 => table[found] = key,
            _ => new.push(key),
        }
    }
    old.iter().for_each(|&key| key_index.0[key_name(key, both)] = NONE);
    let last = old.iter().rposition(|&key| is_other(key, first, both)).unwrap_or(0);
    let removed_indexes = earlier
        .iter()
        .filter(|(key, _)| is_other(*key, first, both))
        .map(|&(_, index)| index.into());
    let behind = removed_indexes.fold(last, usize::max) + 1;
    let left_out = append(&mut table, behind, earlier, new);
    debug_assert_eq!(table.len(), cap, "no key is placed behind the end of the table");
    let removed = removed(&old, earlier, &table, both, key_index);
    PlacedKeys { table, left_out, removed }
}

/// The name by which a key is found in a [`KeyIndex`]: without `both`, the limited and the full key
/// of a partition share one.
fn key_name(key: Pkey, both: bool) -> usize {
    usize::from(if both { key.0 } else { key.base() })
}

/// True if `key` is used and is not the key at index 0.
fn is_other(key: Pkey, first: Option<Pkey>, both: bool) -> bool {
    key.0 != 0 && first.is_none_or(|first| key_name(first, both) != key_name(key, both))
}

/// The key that belongs at index 0: the configured one, or else the key of the default partition.
fn first_key(wanted: &WantedKeys, both: bool) -> Option<Pkey> {
    if let Some((_, Some(key))) = wanted.index0 {
        return Some(key);
    }
    let full = Some(Pkey::DEFAULT_FULL).filter(|key| contains_key(&wanted.keys, key));
    debug_assert!(both || full.is_none() || !contains_key(&wanted.keys, &Pkey::DEFAULT_LIMITED));
    full.or_else(|| Some(Pkey::DEFAULT_LIMITED).filter(|key| contains_key(&wanted.keys, key)))
}

fn contains_key(keys: &[Pkey], key: &Pkey) -> bool {
    keys.contains(key)
}

/// Places new keys: at the index in `earlier` if it is free, else at the first free index from
/// `behind` on, else in the first gap. Returns the keys that do not fit.
fn append(
    table: &mut [Pkey],
    mut behind: usize,
    earlier: &[(Pkey, u16)],
    new: Vec<Pkey>,
) -> Vec<Pkey> {
    let cap = table.len();
    let mut gap = 1;
    let mut left_out = Vec::new();
    for key in new {
        let own = earlier.iter().find(|(other, _)| *other == key);
        let own = own.map(|&(_, index)| usize::from(index)).filter(|index| is_free(table, index));
        let found = own.or_else(|| {
            let found = (behind..cap).find(|index| is_free(table, index));
            behind = found.map_or(cap, |index| index + 1);
            found
        });
        let found = found.or_else(|| {
            let free = (gap..cap).find(|index| is_free(table, index));
            gap = free.map_or(cap, |index| index + 1);
            free
        });
        match found {
            Some(index) => table[index] = key,
            None => left_out.push(key),
        }
    }
    left_out
}

fn is_free(table: &[Pkey], index: &usize) -> bool {
    table.get(*index).is_some_and(|key| key.0 == 0)
}

/// The keys of the `old` table, and those removed `earlier`, that `table` lacks, with their former
/// indexes. A key whose former index holds a key of another name is dropped.
fn removed(
    old: &[Pkey],
    earlier: &[(Pkey, u16)],
    table: &[Pkey],
    both: bool,
    key_index: &mut KeyIndex,
) -> Vec<(Pkey, u16)> {
    if earlier.is_empty() && table.starts_with(old) {
        return Vec::new();
    }
    table.iter().for_each(|key| key_index.0[usize::from(key.0)] = 0);
    let is_left = |&(key, index): &(Pkey, u16)| {
        let now = table.get(usize::from(index));
        let is_index_left =
            now.is_none_or(|&now| now.0 == 0 || key_name(now, both) == key_name(key, both));
        index > 0 && !is_at_index_0(&key_index.0, key) && is_index_left
    };
    let stood = old.iter().copied().zip(0..).filter(|(key, _)| key.base() != 0);
    let mut removed: Vec<(Pkey, u16)> = stood.filter(is_left).collect();
    let fresh = removed.len();
    for entry in earlier.iter().filter(|entry| is_left(entry)) {
        if removed[..fresh].iter().all(|(key, _)| *key != entry.0) {
            removed.push(*entry);
        }
    }
    table.iter().for_each(|key| key_index.0[usize::from(key.0)] = NONE);
    removed
}

fn is_at_index_0(key_index_0: &[u16], key: Pkey) -> bool {
    key_index_0[usize::from(key.0)] != NONE
}

/// The keys that a switch port needs to pass the traffic of `held`: the limited key of a partition
/// is redundant if the full one is held.
pub fn without_implied(held: &[Pkey], key_index: &mut KeyIndex) -> Vec<Pkey> {
    held.iter().for_each(|key| key_index.0[usize::from(key.0)] = 0);
    let needed = held.iter().copied().filter(|key| !is_implied(&key_index.0, key)).collect();
    held.iter().for_each(|key| key_index.0[usize::from(key.0)] = NONE);
    needed
}

fn is_implied(key_index_0: &[u16], key: &Pkey) -> bool {
    !key.is_full() && key_index_0[usize::from(key.0 | 0x8000)] == 0
}
