//! The trees of multicast groups: followed from every switch that has members, since every
//! member may send.

use super::channels::{LOCAL, Triples};
use super::reroute::Added;
use super::wiring::{NONE, Wiring};
use super::{Fault, Faults};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Mlid;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::routing::PortMask;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What was found.
pub(super) struct Found {
    pub faults: Faults,
    /// What the operator is to hear of a group, ascending by MLID.
    pub notes: Vec<(Mlid, Note)>,
}

/// The entries of one MLID.
struct Tree<'a> {
    fabric: &'a Fabric,
    wiring: &'a Wiring,
    mlid: Mlid,
    masks: HashMap<u32, PortMask>,
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

/// The positions of the bits that are set.
fn ports(mut word: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as u8)?;
        word &= word - 1;
        Some(bit)
    })
}

impl<'a> Tree<'a> {
    fn new(
        fabric: &'a Fabric,
        wiring: &'a Wiring,
        mlid: Mlid,
        masks: Vec<(u32, PortMask)>,
    ) -> Self {
        let has_member = |&(switch, mask): &(u32, PortMask)| {
            mask.iter().any(|num| {
                let slot = wiring.slot(switch, num);
                num == 0 || slot != NONE && wiring.hop(slot).switch == NONE
            })
        };
        let senders = masks.iter().filter(|entry| has_member(entry)).map(|entry| entry.0).collect();
        Self { fabric, wiring, mlid, masks: masks.into_iter().collect(), senders }
    }

    /// Adds the switches of members that only send.
    fn add_senders(&mut self, senders: &[(Mlid, SwitchId)]) {
        let start = senders.partition_point(|&(mlid, _)| mlid < self.mlid);
        let own = senders[start..].iter().take_while(|&&(mlid, _)| mlid == self.mlid);
        self.senders.extend(own.map(|&(_, switch)| switch.0));
        self.senders.sort_unstable();
        self.senders.dedup();
    }

    /// The channels the group leaves a switch by.
    fn outputs(&self, switch: u32) -> impl Iterator<Item = u32> + '_ {
        let mask = self.masks.get(&switch).copied().unwrap_or_default();
        let words = mask.0.into_iter().zip([0, 64, 128, 192]);
        words
            .flat_map(|(word, first)| ports(word).map(move |bit| first + bit))
            .map(move |num| self.wiring.slot(switch, num))
            .filter(|&slot| slot != NONE)
            .map(|slot| self.wiring.hop(slot).channel)
            .filter(|&channel| channel != NONE)
    }

    /// The channels a packet goes on by that came through `channel`: all but back.
    fn followers(&self, channel: u32) -> impl Iterator<Item = u32> + '_ {
        let came = self.wiring.channels[channel as usize];
        let back = self.wiring.out_of(came.to).start as u32 + u32::from(came.peer_rank);
        self.outputs(came.to.0).filter(move |&next| next != back)
    }

    /// Follows the tree; `note` is told the triples that packets of the group take.
    fn check(&self, note: impl FnMut(u32, u16, u16)) -> (Option<Fault>, Option<Note>) {
        let live = self.flows(note);
        if let Some(channel) = self.ring(&live) {
            let node = self.fabric.switch(self.wiring.channels[channel as usize].to);
            let switch = format!("switch {} \"{}\"", node.guid(), node.description);
            return (Some(Fault::MulticastLoop { mlid: self.mlid, switch }), None);
        }
        (None, self.split())
    }

    /// Notes the triples of all packets of the group (channel, input, rank of the next channel); the
    /// channels they use.
    fn flows(&self, mut note: impl FnMut(u32, u16, u16)) -> Vec<u32> {
        let starts = self.senders.iter().flat_map(|&switch| self.outputs(switch));
        let mut states: Vec<(u16, u32)> = starts.map(|channel| (LOCAL, channel)).collect();
        let mut known: HashSet<(u16, u32)> = states.iter().copied().collect();
        let mut position = 0;
        while let Some(&(input, channel)) = states.get(position) {
            position += 1;
            for next in self.followers(channel) {
                let rank = self.wiring.channels[next as usize].rank;
                note(channel, input, rank);
                let state = (self.wiring.channels[channel as usize].peer_rank + 1, next);
                if known.insert(state) {
                    states.push(state);
                }
            }
        }
        let mut live: Vec<u32> = states.into_iter().map(|(_, channel)| channel).collect();
        live.sort_unstable();
        live.dedup();
        live
    }

    /// A channel on which a packet would go round, if there is one.
    fn ring(&self, live: &[u32]) -> Option<u32> {
        let mut waiting: HashMap<u32, usize> = live.iter().map(|&channel| (channel, 0)).collect();
        for next in live.iter().flat_map(|&channel| self.followers(channel)) {
            *waiting.entry(next).or_default() += 1;
        }
        let mut free: Vec<u32> =
            live.iter().copied().filter(|channel| waiting.get(channel) == Some(&0)).collect();
        let mut left = live.len() - free.len();
        while let Some(channel) = free.pop() {
            for next in self.followers(channel) {
                if let Some(count) = waiting.get_mut(&next) {
                    *count -= 1;
                    if *count == 0 {
                        left -= 1;
                        free.push(next);
                    }
                }
            }
        }
        (left > 0).then(|| live.iter().copied().find(|next| waiting.get(next) > Some(&0)))?
    }

    /// Tells if members are out of reach of the first.
    fn split(&self) -> Option<Note> {
        let first = *self.senders.first()?;
        let mut reached = HashSet::from([first]);
        let mut channels: Vec<u32> = self.outputs(first).collect();
        while let Some(channel) = channels.pop() {
            let to = self.wiring.channels[channel as usize].to.0;
            if self.masks.contains_key(&to) && reached.insert(to) {
                channels.extend(self.followers(channel));
            }
        }
        let apart = self.senders.iter().filter(|switch| !reached.contains(switch)).count();
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
