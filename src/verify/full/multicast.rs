//! The trees of all multicast groups.

use crate::fabric::Fabric;
use crate::ids::{Mlid, Sl};
use crate::notes::Note;
use crate::plan::Plan;
use crate::verify::multicast_tree::trees;
use crate::verify::network::SwitchNetwork;
use crate::verify::triples::CollectedTriples;
use crate::verify::verdict::FaultList;
use rayon::prelude::*;

pub(in crate::verify) struct MulticastFindings {
    pub faults: FaultList,
    /// Messages about groups, ascending by MLID.
    pub notes: Vec<(Mlid, Note)>,
}

/// Follows the trees of all groups whose SLs the engine's trees are made for, and adds the triples of
/// these SLs.
pub(super) fn add_triples_of_suitable_sls(
    fabric: &Fabric,
    plan: &Plan,
    network: &SwitchNetwork,
    triples: &CollectedTriples,
) {
    let policy = &plan.routing.policy;
    let suitable: u16 =
        (0..16).filter(|&sl| policy.multicast_sl_problem(Sl(sl)).is_none()).map(|sl| 1 << sl).sum();
    for tree in trees(fabric, plan, network, |_| true) {
        let sls = plan.multicast.sls_of(tree.mlid) & suitable;
        tree.check(|channel, input, next| {
            let hop = network.hop_of(channel);
            triples.add(hop.channel_sets(), input, next, sls);
        });
    }
}

/// Follows all trees and adds their triples.
pub(in crate::verify) fn check(
    fabric: &Fabric,
    plan: &Plan,
    network: &SwitchNetwork,
    triples: &CollectedTriples,
) -> MulticastFindings {
    let trees: Vec<_> = trees(fabric, plan, network, |_| true).collect();
    let checked: Vec<_> = trees
        .into_par_iter()
        .map(|tree| {
            let sls = plan.multicast.sls_of(tree.mlid);
            let (fault, note) = tree.check(|channel, input, next| {
                let hop = network.hop_of(channel);
                triples.add(hop.channel_sets(), input, next, sls);
            });
            (fault, note.map(|note| (tree.mlid, note)))
        })
        .collect();
    let mut found = MulticastFindings { faults: FaultList::default(), notes: Vec::new() };
    for (fault, note) in checked {
        if let Some(fault) = fault {
            found.faults.add(|| fault);
        }
        found.notes.extend(note);
    }
    found
}
