//! The entries of all switches for some LIDs: forwarding tables transposed.

use super::Lft;
use crate::ids::Lid;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use std::hint::black_box;
use std::sync::Arc;

/// Bytes between two columns. Without them, the entries of one switch would map to the same CPU cache sets if
/// the number of switches is a power of two.
const PADDING: usize = 64;

/// Number of switches whose blocks are looked up together, so that they fit into the CPU's first cache.
const TILE: usize = 128;

/// For each of some LIDs the output port of each switch; [`LFT_NO_PATH`] without an entry.
pub struct LftColumns {
    entries: Vec<u8>,
    switches: usize,
}

/// A LID in a block: where its entry is, and where its column begins.
struct Place {
    offset: usize,
    column: usize,
}

impl LftColumns {
    /// The columns of `lids`, in this order, for as many switches; those without a table have no entries.
    pub fn new(tables: &[Arc<Lft>], switches: usize, lids: impl Iterator<Item = Lid>) -> Self {
        let stride = switches + PADDING;
        let mut places: Vec<(usize, Place)> = lids
            .enumerate()
            .map(|(index, lid)| {
                let place = Place { offset: lid.index() % LFT_BLOCK, column: index * stride };
                (lid.index() / LFT_BLOCK, place)
            })
            .collect();
        let mut entries = vec![LFT_NO_PATH; places.len() * stride];
        places.sort_by_key(|(block, _)| *block);
        let tables = &tables[..tables.len().min(switches)];
        // A block is found once for all its LIDs.
        for (tile, first) in tables.chunks(TILE).zip((0..).step_by(TILE)) {
            for group in places.chunk_by(|(one, _), (other, _)| one == other) {
                let number = group[0].0 as u32;
                let blocks: Vec<&[u8]> = tile.iter().map(|table| table.block(number)).collect();
                // The blocks lie apart: in a short loop, the processor waits for many of them at once.
                let firsts = blocks.iter().filter_map(|block| block.first());
                black_box(firsts.fold(0, |all, &entry| all ^ entry));
                for (block, switch) in blocks.iter().zip(first..) {
                    if block.len() == LFT_BLOCK {
                        for (_, Place { offset, column }) in group {
                            entries[column + switch] = block[*offset];
                        }
                    }
                }
            }
        }
        Self { entries, switches }
    }

    /// The entries for each LID, by switch.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.chunks_exact(self.switches + PADDING).map(|column| &column[..self.switches])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_the_entries_of_all_tables() {
        let mut tables = vec![table(200, 1), Arc::new(Lft::empty(Lid(0))), table(100, 9)];
        tables.extend((0..150).map(|salt| table(150, salt)));
        let lids = [130, 1, 63, 64, 200, 127, 128, 5000].map(Lid);
        let columns = LftColumns::new(&tables, 160, lids.into_iter());
        assert_eq!(columns.iter().count(), lids.len());
        for (column, lid) in columns.iter().zip(lids) {
            let tables = (0..160).map(|switch| tables.get(switch));
            let expected: Vec<u8> =
                tables.map(|table| table.map_or(LFT_NO_PATH, |table| table.entry(lid))).collect();
            assert_eq!(column, expected, "LID {}", lid.0);
        }
    }

    fn table(max: u16, salt: u8) -> Arc<Lft> {
        let mut entries = Lft::unused_entries(Lid(max));
        for (entry, lid) in entries.iter_mut().zip(0..=max) {
            *entry = (lid as u8).wrapping_mul(7).wrapping_add(salt);
        }
        Arc::new(Lft::from(&entries[..]))
    }
}
