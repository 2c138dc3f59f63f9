//! The incremental check of a plan for a fabric in which nodes were added, removed or exchanged.
//!
//! Nodes and ports have other numbers then, and so have switches if a switch is new or missing.
//! Channels keep their numbers, and with them triples and dependencies. Of a [`Proof`] only the
//! destinations, the sources, and everything indexed by switch or port slot are converted. LIDs at
//! the same place keep their trees except for changed entries. New LIDs are traced from all
//! switches, as in a full check. A removed end port needs no check.
//!
//! A switch that disappeared stays in the proof with its last table, so that old routes through it
//! can be followed. Its channels are those of lost cables. A switch that returned has only changed
//! entries; where it closes a ring, old routes the long way round and new ones mostly form a cycle
//! together, and only the last proof of a fault-free fabric is conclusive ([`super::fault_free`]).
//! A switch that the proof never contained is left to a full check.

use super::changes::{Changes, changed_switches};
use super::check::{Additions, NewDestinations};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::plan::Plan;
use crate::plan::multicast::MulticastTables;
use crate::verify::endpoints::{self, DestinationTree, Endpoint, SourcePorts};
use crate::verify::full::unicast::{self, UnicastFindings};
use crate::verify::limits;
use crate::verify::network::SwitchNetwork;
use crate::verify::network::{CableChanges, SwitchRenumbering};
use crate::verify::proof::{Proof, ProvenRoutes};
use crate::verify::triples::{CollectedTriples, TripleSls, Triples};
use crate::verify::verdict::{Checks, Summary};
use rayon::prelude::*;
use std::sync::Arc;

/// The destinations of a plan.
struct SortedDestinations {
    /// By LID: those that stayed at their place.
    known: Vec<Option<Endpoint>>,
    /// Their trees.
    trees: Vec<Option<DestinationTree>>,
    /// The others.
    arrived: Vec<Endpoint>,
    /// The ports of known ones without a tree.
    left_out: Vec<PortId>,
}

impl Proof {
    /// Checks a plan for a fabric with other nodes. Returns the proof by the numbers of that
    /// fabric, and what the plan adds to it; `None` if the result is inconclusive.
    pub(super) fn check_changed_nodes(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        checks: &Checks,
    ) -> Option<(Self, Summary, Additions)> {
        let old = &*self.plan.routing.policy;
        let policy = &*plan.routing.policy;
        let same = *checks == self.checks
            && policy.guarantees_no_credit_loops() == old.guarantees_no_credit_loops()
            && policy.same_path_sls_as(old);
        let renumbering =
            SwitchRenumbering::between(&self.network, &self.fabric, fabric).filter(|_| same)?;
        let (proof, cables) = self.by_numbers(fabric, plan, &renumbering)?;
        let CableChanges { ports, channels, repaired } = cables;
        let switches = changed_switches(&proof.routes.tables, &plan.routing.lfts);
        let SwitchRenumbering { newly_removed: removed, returned, .. } = renumbering;
        let changes = Changes {
            ports,
            channels,
            repaired,
            switches,
            removed,
            returned,
            ..Changes::default()
        };
        let holds = changes.keep_connected_tables(&proof, fabric, plan)
            && proof.has_sl_to_vl_of(fabric, plan, &changes)
            && limits::check(fabric, plan).total == 0;
        let proof = if holds { proof } else { return None };
        let (proof, new_destinations) = proof.with_ends_of(fabric, plan, &changes)?;
        let (summary, additions) =
            proof.check_differences(fabric, plan, changes, new_destinations)?;
        Some((proof, summary, additions))
    }

    fn has_sl_to_vl_of(&self, fabric: &Fabric, plan: &Plan, changes: &Changes) -> bool {
        let network = &*self.network;
        (0..fabric.switches().len() as u32).into_par_iter().map(SwitchId).all(|switch| {
            self.sl_to_vl.match_switch(fabric, plan, network, switch, |channel| {
                is_dead(network, &changes.channels, channel)
            })
        })
    }

    /// The proof by the switch and port numbers of another fabric, and the changed cables.
    fn by_numbers(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        renumbering: &SwitchRenumbering,
    ) -> Option<(Self, CableChanges)> {
        let (network, cables) = self.network.renumbered(renumbering, fabric)?;
        let mut proof = Self { network: Arc::new(network), ..self.clone() };
        if !renumbering.is_same() {
            let before = renumbering.before.iter().map(|&was| was as usize);
            proof.sl_to_vl = Arc::new(self.sl_to_vl.renumbered(&renumbering.before));
            proof.routes.tables =
                Arc::new(before.clone().map(|was| self.routes.tables[was].clone()).collect());
            proof.routes.groups = Arc::new(renumbered(&self.routes.groups, renumbering));
            proof.routes.sources =
                Arc::new(before.map(|was| self.routes.sources[was].clone()).collect());
            let after = renumbering.after();
            let destinations = self
                .routes
                .destinations
                .iter()
                .map(|to| to.as_ref().map(|to| renumbered_end(&after, to)));
            proof.routes.destinations = Arc::new(destinations.collect());
        }
        let proof = if cables.repaired.is_empty() {
            Self { packed: Arc::new(proof.network.packed()), ..proof }
        } else {
            proof.with_repaired(fabric, plan, &cables.repaired)
        };
        Some((proof, cables))
    }

