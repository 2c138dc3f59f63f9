//! The change of one block at one switch: the entries it holds and the planned ones.

use crate::apply::delta::Delta;
use crate::apply::set_id::SetId;
use crate::fabric::SwitchId;
use crate::ids::Lid;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};

/// The entries that a switch holds.
#[derive(Clone, Copy)]
enum EntriesBefore<'a> {
    /// Known entries, in effect up to LinearFDBTop.
    Known(&'a [u8]),
    /// Either of two versions, because the last Set was not acknowledged.
    Unsure,
    /// No entries, because the table is new.
    Empty,
}

/// The change of a block at one switch.
pub(super) struct SwitchUpdate<'a> {
    pub set: SetId,
    pub switch: SwitchId,
    held: EntriesBefore<'a>,
    wanted: &'a [u8],
    /// LinearFDBTop as read from the switch.
    pub top: Lid,
}

impl<'a> SwitchUpdate<'a> {
    pub(super) fn new(delta: &Delta<'a>, set: SetId) -> Option<Self> {
        let node = delta.fabric.node(set.node);
        let held = delta.held_lft_block(set);
        let held = match held {
            Some(_) if delta.is_pending(set.node, AttrId::LINEAR_FT, set.attr_mod) => {
                EntriesBefore::Unsure
            }
            Some(held) => EntriesBefore::Known(held),
            None => EntriesBefore::Empty,
        };
        let top = Lid(node.switch_info.linear_fdb_top());
        Some(Self { set, switch: node.switch?, held, wanted: delta.lft_block(set), top })
    }

    /// True if the table is new, so that the switch does not forward by it yet.
    pub(super) fn is_new(&self) -> bool {
        matches!(self.held, EntriesBefore::Empty)
    }

    /// True if either of two versions of the block may be in effect.
    pub(super) fn is_unsure(&self) -> bool {
        matches!(self.held, EntriesBefore::Unsure)
    }

    /// True if an intermediate version with old and new entries can be written.
    pub(super) fn can_be_mixed(&self) -> bool {
        matches!(self.held, EntriesBefore::Known(_))
    }

    /// The intermediate version with new entries for `lids` and old entries for all other LIDs.
    pub(super) fn mixed(&self, lids: u64) -> [u8; LFT_BLOCK] {
        std::array::from_fn(|index| {
            let old = match self.held {
                EntriesBefore::Known(entries) => entries.get(index),
                _ => None,
            };
            let entry = if lids >> index & 1 == 1 { self.wanted.get(index) } else { old };
            entry.copied().unwrap_or(LFT_NO_PATH)
        })
    }

    /// The present output port for a LID of the block; `None` if the switch drops it.
    pub(super) fn old(&self, lid: Lid) -> Option<u8> {
        match self.held {
            EntriesBefore::Known(entries) if lid <= self.top => {
                entry(entries, lid).filter(|&port| port != LFT_NO_PATH)
            }
            _ => None,
        }
    }

    /// The planned output port for a LID of the block.
    pub(super) fn new_port(&self, lid: Lid) -> Option<u8> {
        entry(self.wanted, lid).filter(|&port| port != LFT_NO_PATH)
    }

    /// The LIDs of the block whose entry changes, as a bit mask.
    pub(super) fn changed(&self) -> u64 {
        self.mask(|lid| self.is_unsure() || self.old(lid) != self.new_port(lid))
    }

    /// The LIDs of the block beyond LinearFDBTop, as a bit mask.
    pub(super) fn beyond_top(&self) -> u64 {
        self.mask(|lid| lid > self.top)
    }

    fn mask(&self, holds: impl Fn(Lid) -> bool) -> u64 {
        let first = self.set.attr_mod as usize * LFT_BLOCK;
        let lids = (0..LFT_BLOCK)
            .filter(|index| u16::try_from(first + index).is_ok_and(|lid| holds(Lid(lid))));
        lids.fold(0, |mask, index| mask | 1 << index)
    }
}

fn entry(block: &[u8], lid: Lid) -> Option<u8> {
    block.get(lid.index() % LFT_BLOCK).copied()
}
