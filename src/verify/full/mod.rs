//! The full proof: every packet that the plan routes arrives, and no set of packets can deadlock.
//!
//! # Model
//!
//! A *channel* is one direction of a cable between two switches. A link has separate buffers and
//! credits for each VL (IBA vol. 1, 7.9), so the unit that packets wait for is a pair (channel,
//! VL). A packet that occupies the receive buffer of one pair and needs credits of another one
//! makes the first *depend* on the second. The pairs and their dependencies are the *channel
//! dependency graph* (CDG, [`super::dependency_graph`]).
//!
//! The hardware determines the dependencies from what the plan programs. Let a packet with SL `s`
//! enter switch A through input `i`, take channel `c` to switch B, and leave B through channel `d`.
//! It occupies `c` on the VL to which A maps (`i`, `c`, `s`), and waits for `d` on the VL to which
//! B maps (`c`, `d`, `s`). The *triple* (`i`, `c`, `d`) and `s` therefore determine the dependency.
//! The checks first collect all triples with the set of SLs that take them ([`super::triples`]),
//! from unicast and multicast routes into one table, and only then look up VLs.
//!
//! # What is shown
//!
//! 1. **Reachability.** Packets from every end port arrive at every LID of every other end port and
//!    pass [`MAX_PATH_SWITCHES`](super::MAX_PATH_SWITCHES) switches at most, or a switch without an
//!    entry for the LID drops them ([`unicast`]). No packet loops, and none is sent to a port without
//!    a link or to another end port.
//! 2. **Multicast.** No multicast tree has a loop, from whichever member a packet starts
//!    ([`super::multicast_tree`]).
//! 3. **No credit loop.** The CDG is acyclic.
//! 4. **No drop.** No triple in use is mapped to VL 15, which discards packets.
//! 5. **Capacity.** All tables fit their devices ([`super::limits`]).
//!
//! Pairs of end ports whose packets are dropped are counted, and reported by one warning; OpenSM
//! programs such routes as well. They include those behind an entry of the administrator's tables for a
//! port without a cable
//! ([`may_use_uncabled_ports`](crate::plan::routing::RoutingPolicy::may_use_uncabled_ports)). Two kinds of
//! end ports do not count: destinations for which no switch has an entry, and sources at switches
//! without any entry. The routing engine left them out (ports outside the torus, for instance); the
//! summary lists the destinations and the log warns about them. Nor is there a warning about pairs
//! with a switch if the engine omits such routes by design
//! ([`may_omit_switch_routes`](crate::plan::routing::RoutingPolicy::may_omit_switch_routes)): those
//! between the roots of a tree, for instance. An engine may list the pairs of switches without a route
//! ([`unrouted_switches`](crate::plan::routing::RoutingPolicy::unrouted_switches)): then these pairs lack
//! one, and no others.
//!
//! # Why an acyclic CDG excludes deadlock
//!
//! The argument is that of Dally and Seitz ("Deadlock-Free Message Routing in Multiprocessor
//! Interconnection Networks", 1987). Number the pairs so that each dependency leads to a higher
//! number. Suppose that some packets wait forever, and let (`c`, `v`) be the highest pair in whose
//! buffer one of them waits. The first packet in that buffer needs an end port, which accepts
//! packets eventually, or a pair with a higher number. The buffer of the higher pair holds no
//! packet that waits forever; so it drains, its credits return, and the first packet moves on. The
//! same holds for each packet behind it, so none waits forever: a contradiction.
//!
//! Channels from and to end ports are not nodes of the graph. A channel to an end port waits for
//! nothing, and nothing waits for a channel from an end port, since switches do not route into an
//! end port and out of it again. Neither can be on a cycle.
//!
//! A switch that replicates a multicast packet keeps it in the input buffer until the last copy has
//! left: the input depends on every output of the tree, which are triples like those of unicast.
//! The copies do not depend on each other, because a link starts a packet only with credits for all
//! of it (IBA vol. 1, 7.9): a copy under transmission never waits for another one.
//!
//! # Why all dependencies are found
//!
//! *Unicast.* The entries of all switches for one destination LID form a graph with one edge out of
//! every switch. A packet follows it from its source switch, whatever its input port is. The pass
//! over one LID visits switches upstream first, so that the SLs of all packets that enter a switch
//! are known when it is visited, and adds the triple of each pair of consecutive channels. Switches
//! that packets enter but the order never reaches are on a forwarding loop; a visited switch at
//! which packets end must be that of the destination. The SLs of a source are those that path
//! records give ([`path_sl`](crate::plan::routing::RoutingPolicy::path_sl)), for each SL group of
//! end ports and each hint in [`Checks`]. Consecutive LIDs with equal entries and equal SL groups
//! have equal triples and share one pass.
//!
//! *Multicast.* A packet starts at any switch with a member, full or send-only, on every channel of
//! the group's MFT entry, and continues on every channel of the entry of the next switch but the
//! one back. All consecutive channels that are reachable in this way are added, with all SLs of the
//! groups on the MLID.
//!
//! *Over-approximation.* All end ports at a switch count as sources of each SL that one of them
//! uses, and a packet from them may be on any VL to which one of their ports is mapped. A superset
//! of the real dependencies can cause a false alarm, but cannot hide a cycle.
//!
//! # Assumptions
//!
//! * Devices forward as programmed. Mappings that the plan does not program (QoS off, or no SL
//!   mapping in the device) are VL = SL modulo the number of data VLs ([`super::sl_to_vl`]). If an
//!   engine keeps paths apart by SLs and QoS is off, credit loops with the mappings that the
//!   switches hold are a warning; with all SLs on VL 0, if nobody can read them.
//! * End ports consume packets, and arbitration serves each VL eventually.
//! * Clients use the SL of the path record or of the multicast group.
//! * VL 15 (SMPs) has no credits and takes part in no dependency (IBA vol. 1, 7.6).
//! * All tables are those of this plan. The time in which old and new tables coexist is the subject
//!   of [`super::transition`].
//!
//! # Verdict
//!
//! A credit loop rejects the plan if the routing engine promises to have none and packets of hosts
//! alone close it, else it is a warning. A cycle that disappears without multicast is a warning as
//! well: any client may create a group, and must not be able to take down the routes of the whole
//! fabric. Only if the engine guarantees its trees
//! ([`guarantees_multicast`](crate::plan::routing::RoutingPolicy::guarantees_multicast)), a cycle with
//! groups whose SLs suit them rejects the plan. So is one that packets from or to switches close: they are rare management packets.
//!
//! Strict checks ([`Checks::is_strict`]) reject pairs of hosts without a route, too, and credit loops
//! of unicast packets under each engine whose rules are meant to exclude them
//! ([`avoids_credit_loops`](crate::plan::routing::RoutingPolicy::avoids_credit_loops)).

