//! Linear forwarding tables, whose equal blocks share memory.
//!
//! In a regular fabric most switches forward most blocks of LIDs alike: of the 786,432 blocks of a
//! 16x16x16 torus with two hosts at each switch, a few in a hundred are different. Engines fill plain
//! entries ([`Lft::unused_entries`]) and turn them into a table when they are complete.

use crate::ids::Lid;
use crate::paged_vec::PagedVec;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// A block of entries, as one Set carries it (IBA 14.2.5.6).
type Block = [u8; LFT_BLOCK];

/// The block without a path.
static UNUSED: LazyLock<Arc<Block>> = LazyLock::new(|| Arc::new([LFT_NO_PATH; LFT_BLOCK]));

/// Number of tables that share their blocks with each other: enough to find most equal ones, few
/// enough that all threads have work.
pub(super) const SHARING_TABLES: usize = 128;

/// The blocks of a table. A change of some entries in all tables of a fabric, as a lost host causes,
/// copies a page of each.
type Blocks = PagedVec<Arc<Block>, 16>;

/// A linear forwarding table: the output port by LID, 0xFF for LIDs without a path. It has whole
/// blocks of 64 LIDs.
#[derive(Clone, Default)]
pub struct Lft {
    blocks: Blocks,
}

impl Lft {
    /// Creates a table without paths for LIDs 0 to `max`, rounded up to whole blocks.
    pub fn empty(max: Lid) -> Self {
        Self { blocks: Blocks::filled(UNUSED.clone(), blocks_for(max)) }
    }

    /// Entries without paths for LIDs 0 to `max`, rounded up to whole blocks.
    pub fn unused_entries(max: Lid) -> Vec<u8> {
        vec![LFT_NO_PATH; blocks_for(max) * LFT_BLOCK]
    }

    /// Tables from entries; equal blocks of up to [`SHARING_TABLES`] successive tables share memory.
    pub(super) fn shared(tables: Vec<Vec<u8>>) -> Vec<Arc<Self>> {
        let shared = tables.par_chunks(SHARING_TABLES).flat_map_iter(|tables| {
            let mut pool = BlockPool::default();
            tables.iter().map(move |entries| Arc::new(pool.table(entries, None)))
        });
        shared.collect()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.blocks.len() * LFT_BLOCK
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The entry of a LID; 0xFF beyond the end of the table.
    #[inline]
    pub fn entry(&self, lid: Lid) -> u8 {
        let block = self.blocks.get(lid.index() / LFT_BLOCK);
        block.map_or(LFT_NO_PATH, |block| block[lid.index() % LFT_BLOCK])
    }

    /// The output port for `lid`; `None` if packets to `lid` are dropped.
    #[inline]
    pub fn out(&self, lid: Lid) -> Option<u8> {
        Some(self.entry(lid)).filter(|&port| port != LFT_NO_PATH)
    }

    /// The block with this number; empty beyond the end of the table.
    pub fn block(&self, number: u32) -> &[u8] {
        self.blocks.get(number as usize).map_or(&[], |block| &block[..])
    }

    /// All blocks, from LID 0.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = &Block> + DoubleEndedIterator {
        self.blocks.range(0..self.blocks.len()).map(|block| &**block)
    }

    /// All entries, from LID 0.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = u8> + Clone + '_ {
        self.blocks.iter().flat_map(|block| block.iter().copied())
    }

    /// The highest LID with a path.
    pub fn top(&self) -> Option<usize> {
        let (number, block) =
            self.blocks().enumerate().rev().find(|(_, block)| **block != **UNUSED)?;
        let last = block.iter().rposition(|&port| port != LFT_NO_PATH)?;
        Some(number * LFT_BLOCK + last)
    }

    /// True if some LID leaves through this port.
    pub fn uses(&self, port: u8) -> bool {
        self.blocks().any(|block| block.contains(&port))
    }

    /// The LIDs whose entries differ, ascending, with the old and the new entry; those beyond the end
    /// of the shorter table are left out.
    pub fn differences<'a>(
        &'a self,
        new: &'a Self,
    ) -> impl Iterator<Item = (usize, u8, u8)> + use<'a> {
        let parts = self.blocks.unshared(&new.blocks);
        let pairs = parts.flat_map(|(first, old, new)| (first..).zip(old.iter().zip(new)));
        let differing = pairs.filter(|(_, (old, new))| !is_equal(old, new));
        differing.flat_map(|(number, (old, new))| {
            let entries = old.iter().zip(&**new).zip(number * LFT_BLOCK..);
            let unequal = entries.filter(|((old, new), _)| old != new);
            unequal.map(|((&old, &new), lid)| (lid, old, new))
        })
    }

    /// Sets the entry of a LID; does nothing beyond the end of the table.
    pub fn set(&mut self, lid: Lid, port: u8) {
        let number = lid.index() / LFT_BLOCK;
        if let Some(block) = self.blocks.get(number)
            && block[lid.index() % LFT_BLOCK] != port
        {
            Arc::make_mut(&mut self.blocks[number])[lid.index() % LFT_BLOCK] = port;
        }
    }

    /// Adds blocks without paths, or removes blocks, until the table has LIDs 0 to `max`, rounded up.
    pub fn resize(&mut self, max: Lid) {
        let wanted = blocks_for(max);
        if wanted != self.blocks.len() {
            let unused = std::iter::repeat(&*UNUSED);
            self.blocks = self.blocks.iter().chain(unused).take(wanted).cloned().collect();
        }
    }

    /// True if the table has as many blocks as one for LIDs 0 to `max`.
    pub fn has_size_for(&self, max: Lid) -> bool {
        self.blocks.len() == blocks_for(max)
    }
}

