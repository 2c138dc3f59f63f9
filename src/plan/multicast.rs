//! Multicast groups → multicast forwarding tables.
//!
//! All groups that share an MLID share a tree, because switches see the MLID only. The engine
//! that routed the fabric may have trees of its own (torus-2QoS must, for its freedom from
//! credit loops); else [`tree`] spans one over shortest paths, as OpenSM does. Switches whose
//! table is too small for an MLID get no entry; general trees go round them.

#[cfg(test)]
mod tests;
mod tree;
mod update;

pub use update::{MulticastDelta, update};

use super::LidTable;
use super::routing::minhop::MinHopPolicy;
use super::routing::minhop::hops::SwitchGraph;
use super::routing::{MulticastTree, PortMask, Routing};
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Mlid, Sl};
use crate::notes::Note;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tree::{Forest, member};

/// The multicast forwarding tables of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastTables {
    /// By switch: (MLID, ports), ascending by MLID, only non-empty masks.
    pub by_switch: Vec<Vec<(Mlid, PortMask)>>,
    /// Switches with members that only send, whose ports are in no mask; ascending by MLID.
    pub senders: Vec<(Mlid, SwitchId)>,
    /// By MLID, ascending: the SLs that its groups' packets have, a bit for each.
    pub sls: Vec<(Mlid, u16)>,
    /// What the operator is to hear of an MLID, ascending.
    pub notes: Vec<(Mlid, Note)>,
}

impl MulticastTables {
    /// The SLs of an MLID's groups, a bit for each; SL 0 where nothing is known of them.
    pub fn sls_of(&self, mlid: Mlid) -> u16 {
        let known = self.sls.binary_search_by_key(&mlid, |&(mlid, _)| mlid);
        known.map_or(1, |index| self.sls[index].1)
    }
}

/// A group as the registry gives it to the plan: several groups may share an MLID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMembers {
    /// The group's MLID.
    pub mlid: Mlid,
    /// The SL of its packets.
    pub sl: Sl,
    /// Ports that receive and send (full and non members).
    pub members: Vec<PortId>,
    /// Ports that only send: the tree comes to their switches, and nothing is sent to them.
    pub senders: Vec<PortId>,
}

/// The members of all groups of an MLID, ascending.
struct Merged {
    mlid: Mlid,
    /// The SLs of their packets, a bit for each.
    sls: u16,
    /// All to whose switches the tree comes.
    members: Vec<PortId>,
    /// Those among them that receive nothing.
    senders: Vec<PortId>,
}

/// The tables for `groups` on a fabric that is routed by `routing`. General trees have at least
/// two members; engines may set up entries for one. The notes name members and switches that
/// had to be left out. The tree of an MLID depends on no other's: see [`mod@update`].
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
    let of_engine = |group: &Merged| routing.policy.multicast_tree(group.mlid, &group.members);
    let mut trees: Vec<_> = merged.par_iter().map(of_engine).collect();
    span_missing(fabric, lids, routing, &merged, &mut trees);
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

/// Groups with members by MLID.
fn merge(groups: &[GroupMembers]) -> (Vec<Merged>, Vec<(Mlid, Note)>) {
    type Roles = (u16, BTreeSet<PortId>, BTreeSet<PortId>);
    let (mut merged, mut notes) = (BTreeMap::<Mlid, Roles>::new(), Vec::new());
    for group in groups {
        if (Mlid::FIRST..=Mlid::LAST).contains(&group.mlid) {
            let (sls, receivers, senders) = merged.entry(group.mlid).or_default();
            *sls |= 1 << (group.sl.0 & 0xF);
            receivers.extend(&group.members);
            senders.extend(&group.senders);
        } else {
            let note = Note::warning(format!("{} is not a multicast LID", group.mlid));
            notes.push((group.mlid, note));
        }
    }
    // Where nobody receives there is nothing to forward.
    let groups = merged.into_iter().filter(|(_, (_, receivers, _))| !receivers.is_empty());
    let groups = groups.map(|(mlid, (sls, receivers, senders))| {
        let members = receivers.union(&senders).copied().collect();
        let senders = senders.difference(&receivers).copied().collect();
        Merged { mlid, sls, members, senders }
    });
    (groups.collect(), notes)
}

/// Spans the trees that the engine leaves to us.
fn span_missing(
    fabric: &Fabric,
    lids: &LidTable,
    routing: &Routing,
    merged: &[Merged],
    trees: &mut [Option<MulticastTree>],
) {
    let is_missing = |(group, tree): &(&Merged, &mut Option<MulticastTree>)| {
        tree.is_none() && group.members.len() > 1
    };
    let mut missing: Vec<_> = merged.iter().zip(trees).filter(is_missing).collect();
    if missing.is_empty() {
        return;
    }
    let policy = routing.policy.as_any().downcast_ref::<MinHopPolicy>();
    let graph = SwitchGraph::new(fabric, policy.map_or(&[], MinHopPolicy::hop_weights));
    // The higher an MLID, the fewer switches have room for it: one forest for each such set.
    while let Some((first, _)) = missing.first() {
        let able = able_switches(fabric, first.mlid);
        let same = missing.partition_point(|(group, _)| able_switches(fabric, group.mlid) == able);
        let rest = missing.split_off(same.max(1));
        let members = missing.iter().flat_map(|(group, _)| &group.members).copied();
        let forest = Forest::new(fabric, lids, &graph, &able, members);
        missing.par_iter_mut().for_each(|(group, tree)| {
            **tree = Some(forest.span(group.mlid, &group.members));
        });
        missing = rest;
    }
}

/// By switch: it has room for `mlid`.
fn able_switches(fabric: &Fabric, mlid: Mlid) -> Vec<bool> {
    fabric.switch_ids().map(|switch| holds(fabric, switch, mlid)).collect()
}

fn holds(fabric: &Fabric, switch: SwitchId, mlid: Mlid) -> bool {
    mlid.0 - Mlid::FIRST.0 < fabric.switch(switch).switch_info.multicast_fdb_cap()
}

/// The note about an entry that a switch has no room for.
fn too_small(fabric: &Fabric, switch: SwitchId, mlid: Mlid) -> Note {
    let (guid, cap) =
        (fabric.switch(switch).guid(), fabric.switch(switch).switch_info.multicast_fdb_cap());
    let why = match cap {
        0 => "does not support multicast".to_owned(),
        cap => format!("has {cap} multicast entries only"),
    };
    Note::error("0A14", format!("switch {guid} {why}: {mlid} is cut off there"))
}