pub(in crate::verify) mod unicast;

mod listed_pairs;
mod loops;
pub(in crate::verify) mod multicast;

use super::dependency_graph::{DependencyGraph, KnownTriples};
use super::endpoints::{self, DestinationTree, SourcePorts};
use super::held_mappings::{self, HeldMappings};
use super::limits;
use super::network::SwitchNetwork;
use super::proof::{Proof, ProvenDependencies, ProvenRoutes};
use super::sl_to_vl::SlToVlMaps;
use super::triples::{CollectedTriples, Triples};
use super::verdict::{Checks, Cycle, Fault, FaultList, Summary, Verified, VerifyFailure};
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::notes::{Note, counted};
use crate::plan::Plan;
use crate::plan::routing::Lft;
use loops::{LoopOrigin, LoopSearch};
use std::sync::Arc;

/// Checks a plan.
///
/// # Errors
/// The faults that forbid writing it: forwarding loops and paths that end at another port or none,
/// tables beyond the capacity of their devices, packets mapped to VL 15 if the engine made the
/// mapping, and credit loops of hosts if the engine promises to have none. Without that promise a
/// credit loop is a warning in [`Summary::notes`], and so are pairs without a route and packets that
/// a configured mapping drops.
pub fn verify(fabric: &Fabric, plan: Plan, checks: &Checks) -> Result<Verified, VerifyFailure> {
    verify_shared(fabric, &Arc::new(plan), checks)
}

