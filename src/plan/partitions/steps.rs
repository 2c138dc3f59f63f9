//! The order in which the blocks of a P_Key table are written.
//!
//! A Set replaces a block of 32 entries at once, but the blocks of a table are written one after
//! the other, and in no certain order. When a key moves from one block to another, its old place
//! must stand until the new one does, or the port is without the key in between, and traffic of
//! a partition it never left is dropped. So a table changes in steps: a step holds the Sets that
//! may be on their way together, and the next begins when all of them were answered.

use crate::ids::Pkey;
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};
use std::collections::{HashMap, HashSet};

/// The most steps that are taken in one go. Where keys stay at their indexes few suffice: to
/// make room for a key that moves, to move it, and to clear its old place, with a detour before. Where they close up
/// (`keep_pkey_indexes` FALSE), each block may have to wait for the next one.
pub const MAX_ROUNDS: usize = 64;

/// The blocks to be written next to bring a table of `cap` entries that holds `held` to `wanted`;
/// none if it is there. A key that is in both, with whichever membership, is in the table throughout.
///
/// Keys that are to change places with each other across blocks do so by way of an index that is
/// free before and after. There is one exception: where there is none, as in a full table, the
/// step is to write everything.
pub fn next_step(
    held: &[PkeyBlock],
    wanted: &[(u16, PkeyBlock)],
    cap: usize,
) -> Vec<(u16, PkeyBlock)> {
    let old = |number: u16| held.get(usize::from(number)).copied().unwrap_or_default();
    let differs = |&&(number, block): &&(u16, PkeyBlock)| {
        held.get(usize::from(number)).is_none_or(|held| *held != block)
    };
    let changed: Vec<(u16, PkeyBlock)> = wanted.iter().filter(differs).copied().collect();
    if changed.len() <= 1 {
        return changed;
    }
    let homes = Homes::new(wanted, &old);
    let step: Vec<(u16, PkeyBlock)> = changed
        .iter()
        .map(|&(number, wanted)| (number, homes.towards(number, old(number), wanted, &old)))
        .filter(|&(number, block)| block != old(number))
        .collect();
    if !step.is_empty() {
        return step;
    }
    detour(&homes, &changed, &old, cap).map_or(changed, |block| vec![block])
}

/// Puts a copy of a key that is in the way of others, and they in its, where nothing stands or is to
/// stand.
fn detour(
    homes: &Homes<'_>,
    changed: &[(u16, PkeyBlock)],
    old: &impl Fn(u16) -> PkeyBlock,
    cap: usize,
) -> Option<(u16, PkeyBlock)> {
    let slots = |number: u16, wanted: PkeyBlock| {
        let pairs = old(number).0.into_iter().zip(wanted.0);
        pairs.enumerate().map(move |(index, pair)| ((number, index), pair))
    };
    let mut blocks: Vec<_> =
        homes.wanted.iter().map(|(&number, &block)| (number, *block)).collect();
    blocks.sort_unstable_by_key(|(number, _)| *number);
    let mut all = blocks.iter().flat_map(|&(number, wanted)| slots(number, wanted));
    let exists = |(number, index): (u16, usize)| usize::from(number) * PKEY_BLOCK + index < cap;
    let is_free = |&(place, pair): &_| pair == (Pkey(0), Pkey(0)) && exists(place);
    let ((number, index), _) = all.find(is_free)?;
    let in_the_way = changed.iter().flat_map(|&(number, wanted)| slots(number, wanted));
    let mut in_the_way = in_the_way.filter(|(_, (held, wanted))| held != wanted);
    let key = in_the_way.find_map(|(_, (held, _))| homes.of(held).map(|_| held))?;
    let mut block = old(number);
    block.0[index] = key;
    Some((number, block))
}

/// Where the keys of a table are to stand.
struct Homes<'a> {
    wanted: HashMap<u16, &'a PkeyBlock>,
    by_key: HashMap<Pkey, (u16, usize)>,
    by_partition: HashMap<u16, (u16, usize)>,
    /// Keys that stand at an index that nothing else is to have: there they stay until they are
    /// at home.
    spares: HashSet<Pkey>,
}

impl<'a> Homes<'a> {
    fn new(wanted: &'a [(u16, PkeyBlock)], old: &impl Fn(u16) -> PkeyBlock) -> Self {
        let (by_key, by_partition, spares) = Default::default();
        let mut homes = Self { wanted: HashMap::new(), by_key, by_partition, spares };
        for (number, block) in wanted {
            homes.wanted.insert(*number, block);
            let pairs = old(*number).0.into_iter().zip(block.0);
            homes.spares.extend(pairs.filter(|(_, wanted)| wanted.0 == 0).map(|(held, _)| held));
            for (index, &key) in block.0.iter().enumerate().filter(|(_, key)| key.base() != 0) {
                homes.by_key.insert(key, (*number, index));
                homes.by_partition.insert(key.base(), (*number, index));
            }
        }
        homes
    }

    /// The place of a key, or of the other key of its partition.
    fn of(&self, key: Pkey) -> Option<(u16, usize)> {
        self.by_key.get(&key).or_else(|| self.by_partition.get(&key.base())).copied()
    }

    /// The block on its way from `held` to `wanted`: as far as no key is lost that is not at
    /// home yet.
    fn towards(
        &self,
        number: u16,
        held: PkeyBlock,
        wanted: PkeyBlock,
        old: &impl Fn(u16) -> PkeyBlock,
    ) -> PkeyBlock {
        let is_home = |(block, index): (u16, usize)| {
            let wanted = self.wanted.get(&block).map(|wanted| wanted.0[index]);
            wanted == Some(old(block).0[index])
        };
        let mut next = wanted;
        // Keys that stay in this block move at once, unless their new place is not free yet.
        for _ in 0..=PKEY_BLOCK {
            let before = next;
            for index in 0..PKEY_BLOCK {
                let key = held.0[index];
                let Some(home) = self.of(key).filter(|_| key != wanted.0[index]) else { continue };
                let moves_along = home.0 == number && next.0[home.1] == wanted.0[home.1];
                let is_spared = wanted.0[index].0 != 0 && self.spares.contains(&key);
                if !moves_along && !is_home(home) && !is_spared {
                    next.0[index] = key;
                }
            }
            if next == before {
                break;
            }
        }
        next
    }
}
