//! The switches that must forward statically while tables change.
//!
//! A switch whose adaptive routing is on forwards by groups, whatever is written to its plain table meanwhile,
//! and other switches get their tables before it or after it. For each LID the *next switches* of a switch are
//! those behind the ports that it may choose by any of its tables: plain or adaptive, old or new. They are a
//! graph. If it has no circle, and leads no packet to a switch that drops it by old tables unless old tables
//! did, nor to one that drops it by new tables unless new tables do, packets arrive in whichever order the
//! tables are written.
//!
//! Other LIDs need the order of [`crate::apply::transition`], which plain tables follow: of the switches on a
//! circle, and of the two ends of a link by which packets may come to a switch that drops them. Of these, the
//! switches that have more than one next switch are switched off first, with all tables as they were. The
//! others lead to the same switch by all of their tables. So any circle of packets would be one of plain
//! tables, which the order excludes; and a switch leads packets to another only when that forwards them. A
//! switch whose static port has no link, and that forwards by others of the group, counts among those with
//! several next switches, since the order takes it for one that drops packets. It loses this repair while it is
//! switched off; switches that may choose it for such packets, and have another static port, are switched off
//! with it.
//!
//! Groups are written after the plain tables. The same argument holds then: the plain tables are final, and
//! switches with more than one next switch in a circle of old and new groups are switched off before any group
//! changes; in the static tables alone there is no circle.
//!
//! Loops of waiting for buffers between old and new routes are not excluded, as for plain tables
//! ([`crate::verify::transition`]); `strict_transitions` excludes them with all adaptive routing off.

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Lid;
use crate::plan::routing::{Lft, PortMask};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// LIDs in one task.
const LIDS_PER_CHUNK: usize = 16;
/// Tables in one task, at least.
const TABLES_PER_TASK: usize = 64;
/// Marks ports that lead to no switch, in [`FarEnds::behind`].
const END: u32 = 1 << 31;
/// A port without a link.
const NONE: u32 = u32::MAX;

/// The tables of the switches of a fabric before and after a change.
pub struct CoexistingTables<'a> {
    /// The plain tables before, by switch; `None` if the switch has none.
    pub before: Vec<Option<&'a Lft>>,
    /// The plain tables afterwards, by switch.
    pub after: &'a [Arc<Lft>],
    /// The ports that a switch may choose by all of its adaptive tables; `None` if it has only plain ones.
    pub choices: &'a (dyn Fn(SwitchId, Lid) -> Option<PortMask> + Sync),
    links: FarEnds,
}

/// The far ends of the ports of all switches.
struct FarEnds {
    /// Index of port 0 of each switch, and its number of ports.
    first: Vec<(u32, u8)>,
    /// A switch, a port that is the end of a way ([`END`]), or [`NONE`].
    behind: Vec<u32>,
}

impl FarEnds {
    fn new(fabric: &Fabric) -> Self {
        let mut links = Self { first: Vec::new(), behind: Vec::new() };
        for switch in fabric.switch_ids() {
            let node = fabric.switch(switch);
            let first = links.behind.len() as u32;
            links.first.push((first, node.num_ports()));
            links.behind.push(END | first);
            for num in 1..=node.num_ports() {
                let port = fabric.port(PortId(node.first_port.0 + u32::from(num)));
                let index = links.behind.len() as u32;
                links.behind.push(match port.peer.map(|peer| fabric.node_of(peer).switch) {
                    Some(Some(next)) => next.0,
                    Some(None) => END | index,
                    None => NONE,
                });
            }
        }
        links
    }

    /// The switches behind the ports of a switch.
    fn around(&self, switch: usize) -> impl Iterator<Item = u32> + '_ {
        let (first, ports) = self.first[switch];
        let behind = &self.behind[first as usize..=(first + u32::from(ports)) as usize];
        behind.iter().copied().filter(|next| next & END == 0)
    }

    fn behind(&self, switch: usize, port: u8) -> Option<u32> {
        let (first, ports) = self.first[switch];
        let behind = (port <= ports).then(|| self.behind[(first + u32::from(port)) as usize]);
        behind.filter(|&behind| behind != NONE)
    }
}

/// How a switch forwards packets to a LID.
#[derive(Clone, Copy)]
struct Ways {
    /// It drops them by its old tables, or if its adaptive routing is switched off.
    drops_before: bool,
    /// The far end of the new static port; [`NONE`] if it drops them.
    after: u32,
    /// Number of different switches or ends behind its old ports.
    old: usize,
    /// The same with the new ports.
    all: usize,
}

impl Ways {
    fn is_ambiguous(&self) -> bool {
        self.all > 1 || self.all == 1 && (self.drops_before || self.after == NONE)
    }
}

