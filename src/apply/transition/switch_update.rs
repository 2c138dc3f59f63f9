//! The block of one switch: what it holds and what it is to hold.

use crate::apply::delta::Delta;
use crate::apply::set_id::SetId;
use crate::fabric::SwitchId;
use crate::ids::Lid;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};

/// What a switch is known to hold of a block.
#[derive(Clone, Copy)]
enum Held<'a> {
    /// These entries, in use up to LinearFDBTop.
    Known(&'a [u8]),
    /// Either of two versions: the last Set was not acknowledged.
    Unsure,
    /// Nothing: the table is new.
    Empty,
}

/// A switch whose block changes.
pub(super) struct SwitchUpdate<'a> {
    /// The Set.
    pub set: SetId,
    /// The switch.
    pub switch: SwitchId,
    held: Held<'a>,
    wanted: &'a [u8],
    /// LinearFDBTop.
    pub top: Lid,
}

impl<'a> SwitchUpdate<'a> {
    pub(super) fn new(delta: &Delta<'a>, set: SetId) -> Option<Self> {
        let node = delta.fabric.node(set.node);
        let held = delta.held_lft_block(set);
        let held = match held {
            Some(_) if delta.is_pending(set.node, AttrId::LINEAR_FT, set.attr_mod) => Held::Unsure,
            Some(held) => Held::Known(held),
            None => Held::Empty,
        };
        let top = Lid(node.switch_info.linear_fdb_top());
        Some(Self { set, switch: node.switch?, held, wanted: delta.lft_block(set), top })
    }

    /// True if the table is new, so that the switch forwards nothing by it.
    pub(super) fn is_new(&self) -> bool {
        matches!(self.held, Held::Empty)
    }

    /// True if it is not known which of two versions of the block is in force.
    pub(super) fn is_unsure(&self) -> bool {
        matches!(self.held, Held::Unsure)
    }

    /// True if the block may be written with entries of both versions.
    pub(super) fn can_be_mixed(&self) -> bool {
        matches!(self.held, Held::Known(_))
    }

    /// The block with the new entries of `lids` only.
    pub(super) fn mixed(&self, lids: u64) -> [u8; LFT_BLOCK] {
        std::array::from_fn(|index| {
            let old = match self.held {
                Held::Known(entries) => entries.get(index),
                _ => None,
            };
            let entry = if lids >> index & 1 == 1 { self.wanted.get(index) } else { old };
            entry.copied().unwrap_or(LFT_NO_PATH)
        })
    }

    /// Where the switch sends a LID of the block at present; `None` if it drops it.
    pub(super) fn old(&self, lid: Lid) -> Option<u8> {
        match self.held {
            Held::Known(entries) if lid <= self.top => {
                entry(entries, lid).filter(|&port| port != LFT_NO_PATH)
            }
            _ => None,
        }
    }

    /// Where it is to send it.
    pub(super) fn new_port(&self, lid: Lid) -> Option<u8> {
        entry(self.wanted, lid).filter(|&port| port != LFT_NO_PATH)
    }

    pub(super) fn changes(&self, lid: Lid) -> bool {
        self.is_unsure() || self.old(lid) != self.new_port(lid)
    }
}

fn entry(block: &[u8], lid: Lid) -> Option<u8> {
    block.get(lid.index() % LFT_BLOCK).copied()
}
