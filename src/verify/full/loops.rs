//! The packets that close a credit loop, and the verdict on it.

use super::{multicast, unicast};
use crate::fabric::Fabric;
use crate::notes::Note;
use crate::plan::Plan;
use crate::verify::dependency_graph::DependencyGraph;
use crate::verify::network::SwitchNetwork;
use crate::verify::sl_to_vl::SlToVlMaps;
use crate::verify::triples::{CollectedTriples, Triples};
use crate::verify::verdict::{Checks, Cycle};

/// The packets without which there is no credit loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LoopOrigin {
    /// Packets between hosts close it.
    Hosts,
    /// Packets from or to port 0 of switches close it.
    Switches,
    /// Packets of multicast groups close it. Any client may create a group with an SL that the
    /// trees were not made for; and the torus-2QoS trees around a missing switch are those of
    /// OpenSM, free of credit loops or not.
    Multicast,
    /// Packets of multicast groups with SLs that the trees were made for close it, although the engine
    /// guarantees that they do not.
    GuaranteedMulticast,
}

/// A credit loop.
pub(super) struct CreditLoop {
    pub origin: LoopOrigin,
    pub cycle: Cycle,
}

/// The inputs of the search for the origin of a credit loop.
pub(super) struct LoopSearch<'a> {
    pub fabric: &'a Fabric,
    pub plan: &'a Plan,
    pub checks: &'a Checks,
    pub network: &'a SwitchNetwork,
    pub sl_to_vl: &'a SlToVlMaps,
}

impl LoopSearch<'_> {
    /// The credit loop of the packets that close one, given a cycle of all packets.
    pub(super) fn find(&self, cycle: Cycle) -> CreditLoop {
        let Self { fabric, plan, checks, network, .. } = self;
        // An engine whose rules allow credit loops has them among hosts, too.
        if !plan.routing.policy.avoids_credit_loops() {
            return CreditLoop { origin: LoopOrigin::Hosts, cycle };
        }
        let of_hosts = CollectedTriples::new(network);
        unicast::add_triples_of_hosts(fabric, plan, checks, network, &of_hosts);
        if let Some(cycle) = self.cycle(&of_hosts) {
            return CreditLoop { origin: LoopOrigin::Hosts, cycle };
        }
        let of_unicast = CollectedTriples::new(network);
        unicast::check(fabric, plan, checks, network, &of_unicast);
        match self.cycle(&of_unicast) {
            Some(cycle) => CreditLoop { origin: LoopOrigin::Switches, cycle },
            None if plan.routing.policy.guarantees_multicast() => {
                multicast::add_triples_of_suitable_sls(fabric, plan, network, &of_unicast);
                match self.cycle(&of_unicast) {
                    Some(cycle) => CreditLoop { origin: LoopOrigin::GuaranteedMulticast, cycle },
                    None => CreditLoop { origin: LoopOrigin::Multicast, cycle },
                }
            }
            None => CreditLoop { origin: LoopOrigin::Multicast, cycle },
        }
    }

    fn cycle(&self, triples: &Triples) -> Option<Cycle> {
        let graph = DependencyGraph::new(self.network, self.sl_to_vl, triples);
        graph.cycle(self.fabric, self.network)
    }
}

impl CreditLoop {
    /// True if the loop rejects the plan.
    pub(super) fn rejects(&self, plan: &Plan, checks: &Checks) -> bool {
        let policy = &plan.routing.policy;
        match self.origin {
            LoopOrigin::Multicast => false,
            LoopOrigin::GuaranteedMulticast => !checks.accepts_loops,
            _ if checks.is_strict => policy.avoids_credit_loops(),
            LoopOrigin::Switches => false,
            LoopOrigin::Hosts => policy.guarantees_no_credit_loops() && !checks.accepts_loops,
        }
    }

    /// The warning about a loop that does not reject the plan.
    pub(super) fn warning(&self, plan: &Plan) -> Note {
        let engine = plan.routing.engine;
        let cycle = &self.cycle;
        Note::warning(match self.origin {
            LoopOrigin::Hosts if plan.routing.policy.guarantees_no_credit_loops() => format!(
                "routing engine {engine} leaves a credit loop although it promises none, and the \
                 engines behind it have no better routes; the fabric may deadlock: {cycle}"
            ),
            LoopOrigin::Hosts => format!(
                "routing engine {engine} leaves a credit loop, the fabric may deadlock: {cycle}; an \
                 engine such as nue, dfsssp or torus-2QoS avoids credit loops"
            ),
            LoopOrigin::Switches => format!(
                "packets from or to switches close a credit loop with the routes of {engine}, those \
                 between hosts do not; the fabric may deadlock: {cycle}"
            ),
            LoopOrigin::Multicast | LoopOrigin::GuaranteedMulticast => format!(
                "multicast groups close a credit loop with these routes, the fabric may deadlock: \
                 {cycle}"
            ),
        })
    }
}
