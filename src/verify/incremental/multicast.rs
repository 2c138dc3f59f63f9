//! The multicast groups whose trees have to be checked again.

use super::changes::Changes;
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::notes::Note;
use crate::plan::Plan;
use crate::verify::multicast_tree::trees;
use crate::verify::network::SwitchNetwork;
use crate::verify::proof::Proof;
use crate::verify::triples::{TripleSls, add_all};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Follows the trees of some MLIDs. Returns the triples for which `is_new` holds (arguments:
/// channel, input, index of the next channel, SLs) and the messages about these groups; `None` if a
/// tree has a loop.
pub(super) fn trace_groups(
    fabric: &Fabric,
    plan: &Plan,
    mlids: &BTreeSet<Mlid>,
    network: &SwitchNetwork,
    is_new: impl Fn(u32, u16, u16, u16) -> bool + Sync,
) -> Option<(TripleSls, Vec<(Mlid, Note)>)> {
    let trees: Vec<_> = trees(fabric, plan, network, |mlid| mlids.contains(&mlid)).collect();
    let traced: Option<Vec<_>> = trees
        .into_par_iter()
        .map(|tree| {
            let sls = plan.multicast.sls_of(tree.mlid);
            let mut triples = TripleSls::new();
            let (fault, note) = tree.check(|channel, input, next| {
                if is_new(channel, input, next, sls) {
                    *triples.entry((channel, input, next)).or_default() |= sls;
                }
            });
            fault.is_none().then(|| (triples, note.map(|note| (tree.mlid, note))))
        })
        .collect();
    let mut all = TripleSls::new();
    let mut notes = Vec::new();
    for (triples, note) in traced? {
        add_all(&mut all, &triples);
        notes.extend(note);
    }
    Some((all, notes))
}

/// The groups with other MFT entries, SLs or senders than those of the proof, and those with an
/// entry for a lost or repaired cable.
pub(super) fn changed_groups(
    proof: &Proof,
    fabric: &Fabric,
    plan: &Plan,
    changes: &Changes,
) -> BTreeSet<Mlid> {
    let old = &proof.routes.groups;
    let new = &plan.multicast;
    let mut mlids = BTreeSet::new();
    let removed = changes.removed.iter().filter_map(|&at| old.by_switch.get(at as usize));
    mlids.extend(removed.flatten().map(|entry| entry.0));
    let count = if Arc::ptr_eq(old, new) { 0 } else { old.by_switch.len() };
    let switches = old.by_switch.iter().zip(&new.by_switch).take(count);
    for (old, new) in switches.filter(|(old, new)| old != new) {
        mlids.extend(old.iter().filter(|entry| !new.contains(entry)).map(|entry| entry.0));
        mlids.extend(new.iter().filter(|entry| !old.contains(entry)).map(|entry| entry.0));
    }
    let all = old.sls.iter().chain(&new.sls).map(|&(mlid, _)| mlid);
    mlids.extend(all.filter(|&mlid| old.sls_of(mlid) != new.sls_of(mlid)));
    for (one, two) in [(old, new), (new, old)] {
        let missing = one.senders.iter().filter(|sender| !two.senders.contains(sender));
        mlids.extend(missing.map(|sender| sender.0));
    }
    add_groups_of_cables(proof, fabric, plan, changes, &mut mlids);
    mlids
}

fn add_groups_of_cables(
    proof: &Proof,
    fabric: &Fabric,
    plan: &Plan,
    changes: &Changes,
    mlids: &mut BTreeSet<Mlid>,
) {
    let repaired = changes.repaired.iter().map(|&at| proof.network.channels[at as usize].port);
    let ports = changes.ports.iter().copied().chain(repaired);
    for port in ports.filter_map(|id| fabric.ports().get(id.index())) {
        let Some(switch) = fabric.node(port.node).switch else { continue };
        let entries = plan.multicast.by_switch.get(switch.index()).into_iter().flatten();
        let with_port = entries.filter(|(_, mask)| mask.contains(port.num.0));
        mlids.extend(with_port.map(|entry| entry.0));
    }
}
