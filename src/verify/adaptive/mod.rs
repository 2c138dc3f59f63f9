//! The proof of groups of ports: packets arrive and close no credit loop, whichever port of a group each
//! switch chooses for each of them.
//!
//! The graph of [`super::full`] is built from the *union* of all choices. A packet that may leave a switch
//! through every port of a group takes every triple of an input, a port of the group of that switch, and a
//! port of the group of the next switch; each triple counts with the SL to VL mappings of its own ports.
//! A LID is safe if
//!
//! 1. the links that its packets may take form no circle, lead every packet that arrives by static ports
//!    to the LID, and pass [`MAX_PATH_SWITCHES`](super::MAX_PATH_SWITCHES) switches at most;
//! 2. its triples close no cycle together with those of all other packets.
//!
//! The entries for other LIDs are made static, one LID after the other as long as a cycle is left. Static
//! ports are members of all groups, so the graph of the static routes is part of every union.
//!
//! Where groups are parallel cables, the union is known without following packets again: a triple of the
//! static routes stands for all triples of cables beside those three. This is the union itself if all
//! entries have groups, and more than it otherwise; if it has a cycle, packets are followed.
//!
//! The static routes may close a loop themselves, which is a warning for some engines. Groups must not
//! add to it: if multicast groups close it, the proof is one for unicast packets; if packets of switches
//! do, one for packets between hosts, and LIDs of switches stay static. If hosts close it, no group is
//! safe.

pub mod coexistence;
mod union;

use super::dependency_graph::{DependencyGraph, KnownTriples};
use super::endpoints::{self, Endpoint, SourcePorts};
use super::full::{multicast, unicast};
use super::held_mappings;
use super::network::SwitchNetwork;
use super::sl_to_vl::SlToVlMaps;
use super::triples::{CollectedTriples, Triples};
use super::verdict::Checks;
use crate::fabric::Fabric;
use crate::ids::Lid;
use crate::notes::{Note, counted};
use crate::plan::Plan;
use crate::plan::adaptive::AdaptiveGroups;
use union::{Route, UnionPass, beside};

/// The packets of which the proof speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ProofScope {
    All,
    Unicast,
    Hosts,
}

/// Groups that are safe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProvenGroups {
    pub groups: AdaptiveGroups,
    /// Number of dependencies of the union.
    pub dependencies: usize,
    /// Entries that are static although there are groups for them, with the reasons.
    pub notes: Vec<Note>,
}

/// Makes the entries static whose groups are not safe.
pub fn prove(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    groups: AdaptiveGroups,
) -> ProvenGroups {
    prove_after(fabric, plan, checks, groups, None)
}

/// [`prove`] with what a check of the plan has found, which spares following its packets again.
pub(super) fn prove_after(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    groups: AdaptiveGroups,
    known: Option<KnownTriples<'_>>,
) -> ProvenGroups {
    if groups.count() == 0 {
        return ProvenGroups { groups, dependencies: 0, notes: Vec::new() };
    }
    if held_mappings::are_needed(plan) {
        let reason = "the routes keep paths apart by SLs, and no SL to VL mappings are written while \
                      qos is FALSE; set qos TRUE (-Q)";
        return none_is_safe(plan, groups, reason.to_owned());
    }
    if let Some(KnownTriples { network, sl_to_vl, triples }) = known
        && groups.are_by_port()
        && groups.masked().is_empty()
    {
        let around = beside(network, triples, fabric, &groups);
        let graph = DependencyGraph::new(network, sl_to_vl, &around);
        if graph.ranks().is_some() {
            let dependencies = graph.dependencies();
            return ProvenGroups { groups, dependencies, notes: Vec::new() };
        }
    }
    let network = SwitchNetwork::new(fabric);
    let sl_to_vl = SlToVlMaps::new(fabric, plan, &network);
    Prover { fabric, plan, checks, network: &network, sl_to_vl: &sl_to_vl }.prove(groups)
}

fn none_is_safe(plan: &Plan, mut groups: AdaptiveGroups, reason: String) -> ProvenGroups {
    plan.lids.iter().for_each(|(lid, _)| groups.mask(lid));
    let text = format!("no groups for adaptive routing: {reason}");
    ProvenGroups { groups, dependencies: 0, notes: vec![Note::warning(text)] }
}

struct Prover<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    checks: &'a Checks,
    network: &'a SwitchNetwork,
    sl_to_vl: &'a SlToVlMaps,
}

/// The packets of the static routes, and those whose routes have groups.
struct AdaptiveTraffic {
    scope: ProofScope,
    sources: Vec<SourcePorts>,
    destinations: Vec<Endpoint>,
    /// Of unicast packets.
    triples: CollectedTriples,
}

