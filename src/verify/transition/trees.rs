//! Multicast trees during a transition.

use super::super::network::NONE;
use super::super::triples::LOCAL_INPUT;
use super::TransitionPass;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Mlid, PortNum};
use crate::plan::routing::PortMask;
use std::collections::{BTreeSet, HashMap, HashSet};

impl TransitionPass<'_> {
    /// Adds the triples of multicast packets; returns the number of groups that change.
    pub(super) fn multicast(&self) -> usize {
        let plans = [&self.before.multicast, &self.new.plan.multicast];
        let tables = plans.map(|plan| &plan.by_switch);
        let entries = tables.iter().flat_map(|table| table.iter().flatten());
        let mlids: BTreeSet<Mlid> = entries.map(|entry| entry.0).collect();
        let mut changed = 0;
        for mlid in mlids {
            let trees = tables.map(|table| tree(table, mlid));
            let [before, new] = plans.map(|tables| tables.sls_of(mlid));
            let sls = before | new;
            let differ = trees[0] != trees[1];
            changed += usize::from(differ);
            let both = trees.iter().flatten().copied();
            let senders = self.senders(mlid);
            if differ && has_ring(self.new.fabric, both.clone()) {
                let each = trees.iter().map(|tree| tree.iter().copied());
                each.for_each(|tree| self.spread(tree, &senders, sls));
            } else {
                self.spread(both, &senders, sls);
            }
        }
        changed
    }

    /// Switches with send-only members under the old or the new plan.
    fn senders(&self, mlid: Mlid) -> Vec<SwitchId> {
        let plans = [self.before, self.new.plan].into_iter();
        let all = plans.flat_map(|plan| &plan.multicast.senders);
        all.filter(|entry| entry.0 == mlid).map(|entry| entry.1).collect()
    }

    /// Follows the packets of a group through the union of these masks, from all switches with
    /// members including those in `only_sending`.
    fn spread(
        &self,
        entries: impl Iterator<Item = (SwitchId, PortMask)>,
        only_sending: &[SwitchId],
        sls: u16,
    ) {
        let mut outs: HashMap<SwitchId, Vec<u32>> = HashMap::new();
        let mut states: Vec<(u16, u32)> = Vec::new();
        let mut senders = only_sending.to_vec();
        for (switch, mask) in entries {
            for num in mask.iter() {
                match self.network.channel_of_port(switch.0, num) {
                    NONE => senders.push(switch),
                    channel => outs.entry(switch).or_default().push(channel),
                }
            }
        }
        let started = senders.iter().filter_map(|switch| outs.get(switch)).flatten();
        states.extend(started.map(|&channel| (LOCAL_INPUT, channel)));
        let mut known: HashSet<(u16, u32)> = states.iter().copied().collect();
        while let Some((input, channel)) = states.pop() {
            let came = self.network.channels[channel as usize];
            for &next in outs.get(&came.to).into_iter().flatten() {
                // A switch sends no copy back.
                if self.network.channels[next as usize].out_index == came.in_index {
                    continue;
                }
                self.add(channel, input, next, sls);
                if known.insert((came.in_index + 1, next)) {
                    states.push((came.in_index + 1, next));
                }
            }
        }
    }
}

/// The entries of a group by switch.
fn tree(tables: &[Vec<(Mlid, PortMask)>], mlid: Mlid) -> Vec<(SwitchId, PortMask)> {
    let switches = (0..).map(SwitchId).zip(tables);
    let masks = switches.filter_map(|(switch, table)| {
        let place = table.binary_search_by_key(&mlid, |entry| entry.0).ok()?;
        Some((switch, table[place].1))
    });
    masks.collect()
}

/// True if the cables that these masks use form a loop, so that a packet may return to a switch. A
/// switch may occur several times.
pub fn has_ring(fabric: &Fabric, entries: impl Iterator<Item = (SwitchId, PortMask)>) -> bool {
    let mut groups: HashMap<SwitchId, SwitchId> = HashMap::new();
    let mut known: HashSet<PortId> = HashSet::new();
    for (switch, mask) in entries {
        for num in mask.iter() {
            let Some(slot) = fabric.switch_port(switch, PortNum(num)) else { continue };
            let Some(peer) = fabric.port(slot).peer else { continue };
            let Some(to) = fabric.node_of(peer).switch else { continue };
            if !known.insert(slot.min(peer)) {
                continue;
            }
            let a = root(&groups, switch);
            let b = root(&groups, to);
            if a == b {
                return true;
            }
            groups.insert(a, b);
        }
    }
    false
}

/// The representative of the connected component of a switch.
fn root(groups: &HashMap<SwitchId, SwitchId>, mut switch: SwitchId) -> SwitchId {
    while let Some(&next) = groups.get(&switch) {
        switch = next;
    }
    switch
}