/// The ways of all switches for one LID, and buffers of the search for circles.
#[derive(Default)]
struct LidWays {
    ways: Vec<Ways>,
    /// The far ends of the ports of each switch, old ones first, one switch after another, and where they begin.
    next: Vec<u32>,
    first: Vec<usize>,
    /// Number of switches that lead to each switch.
    into: Vec<u32>,
    order: Vec<u32>,
    /// True for switches whose tables must change in an order.
    needs_order: Vec<bool>,
}

impl LidWays {
    /// Adds a far end to those of the switch whose first one is at `begin`.
    fn add(&mut self, begin: usize, next: Option<u32>) -> u32 {
        let Some(next) = next else { return NONE };
        if !self.next[begin..].contains(&next) {
            self.next.push(next);
        }
        next
    }
}

impl<'a> CoexistingTables<'a> {
    pub fn new(
        fabric: &Fabric,
        before: Vec<Option<&'a Lft>>,
        after: &'a [Arc<Lft>],
        choices: &'a (dyn Fn(SwitchId, Lid) -> Option<PortMask> + Sync),
    ) -> Self {
        Self { before, after, choices, links: FarEnds::new(fabric) }
    }

    /// True if a plain table changes.
    pub fn has_changes(&self) -> bool {
        self.before.iter().zip(self.after).any(|(before, after)| {
            before.is_none_or(|before| !std::ptr::eq(before, &**after) && *before != **after)
        })
    }

    /// The LIDs whose plain tables change in a switch.
    pub fn changed_lids(&self) -> Vec<Lid> {
        let tables = self.before.par_iter().zip(self.after).with_min_len(TABLES_PER_TASK);
        let changed = tables.fold(Vec::new, |mut changed: Vec<bool>, (before, after)| {
            if before.is_some_and(|before| std::ptr::eq(before, &**after)) {
                return changed;
            }
            let entries = before.map_or(0, Lft::len).max(after.len());
            changed.resize(changed.len().max(entries), false);
            for (is_changed, lid) in changed.iter_mut().zip((0..entries).map(lid_at)) {
                let old = before.and_then(|before| before.out(lid));
                *is_changed |= old != after.out(lid);
            }
            changed
        });
        let changed = changed.reduce(Vec::new, |mut all, more| {
            all.resize(all.len().max(more.len()), false);
            all.iter_mut().zip(more).for_each(|(is_changed, more)| *is_changed |= more);
            all
        });
        let lids = changed.into_iter().enumerate().filter(|(_, is_changed)| *is_changed);
        lids.map(|(index, _)| lid_at(index)).collect()
    }

    /// The switches with adaptive tables that must forward by their plain ones while the entries for these LIDs
    /// change.
    pub fn to_switch_off(&self, lids: &[Lid]) -> BTreeSet<SwitchId> {
        let of_chunks = lids.par_chunks(LIDS_PER_CHUNK).map(|lids| self.of_chunk(lids));
        let mut found = of_chunks.reduce(BTreeSet::new, |mut all, more| {
            all.extend(more);
            all
        });
        let mut new: Vec<SwitchId> = found.iter().copied().collect();
        while let Some(switch) = new.pop() {
            let around = self.relying_on_repair(switch);
            new.extend(around.into_iter().filter(|&other| found.insert(other)));
        }
        found
    }

    /// The switches that may lead packets to this one, which it forwards only while its adaptive routing is on,
    /// because its static port has no link, although static ports of their own lead elsewhere.
    fn relying_on_repair(&self, switch: SwitchId) -> BTreeSet<SwitchId> {
        let Some(table) = self.before[switch.index()] else { return BTreeSet::new() };
        let lids = (0..table.len()).map(lid_at);
        let unlinked = lids
            .filter(|&lid| table.out(lid).is_some_and(|port| is_gone(&self.links, port, switch)));
        unlinked.flat_map(|lid| self.leading_to(switch, lid)).collect()
    }

    /// The switches that may choose a switch whose old static ports lead to `end`, with other static ports.
    fn leading_to(&self, end: SwitchId, lid: Lid) -> BTreeSet<SwitchId> {
        let mut is_static = BTreeSet::from([end.0]);
        let mut may_choose = BTreeSet::new();
        let mut new = vec![end.0];
        while let Some(to) = new.pop() {
            for from in self.links.around(to as usize) {
                let own = self.before[from as usize].and_then(|table| table.out(lid));
                if own.is_some_and(|port| leads_to(&self.links, from, port, to)) {
                    if is_static.insert(from) {
                        new.push(from);
                    }
                    continue;
                }
                let choices = (self.choices)(SwitchId(from), lid);
                if choices.is_some_and(|ports| {
                    ports.iter().any(|port| leads_to(&self.links, from, port, to))
                }) {
                    may_choose.insert(SwitchId(from));
                }
            }
        }
        may_choose.retain(|switch| !is_static.contains(&switch.0));
        may_choose
    }

