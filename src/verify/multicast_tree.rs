//! The tree of one multicast group, as the multicast forwarding tables (MFTs) define it.
//!
//! Every member may send, so a tree is followed from all switches with members, full ones and those
//! that only send.

use super::network::{Channel, NONE, SwitchNetwork};
use super::triples::LOCAL_INPUT;
use super::verdict::Fault;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Mlid;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::routing::PortMask;
use std::collections::BTreeMap;
use std::ops::Range;

/// The MFT entries of one MLID. A *branch* is an output channel of one of them; branches are
/// numbered switch by switch.
pub(super) struct Tree<'a> {
    fabric: &'a Fabric,
    network: &'a SwitchNetwork,
    pub mlid: Mlid,
    /// First branch of each switch; one more number at the end.
    first: Vec<u32>,
    /// Channel of each branch.
    channels: Vec<u32>,
    /// Switches with entries, ascending.
    switches: Vec<u32>,
    /// Switches with members: an end port in the entry, or a send-only member; ascending.
    senders: Vec<u32>,
}

/// The trees of the MLIDs for which `wanted` holds, ascending.
pub(super) fn trees<'a>(
    fabric: &'a Fabric,
    plan: &'a Plan,
    network: &'a SwitchNetwork,
    wanted: impl Fn(Mlid) -> bool,
) -> impl Iterator<Item = Tree<'a>> {
    let mut entries: BTreeMap<Mlid, Vec<(u32, PortMask)>> = BTreeMap::new();
    for (switch, table) in (0u32..).zip(&plan.multicast.by_switch).take(network.switches()) {
        for &(mlid, mask) in table.iter().filter(|entry| wanted(entry.0)) {
            entries.entry(mlid).or_default().push((switch, mask));
        }
    }
    entries.into_iter().map(|(mlid, masks)| {
        let mut tree = Tree::new(fabric, network, mlid, masks);
        tree.add_senders(&plan.multicast.senders);
        tree
    })
}

impl<'a> Tree<'a> {
    fn new(
        fabric: &'a Fabric,
        network: &'a SwitchNetwork,
        mlid: Mlid,
        masks: Vec<(u32, PortMask)>,
    ) -> Self {
        let switches = masks.iter().map(|entry| entry.0).collect();
        let senders = Vec::new();
        let first = Vec::with_capacity(network.switches() + 1);
        let channels = Vec::new();
        let mut tree = Self { fabric, network, mlid, first, channels, switches, senders };
        for (switch, mask) in masks {
            tree.first.resize(switch as usize + 1, tree.channels.len() as u32);
            let mut has_member = false;
            for num in mask.iter() {
                let slot = network.slot(switch, num);
                let hop = (slot != NONE).then(|| network.hop(slot));
                has_member |= num == 0 || hop.is_some_and(|hop| hop.switch == NONE);
                tree.channels.extend(hop.map(|hop| hop.channel).filter(|&channel| channel != NONE));
            }
            if has_member {
                tree.senders.push(switch);
            }
        }
        tree.first.resize(network.switches() + 1, tree.channels.len() as u32);
        tree
    }

    /// Adds the switches of send-only members.
    fn add_senders(&mut self, senders: &[(Mlid, SwitchId)]) {
        let start = senders.partition_point(|&(mlid, _)| mlid < self.mlid);
        let own = senders[start..].iter().take_while(|&&(mlid, _)| mlid == self.mlid);
        self.senders.extend(own.map(|&(_, switch)| switch.0));
        self.senders.sort_unstable();
        self.senders.dedup();
    }

    fn branches(&self, switch: u32) -> Range<u32> {
        self.first[switch as usize]..self.first[switch as usize + 1]
    }

    fn channel(&self, branch: u32) -> &Channel {
        &self.network.channels[self.channels[branch as usize] as usize]
    }

    /// The branches on which the next switch forwards a packet: all but the one back.
    fn followers(&self, branch: u32) -> impl Iterator<Item = u32> + '_ {
        let came = self.channel(branch);
        let back = self.network.out_of(came.to).start as u32 + u32::from(came.in_index);
        self.branches(came.to.0).filter(move |&next| self.channels[next as usize] != back)
    }

    /// Follows the tree. Calls `add` for each triple that packets of the group take (channel,
    /// input, index of the next channel). Returns the fault if the tree has a loop, or a message if
    /// it does not connect all members.
    pub(super) fn check(&self, add: impl FnMut(u32, u16, u16)) -> (Option<Fault>, Option<Note>) {
        let live = self.live();
        self.add_triples(&live, add);
        if let Some(branch) = self.loop_branch(&live) {
            let node = self.fabric.switch(self.channel(branch).to);
            let switch = format!("switch {} \"{}\"", node.guid(), node.name());
            return (Some(Fault::MulticastLoop { mlid: self.mlid, switch }), None);
        }
        (None, self.unreached_members())
    }

    /// The branches that packets of the group take, ascending.
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

    /// Calls `add` for the triples of all packets of the group.
    fn add_triples(&self, live: &[u32], mut add: impl FnMut(u32, u16, u16)) {
        let mut pass = |input, branch: u32| {
            for next in self.followers(branch) {
                add(self.channels[branch as usize], input, self.channel(next).out_index);
            }
        };
        for branch in self.senders.iter().flat_map(|&switch| self.branches(switch)) {
            pass(LOCAL_INPUT, branch);
        }
        for &branch in live {
            let input = self.channel(branch).in_index + 1;
            self.followers(branch).for_each(|next| pass(input, next));
        }
    }

    /// A branch on a loop of the tree, found by removing branches without predecessors.
    fn loop_branch(&self, live: &[u32]) -> Option<u32> {
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

    /// The message about members that packets of the first member do not reach.
    fn unreached_members(&self) -> Option<Note> {
        let first = *self.senders.first()?;
        let mut is_reached = vec![false; self.network.switches()];
        is_reached[first as usize] = true;
        let mut branches: Vec<u32> = self.branches(first).collect();
        while let Some(branch) = branches.pop() {
            let to = self.channel(branch).to.0;
            let has_entry = self.switches.binary_search(&to).is_ok();
            if has_entry && !std::mem::replace(&mut is_reached[to as usize], true) {
                branches.extend(self.followers(branch));
            }
        }
        let unreached = self.senders.iter().filter(|&&switch| !is_reached[switch as usize]).count();
        (unreached > 0).then(|| {
            let node = self.fabric.switch(SwitchId(first));
            Note::warning(format!(
                "multicast group {}: members at {unreached} of {} switches are not reached from \
                 switch {} \"{}\"",
                self.mlid,
                self.senders.len(),
                node.guid(),
                node.name()
            ))
        })
    }
}
