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

/// What is known of a port before its table is planned.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// The table it has, as far as it was read.
    pub table: &'a [PkeyBlock],
    /// Where keys stood that it has no more.
    pub gone: &'a [(Pkey, u16)],
}

/// A table, and the keys for which it is too small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The key of each index, 0 where there is none.
    pub table: Vec<Pkey>,
    /// Keys without a place.
    pub left_out: Vec<Pkey>,
    /// Where keys stood that the table has no more, for the next plan.
    pub gone: Vec<(Pkey, u16)>,
}

/// Puts the keys of `wanted` into a table of `cap` entries. With `keep_pkey_indexes` keys stay
/// where they were, and one that comes back gets the index that it had; new ones come behind all
/// that ever were there, so that an index a client remembers is not used again early, and into
/// gaps when there is no other room. Who is to stand at index 0 moves there, and leaves its index
/// to others.
pub fn place(
    wanted: &Wanted,
    before: Before<'_>,
    cap: usize,
    options: &Options,
    lookup: &mut Lookup,
) -> Placed {
    let both = options.allow_both_pkeys;
    let name = |key: Pkey| usize::from(if both { key.0 } else { key.base() });
    let (old, earlier): (Vec<Pkey>, _) = match options.keep_pkey_indexes {
        true => (before.table.iter().flat_map(|block| block.0).take(cap).collect(), before.gone),
        false => (Vec::new(), &[][..]),
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
    let is_other = |key: Pkey| key.0 != 0 && first.is_none_or(|first| name(first) != name(key));
    let last = old.iter().rposition(|&key| is_other(key)).unwrap_or(0);
    let past = earlier.iter().filter(|(key, _)| is_other(*key)).map(|&(_, index)| index.into());
    let behind = past.fold(last, usize::max) + 1;
    let left_out = append(&mut table, behind, earlier, new);
    let gone = gone(&old, earlier, &table, name, lookup);
    Placed { table, left_out, gone }
}

/// The key that belongs at index 0: the one the configuration wants there, or that of the
/// default partition.
fn first_key(wanted: &Wanted, both: bool) -> Option<Pkey> {
    if let Some((_, Some(key))) = wanted.index0 {
        return Some(key);
    }
    let has = |key: &Pkey| wanted.keys.contains(key);
    let full = Some(Pkey::DEFAULT_FULL).filter(has);
    debug_assert!(both || full.is_none() || !has(&Pkey::DEFAULT_LIMITED));
    full.or_else(|| Some(Pkey::DEFAULT_LIMITED).filter(has))
}

/// Gives new keys their places: the one that a key had `earlier` if it is free, or one from
/// `behind` on, or the first gap; returns those for which there is none.
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
        let is_free = |index: &usize| table.get(*index).is_some_and(|key| key.0 == 0);
        let own = earlier.iter().find(|(other, _)| *other == key);
        let own = own.map(|&(_, index)| usize::from(index)).filter(is_free);
        let found = own.or_else(|| {
            let found = (behind..cap).find(is_free);
            behind = found.map_or(cap, |index| index + 1);
            found
        });
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

/// Where the keys of the `old` table and those gone `earlier` stood that `table` does not have,
/// unless a key of another name stands there now.
fn gone(
    old: &[Pkey],
    earlier: &[(Pkey, u16)],
    table: &[Pkey],
    name: impl Fn(Pkey) -> usize,
    lookup: &mut Lookup,
) -> Vec<(Pkey, u16)> {
    if earlier.is_empty() && table.starts_with(old) {
        return Vec::new();
    }
    table.iter().for_each(|key| lookup.0[usize::from(key.0)] = 0);
    let is_here = |key: Pkey| lookup.0[usize::from(key.0)] != NONE;
    let is_left = |&(key, index): &(Pkey, u16)| {
        let now = table.get(usize::from(index)).copied().unwrap_or_default();
        index > 0 && !is_here(key) && (now.0 == 0 || name(now) == name(key))
    };
    let stood = old.iter().copied().zip(0..).filter(|(key, _)| key.base() != 0);
    let mut gone: Vec<(Pkey, u16)> = stood.filter(is_left).collect();
    let fresh = gone.len();
    for entry in earlier.iter().filter(|entry| is_left(entry)) {
        if gone[..fresh].iter().all(|(key, _)| *key != entry.0) {
            gone.push(*entry);
        }
    }
    table.iter().for_each(|key| lookup.0[usize::from(key.0)] = NONE);
    gone
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