/// [`verify`] for a shared plan.
///
/// # Errors
/// As [`verify`].
pub fn verify_shared(
    fabric: &Fabric,
    plan: &Arc<Plan>,
    checks: &Checks,
) -> Result<Verified, VerifyFailure> {
    let (summary, _) = check(fabric, plan, checks, SwitchNetwork::new(fabric))?;
    Ok(Verified { plan: plan.clone(), summary })
}

/// The data that a full check collected, from which a [`Proof`] is made on demand.
pub(super) struct CheckEvidence {
    network: SwitchNetwork,
    sl_to_vl: SlToVlMaps,
    triples: CollectedTriples,
    cdg: DependencyGraph,
    trees: Vec<DestinationTree>,
    group_notes: Vec<(Mlid, Note)>,
}

pub(super) fn check(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    network: SwitchNetwork,
) -> Result<(Summary, CheckEvidence), VerifyFailure> {
    let sl_to_vl = SlToVlMaps::new(fabric, plan, &network);
    let triples = CollectedTriples::new(&network);
    let mut failure = VerifyFailure::default();
    let mut summary = Summary::default();

    let routes = unicast::check(fabric, plan, checks, &network, &triples);
    summary.lids = routes.reached;
    summary.longest_path = routes.longest;
    summary.left_out = routes.left_out;
    summary.unrouted = routes.unrouted;
    summary.has_cut_off_paths = routes.has_cut_off_paths;
    failure.add(routes.faults);
    failure.add(listed_pairs::routed_against_list(fabric, plan));
    let groups = multicast::check(fabric, plan, &network, &triples);
    failure.add(groups.faults);
    summary.notes.extend(groups.notes.iter().map(|(_, note)| note.clone()));
    failure.add(limits::check(fabric, plan));

    let cdg = DependencyGraph::new(&network, &sl_to_vl, &triples);
    let dropped = cdg.dropped(fabric, &network);
    if plan.routing.policy.decides_sl_to_vl() {
        failure.add(dropped);
    } else {
        summary.notes.extend(configured_drops(&dropped, cdg.dropped_sls()));
    }
    summary.dependencies = cdg.dependencies();
    if let Some(cycle) = cdg.cycle(fabric, &network) {
        let search = LoopSearch { fabric, plan, checks, network: &network, sl_to_vl: &sl_to_vl };
        let found = search.find(cycle);
        if found.rejects(plan, checks) {
            failure.add_fault(Fault::CreditLoop(found.cycle.clone()));
            failure.cause = plan.routing.policy.credit_loop_cause();
        } else {
            summary.notes.push(found.warning(plan));
        }
        summary.has_host_loop = found.origin == LoopOrigin::Hosts;
        summary.cycle = Some(found.cycle);
    } else if held_mappings::are_needed(plan) {
        check_held_mappings(fabric, plan, checks, &network, &triples, &mut summary);
    }
    if failure.total > 0 {
        return Err(failure);
    }
    summary.add_route_notes(fabric, plan);
    let trees = routes.trees;
    let group_notes = groups.notes;
    Ok((summary, CheckEvidence { network, sl_to_vl, triples, cdg, trees, group_notes }))
}

/// Looks for a credit loop with the mappings that switches have which the SM cannot write.
fn check_held_mappings(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    network: &SwitchNetwork,
    triples: &Triples,
    summary: &mut Summary,
) {
    let held = checks.held.as_deref();
    summary.assumes_mappings = held.is_none_or(|held| !held.missing(fabric).is_empty());
    let maps = match held {
        Some(held) => SlToVlMaps::held(fabric, plan, network, held),
        None => SlToVlMaps::on_vl_0(network),
    };
    let unmapped = DependencyGraph::new(network, &maps, triples);
    if let Some(cycle) = unmapped.cycle(fabric, network) {
        summary.notes.push(unmapped_warning(plan, held, &cycle));
        summary.cycle = Some(cycle);
    }
}

