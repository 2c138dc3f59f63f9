//! The order of the changes of multicast forwarding tables.
//!
//! Input: the old and the new tree of every group. Result: steps in which the trees are exchanged.
//! Invariant: no mixture of old and new entries contains a loop, in which a packet would be copied
//! forever.
//!
//! If the union of the cables of both trees has no cycle, any mixture of the trees is free of
//! loops: new branches are made first and old ones removed afterwards (make before break), and no
//! member misses a packet. If the union has a cycle, the branches that do not stay are removed from
//! all switches first, and new ones are made afterwards (break before make): members may miss
//! packets for a moment, but none loops.
//!
//! In both cases all switches change from the old mask to an intermediate one (the union or the
//! intersection of both masks), and after all of them have, to the new one. A step that changes
//! nothing is omitted.
//!
//! A strict transition ([`super::strict`]) changes all groups break before make.
//!
//! The intermediate masks of a switch whose entries are unknown are written at once, even if those of
//! others wait for links. A switch that was rebooted, or all of whose links came up again, may hold
//! stale entries that loop with new ones: these must be gone before its links are ACTIVE. An
//! unanswered Set may have left the old entries or the new ones.

use super::{Steps, is_active};
use crate::apply::acknowledged::NodeTables;
use crate::apply::delta::{Delta, mft_block};
use crate::apply::set_id::SetId;
use crate::fabric::{Fabric, NodeId, PortId, SwitchId};
use crate::ids::{Mlid, PortNum};
use crate::plan::routing::PortMask;
use crate::verify::transition::has_ring;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{MFT_BLOCK, MftBlock};
use std::collections::{BTreeMap, HashMap};

/// The way in which a group changes from its old tree to the new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Strategy {
    MakeBeforeBreak,
    BreakBeforeMake,
}

/// The old and new entries of a switch.
struct Masks<'a> {
    /// `None` if the entries of the switch are unknown.
    held: Option<&'a [(Mlid, PortMask)]>,
    wanted: &'a [(Mlid, PortMask)],
}

/// The contents that a block has one after the other.
struct Versions {
    /// `None` if what the switch holds is unknown.
    old: Option<MftBlock>,
    between: MftBlock,
    new: MftBlock,
}

/// Adds the Sets of multicast forwarding tables.
pub(super) fn add(delta: &Delta<'_>, barrier: Option<u32>, steps: &mut Steps) {
    let mut blocks: BTreeMap<u16, Vec<SetId>> = BTreeMap::new();
    for (set, _) in delta.mfts() {
        blocks.entry((set.attr_mod & 0x1FF) as u16).or_default().push(set);
    }
    if blocks.is_empty() {
        return;
    }
    let transition = MulticastTransition::new(delta, |node| delta.known(node));
    for (block, sets) in blocks {
        transition.add_block(delta, block, &sets, barrier, steps);
    }
}

/// The changes of blocks with all branches that change removed first.
pub(super) struct SeparatedBlocks {
    pub removals: Vec<Removal>,
    pub writes: Vec<(SetId, MftBlock)>,
}

/// A block without the branches that change.
pub(super) struct Removal {
    pub set: SetId,
    pub block: MftBlock,
    /// True if the content of the block at present is known.
    pub is_known: bool,
    /// True if nothing is left to write afterwards.
    pub is_last: bool,
}

/// The changes of multicast forwarding tables, separated in removals and writes.
pub(super) fn separated(delta: &Delta<'_>) -> SeparatedBlocks {
    let mut blocks = SeparatedBlocks { removals: Vec::new(), writes: Vec::new() };
    let sets: Vec<SetId> = delta.mfts().map(|(set, _)| set).collect();
    if sets.is_empty() {
        return blocks;
    }
    // A switch that may have lost its tables holds entries of the last plan, or none.
    let transition = MulticastTransition::new(delta, |node| delta.last(node));
    for set in sets {
        let number = (set.attr_mod & 0x1FF) as u16;
        let strategies = all_groups(number, |_| Strategy::BreakBeforeMake);
        let Some(versions) = transition.versions(delta, set, number, &strategies) else { continue };
        let Versions { old, between, new } = versions;
        let removes = old != Some(between);
        let is_last = removes && between == new;
        if removes {
            let is_known = old.is_some();
            blocks.removals.push(Removal { set, block: between, is_known, is_last });
        }
        // Also if nothing changes: the switch may have lost its entries.
        if !is_last {
            blocks.writes.push((set, new));
        }
    }
    blocks
}

/// The strategy of each group of a block.
fn all_groups(block: u16, strategy: impl Fn(Mlid) -> Strategy) -> HashMap<Mlid, Strategy> {
    let first = Mlid::FIRST.0 + block * MFT_BLOCK as u16;
    let mlids = (first..first + MFT_BLOCK as u16).map(Mlid);
    mlids.map(|mlid| (mlid, strategy(mlid))).collect()
}

struct MulticastTransition<'a> {
    fabric: &'a Fabric,
    masks: Vec<Masks<'a>>,
}

impl<'a> MulticastTransition<'a> {
    fn new(delta: &Delta<'a>, held: impl Fn(NodeId) -> Option<NodeTables<'a>>) -> Self {
        let masks = delta.fabric.switch_ids().map(|switch| {
            let node = delta.fabric.switches()[switch.index()];
            let wanted = delta.plan.multicast.by_switch.get(switch.index());
            Masks {
                held: held(node).map(|tables| tables.mft()),
                wanted: wanted.map_or(&[][..], Vec::as_slice),
            }
        });
        Self { fabric: delta.fabric, masks: masks.collect() }
    }