impl Prover<'_> {
    fn prove(&self, mut groups: AdaptiveGroups) -> ProvenGroups {
        let Some(traffic) = self.static_traffic() else {
            let reason = format!("the routes of {} have a credit loop", self.plan.routing.engine);
            return none_is_safe(self.plan, groups, reason);
        };
        let mut notes = Vec::new();
        if traffic.scope == ProofScope::Hosts {
            let all = endpoints::destinations(self.fabric, self.plan, &*self.plan.routing.policy);
            all.iter().filter(|to| to.is_switch()).for_each(|to| groups.mask(to.lid));
            notes.push(Note::info(
                "LIDs of switches have no groups for adaptive routing: packets of switches close a \
                 credit loop"
                    .to_owned(),
            ));
        }
        if groups.are_by_port() && groups.masked().is_empty() {
            let around = beside(self.network, &traffic.triples, self.fabric, &groups);
            if let Some(dependencies) = self.dependencies(&traffic, &around) {
                return ProvenGroups { groups, dependencies, notes };
            }
        }
        self.follow(&traffic, groups, notes)
    }

    /// The packets of the static routes, of the widest scope without a credit loop; `None` if hosts close
    /// one.
    fn static_traffic(&self) -> Option<AdaptiveTraffic> {
        let Self { fabric, plan, checks, network, .. } = *self;
        let policy = &*plan.routing.policy;
        let triples = CollectedTriples::new(network);
        let sources = endpoints::sources(fabric, plan, policy);
        let destinations = endpoints::destinations(fabric, plan, policy);
        let input = (fabric, plan, checks);
        unicast::check_some(input, &sources, &destinations, network, &triples);
        let mut traffic =
            AdaptiveTraffic { scope: ProofScope::All, sources, destinations, triples };
        for scope in [ProofScope::All, ProofScope::Unicast, ProofScope::Hosts] {
            traffic.scope = scope;
            if scope == ProofScope::Hosts {
                traffic.sources = endpoints::host_sources(fabric, plan, policy);
                traffic.destinations.retain(|to| !to.is_switch());
                traffic.triples = CollectedTriples::new(network);
                let AdaptiveTraffic { sources, destinations, triples, .. } = &traffic;
                unicast::check_some(input, sources, destinations, network, triples);
            }
            if self.dependencies(&traffic, &traffic.triples).is_some() {
                return Some(traffic);
            }
        }
        None
    }

    /// The number of dependencies of unicast packets with these triples, and of multicast packets if they
    /// are in the scope; `None` if they have a cycle.
    fn dependencies(&self, traffic: &AdaptiveTraffic, triples: &Triples) -> Option<usize> {
        let graph = self.graph(traffic, triples);
        graph.ranks().map(|_| graph.dependencies())
    }

    fn graph(&self, traffic: &AdaptiveTraffic, triples: &Triples) -> DependencyGraph {
        let Self { fabric, plan, network, sl_to_vl, .. } = *self;
        if traffic.scope != ProofScope::All {
            return DependencyGraph::new(network, sl_to_vl, triples);
        }
        let all = triples.collected();
        multicast::check(fabric, plan, network, &all);
        DependencyGraph::new(network, sl_to_vl, &all)
    }

    /// Follows the packets to each LID through all ports of the groups.
    fn follow(
        &self,
        traffic: &AdaptiveTraffic,
        mut groups: AdaptiveGroups,
        mut notes: Vec<Note>,
    ) -> ProvenGroups {
        let pass = UnionPass {
            plan: self.plan,
            hints: self.checks.hints(),
            network: self.network,
            sources: &traffic.sources,
        };
        let (routes, broken) = pass.routes(&traffic.destinations, &groups);
        let mut masked: Vec<Lid> = broken.iter().flat_map(|route| route.lids.clone()).collect();
        if let Some(first) = masked.first() {
            let count = counted(masked.len(), "LID stays", "LIDs stay");
            notes.push(Note::warning(format!(
                "{count} static: packets could be lost in a group of ports, such as those to LID {first}"
            )));
        }
        let search = GroupLoopSearch { prover: self, pass: &pass, traffic, groups: &groups };
        let mut looped: Vec<Lid> = Vec::new();
        let triples = search.accept(traffic.triples.collected(), &routes, &mut looped);
        if let Some(&first) = looped.first() {
            let lids = counted(looped.len(), "LID stays", "LIDs stay");
            let cycle = search.cycle_of(&triples, &routes, first);
            notes.push(Note::warning(format!(
                "{lids} static: groups of ports would close a credit loop, such as those to LID {first}: \
                 {cycle}"
            )));
        }
        masked.append(&mut looped);
        masked.into_iter().for_each(|lid| groups.mask(lid));
        match self.dependencies(traffic, &triples) {
            Some(dependencies) => ProvenGroups { groups, dependencies, notes },
            None => {
                debug_assert!(false, "every accepted route was examined");
                let reason = "groups that were accepted one by one close a credit loop together";
                none_is_safe(self.plan, groups, reason.to_owned())
            }
        }
    }
}

/// The search for the groups that close a loop.
struct GroupLoopSearch<'a> {
    prover: &'a Prover<'a>,
    pass: &'a UnionPass<'a>,
    traffic: &'a AdaptiveTraffic,
    groups: &'a AdaptiveGroups,
}

impl GroupLoopSearch<'_> {
    /// Adds the triples of the routes that close no cycle, the first ones first. The LIDs of others are
    /// added to `looped`.
    fn accept(
        &self,
        base: CollectedTriples,
        routes: &[Route],
        looped: &mut Vec<Lid>,
    ) -> CollectedTriples {
        let all = base.collected();
        self.pass.add(routes, self.groups, &all);
        if self.prover.dependencies(self.traffic, &all).is_some() {
            return all;
        }
        if let [route] = routes {
            looped.extend(&route.lids);
            return base;
        }
        let (first, second) = routes.split_at(routes.len() / 2);
        let accepted = self.accept(base, first, looped);
        self.accept(accepted, second, looped)
    }

    /// The cycle that the groups of a LID close with all that are safe.
    fn cycle_of(&self, safe: &Triples, routes: &[Route], lid: Lid) -> String {
        let all = safe.collected();
        let its = routes.iter().find(|route| route.lids.contains(&lid));
        self.pass.add(its.map_or(&[], std::slice::from_ref), self.groups, &all);
        let graph = self.prover.graph(self.traffic, &all);
        let cycle = graph.cycle(self.prover.fabric, self.prover.network);
        debug_assert!(cycle.is_some(), "the groups of a looped LID close a cycle");
        cycle.map_or_else(String::new, |cycle| cycle.to_string())
    }
}
