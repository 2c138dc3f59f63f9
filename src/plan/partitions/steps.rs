//! The order in which the blocks of a P_Key table are written.
//!
//! A Set replaces a block of 32 entries at once, but the blocks of a table are written one after
//! the other, and in no certain order. When a key moves from one block to another, its old place
//! must stand until the new one does, or the port is without the key in between, and traffic of
//! a partition it never left is dropped. So a table changes in steps: a step holds the Sets that
//! may be on their way together, and the next begins when all of them were answered.

use crate::ids::Pkey;
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};
use std::collections::HashMap;

/// The most steps that are taken in one go. Where keys stay at their indexes three suffice: to
/// make room for a key that moves, to move it, and to clear its old place. Where they close up
/// (`keep_pkey_indexes` FALSE), each block may have to wait for the next one.
pub const MOST: usize = 64;

/// The blocks to be written next to bring a table that holds `held` to `wanted`; none if it is
/// there. A key that is in both, with whichever membership, is in the table throughout.
///
/// There is one exception: keys can be meant to change places with each other across blocks, in
/// a full table or without `keep_pkey_indexes`. Then the step is to write everything.
pub fn next_step(held: &[PkeyBlock], wanted: &[(u16, PkeyBlock)]) -> Vec<(u16, PkeyBlock)> {
    let old = |number: u16| held.get(usize::from(number)).copied().unwrap_or_default();
    let differs = |&&(number, block): &&(u16, PkeyBlock)| {
        held.get(usize::from(number)).is_none_or(|held| *held != block)
    };
    let changed: Vec<(u16, PkeyBlock)> = wanted.iter().filter(differs).copied().collect();
    if changed.len() <= 1 {
        return changed;
    }
    let homes = Homes::new(wanted);
    let step: Vec<(u16, PkeyBlock)> = changed
        .iter()
        .map(|&(number, wanted)| (number, homes.towards(number, old(number), wanted, &old)))
        .filter(|&(number, block)| block != old(number))
        .collect();
    if step.is_empty() { changed } else { step }
}

/// Where the keys of a table are to stand.
struct Homes<'a> {
    wanted: HashMap<u16, &'a PkeyBlock>,
    by_key: HashMap<Pkey, (u16, usize)>,
    by_partition: HashMap<u16, (u16, usize)>,
}

impl<'a> Homes<'a> {
    fn new(wanted: &'a [(u16, PkeyBlock)]) -> Self {
        let mut homes =
            Self { wanted: HashMap::new(), by_key: HashMap::new(), by_partition: HashMap::new() };
        for (number, block) in wanted {
            homes.wanted.insert(*number, block);
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
                if !moves_along && !is_home(home) {
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
