//! Keys → table: who stands at which index.

use super::members::Wanted;
use crate::config::options::Options;
use crate::ids::Pkey;
use crate::wire::attr::tables::PkeyBlock;

/// No index.
const NONE: u16 = u16::MAX;

/// Room to look keys up, used again for port after port. Empty between uses.
pub struct Lookup(Vec<u16>);

impl Default for Lookup {
    fn default() -> Self {
        Self(vec![NONE; 1 << 16])
    }
}

/// A table, and the keys for which it is too small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The key of each index, 0 where there is none.
    pub table: Vec<Pkey>,
    /// Keys without a place.
    pub left_out: Vec<Pkey>,
}

/// Puts the keys of `wanted` into a table of `cap` entries, which held `old`. With
/// `keep_pkey_indexes` keys stay where they were; new ones come behind all that were there, so
/// that an index a client remembers is not used again early, and into gaps when there is no
/// other room.
pub fn place(
    wanted: &Wanted,
    old: &[PkeyBlock],
    cap: usize,
    options: &Options,
    lookup: &mut Lookup,
) -> Placed {
    let both = options.allow_both_pkeys;
    let name = |key: Pkey| usize::from(if both { key.0 } else { key.base() });
    let old: Vec<Pkey> = match options.keep_pkey_indexes {
        true => old.iter().flat_map(|block| block.0).take(cap).collect(),
        false => Vec::new(),
    };
    for (index, &key) in old.iter().enumerate().filter(|(_, key)| key.base() != 0) {
        let slot = &mut lookup.0[name(key)];
        // Of the two keys of a partition the full one is the one in use.
        if old.get(usize::from(*slot)).is_none_or(|other| other.0 < key.0) {
            *slot = index as u16;
        }
    }
    let first = first_key(wanted, both);
    let mut table = vec![Pkey(0); cap];
    let mut new = Vec::new();
    for &key in &wanted.keys {
        let found = usize::from(lookup.0[name(key)]);
        match table.get(found) {
            _ if Some(key) == first => table[0] = key,
            Some(Pkey(0)) if found > 0 => table[found] = key,
            _ => new.push(key),
        }
    }
    old.iter().for_each(|&key| lookup.0[name(key)] = NONE);
    let left_out = append(&mut table, &old, new);
    Placed { table, left_out }
}

/// The key that belongs at index 0: the one the configuration wants there, or that of the
/// default partition.
fn first_key(wanted: &Wanted, both: bool) -> Option<Pkey> {
    if let Some((_, key)) = wanted.index0 {
        return Some(key);
    }
    let has = |key: &Pkey| wanted.keys.contains(key);
    let full = Some(Pkey::DEFAULT_FULL).filter(has);
    debug_assert!(both || full.is_none() || !has(&Pkey::DEFAULT_LIMITED));
    full.or_else(|| Some(Pkey::DEFAULT_LIMITED).filter(has))
}

/// Gives new keys their places; returns those for which there is none.
fn append(table: &mut [Pkey], old: &[Pkey], new: Vec<Pkey>) -> Vec<Pkey> {
    let cap = table.len();
    let mut behind = old.iter().rposition(|key| key.0 != 0).map_or(1, |last| last + 1).max(1);
    let mut gap = 1;
    let mut left_out = Vec::new();
    for key in new {
        let is_free = |index: &usize| table[*index].0 == 0;
        let found = (behind..cap).find(is_free);
        behind = found.map_or(cap, |index| index + 1);
        let found = found.or_else(|| {
            let free = (gap..cap).find(is_free);
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

/// The keys a switch port needs to let `held` pass: the limited key of a partition is not needed
/// beside the full one.
pub fn without_implied(held: &[Pkey], lookup: &mut Lookup) -> Vec<Pkey> {
    held.iter().for_each(|key| lookup.0[usize::from(key.0)] = 0);
    let implied = |key: &Pkey| !key.is_full() && lookup.0[usize::from(key.0 | 0x8000)] == 0;
    let needed = held.iter().copied().filter(|key| !implied(key)).collect();
    held.iter().for_each(|key| lookup.0[usize::from(key.0)] = NONE);
    needed
}