    fn add_block(
        &self,
        delta: &Delta<'_>,
        block: u16,
        sets: &[SetId],
        barrier: Option<u32>,
        steps: &mut Steps,
    ) {
        let strategies = self.strategies(block);
        let links = self.inactive_links(block, sets);
        let is_deferred = !links.is_empty();
        let first_is_deferred = is_deferred
            && strategies.values().any(|&strategy| strategy == Strategy::BreakBeforeMake);
        let mut first = Vec::new();
        let mut second = Vec::new();
        for &set in sets {
            let Some(versions) = self.versions(delta, set, block, &strategies) else { continue };
            let Versions { old, between, new } = versions;
            if old != Some(between) {
                let is_deferred = first_is_deferred && old.is_some();
                let after = barrier.into_iter().collect();
                let data = between.to_wire();
                let step = steps.push_set(set, data, after, is_deferred, between == new);
                steps.await_links(step, if is_deferred { &links } else { &[] });
                first.push(step);
            }
            if between != new {
                second.push((set, new));
            }
        }
        if second.is_empty() {
            return;
        }
        let after =
            if first.is_empty() { barrier } else { Some(steps.barrier(first, first_is_deferred)) };
        for (set, data) in second {
            let step =
                steps.push_set(set, data.to_wire(), after.into_iter().collect(), is_deferred, true);
            steps.await_links(step, &links);
        }
    }

    /// The versions of the block that a Set writes; `None` if its node is no switch.
    fn versions(
        &self,
        delta: &Delta<'_>,
        set: SetId,
        block: u16,
        strategies: &HashMap<Mlid, Strategy>,
    ) -> Option<Versions> {
        let masks = &self.masks[self.fabric.node(set.node).switch?.index()];
        let position = (set.attr_mod >> 28) as u8;
        let last = mft_block(masks.held.unwrap_or(&[]), block, position);
        let new = mft_block(masks.wanted, block, position);
        let is_pending = delta.is_pending(set.node, AttrId::MULTICAST_FT, set.attr_mod);
        let is_known = masks.held.is_some() && !is_pending;
        let between = between(&last, &new, block, strategies);
        Some(Versions { old: is_known.then_some(last), between, new })
    }

    /// The strategy of each group in a block.
    fn strategies(&self, block: u16) -> HashMap<Mlid, Strategy> {
        all_groups(block, |mlid| {
            if self.has_ring(mlid) { Strategy::BreakBeforeMake } else { Strategy::MakeBeforeBreak }
        })
    }

    /// True if the union of the cables of the old and the new tree has a cycle.
    fn has_ring(&self, mlid: Mlid) -> bool {
        let mut masks = self.masks.iter();
        if masks.all(|masks| masks.old(mlid) == mask_of(masks.wanted, mlid)) {
            return false;
        }
        let switches = self.fabric.switch_ids().zip(&self.masks);
        let entries = switches.flat_map(|(switch, masks)| {
            [masks.old(mlid), mask_of(masks.wanted, mlid)].map(|mask| (switch, mask))
        });
        has_ring(self.fabric, entries.filter(|(_, mask)| !mask.is_empty()))
    }

    /// The ports on new branches of existing trees whose links are not ACTIVE yet.
    fn inactive_links(&self, block: u16, sets: &[SetId]) -> Vec<PortId> {
        let mut links = Vec::new();
        for set in sets {
            let Some(switch) = self.fabric.node(set.node).switch else { continue };
            let masks = &self.masks[switch.index()];
            for &(mlid, new) in masks.wanted.iter().filter(|(mlid, _)| is_in_block(*mlid, block)) {
                let old = masks.old(mlid);
                let gained = cables(self.fabric, switch, new)
                    .filter(|(slot, _)| !old.contains(self.fabric.port(*slot).num.0))
                    .filter(|&(slot, peer)| !is_active(self.fabric, slot, peer));
                let mut gained = gained.map(|(slot, _)| slot).peekable();
                if gained.peek().is_some()
                    && self.masks.iter().any(|masks| !masks.old(mlid).is_empty())
                {
                    links.extend(gained);
                }
            }
        }
        links.sort_unstable();
        links.dedup();
        links
    }
}

fn is_in_block(mlid: Mlid, block: u16) -> bool {
    (mlid.0 - Mlid::FIRST.0) / MFT_BLOCK as u16 == block
}

impl Masks<'_> {
    fn old(&self, mlid: Mlid) -> PortMask {
        self.held.map_or(PortMask::default(), |held| mask_of(held, mlid))
    }
}

fn mask_of(entries: &[(Mlid, PortMask)], mlid: Mlid) -> PortMask {
    let place = entries.binary_search_by_key(&mlid, |entry| entry.0);
    place.map_or(PortMask::default(), |place| entries[place].1)
}

/// The linked ports of a mask, each with its peer.
fn cables(
    fabric: &Fabric,
    switch: SwitchId,
    mask: PortMask,
) -> impl Iterator<Item = (PortId, PortId)> + '_ {
    let words = mask.0.into_iter().zip(0u16..);
    let numbers = words.flat_map(|(word, index)| {
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| (index * 64 + bit) as u8)
    });
    numbers.filter(|&num| num != 0).filter_map(move |num| {
        let slot = fabric.switch_port(switch, PortNum(num))?;
        Some((slot, fabric.port(slot).peer?))
    })
}

/// The intermediate version between an old and a new block.
fn between(
    old: &MftBlock,
    new: &MftBlock,
    block: u16,
    strategies: &HashMap<Mlid, Strategy>,
) -> MftBlock {
    let first = Mlid::FIRST.0 + block * MFT_BLOCK as u16;
    MftBlock(std::array::from_fn(|index| match strategies.get(&Mlid(first + index as u16)) {
        Some(Strategy::BreakBeforeMake) => old.0[index] & new.0[index],
        _ => old.0[index] | new.0[index],
    }))
}
