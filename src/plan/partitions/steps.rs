//! The order in which the blocks of a P_Key table are written.
//!
//! Input: the blocks that a port holds, and the planned ones. Result: the Sets of the next step.
//! Invariant: a key that the port holds and keeps is in its table at all times; otherwise the port
//! would drop traffic of a partition that it never left.
//!
//! A Set replaces a block of 32 entries at once, but the Sets of several blocks may take effect in
//! any order. A key that moves to another block therefore stays at its old index until the Set with
//! its new index was acknowledged. For that, a table changes in steps: the Sets of one step may be
//! outstanding together, and the next step begins when all of them were answered.

use crate::ids::Pkey;
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};
use std::collections::{HashMap, HashSet};

/// Maximum number of steps in one reconfiguration. With stable indexes four suffice (temporary
/// copy, free the target index, move the key, clear its old index). When keys are compacted
/// (`keep_pkey_indexes` FALSE), each block may have to wait for the next one, and a table has up to
/// 2048 blocks; the remaining steps follow with the next sweep.
pub const MAX_ROUNDS: usize = 64;

/// The blocks to write next to change a table of `cap` entries from `held` to `wanted`; empty if it
/// equals `wanted`. A key that is in both, with either membership, stays in the table throughout.
///
/// Keys that exchange indexes across blocks do so via a temporary copy at an index that is free
/// before and after. If no index is free (the table is full), the step writes all blocks, and keys
/// may be absent until it is complete.
pub fn next_step(
    held: &[PkeyBlock],
    wanted: &[(u16, PkeyBlock)],
    cap: usize,
) -> Vec<(u16, PkeyBlock)> {
    let changed: Vec<(u16, PkeyBlock)> = wanted
        .iter()
        .filter(|&&(number, block)| held.get(usize::from(number)).is_none_or(|held| *held != block))
        .copied()
        .collect();
    if changed.len() <= 1 {
        return changed;
    }
    let targets = TargetIndexes::new(wanted, held);
    let step: Vec<(u16, PkeyBlock)> = changed
        .iter()
        .map(|&(number, wanted)| (number, targets.advance(number, wanted, held)))
        .filter(|&(number, block)| block != block_of(held, number))
        .collect();
    if !step.is_empty() {
        return step;
    }
    temporary_copy(&targets, &changed, held, cap).map_or(changed, |block| vec![block])
}

/// The block that the port holds; blocks that were never read are empty.
fn block_of(held: &[PkeyBlock], number: u16) -> PkeyBlock {
    held.get(usize::from(number)).copied().unwrap_or_default()
}

/// The block with a temporary copy of a key, at an index that is free before and after. The copy
/// allows the key's old index to be overwritten, which resolves an exchange of indexes.
fn temporary_copy(
    targets: &TargetIndexes<'_>,
    changed: &[(u16, PkeyBlock)],
    held: &[PkeyBlock],
    cap: usize,
) -> Option<(u16, PkeyBlock)> {
    let mut blocks: Vec<_> =
        targets.wanted.iter().map(|(&number, &block)| (number, *block)).collect();
    blocks.sort_unstable_by_key(|(number, _)| *number);
    let mut all = blocks.iter().flat_map(|&(number, wanted)| entries(held, number, wanted));
    let ((number, index), _) = all.find(|&((number, index), pair)| {
        pair == (Pkey(0), Pkey(0)) && usize::from(number) * PKEY_BLOCK + index < cap
    })?;
    let in_the_way = changed.iter().flat_map(|&(number, wanted)| entries(held, number, wanted));
    let mut in_the_way = in_the_way.filter(|(_, (held, wanted))| held != wanted);
    let key = in_the_way.find_map(|(_, (held, _))| targets.of(held).map(|_| held))?;
    let mut block = block_of(held, number);
    block.0[index] = key;
    Some((number, block))
}

/// The index (block, index in the block) of each entry of a block, with the held and the wanted key.
fn entries(
    held: &[PkeyBlock],
    number: u16,
    wanted: PkeyBlock,
) -> impl Iterator<Item = ((u16, usize), (Pkey, Pkey))> + use<> {
    let pairs = block_of(held, number).0.into_iter().zip(wanted.0);
    pairs.enumerate().map(move |(index, pair)| ((number, index), pair))
}

/// The planned indexes (block, index in the block) of the keys of a table.
#[derive(Default)]
struct TargetIndexes<'a> {
    wanted: HashMap<u16, &'a PkeyBlock>,
    by_key: HashMap<Pkey, (u16, usize)>,
    by_partition: HashMap<u16, (u16, usize)>,
    /// Keys at an index that is empty in the planned table. They stay there until they are at their
    /// target index.
    spares: HashSet<Pkey>,
}

impl<'a> TargetIndexes<'a> {
    fn new(wanted: &'a [(u16, PkeyBlock)], held: &[PkeyBlock]) -> Self {
        let mut targets = Self::default();
        for (number, block) in wanted {
            targets.wanted.insert(*number, block);
            let pairs = block_of(held, *number).0.into_iter().zip(block.0);
            targets.spares.extend(pairs.filter(|(_, wanted)| wanted.0 == 0).map(|(held, _)| held));
            for (index, &key) in block.0.iter().enumerate().filter(|(_, key)| key.base() != 0) {
                targets.by_key.insert(key, (*number, index));
                targets.by_partition.insert(key.base(), (*number, index));
            }
        }
        targets
    }

    /// The target index of a key, or of the other key of its partition.
    fn of(&self, key: Pkey) -> Option<(u16, usize)> {
        self.by_key.get(&key).or_else(|| self.by_partition.get(&key.base())).copied()
    }

    /// The block `wanted`, except that keys of `held` stay which are not at their target index yet.
    fn advance(&self, number: u16, wanted: PkeyBlock, table: &[PkeyBlock]) -> PkeyBlock {
        let held = block_of(table, number);
        let mut next = wanted;
        // Keys that move within this block move at once, unless their target index is still
        // occupied.
        for _ in 0..=PKEY_BLOCK {
            let before = next;
            for index in 0..PKEY_BLOCK {
                let key = held.0[index];
                let Some(target) = self.of(key).filter(|_| key != wanted.0[index]) else {
                    continue;
                };
                let (block, index_there) = target;
                let moves_along = block == number && next.0[index_there] == wanted.0[index_there];
                let planned = self.wanted.get(&block).map(|wanted| wanted.0[index_there]);
                let is_at_target = planned == Some(block_of(table, block).0[index_there]);
                let is_spared = wanted.0[index].0 != 0 && self.spares.contains(&key);
                if !moves_along && !is_at_target && !is_spared {
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