impl CheckEvidence {
    /// The triples of unicast and multicast packets; `None` unless the channels are those of a fabric, and none is
    /// that of a lost cable.
    pub(super) fn known_triples(&self, fabric: &Fabric) -> Option<KnownTriples<'_>> {
        let Self { network, sl_to_vl, triples, .. } = self;
        let mut channels = 0..network.channels.len() as u32;
        let is_same_size = network.switches() == fabric.switches().len();
        let is_about = is_same_size && channels.all(|channel| !network.is_cut(channel));
        is_about.then_some(KnownTriples { network, sl_to_vl, triples })
    }

    /// The proof of the plan; `None` if it has a credit loop, a path that is cut off, or packets
    /// that are mapped to VL 15, which only a full check accepts.
    pub(super) fn into_proof(
        self,
        fabric: &Arc<Fabric>,
        verified: &Verified,
        checks: &Checks,
    ) -> Option<Proof> {
        let Self { network, sl_to_vl, triples, cdg, trees: found, group_notes } = self;
        let plan = verified.plan();
        let policy = &*verified.plan.routing.policy;
        // Only a full check reports dropped packets, so it has to examine each such plan.
        if cdg.dropped_sls() != 0 {
            return None;
        }
        let summary = &verified.summary;
        if summary.has_cut_off_paths || checks.is_strict && !summary.unrouted.is_empty() {
            return None;
        }
        // The second graph, with mappings that the plan does not write, is not part of a proof.
        if held_mappings::are_needed(plan) {
            return None;
        }
        let count = plan.lids.max().index() + 1;
        let mut destinations = vec![None; count];
        let mut trees = vec![None; count];
        for to in endpoints::destinations(fabric, plan, policy) {
            destinations[to.lid.index()] = Some(to);
        }
        for tree in found {
            trees[tree.lid.index()] = Some(tree);
        }
        // Removed switches send nothing and forward nothing.
        let mut sources = endpoints::sources(fabric, plan, policy);
        sources.resize(network.switches(), SourcePorts::default());
        let mut tables = plan.routing.lfts.clone();
        tables.resize(network.switches(), Arc::new(Lft::empty(plan.lids.max())));
        Some(Proof {
            fabric: fabric.clone(),
            plan: plan.clone(),
            checks: checks.clone(),
            packed: Arc::new(network.packed()),
            dependencies: ProvenDependencies::new(&network, triples.finish(), cdg)?,
            network: Arc::new(network),
            sl_to_vl: Arc::new(sl_to_vl),
            routes: ProvenRoutes {
                tables: Arc::new(tables),
                groups: plan.multicast.clone(),
                sources: Arc::new(sources),
                destinations: Arc::new(destinations),
                trees: Arc::new(trees),
            },
            group_notes,
            summary: verified.summary.clone(),
            fault_free: None,
        })
    }
}

/// The warning of a credit loop with the mappings that switches hold, or may hold.
fn unmapped_warning(plan: &Plan, held: Option<&HeldMappings>, cycle: &Cycle) -> Note {
    let engine = plan.routing.engine;
    let Some(held) = held else {
        return Note::warning(format!(
            "routing engine {engine} keeps paths apart by SLs, but no SL to VL mappings are written \
             while qos is FALSE: the fabric may deadlock where devices map these SLs to the same VL: \
             {cycle}; set qos TRUE (-Q)"
        ));
    };
    let unread = match held.unread_switches() {
        0 => String::new(),
        count => format!(
            " (unread ones of {} count as SLs on VL 0)",
            counted(count, "switch", "switches")
        ),
    };
    Note::warning(format!(
        "routing engine {engine} keeps paths apart by SLs, but qos is FALSE, and the SL to VL mappings \
         that the switches hold put these SLs on the same VL{unread}: the fabric may deadlock: \
         {cycle}; set qos TRUE (-Q)"
    ))
}

/// The message about packets that the administrator's SL to VL mappings drop. VL 15 for an unused
/// SL is the usual way to disable it, so only SL 0, which every client may use, is worth a warning.
fn configured_drops(dropped: &FaultList, sls: u16) -> Option<Note> {
    let first = dropped.described.first()?;
    let more = match dropped.total {
        1 => String::new(),
        2 => ", and there is 1 more such place".to_owned(),
        total => format!(", and there are {} more such places", total - 1),
    };
    let text = format!("as configured, {first}{more}");
    Some(if sls & 1 == 1 { Note::warning(text) } else { Note::info(text) })
}
