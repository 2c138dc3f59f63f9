//! The check of a plan with the routes in force, while plans with new routes are rejected.
//!
//! The unicast entries are in the switches already, so that their faults (entries for dead cables,
//! above all) are no reason to leave the rest of the plan undone. Multicast trees are new: they must
//! have no loop, and all tables must fit their devices. A credit loop is a warning, since the routes
//! are not chosen here.

use super::dependency_graph::DependencyGraph;
use super::full::{multicast, unicast};
use super::limits;
use super::network::SwitchNetwork;
use super::sl_to_vl::SlToVlMaps;
use super::triples::CollectedTriples;
use super::verdict::{Checks, Extent, Summary, Verified, VerifyFailure};
use crate::fabric::Fabric;
use crate::notes::Note;
use crate::plan::Plan;
use std::sync::Arc;

/// Checks all but the routes of a plan made by
/// [`compute_with_kept_routes`](crate::plan::compute::compute_with_kept_routes).
///
/// # Errors
/// Multicast trees with a loop, and tables beyond the capacity of their devices.
pub fn verify_kept_routes(
    fabric: &Fabric,
    plan: &Arc<Plan>,
    checks: &Checks,
) -> Result<Verified, VerifyFailure> {
    let network = SwitchNetwork::new(fabric);
    let sl_to_vl = SlToVlMaps::new(fabric, plan, &network);
    let triples = CollectedTriples::new(&network);
    let lenient = Checks { is_strict: false, ..checks.clone() };
    let routes = unicast::check(fabric, plan, &lenient, &network, &triples);
    let groups = multicast::check(fabric, plan, &network, &triples);
    let mut failure = VerifyFailure::default();
    failure.add(groups.faults);
    failure.add(limits::check(fabric, plan));
    if failure.total > 0 {
        return Err(failure);
    }
    let graph = DependencyGraph::new(&network, &sl_to_vl, &triples);
    let cycle = graph.cycle(fabric, &network);
    let mut notes: Vec<Note> = groups.notes.into_iter().map(|(_, note)| note).collect();
    notes.extend(cycle.as_ref().map(|cycle| {
        Note::warning(format!(
            "the routes in force and the multicast trees have a credit loop, the fabric may deadlock: \
             {cycle}"
        ))
    }));
    let summary = Summary {
        extent: Extent::KeptRoutes,
        lids: routes.reached,
        left_out: routes.left_out,
        unrouted: routes.unrouted,
        // Entries may lead to dead cables, so that nothing is known of a path before it is walked.
        has_cut_off_paths: true,
        assumes_mappings: false,
        longest_path: routes.longest,
        dependencies: graph.dependencies(),
        has_host_loop: false,
        cycle,
        notes,
    };
    Ok(Verified { plan: plan.clone(), summary })
}
