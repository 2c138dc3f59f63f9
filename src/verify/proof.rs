//! The proof of a plan: the findings of a check that the plan passed, retained so that a later plan
//! can be verified by its differences ([`super::incremental`]).

use super::dependency_graph::{ChainRanks, DROP_VL, DependencyGraph, KnownTriples, node};
use super::endpoints::{DestinationTree, Endpoint, SourcePorts};
use super::network::{ChannelSets, PackedNetwork, SwitchNetwork};
use super::sl_to_vl::SlToVlMaps;
use super::triples::{ChannelPairSls, LOCAL_INPUT, Triple, TripleSls, Triples, bits};
use super::verdict::{Checks, Summary};
use crate::fabric::Fabric;
use crate::fabric::difference::Difference;
use crate::ids::{Mlid, Sl};
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::multicast::MulticastTables;
use crate::plan::routing::Lft;
use std::fmt;
use std::sync::Arc;

/// A plan that passed, with the triples and dependencies of its packets.
///
/// A proof that was advanced from an earlier one may contain triples, dependencies and path lengths
/// that no packet of the plan has. Such an excess can make an incremental check inconclusive, never
/// wrong.
#[derive(Clone)]
pub struct Proof {
    pub(super) fabric: Arc<Fabric>,
    pub(super) plan: Arc<Plan>,
    pub(super) checks: Checks,
    pub(super) network: Arc<SwitchNetwork>,
    pub(super) packed: Arc<PackedNetwork>,
    pub(super) sl_to_vl: Arc<SlToVlMaps>,
    pub(super) routes: ProvenRoutes,
    pub(super) dependencies: ProvenDependencies,
    /// Messages about multicast groups, ascending by MLID.
    pub(super) group_notes: Vec<(Mlid, Note)>,
    pub(super) summary: Summary,
    /// The last proof of a fault-free fabric; `None` unless a switch or cable of it is missing now.
    pub(super) fault_free: Option<Arc<Proof>>,
}

/// The routes of a plan from all end ports to all LIDs. Removed switches have a number in the network of the
/// proof, and so a place in each table by switch.
#[derive(Clone)]
pub(super) struct ProvenRoutes {
    /// Linear forwarding tables by switch.
    pub tables: Arc<Vec<Arc<Lft>>>,
    /// Multicast forwarding tables by switch.
    pub groups: Arc<MulticastTables>,
    /// End ports by switch.
    pub sources: Arc<Vec<SourcePorts>>,
    /// By LID; `None` for unassigned LIDs.
    pub destinations: Arc<Vec<Option<Endpoint>>>,
    /// By LID; `None` for LIDs without an entry in any switch.
    pub trees: Arc<Vec<Option<DestinationTree>>>,
}

/// The triples of the packets of a plan, and the dependencies that follow from them.
#[derive(Clone)]
pub(super) struct ProvenDependencies {
    pub triples: Arc<Triples>,
    pub pair_sls: Arc<ChannelPairSls>,
    pub cdg: Arc<DependencyGraph>,
    /// Topological rank of each node of `cdg`.
    pub ranks: Arc<ChainRanks>,
}

impl ProvenDependencies {
    /// `None` if there is a cycle.
    pub(super) fn new(
        network: &SwitchNetwork,
        triples: Triples,
        cdg: DependencyGraph,
    ) -> Option<Self> {
        Some(Self {
            ranks: Arc::new(cdg.ranks()?),
            pair_sls: Arc::new(triples.pair_sls(network)),
            triples: Arc::new(triples),
            cdg: Arc::new(cdg),
        })
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proof({} dependencies)", self.summary.dependencies)
    }
}