impl From<&[u8]> for Lft {
    fn from(entries: &[u8]) -> Self {
        BlockPool::default().table(entries, None)
    }
}

/// The blocks of several tables, each once.
#[derive(Default)]
pub(super) struct BlockPool {
    known: FxHashMap<Block, Arc<Block>>,
}

impl BlockPool {
    /// The table with these entries. Entries up to the next whole block have no path. It shares the
    /// blocks that `before`, an earlier table, has at the same place.
    pub(super) fn table(&mut self, entries: &[u8], before: Option<&Lft>) -> Lft {
        let blocks = entries.chunks(LFT_BLOCK).enumerate().map(|(number, part)| {
            let mut block = [LFT_NO_PATH; LFT_BLOCK];
            block[..part.len()].copy_from_slice(part);
            let held = before.and_then(|before| before.blocks.get(number));
            match held.filter(|held| ***held == block) {
                Some(held) => held.clone(),
                None if block == **UNUSED => UNUSED.clone(),
                None => self.known.entry(block).or_insert_with(|| Arc::new(block)).clone(),
            }
        });
        Lft { blocks: blocks.collect() }
    }
}

/// Number of blocks for LIDs 0 to `max`.
fn blocks_for(max: Lid) -> usize {
    max.index() / LFT_BLOCK + 1
}

fn is_equal(one: &Arc<Block>, two: &Arc<Block>) -> bool {
    Arc::ptr_eq(one, two) || one == two
}

impl PartialEq for Lft {
    fn eq(&self, other: &Self) -> bool {
        self.blocks.is_equal_by(&other.blocks, is_equal)
    }
}

impl Eq for Lft {}

impl fmt::Debug for Lft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lft({} entries)", self.entries().filter(|&port| port != LFT_NO_PATH).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<u8> {
        let mut entries = Lft::unused_entries(Lid(130));
        entries[5] = 3;
        entries[64..70].fill(7);
        entries
    }

    #[test]
    fn entries_survive_in_blocks() {
        let table = Lft::from(&entries()[..]);
        assert_eq!(table.len(), 192);
        assert!(table.entries().eq(entries()));
        assert_eq!(
            (table.out(Lid(5)), table.out(Lid(6)), table.out(Lid(500))),
            (Some(3), None, None)
        );
        assert_eq!((table.entry(Lid(69)), table.entry(Lid(500))), (7, LFT_NO_PATH));
        assert_eq!(table.top(), Some(69));
        assert_eq!(Lft::empty(Lid(9)).top(), None);
        assert!(table.uses(7) && !table.uses(4));
        assert_eq!((table.block(1)[5], table.block(3).len()), (7, 0));
    }

    #[test]
    fn equal_blocks_of_tables_are_one() {
        let tables = Lft::shared(vec![entries(), entries()]);
        let one = &tables[0];
        let two = &tables[1];
        assert!(one.blocks.iter().zip(&two.blocks).all(|(one, two)| Arc::ptr_eq(one, two)));
        assert!(Arc::ptr_eq(&one.blocks[2], &UNUSED));
        let later = BlockPool::default().table(&entries(), Some(one));
        assert!(Arc::ptr_eq(&later.blocks[0], &one.blocks[0]));
    }

    #[test]
    fn changes_concern_one_table_only() {
        let before = Lft::from(&entries()[..]);
        let mut after = before.clone();
        after.set(Lid(66), 9);
        after.set(Lid(5), LFT_NO_PATH);
        after.set(Lid(500), 1);
        assert_eq!((before.entry(Lid(66)), after.entry(Lid(66))), (7, 9));
        let differences: Vec<_> = before.differences(&after).collect();
        assert_eq!(differences, [(5, 3, LFT_NO_PATH), (66, 7, 9)]);
        assert_ne!(before, after);
        after.set(Lid(66), 7);
        after.set(Lid(5), 3);
        assert_eq!(before, after);
    }

    #[test]
    fn a_resized_table_keeps_its_entries() {
        let mut table = Lft::from(&entries()[..]);
        table.resize(Lid(70));
        assert!(table.has_size_for(Lid(127)) && !table.has_size_for(Lid(128)));
        assert_eq!(table.entry(Lid(69)), 7);
        table.resize(Lid(191));
        assert_eq!(table, Lft::from(&entries()[..]));
    }
}
