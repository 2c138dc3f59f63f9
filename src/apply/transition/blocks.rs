//! The changes of one block of forwarding tables, and which of them must wait for which.
//!
//! LIDs have nothing to do with each other: each has its own tree. What must be obeyed is found
//! LID by LID, on the few switches that send it elsewhere than before ([`super::column`]); the
//! others do as they always did and only join them.
//!
//! The entry of a switch that sends packets over a link which is not ACTIVE yet, and now sends them
//! over one that is, is late: it waits until the ports are up.

use super::column::{Column, End, Ground};
use crate::apply::delta::Delta;
use crate::apply::item::Item;
use crate::fabric::{PortId, SwitchId};
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
pub(super) struct Turn<'a> {
    /// The Set.
    pub item: Item,
    /// The switch.
    pub switch: SwitchId,
    held: Held<'a>,
    wanted: &'a [u8],
    /// LinearFDBTop.
    top: Lid,
}

/// The LID that is changed at a switch, after it was changed at another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Wait {
    /// Who waits: an index of [`Block::turns`].
    pub turn: u32,
    /// Which LID of the block.
    pub lid: u8,
    /// For whom.
    pub on: u32,
}

/// Everything about the changes of one block number; sets are bit masks by LID of the block, one
/// for each turn.
pub(super) struct Block<'a> {
    /// The switches whose block changes.
    pub turns: Vec<Turn<'a>>,
    /// LIDs that change.
    pub changed: Vec<u64>,
    /// LIDs that must wait until ports are ACTIVE.
    pub late: Vec<u64>,
    /// LIDs without a way at present.
    pub urgent: Vec<u64>,
    /// LIDs beyond LinearFDBTop: entries are in use only after it was raised.
    pub beyond_top: Vec<u64>,
    /// LIDs whose new entry comes after that of the next switch on the new way.
    pub committed: Vec<u64>,
    /// What late LIDs wait for: turn, LID (as a mask), and a port whose link must be ACTIVE.
    pub links: Vec<(u32, u64, PortId)>,
    /// The order, sorted.
    pub waits: Vec<Wait>,
}

impl<'a> Turn<'a> {
    fn new(delta: &Delta<'a>, item: Item) -> Option<Self> {
        let node = delta.fabric.node(item.node);
        let held = delta.held_lft_block(item);
        let held = match held {
            Some(_) if delta.is_pending(item.node, AttrId::LINEAR_FT, item.attr_mod) => {
                Held::Unsure
            }
            Some(held) => Held::Known(held),
            None => Held::Empty,
        };
        let top = Lid(node.switch_info.linear_fdb_top());
        Some(Self { item, switch: node.switch?, held, wanted: delta.lft_block(item), top })
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

    fn changes(&self, lid: Lid) -> bool {
        self.is_unsure() || self.old(lid) != self.new_port(lid)
    }
}

fn entry(block: &[u8], lid: Lid) -> Option<u8> {
    block.get(lid.index() % LFT_BLOCK).copied()
}

impl<'a> Block<'a> {
    /// What has to be obeyed when these blocks, all with the same number, change.
    pub(super) fn new(delta: &Delta<'a>, items: &[Item]) -> Self {
        let turns: Vec<Turn<'a>> =
            items.iter().filter_map(|&item| Turn::new(delta, item)).collect();
        let none = vec![0; turns.len()];
        let mut block = Self {
            changed: none.clone(),
            late: none.clone(),
            urgent: none.clone(),
            beyond_top: none.clone(),
            committed: none,
            links: Vec::new(),
            waits: Vec::new(),
            turns,
        };
        // Nobody forwards anything yet: there is nothing to be careful about.
        let is_live = block.turns.iter().any(|turn| !matches!(turn.held, Held::Empty));
        let first = items.first().map_or(0, |item| item.attr_mod as usize * LFT_BLOCK);
        let mut ground = is_live.then(|| Ground::new(delta, &block.turns));
        for index in 0..LFT_BLOCK {
            let Ok(lid) = u16::try_from(first + index) else { break };
            match &mut ground {
                Some(ground) => block.add_lid(ground, Lid(lid)),
                None => block.changed.iter_mut().for_each(|lids| *lids |= 1 << index),
            }
        }
        block.waits.sort_unstable();
        block.waits.dedup();
        block
    }

    fn add_lid(&mut self, ground: &mut Ground<'_>, lid: Lid) {
        let bit = 1 << (lid.index() % LFT_BLOCK);
        let mut nodes = Vec::new();
        for (turn, index) in self.turns.iter().zip(0u32..) {
            if turn.changes(lid) {
                nodes.push(index);
                self.changed[index as usize] |= bit;
            }
            if lid > turn.top {
                self.beyond_top[index as usize] |= bit;
            }
        }
        if nodes.is_empty() {
            return;
        }
        let column = Column::new(ground, &self.turns, nodes, lid);
        for (node, &turn) in column.nodes.iter().enumerate() {
            if !column.had[node] {
                self.urgent[turn as usize] |= bit;
            } else if column.waits_for_link[node] {
                self.late[turn as usize] |= bit;
                let links = column.dark_links(node).into_iter();
                self.links.extend(links.map(|link| (turn, bit, link)));
            }
        }
        let lid = (lid.index() % LFT_BLOCK) as u8;
        for (node, on) in column.waits() {
            let turn = column.nodes[node as usize];
            self.waits.push(Wait { turn, lid, on: column.nodes[on as usize] });
            if column.new[node as usize].end == End::Node(on) {
                self.committed[turn as usize] |= bit;
            }
        }
    }
}