impl Proof {
    /// True if the proof is one of the routes of a plan, in a fabric with the same nodes and cables.
    pub(super) fn is_about(&self, fabric: &Fabric, plan: &Plan) -> bool {
        let own = &self.plan;
        let has_routes = Arc::ptr_eq(&own.routing, &plan.routing)
            && (Arc::ptr_eq(&own.multicast, &plan.multicast) || own.multicast == plan.multicast)
            && own.qos.sl_to_vl == plan.qos.sl_to_vl;
        has_routes
            && Difference::between(&self.fabric, fabric).is_some_and(|difference| {
                let mut ports = difference.ports.into_iter();
                ports.all(|port| self.fabric.port(port).peer == fabric.port(port).peer)
            })
    }

    /// The last proof of a fault-free fabric, which is this one unless something is missing.
    pub(super) fn fault_free_proof(&self) -> Arc<Self> {
        self.fault_free.clone().unwrap_or_else(|| Arc::new(self.clone()))
    }

    /// The plan of the last proof of a fault-free fabric, if something is missing.
    pub(super) fn fault_free_plan(&self) -> Option<&Plan> {
        self.fault_free.as_ref().map(|proof| &*proof.plan)
    }

    pub(super) fn known_triples(&self) -> KnownTriples<'_> {
        let Self { network, sl_to_vl, dependencies, .. } = self;
        KnownTriples { network, sl_to_vl, triples: &dependencies.triples }
    }

    /// The SLs of packets that arrive through channel `input` and leave through channel `output`.
    #[inline]
    pub(super) fn sls_between(&self, input: u32, output: u32) -> u16 {
        self.dependencies.pair_sls.get(input, self.packed.of(output).out_index)
    }

    /// The SLs of packets that take these three channels in a row.
    #[inline]
    pub(super) fn sls_along(&self, first: u32, second: u32, third: u32) -> u16 {
        self.dependencies.triples.at(self.triple_index(
            second,
            self.packed.of(first).in_index + 1,
            third,
        ))
    }

    /// Index of the triple (input, channel, next channel) in `triples`.
    #[inline]
    pub(super) fn triple_index(&self, channel: u32, input: u16, next: u32) -> usize {
        let hop = self.packed.of(channel);
        ChannelSets { first: hop.triples as usize, width: hop.width }
            .index(input, self.packed.of(next).out_index)
    }

    /// The SLs of `sls` with which no packet of the proof takes a triple.
    pub(super) fn unknown_sls(&self, channel: u32, input: u16, next: u16, sls: u16) -> u16 {
        let hop = self.network.hop_of(channel);
        sls & !self.dependencies.triples.get(hop.channel_sets(), input, next)
    }

    /// The dependencies that follow from additional triples and that the proof lacks, ascending;
    /// `None` if an SL to VL mapping drops packets on one of the triples.
    pub(super) fn new_dependencies(&self, triples: &TripleSls) -> Option<Vec<(u32, u32)>> {
        let mut new = Vec::new();
        for (&triple, &sls) in triples {
            for sl in bits(sls) {
                self.add_dependencies(triple, Sl(sl), &mut new)?;
            }
        }
        new.sort_unstable();
        new.dedup();
        Some(new)
    }

    fn add_dependencies(&self, triple: Triple, sl: Sl, new: &mut Vec<(u32, u32)>) -> Option<()> {
        let (channel, input, next) = triple;
        let network = &self.network;
        let sl_to_vl = &self.sl_to_vl;
        let from = network.channels[channel as usize];
        let held = match input {
            LOCAL_INPUT => sl_to_vl.local(channel as usize)[usize::from(sl.0)],
            _ => 1 << sl_to_vl.through(network, from.from, input - 1, from.out_index).vl(sl).0,
        };
        let awaited = sl_to_vl.through(network, from.to, from.in_index, next).vl(sl).0;
        if held >> DROP_VL & 1 == 1 || awaited == DROP_VL {
            return None;
        }
        let follower = network.out_of(from.to).start as u32 + u32::from(next);
        let held = bits(held)
            .filter(|vl| !self.dependencies.cdg.has_dependency(channel, *vl, next, awaited));
        new.extend(held.map(|vl| (node(channel, vl), node(follower, awaited))));
        Some(())
    }
}
