//! The trees of multicast groups: followed from every switch that has members, since every
//! member may send.

use super::triples::{Added, LOCAL, Triples};
use super::wiring::{Channel, NONE, Wiring};
use super::{Fault, Faults};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Mlid;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::routing::PortMask;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What was found.
pub(super) struct Found {
    pub faults: Faults,
    /// What the operator is to hear of a group, ascending by MLID.
    pub notes: Vec<(Mlid, Note)>,
}

/// The entries of one MLID. The channels that it leaves switches by are numbered, switch by switch:
/// these numbers are meant where it says branch.
struct Tree<'a> {
    fabric: &'a Fabric,
    wiring: &'a Wiring,
    mlid: Mlid,
    /// By switch: its first branch; one more at the end.
    first: Vec<u32>,
    /// By branch: its channel.
    channels: Vec<u32>,
    /// Switches with entries, ascending.
    switches: Vec<u32>,
    /// Switches with members: an end port in the mask, or one that only sends; ascending.
    senders: Vec<u32>,
}

/// Follows all trees; `sls` tells the SLs of an MLID, a bit for each.
pub(super) fn check(
    fabric: &Fabric,
    plan: &Plan,
    sls: impl Fn(Mlid) -> u16 + Sync,
    wiring: &Wiring,
    triples: &Triples,
) -> Found {
    let trees: Vec<_> = trees(fabric, plan, wiring, |_| true).collect();
    let parts: Vec<_> = trees
        .into_par_iter()
        .map(|tree| {
            let sls = sls(tree.mlid);
            let (fault, note) = tree.check(|channel, input, next| {
                let hop = wiring.hop_of(channel);
                triples.add((hop.triples, hop.width), input, next, sls);
            });
            (fault, note.map(|note| (tree.mlid, note)))
        })
        .collect();
    let mut found = Found { faults: Faults::default(), notes: Vec::new() };
    for (looping, note) in parts {
        if let Some(fault) = looping {
            found.faults.add(|| fault);
        }
        found.notes.extend(note);
    }
    found
}

/// Follows the trees of some MLIDs; `note` is told the triples: channel, input, rank of the next
/// channel, SLs. `None` if a tree loops.
pub(super) fn check_some(
    fabric: &Fabric,
    plan: &Plan,
    mlids: &BTreeSet<Mlid>,
    wiring: &Wiring,
    mut note: impl FnMut(u32, u16, u16, u16),
) -> Option<Vec<(Mlid, Note)>> {
    let mut notes = Vec::new();
    for tree in trees(fabric, plan, wiring, |mlid| mlids.contains(&mlid)) {
        let sls = plan.multicast.sls_of(tree.mlid);
        let (fault, found) = tree.check(|channel, input, next| note(channel, input, next, sls));
        if fault.is_some() {
            return None;
        }
        notes.extend(found.map(|note| (tree.mlid, note)));
    }
    Some(notes)
}

/// Follows the trees of some MLIDs, many at a time. Returns the triples of which `is_news` is true
/// (channel, input, rank of the next channel, SLs), and what is to be told; `None` if a tree loops.
pub(super) fn news_of(
    fabric: &Fabric,
    plan: &Plan,
    mlids: &BTreeSet<Mlid>,
    wiring: &Wiring,
    is_news: impl Fn(u32, u16, u16, u16) -> bool + Sync,
) -> Option<(Added, Vec<(Mlid, Note)>)> {
    let trees: Vec<_> = trees(fabric, plan, wiring, |mlid| mlids.contains(&mlid)).collect();
    let follow = |tree: Tree<'_>| {
        let (sls, mut added) = (plan.multicast.sls_of(tree.mlid), Added::new());
        let (fault, note) = tree.check(|channel, input, next| {
            if is_news(channel, input, next, sls) {
                *added.entry((channel, input, next)).or_default() |= sls;
            }
        });
        fault.is_none().then(|| (added, note.map(|note| (tree.mlid, note))))
    };
    let parts: Option<Vec<_>> = trees.into_par_iter().map(follow).collect();
    let (mut all, mut notes) = (Added::new(), Vec::new());
    for (added, note) in parts? {
        for (triple, sls) in added {
            *all.entry(triple).or_default() |= sls;
        }
        notes.extend(note);
    }
    Some((all, notes))
}

/// The trees of the MLIDs that are `wanted`, ascending.
fn trees<'a>(
    fabric: &'a Fabric,
    plan: &'a Plan,
    wiring: &'a Wiring,
    wanted: impl Fn(Mlid) -> bool,
) -> impl Iterator<Item = Tree<'a>> {
    let mut entries: BTreeMap<Mlid, Vec<(u32, PortMask)>> = BTreeMap::new();
    for (switch, table) in (0u32..).zip(&plan.multicast.by_switch).take(wiring.switches()) {
        for &(mlid, mask) in table.iter().filter(|entry| wanted(entry.0)) {
            entries.entry(mlid).or_default().push((switch, mask));
        }
    }
    entries.into_iter().map(|(mlid, masks)| {
        let mut tree = Tree::new(fabric, wiring, mlid, masks);
        tree.add_senders(&plan.multicast.senders);
        tree
    })
}

