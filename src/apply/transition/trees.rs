//! The order of multicast forwarding tables.
//!
//! A packet that goes round in a multicast tree is copied for ever. Old and new trees of a group
//! are safe together if their cables together have no ring. Then new branches are made first and
//! old ones cut after: nobody misses a packet who had and will have it. Where there is a ring,
//! the branches that do not stay are cut first everywhere and new ones made after: for a moment
//! members may miss packets, but none goes round.
//!
//! In both cases all switches pass from the old mask to the one in between (old and new together,
//! or what both have in common) and then, all together, on to the new one. Where one of these
//! steps changes nothing it is left out.

use super::{Steps, is_active};
use crate::apply::delta::{Delta, mft_block};
use crate::apply::item::Item;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Mlid, PortNum};
use crate::plan::routing::PortMask;
use crate::verify::transition::has_ring;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{MFT_BLOCK, MftBlock};
use std::collections::{BTreeMap, HashMap};

/// How a group gets from its old tree to the new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    MakeFirst,
    CutFirst,
}

/// The entries of a switch, old and new.
struct Masks<'a> {
    /// `None` where nothing is known of the switch.
    held: Option<&'a [(Mlid, PortMask)]>,
    wanted: &'a [(Mlid, PortMask)],
}

/// Adds the Sets of multicast forwarding tables.
pub(super) fn add(delta: &Delta<'_>, gate: Option<u32>, steps: &mut Steps) {
    let mut blocks: BTreeMap<u16, Vec<Item>> = BTreeMap::new();
    for (item, _) in delta.mfts() {
        blocks.entry((item.attr_mod & 0x1FF) as u16).or_default().push(item);
    }
    if blocks.is_empty() {
        return;
    }
    let forest = Forest::new(delta);
    for (block, items) in blocks {
        forest.add_block(delta, block, &items, gate, steps);
    }
}

struct Forest<'a> {
    fabric: &'a Fabric,
    /// By switch.
    masks: Vec<Masks<'a>>,
}

impl<'a> Forest<'a> {
    fn new(delta: &Delta<'a>) -> Self {
        let masks = delta.fabric.switch_ids().map(|switch| {
            let node = delta.fabric.switches()[switch.index()];
            let wanted = delta.plan.multicast.by_switch.get(switch.index());
            Masks {
                held: delta.known(node).map(|known| known.mft()),
                wanted: wanted.map_or(&[][..], Vec::as_slice),
            }
        });
        Self { fabric: delta.fabric, masks: masks.collect() }
    }

    fn add_block(
        &self,
        delta: &Delta<'_>,
        block: u16,
        items: &[Item],
        gate: Option<u32>,
        steps: &mut Steps,
    ) {
        let ways = self.ways(block);
        let links = self.dark_links(block, items);
        let is_late = !links.is_empty();
        let cut_is_late = is_late && ways.values().any(|&way| way == Way::CutFirst);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for &item in items {
            let Some(switch) = self.fabric.node(item.node).switch else { continue };
            let masks = &self.masks[switch.index()];
            let position = (item.attr_mod >> 28) as u8;
            let new = mft_block(masks.wanted, block, position);
            let is_sure = !delta.is_pending(item.node, AttrId::MULTICAST_FT, item.attr_mod);
            let old = masks.held.filter(|_| is_sure).map(|held| mft_block(held, block, position));
            let between = old.map_or(new, |old| between(&old, &new, block, &ways));
            if old.is_some_and(|old| between != old) {
                first.push((item, between, between == new));
            }
            if old.is_none() || between != new {
                second.push((item, new));
            }
        }
        let begun: Vec<u32> = first
            .into_iter()
            .map(|(item, data, is_last)| {
                let after = gate.into_iter().collect();
                let step = steps.set(item, data.to_wire(), after, cut_is_late, is_last);
                steps.await_links(step, if cut_is_late { &links } else { &[] });
                step
            })
            .collect();
        if second.is_empty() {
            return;
        }
        let after = if begun.is_empty() { gate } else { Some(steps.gate(begun, cut_is_late)) };
        for (item, data) in second {
            let step = steps.set(item, data.to_wire(), after.into_iter().collect(), is_late, true);
            steps.await_links(step, &links);
        }
    }

    /// The way of each group of a block.
    fn ways(&self, block: u16) -> HashMap<Mlid, Way> {
        let first = Mlid::FIRST.0 + block * MFT_BLOCK as u16;
        let mlids = (first..first + MFT_BLOCK as u16).map(Mlid);
        let way = |mlid| if self.has_ring(mlid) { Way::CutFirst } else { Way::MakeFirst };
        mlids.map(|mlid| (mlid, way(mlid))).collect()
    }

    /// True if the cables of the old and the new tree together have a ring. A tree that stays as
    /// it is has none.
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

    /// The ports with links that are not ACTIVE yet, and that a group with a tree is to use.
    fn dark_links(&self, block: u16, items: &[Item]) -> Vec<PortId> {
        let mut links = Vec::new();
        for item in items {
            let Some(switch) = self.fabric.node(item.node).switch else { continue };
            let masks = &self.masks[switch.index()];
            let here = |mlid: Mlid| (mlid.0 - Mlid::FIRST.0) / MFT_BLOCK as u16 == block;
            for &(mlid, new) in masks.wanted.iter().filter(|(mlid, _)| here(*mlid)) {
                let old = masks.old(mlid);
                let gained = cables(self.fabric, switch, new)
                    .filter(|(slot, _)| !old.contains(self.fabric.port(*slot).num.0))
                    .filter(|&(slot, peer)| !is_active(self.fabric, slot, peer));
                let mut gained = gained.map(|(slot, _)| slot).peekable();
                let has_tree = || self.masks.iter().any(|masks| !masks.old(mlid).is_empty());
                if gained.peek().is_some() && has_tree() {
                    links.extend(gained);
                }
            }
        }
        links.sort_unstable();
        links.dedup();
        links
    }
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

/// Ports of a mask that have a cable, with the port at its other end.
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

/// The block between an old and a new one: every group goes its own way.
fn between(old: &MftBlock, new: &MftBlock, block: u16, ways: &HashMap<Mlid, Way>) -> MftBlock {
    let first = Mlid::FIRST.0 + block * MFT_BLOCK as u16;
    MftBlock(std::array::from_fn(|index| {
        let (old, new) = (old.0[index], new.0[index]);
        match ways.get(&Mlid(first + index as u16)) {
            Some(Way::CutFirst) => old & new,
            _ => old | new,
        }
    }))
}