    /// The switches with adaptive tables that need the order, and have more than one way for a LID.
    fn ambiguous(&self, lid: Lid, scratch: &LidWays) -> Vec<SwitchId> {
        let switches = (0..).map(SwitchId).zip(scratch.ways.iter().zip(&scratch.needs_order));
        let ambiguous =
            switches.filter(|(_, (ways, needs_order))| **needs_order && ways.is_ambiguous());
        let ambiguous = ambiguous.map(|(switch, _)| switch);
        ambiguous.filter(|&switch| (self.choices)(switch, lid).is_some()).collect()
    }

    /// Fills in the ways of all switches for a LID.
    fn read(&self, lid: Lid, scratch: &mut LidWays) {
        scratch.ways.clear();
        scratch.next.clear();
        scratch.first.clear();
        for (switch, after) in self.after.iter().enumerate() {
            let begin = scratch.next.len();
            scratch.first.push(begin);
            let before = self.before[switch].map_or(NONE, |table| {
                scratch.add(begin, self.links.behind(switch, table.entry(lid)))
            });
            let choices = (self.choices)(SwitchId(switch as u32), lid);
            // A switch chooses among the ports with a link.
            let has_choice = choices.is_none_or(|ports| {
                let linked = ports
                    .iter()
                    .filter(|&port| scratch.add(begin, self.links.behind(switch, port)) != NONE);
                linked.count() > 0
            });
            let old = scratch.next.len() - begin;
            let mut ways =
                Ways { drops_before: before == NONE || !has_choice, after: NONE, old, all: 0 };
            ways.after = scratch.add(begin, self.links.behind(switch, after.entry(lid)));
            ways.all = scratch.next.len() - begin;
            scratch.ways.push(ways);
        }
        scratch.first.push(scratch.next.len());
    }

    fn of_chunk(&self, lids: &[Lid]) -> BTreeSet<SwitchId> {
        let mut ways = LidWays::default();
        let mut found = BTreeSet::new();
        for &lid in lids {
            self.read(lid, &mut ways);
            if ways.needs_order() {
                found.extend(self.ambiguous(lid, &ways));
            }
        }
        found
    }
}

fn leads_to(links: &FarEnds, from: u32, port: u8, to: u32) -> bool {
    links.behind(from as usize, port) == Some(to)
}

fn is_gone(links: &FarEnds, port: u8, switch: SwitchId) -> bool {
    links.behind(switch.index(), port).is_none()
}

impl LidWays {
    /// Finds the switches whose tables must change in an order. True if there are any.
    fn needs_order(&mut self) -> bool {
        self.needs_order.clear();
        self.needs_order.resize(self.ways.len(), false);
        self.find_drops();
        self.find_circles();
        self.needs_order.contains(&true)
    }

    /// Finds links by which packets may come to a switch that drops them by tables of another time.
    fn find_drops(&mut self) {
        for (switch, (ways, &first)) in self.ways.iter().zip(&self.first).enumerate() {
            let next = self.next[first..first + ways.all].iter().enumerate();
            for (index, &next) in next.filter(|(_, next)| **next & END == 0) {
                let there = self.ways[next as usize];
                let is_led_anew = index >= ways.old;
                let is_led_no_more = ways.after != next;
                if is_led_anew && there.drops_before && there.after != NONE
                    || is_led_no_more && there.after == NONE && there.old > 0
                {
                    self.needs_order[switch] = true;
                    self.needs_order[next as usize] = true;
                }
            }
        }
    }

    /// Finds the switches on circles, and those between two circles.
    fn find_circles(&mut self) {
        let switches = self.ways.len();
        self.into.clear();
        self.into.resize(switches, 0);
        for &next in self.next.iter().filter(|&&next| next & END == 0) {
            self.into[next as usize] += 1;
        }
        self.order.clear();
        let into = &self.into;
        self.order.extend((0..switches as u32).filter(|&switch| into[switch as usize] == 0));
        let mut done = 0;
        while let Some(&switch) = self.order.get(done) {
            done += 1;
            for index in self.first[switch as usize]..self.first[switch as usize + 1] {
                let next = self.next[index];
                if next & END != 0 {
                    continue;
                }
                self.into[next as usize] -= 1;
                if self.into[next as usize] == 0 {
                    self.order.push(next);
                }
            }
        }
        // The switches that are left are on a circle or behind one. Those behind all circles lead to none of them.
        let mut left: Vec<bool> = self.into.iter().map(|&into| into > 0).collect();
        loop {
            let before = left.clone();
            for switch in 0..switches {
                let next = &self.next[self.first[switch]..self.first[switch + 1]];
                let mut next = next.iter().filter(|&&next| next & END == 0);
                left[switch] = left[switch] && next.any(|&next| left[next as usize]);
            }
            if left == before {
                break;
            }
        }
        self.needs_order.iter_mut().zip(left).for_each(|(needs_order, left)| *needs_order |= left);
    }
}

fn lid_at(index: usize) -> Lid {
    Lid(index as u16)
}
