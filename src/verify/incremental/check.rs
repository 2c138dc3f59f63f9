//! The incremental check of a plan for a fabric that has the nodes of the proven one. The check of
//! a fabric with other nodes ([`super::changed_nodes`]) ends in the same
//! [`Proof::check_differences`].

use super::acyclicity::stays_acyclic;
use super::changed_routes::ChangedRoutes;
use super::changes::Changes;
use super::multicast::{changed_groups, trace_groups};
use super::route_tracer::trace_routes;
use crate::fabric::Fabric;
use crate::fabric::difference::Difference;
use crate::ids::{Lid, Mlid};
use crate::notes::Note;
use crate::plan::Plan;
use crate::verify::dependency_graph::channel_of;
use crate::verify::endpoints::{DestinationTree, Endpoint};
use crate::verify::proof::Proof;
use crate::verify::triples::{TripleSls, add_all};
use crate::verify::unrouted::{UnroutedPairs, survey};
use crate::verify::verdict::{Checks, Extent, Summary};
use std::collections::HashSet;
use std::sync::Arc;

/// The additions that a verified plan makes to the proof.
pub(super) struct Additions {
    pub changes: Changes,
    pub triples: TripleSls,
    /// Dependencies that the proof lacks.
    pub dependencies: Vec<(u32, u32)>,
    pub group_notes: Vec<(Mlid, Note)>,
    /// Upper bound of the switches on a path to a destination with changed entries.
    pub longest: u32,
    pub new_destinations: NewDestinations,
}

/// LIDs that were unassigned before, or that moved.
#[derive(Default)]
pub(super) struct NewDestinations {
    pub destinations: Vec<Endpoint>,
    /// Trees of the destinations that have an entry in some switch.
    pub trees: Vec<DestinationTree>,
    /// Triples of their packets that the proof lacks.
    pub triples: TripleSls,
    /// Pairs with these destinations without a route.
    pub unrouted: UnroutedPairs,
}

impl Proof {
    /// Checks a plan for a fabric that differs from that of the proof by `difference`. Returns the
    /// proof with repaired cables, and what the plan adds to it; `None` if the result is
    /// inconclusive.
    pub(super) fn check_changes(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        checks: &Checks,
        difference: &Difference,
    ) -> Option<(Self, Summary, Additions)> {
        let changes = Changes::find(self, fabric, plan, checks, difference)?;
        let proof = if changes.repaired.is_empty() {
            self.clone()
        } else {
            self.with_repaired(fabric, plan, &changes.repaired)
        };
        let none = NewDestinations::default();
        let (summary, additions) = proof.check_differences(fabric, plan, changes, none)?;
        Some((proof, summary, additions))
    }

    /// The proof with the cables of these channels connected again. No packet has used them so far.
    pub(super) fn with_repaired(&self, fabric: &Fabric, plan: &Plan, channels: &[u32]) -> Self {
        let network = self.network.with_repaired(channels);
        let switches = channels.iter().map(|&channel| network.channels[channel as usize].from);
        let sl_to_vl = self.sl_to_vl.with_switches(fabric, plan, &network, switches);
        Self {
            packed: Arc::new(network.packed()),
            network: Arc::new(network),
            sl_to_vl: Arc::new(sl_to_vl),
            ..self.clone()
        }
    }

    /// Traces the changed routes and multicast trees, and checks that the dependencies of both
    /// plans together are acyclic; `None` if the result is inconclusive.
    pub(super) fn check_differences(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        changes: Changes,
        new_destinations: NewDestinations,
    ) -> Option<(Summary, Additions)> {
        let routes = ChangedRoutes::new(self, plan, &changes);
        let may_lack_routes = !self.summary.unrouted.is_empty()
            || !new_destinations.unrouted.is_empty()
            || !changes.returned.is_empty()
            || routes.lose_entries();
        let mut traced = trace_routes(&routes)?;
        let unrouted = if may_lack_routes {
            self.unrouted_pairs(fabric, plan, &new_destinations)
        } else {
            UnroutedPairs::default()
        };
        // Only the full check compares the pairs without a route with the list of the engine.
        let listed = plan.routing.policy.unrouted_switches();
        let is_listed = listed.is_some_and(|pairs| !pairs.is_empty() || !unrouted.is_empty());
        if is_listed || self.checks.is_strict && !unrouted.is_empty() {
            return None;
        }
        add_all(&mut traced.triples, &new_destinations.triples);
        let group_notes = self.check_groups(fabric, plan, &changes, &mut traced.triples)?;
        let dependencies = self.new_dependencies(&traced.triples)?;
        let is_acyclic = stays_acyclic(&self.dependencies, &dependencies, |node| {
            changes.channels.contains(&channel_of(node))
        });
        if !is_acyclic {
            return None;
        }
        let mut summary = Summary {
            extent: Extent::Incremental,
            unrouted,
            longest_path: self.summary.longest_path.max(traced.longest),
            dependencies: self.summary.dependencies + dependencies.len(),
            notes: group_notes.iter().map(|(_, note)| note.clone()).collect(),
            ..self.summary.clone()
        };
        summary.add_route_notes(fabric, plan);
        let triples = traced.triples;
        let longest = traced.longest;
        let additions =
            Additions { changes, triples, dependencies, group_notes, longest, new_destinations };
        Some((summary, additions))
    }

    /// The pairs without a route under a plan that delivers from each switch with an entry.
    fn unrouted_pairs(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        new_destinations: &NewDestinations,
    ) -> UnroutedPairs {
        let known = self.routes.destinations.iter().zip(&*self.routes.trees);
        let known = known.filter_map(|(to, tree)| to.as_ref().filter(|_| tree.is_some()));
        let routed: HashSet<Lid> = new_destinations.trees.iter().map(|tree| tree.lid).collect();
        let new = new_destinations.destinations.iter().filter(|to| routed.contains(&to.lid));
        survey(fabric, &plan.routing.lfts, &self.routes.sources, known.chain(new))
    }

    /// Traces the multicast trees that changed or that use a changed cable. Adds their new triples,
    /// and returns the messages about all groups; `None` if a tree has a loop.
    fn check_groups(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        changes: &Changes,
        triples: &mut TripleSls,
    ) -> Option<Vec<(Mlid, Note)>> {
        let mlids = changed_groups(self, fabric, plan, changes);
        let mut notes = self.group_notes.clone();
        if !mlids.is_empty() {
            let network = self.network.without(&changes.ports);
            let (new, found) =
                trace_groups(fabric, plan, &mlids, &network, |channel, input, next, sls| {
                    self.unknown_sls(channel, input, next, sls) != 0
                })?;
            add_all(triples, &new);
            notes.retain(|(mlid, _)| !mlids.contains(mlid));
            notes.extend(found);
            notes.sort_by_key(|&(mlid, _)| mlid);
        }
        Some(notes)
    }
}