impl<'a> Tree<'a> {
    fn new(
        fabric: &'a Fabric,
        wiring: &'a Wiring,
        mlid: Mlid,
        masks: Vec<(u32, PortMask)>,
    ) -> Self {
        let (switches, senders) = (masks.iter().map(|entry| entry.0).collect(), Vec::new());
        let (first, channels) = (Vec::with_capacity(wiring.switches() + 1), Vec::new());
        let mut tree = Self { fabric, wiring, mlid, first, channels, switches, senders };
        for (switch, mask) in masks {
            tree.first.resize(switch as usize + 1, tree.channels.len() as u32);
            let mut has_member = false;
            for num in mask.iter() {
                let slot = wiring.slot(switch, num);
                let hop = (slot != NONE).then(|| wiring.hop(slot));
                has_member |= num == 0 || hop.is_some_and(|hop| hop.switch == NONE);
                tree.channels.extend(hop.map(|hop| hop.channel).filter(|&channel| channel != NONE));
            }
            if has_member {
                tree.senders.push(switch);
            }
        }
        tree.first.resize(wiring.switches() + 1, tree.channels.len() as u32);
        tree
    }

    /// Adds the switches of members that only send.
    fn add_senders(&mut self, senders: &[(Mlid, SwitchId)]) {
        let start = senders.partition_point(|&(mlid, _)| mlid < self.mlid);
        let own = senders[start..].iter().take_while(|&&(mlid, _)| mlid == self.mlid);
        self.senders.extend(own.map(|&(_, switch)| switch.0));
        self.senders.sort_unstable();
        self.senders.dedup();
    }

    /// The branches at a switch.
    fn branches(&self, switch: u32) -> Range<u32> {
        self.first[switch as usize]..self.first[switch as usize + 1]
    }

    fn channel(&self, branch: u32) -> &Channel {
        &self.wiring.channels[self.channels[branch as usize] as usize]
    }

    /// The branches a packet goes on by that came through one: all but back.
    fn followers(&self, branch: u32) -> impl Iterator<Item = u32> + '_ {
        let came = self.channel(branch);
        let back = self.wiring.out_of(came.to).start as u32 + u32::from(came.peer_rank);
        self.branches(came.to.0).filter(move |&next| self.channels[next as usize] != back)
    }

    /// Follows the tree; `note` is told the triples that packets of the group take.
    fn check(&self, note: impl FnMut(u32, u16, u16)) -> (Option<Fault>, Option<Note>) {
        let live = self.live();
        self.flows(&live, note);
        if let Some(branch) = self.ring(&live) {
            let node = self.fabric.switch(self.channel(branch).to);
            let switch = format!("switch {} \"{}\"", node.guid(), node.description);
            return (Some(Fault::MulticastLoop { mlid: self.mlid, switch }), None);
        }
        (None, self.split())
    }

    /// The branches that packets of the group take.
    fn live(&self) -> Vec<u32> {
        let mut is_live = vec![false; self.channels.len()];
        let mut live: Vec<u32> = Vec::with_capacity(is_live.len());
        let mut reach = |branch: u32, live: &mut Vec<u32>| {
            if !std::mem::replace(&mut is_live[branch as usize], true) {
                live.push(branch);
            }
        };
        let starts = self.senders.iter().flat_map(|&switch| self.branches(switch));
        starts.for_each(|branch| reach(branch, &mut live));
        let mut position = 0;
        while let Some(&branch) = live.get(position) {
            position += 1;
            self.followers(branch).for_each(|next| reach(next, &mut live));
        }
        live.sort_unstable();
        live
    }

    /// Notes the triples of all packets of the group (channel, input, rank of the next channel).
    fn flows(&self, live: &[u32], mut note: impl FnMut(u32, u16, u16)) {
        let mut pass = |input, branch: u32| {
            for next in self.followers(branch) {
                note(self.channels[branch as usize], input, self.channel(next).rank);
            }
        };
        for branch in self.senders.iter().flat_map(|&switch| self.branches(switch)) {
            pass(LOCAL, branch);
        }
        for &branch in live {
            let input = self.channel(branch).peer_rank + 1;
            self.followers(branch).for_each(|next| pass(input, next));
        }
    }

    /// A branch on which a packet would go round, if there is one.
    fn ring(&self, live: &[u32]) -> Option<u32> {
        let mut waiting = vec![0u32; self.channels.len()];
        for next in live.iter().flat_map(|&branch| self.followers(branch)) {
            waiting[next as usize] += 1;
        }
        let free = live.iter().copied().filter(|&branch| waiting[branch as usize] == 0);
        let mut free: Vec<u32> = free.collect();
        let mut left = live.len() - free.len();
        while let Some(branch) = free.pop() {
            for next in self.followers(branch) {
                let count = &mut waiting[next as usize];
                *count -= 1;
                if *count == 0 {
                    left -= 1;
                    free.push(next);
                }
            }
        }
        (left > 0).then(|| live.iter().copied().find(|&next| waiting[next as usize] > 0))?
    }

    /// Tells if members are out of reach of the first.
    fn split(&self) -> Option<Note> {
        let first = *self.senders.first()?;
        let mut is_reached = vec![false; self.wiring.switches()];
        is_reached[first as usize] = true;
        let mut branches: Vec<u32> = self.branches(first).collect();
        while let Some(branch) = branches.pop() {
            let to = self.channel(branch).to.0;
            let has_entry = self.switches.binary_search(&to).is_ok();
            if has_entry && !std::mem::replace(&mut is_reached[to as usize], true) {
                branches.extend(self.followers(branch));
            }
        }
        let apart = self.senders.iter().filter(|&&switch| !is_reached[switch as usize]).count();
        (apart > 0).then(|| {
            let node = self.fabric.switches()[first as usize];
            Note::warning(format!(
                "multicast group {}: members at {apart} of {} switches are not reached from {}",
                self.mlid,
                self.senders.len(),
                self.fabric.node(node).description
            ))
        })
    }
}
