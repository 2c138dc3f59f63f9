//! Multicast forwarding tables.
//!
//! Input: the groups with their members, and the routing. Result: the ports to which each switch
//! forwards each MLID. Invariant: the ports of an MLID form a tree that connects its members, so a
//! packet reaches every member once and never loops.
//!
//! Groups with the same MLID share a tree, because switches forward by MLID alone. The routing
//! engine may supply the tree (torus-2QoS does, to stay free of credit loops); otherwise `tree`
//! builds one of the paths with the least hops, as OpenSM does. Switches whose multicast table is
//! too small for an MLID get no entry; the trees built here avoid them.

#[cfg(test)]
mod tests;
mod tree;
mod update;

pub use update::{MulticastDelta, update};

use super::LidTable;
use super::routing::balancing::BalancedPolicy;
use super::routing::balancing::hops::{HopRule, ShortestPaths};
use super::routing::switch_graph::SwitchGraph;
use super::routing::{MulticastTree, PortMask, Routing};
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Mlid, Sl};
use crate::notes::{Note, counted};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tree::{TreeBuilder, member};

/// The multicast forwarding tables of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastTables {
    /// (MLID, ports) by switch, ascending by MLID. No mask is empty.
    pub by_switch: Vec<Vec<(Mlid, PortMask)>>,
    /// Switches with send-only members, whose ports are in no mask; ascending by MLID.
    pub senders: Vec<(Mlid, SwitchId)>,
    /// The SLs of the groups of each MLID, one bit per SL; ascending by MLID.
    pub sls: Vec<(Mlid, u16)>,
    /// Messages for the operator, ascending by MLID.
    pub notes: Vec<(Mlid, Note)>,
}

impl MulticastTables {
    /// The SLs of the groups of an MLID, one bit per SL; SL 0 for an unknown MLID.
    pub fn sls_of(&self, mlid: Mlid) -> u16 {
        let known = self.sls.binary_search_by_key(&mlid, |&(mlid, _)| mlid);
        known.map_or(1, |index| self.sls[index].1)
    }
}

/// A multicast group. Several groups may share an MLID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMembers {
    pub mlid: Mlid,
    pub sl: Sl,
    /// Ports that receive (full members and non-members).
    pub members: Vec<PortId>,
    /// Send-only members: the tree includes their switches but forwards nothing to them.
    pub senders: Vec<PortId>,
}

/// The members of all groups of an MLID, ascending.
struct MergedGroup {
    mlid: Mlid,
    /// The SLs of the groups, one bit per SL.
    sls: u16,
    /// All members, send-only members included.
    members: Vec<PortId>,
    /// The members that are send-only in all groups.
    senders: Vec<PortId>,
}

/// Computes the tables for `groups`. A group with a single member gets entries only if the engine
/// supplies them. The notes name members and switches that are left out. The trees of different
/// MLIDs are independent, which [`mod@update`] relies on.
pub fn plan(
    fabric: &Fabric,
    lids: &LidTable,
    routing: &Routing,
    groups: &[GroupMembers],
    options: &Options,
) -> MulticastTables {
    let by_switch = vec![Vec::new(); fabric.switches().len()];
    let mut tables = MulticastTables { by_switch, ..MulticastTables::default() };
    if options.disable_multicast || fabric.switches().is_empty() {
        return tables;
    }
    let (merged, mut notes) = merge(groups);
    tables.sls = merged.iter().map(|group| (group.mlid, group.sls)).collect();
    let mut trees: Vec<_> = merged
        .par_iter()
        .map(|group| routing.policy.multicast_tree(group.mlid, &group.members))
        .collect();
    build_missing_trees(fabric, lids, routing, &merged, &mut trees);
    for (group, tree) in merged.iter().zip(trees.into_iter().map(Option::unwrap_or_default)) {
        notes.extend(tree.notes.into_iter().map(|note| (group.mlid, note)));
        let exits: Vec<_> = group.senders.iter().filter_map(|&port| member(fabric, port)).collect();
        for (switch, mut mask) in tree.switches {
            for sender in exits.iter().filter(|sender| sender.switch == switch) {
                mask.remove(sender.exit.0);
                if tables.senders.last() != Some(&(group.mlid, switch)) {
                    tables.senders.push((group.mlid, switch));
                }
            }
            if mask.is_empty() {
                continue;
            }
            if holds(fabric, switch, group.mlid) {
                tables.by_switch[switch.index()].push((group.mlid, mask));
            } else {
                notes.push((group.mlid, too_small(fabric, switch, group.mlid)));
            }
        }
    }
    notes.sort_by_key(|&(mlid, _)| mlid);
    tables.notes = notes;
    tables
}