    /// The proof with the sources of a plan and the destinations that stayed at their place, and
    /// the other destinations.
    fn with_ends_of(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        changes: &Changes,
    ) -> Option<(Self, NewDestinations)> {
        let policy = &*plan.routing.policy;
        let mut sources = endpoints::sources(fabric, plan, policy);
        sources.resize(self.network.switches(), SourcePorts::default());
        let mut pairs = sources.iter().zip(&*self.routes.sources).zip(0..);
        if !pairs.all(|((now, before), switch)| {
            changes.returned.contains(&switch) || now.have_groups_of(before)
        }) {
            return None;
        }
        let SortedDestinations { known, trees, arrived, mut left_out } =
            self.sorted_destinations(fabric, plan)?;
        let network = &*self.network;
        let triples = CollectedTriples::new(network);
        let pass = (fabric, plan, &self.checks);
        let found = unicast::check_some(pass, &sources, &arrived, network, &triples);
        if found.faults.total > 0 || found.has_cut_off_paths {
            return None;
        }
        left_out.extend(found.left_out);
        left_out.sort_unstable();
        left_out.dedup();
        let summary = Summary {
            lids: trees.iter().flatten().count() + found.reached,
            left_out,
            longest_path: self.summary.longest_path.max(found.longest),
            ..self.summary.clone()
        };
        let proof = Self {
            routes: ProvenRoutes {
                sources: Arc::new(sources),
                destinations: Arc::new(known),
                trees: Arc::new(trees),
                ..self.routes.clone()
            },
            summary,
            ..self.clone()
        };
        let triples = proof.unknown_triples(&triples);
        let UnicastFindings { trees, unrouted, .. } = found;
        let new = NewDestinations { destinations: arrived, trees, triples, unrouted };
        Some((proof, new))
    }

    /// The destinations of a plan by what the proof knows of them; `None` if a table of either plan has
    /// no entry for a known one.
    fn sorted_destinations(&self, fabric: &Fabric, plan: &Plan) -> Option<SortedDestinations> {
        let count = self.routes.destinations.len().max(plan.lids.max().index() + 1);
        let mut sorted = SortedDestinations {
            known: vec![None; count],
            trees: vec![None; count],
            arrived: Vec::new(),
            left_out: Vec::new(),
        };
        let tables = self.routes.tables.iter().chain(&plan.routing.lfts);
        let shortest = tables.map(|table| table.len()).min().unwrap_or(0);
        for to in endpoints::destinations(fabric, plan, &*plan.routing.policy) {
            let lid = to.lid.index();
            let before = self.routes.destinations.get(lid).copied().flatten();
            if !before.is_some_and(|before: Endpoint| before.has_same_route(&to)) {
                sorted.arrived.push(to);
                continue;
            }
            if lid >= shortest {
                return None;
            }
            sorted.known[lid] = Some(to);
            sorted.trees[lid] = self.routes.trees[lid];
            if sorted.trees[lid].is_none() {
                sorted.left_out.push(to.port);
            }
        }
        reset_lost_leaders(&mut sorted.trees);
        Some(sorted)
    }

    /// The triples that the proof lacks.
    fn unknown_triples(&self, found: &Triples) -> TripleSls {
        let network = &*self.network;
        let channels = (0..network.channels.len()).flat_map(|channel| {
            let hop = network.hop_of(channel as u32);
            let triples = found.of(network, channel);
            triples.filter_map(move |(input, next, sls)| {
                let new = sls & !self.dependencies.triples.get(hop.channel_sets(), input, next);
                (new != 0).then_some(((channel as u32, input, next), new))
            })
        });
        channels.collect()
    }
}

fn renumbered_end(after: &[u32], to: &Endpoint) -> Endpoint {
    Endpoint { switch: after[to.switch as usize], ..*to }
}

fn is_dead(network: &SwitchNetwork, channels: &[u32], channel: u32) -> bool {
    network.is_cut(channel) || channels.contains(&channel)
}

/// Multicast tables by the switch numbers of another fabric.
fn renumbered(groups: &MulticastTables, renumbering: &SwitchRenumbering) -> MulticastTables {
    let after = renumbering.after();
    let mut senders: Vec<_> = groups
        .senders
        .iter()
        .map(|&(mlid, switch)| (mlid, SwitchId(after[switch.index()])))
        .collect();
    senders.sort_unstable();
    MulticastTables {
        by_switch: renumbering
            .before
            .iter()
            .map(|&was| groups.by_switch.get(was as usize).cloned().unwrap_or_default())
            .collect(),
        senders,
        ..groups.clone()
    }
}

/// Makes trees their own leader if their leader disappeared.
fn reset_lost_leaders(trees: &mut [Option<DestinationTree>]) {
    let is_there: Vec<bool> = trees.iter().map(Option::is_some).collect();
    for tree in trees.iter_mut().flatten().filter(|tree| !is_there[tree.leader.index()]) {
        tree.leader = tree.lid;
    }
}