/// Merges the groups that share an MLID, and drops those without a receiver.
fn merge(groups: &[GroupMembers]) -> (Vec<MergedGroup>, Vec<(Mlid, Note)>) {
    type Roles = (u16, BTreeSet<PortId>, BTreeSet<PortId>);
    let mut merged: BTreeMap<Mlid, Roles> = BTreeMap::new();
    let mut notes = Vec::new();
    for group in groups {
        if (Mlid::FIRST..=Mlid::LAST).contains(&group.mlid) {
            let (sls, receivers, senders) = merged.entry(group.mlid).or_default();
            *sls |= 1 << (group.sl.0 & 0xF);
            receivers.extend(&group.members);
            senders.extend(&group.senders);
        } else {
            let text = format!("{} is not a multicast LID; its group is not routed", group.mlid);
            let note = Note::warning(text);
            notes.push((group.mlid, note));
        }
    }
    // Without a receiver there is nothing to forward.
    let groups = merged.into_iter().filter(|(_, (_, receivers, _))| !receivers.is_empty());
    let groups = groups.map(|(mlid, (sls, receivers, senders))| {
        let members = receivers.union(&senders).copied().collect();
        let senders = senders.difference(&receivers).copied().collect();
        MergedGroup { mlid, sls, members, senders }
    });
    (groups.collect(), notes)
}

/// Builds the trees that the engine did not supply.
fn build_missing_trees(
    fabric: &Fabric,
    lids: &LidTable,
    routing: &Routing,
    merged: &[MergedGroup],
    trees: &mut [Option<MulticastTree>],
) {
    let mut missing: Vec<_> = merged
        .iter()
        .zip(trees)
        .filter(|(group, tree)| tree.is_none() && group.members.len() > 1)
        .collect();
    if missing.is_empty() {
        return;
    }
    let policy = routing.policy.as_any().downcast_ref::<BalancedPolicy>();
    let graph = SwitchGraph::new(fabric, routing.policy.hop_weights());
    let rule: &dyn HopRule = policy.map_or(&ShortestPaths, BalancedPolicy::rule);
    // The higher the MLID, the fewer multicast tables hold it: one tree builder per set of
    // switches.
    while let Some((first, _)) = missing.first() {
        let able = able_switches(fabric, first.mlid);
        let same = missing.partition_point(|(group, _)| able_switches(fabric, group.mlid) == able);
        let rest = missing.split_off(same.max(1));
        let members = missing.iter().flat_map(|(group, _)| &group.members).copied();
        let hops = (rule, routing.policy.port_hops());
        let builder = TreeBuilder::new(fabric, lids, &graph, hops, &able, members);
        missing.par_iter_mut().for_each(|(group, tree)| {
            **tree = Some(builder.build(group.mlid, &group.members));
        });
        missing = rest;
    }
}

/// True, by switch, if its multicast table holds `mlid`.
fn able_switches(fabric: &Fabric, mlid: Mlid) -> Vec<bool> {
    fabric.switch_ids().map(|switch| holds(fabric, switch, mlid)).collect()
}

fn holds(fabric: &Fabric, switch: SwitchId, mlid: Mlid) -> bool {
    mlid.0 - Mlid::FIRST.0 < fabric.switch(switch).switch_info.multicast_fdb_cap()
}

/// The note about a switch whose multicast table cannot hold `mlid`.
fn too_small(fabric: &Fabric, switch: SwitchId, mlid: Mlid) -> Note {
    let guid = fabric.switch(switch).guid();
    let cap = fabric.switch(switch).switch_info.multicast_fdb_cap();
    let why = match cap {
        0 => "does not support multicast".to_owned(),
        cap => format!(
            "has only {}",
            counted(usize::from(cap), "multicast entry", "multicast entries")
        ),
    };
    Note::error("0A14", format!("switch {guid} {why} and does not forward {mlid}"))
}
