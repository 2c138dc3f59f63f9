//! The unicast part of the full check: every LID from every switch.
//!
//! The entries of all switches for one LID form a tree with the destination as root. One pass from
//! the leaves to the root visits a switch once the packets of all its upstream neighbours are
//! known. It collects their SLs, adds the triples, and finds packets that end elsewhere or loop.
//! LIDs at the same switch mostly have the same tree and share one pass. Packets that a switch drops
//! for want of an entry are counted ([`UnroutedPairs`]); a path that begins and ends so at a later
//! switch is *cut off*.

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, PortNum, Sl};
use crate::plan::Plan;
use crate::plan::routing::{LftColumns, RoutingPolicy};
use crate::verify::endpoints::{
    self, DestinationTree, Endpoint, SourcePorts, destinations, sources,
};
use crate::verify::group_sources::GroupSources;
use crate::verify::network::{ChannelSets, NONE, NextHop, SwitchNetwork};
use crate::verify::triples::{CollectedTriples, LOCAL_INPUT};
use crate::verify::unrouted::UnroutedPairs;
use crate::verify::verdict::{Checks, Fault, FaultList};
use crate::verify::{MAX_PATH_SWITCHES, walk};
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use std::ops::RangeInclusive;

/// Destinations in one task, whose entries are transposed together: in a large fabric more of them, since their
/// blocks of the forwarding tables are found by pointers side by side, in a small one enough tasks for all
/// processors.
const LIDS_PER_CHUNK: RangeInclusive<usize> = 64..=256;
/// Number of tasks up to which the chunks are as small as possible.
const TASKS: usize = 128;

pub(in crate::verify) struct UnicastFindings {
    pub reached: usize,
    pub longest: u32,
    pub left_out: Vec<PortId>,
    pub trees: Vec<DestinationTree>,
    pub unrouted: UnroutedPairs,
    /// True if a path is cut off.
    pub has_cut_off_paths: bool,
    pub faults: FaultList,
}

impl UnicastFindings {
    fn empty() -> Self {
        Self {
            reached: 0,
            longest: 0,
            left_out: Vec::new(),
            trees: Vec::new(),
            unrouted: UnroutedPairs::default(),
            has_cut_off_paths: false,
            faults: FaultList::default(),
        }
    }
}

/// The inputs that all passes share.
struct UnicastPass<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    policy: &'a dyn RoutingPolicy,
    network: &'a SwitchNetwork,
    triples: &'a CollectedTriples,
    hints: &'a [Sl],
    /// True if pairs without a route are faults.
    is_strict: bool,
    /// The only pairs of switches without a route that are no faults, if the engine lists them.
    unrouted: Option<&'a [[SwitchId; 2]]>,
    sources: &'a [SourcePorts],
    groups: &'a GroupSources<'a>,
}

pub(in crate::verify) fn check(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    network: &SwitchNetwork,
    triples: &CollectedTriples,
) -> UnicastFindings {
    let policy = &*plan.routing.policy;
    let sources = sources(fabric, plan, policy);
    let all = destinations(fabric, plan, policy);
    check_some((fabric, plan, checks), &sources, &all, network, triples)
}

/// Adds the triples of packets from hosts to hosts.
pub(super) fn add_triples_of_hosts(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    network: &SwitchNetwork,
    triples: &CollectedTriples,
) {
    let policy = &*plan.routing.policy;
    let sources = endpoints::host_sources(fabric, plan, policy);
    let mut hosts = destinations(fabric, plan, policy);
    hosts.retain(|to| !to.is_switch());
    check_some((fabric, plan, checks), &sources, &hosts, network, triples);
}

/// [`check`] for some LIDs, in the order of [`destinations`].
pub(in crate::verify) fn check_some(
    (fabric, plan, checks): (&Fabric, &Plan, &Checks),
    sources: &[SourcePorts],
    destinations: &[Endpoint],
    network: &SwitchNetwork,
    triples: &CollectedTriples,
) -> UnicastFindings {
    let policy = &*plan.routing.policy;
    let hints = checks.hints();
    let is_strict = checks.is_strict;
    let unrouted = policy.unrouted_switches();
    debug_assert!(unrouted.is_none_or(<[_]>::is_sorted), "packets search it");
    let groups = &endpoints::group_sources(sources, policy);
    let pass = UnicastPass {
        fabric,
        plan,
        policy,
        network,
        triples,
        hints,
        is_strict,
        unrouted,
        sources,
        groups,
    };
    let size = (destinations.len() / TASKS).clamp(*LIDS_PER_CHUNK.start(), *LIDS_PER_CHUNK.end());
    let parts: Vec<_> = destinations.par_chunks(size).map(|chunk| pass.chunk(chunk)).collect();

    let mut found = UnicastFindings::empty();
    for part in parts {
        found.trees.extend(part.trees);
        found.reached += part.reached;
        found.longest = found.longest.max(part.longest);
        found.left_out.extend(part.left_out);
        found.unrouted.append(&part.unrouted);
        found.has_cut_off_paths |= part.has_cut_off_paths;
        found.faults.append(part.faults);
    }
    found.left_out.sort_unstable();
    found.left_out.dedup();
    found
}

/// The state of a switch during a pass.
#[derive(Clone, Copy)]
struct SwitchState {
    triples: usize,
    switch: u32,
    width: u16,
    out_index: u16,
    in_index: u16,
    /// Number of upstream neighbours that are not visited yet.
    pending: u16,
    /// SLs of packets from its end ports to the SL group of the destination.
    own: u16,
    /// SLs of all packets that pass the switch.
    flow: u16,
    /// Switches on the longest path to this one, itself included.
    depth: u16,
}

impl SwitchState {
    #[inline]
    fn channel_sets(&self) -> ChannelSets {
        ChannelSets { first: self.triples, width: self.width }
    }
}

/// Buffers of a pass over the switches.
struct PathScratch {
    /// [`SwitchState::own`] of each switch.
    own: Vec<u16>,
    /// Of one end port after the other.
    sls: Vec<Sl>,
    states: Vec<SwitchState>,
    /// Switches in the order of the pass, and one more element.
    order: Vec<u32>,
}

impl PathScratch {
    fn new(switches: usize) -> Self {
        Self {
            own: vec![0; switches],
            sls: Vec::new(),
            states: Vec::with_capacity(switches),
            order: vec![0; switches + 1],
        }
    }

    /// Puts the switches without upstream neighbours at the head of the order, and returns their
    /// number.
    fn leaves(&mut self) -> usize {
        let mut count = 0;
        // Branch-free, since a branch would be mispredicted often; other switches are overwritten.
        for (state, switch) in self.states.iter().zip(0u32..) {
            self.order[count] = switch;
            count += usize::from(state.pending == 0);
        }
        count
    }
}

/// The result of a pass.
#[derive(Clone, Copy)]
enum RouteVerdict {
    Reached { longest: u32 },
    Broken,
}

impl UnicastPass<'_> {
    fn chunk(&self, chunk: &[Endpoint]) -> UnicastFindings {
        let switches = self.network.switches();
        let lids = chunk.iter().map(|to| to.lid);
        let routes = LftColumns::new(&self.plan.routing.lfts, switches, lids);
        let mut scratch = PathScratch::new(switches);
        let mut found = UnicastFindings::empty();
        let mut before: Option<(&Endpoint, &[u8], RouteVerdict)> = None;
        let mut leader = Lid(0);
        for (to, route) in chunk.iter().zip(routes.iter()) {
            if route.iter().all(|&port| port == LFT_NO_PATH) {
                found.left_out.push(to.port);
                continue;
            }
            let verdict = match before {
                Some((last, same, verdict @ RouteVerdict::Reached { .. }))
                    if last.group == to.group && shares_tree(last, same, to, route) =>
                {
                    verdict
                }
                _ => {
                    leader = to.lid;
                    if before.is_none_or(|(last, ..)| last.group != to.group) {
                        let PathScratch { own, sls, .. } = &mut scratch;
                        own.fill(0);
                        let Self { groups, hints, .. } = *self;
                        groups.add_sls(to.port, to.route_lid, hints, sls, own);
                    }
                    self.trace(to, route, &mut scratch)
                }
            };
            match verdict {
                RouteVerdict::Reached { longest } => {
                    let longest_here = longest.min(u16::MAX.into()) as u16;
                    found.trees.push(DestinationTree {
                        lid: to.lid,
                        leader,
                        longest: longest_here,
                    });
                    found.reached += 1;
                    found.longest = found.longest.max(longest);
                    if route.contains(&LFT_NO_PATH) {
                        self.count_unrouted(to, route, &mut found);
                    }
                }
                RouteVerdict::Broken => self.explain(to, route, &mut scratch, &mut found),
            }
            before = Some((to, route, verdict));
        }
        found
    }

    /// Reads the entries for a LID: the next hop of each switch, and its number of upstream
    /// neighbours.
    fn read(&self, route: &[u8], scratch: &mut PathScratch) {
        scratch.states.clear();
        let switches = route.iter().zip(&scratch.own).zip(0u32..);
        scratch.states.extend(switches.map(|((&port, &own), switch)| {
            // A switch without an entry drops the packets of its own end ports.
            let own = if port == LFT_NO_PATH { 0 } else { own };
            let slot = match port {
                LFT_NO_PATH => NONE,
                port => self.network.slot(switch, port),
            };
            let hop = if slot == NONE { &NextHop::UNCONNECTED } else { self.network.hop(slot) };
            let NextHop { triples, switch, width, out_index, in_index, .. } = *hop;
            let pending = 0;
            let depth = 1;
            SwitchState {
                triples,
                switch,
                width,
                out_index,
                in_index,
                pending,
                own,
                flow: own,
                depth,
            }
        }));
        for index in 0..scratch.states.len() {
            let next = scratch.states[index].switch;
            if next != NONE {
                scratch.states[next as usize].pending += 1;
            }
        }
    }

    /// The pass for one LID.
    fn trace(&self, to: &Endpoint, route: &[u8], scratch: &mut PathScratch) -> RouteVerdict {
        self.read(route, scratch);
        let mut lost = route[to.switch as usize] != to.exit;
        let mut known = scratch.leaves();
        let PathScratch { states, order, .. } = scratch;
        let mut position = 0;
        while position < known {
            let here = order[position];
            position += 1;
            let state = states[here as usize];
            if state.switch == NONE {
                lost |= here != to.switch && state.flow != 0;
                continue;
            }
            let next = &mut states[state.switch as usize];
            next.pending -= 1;
            order[known] = state.switch;
            known += usize::from(next.pending == 0);
            if state.flow == 0 {
                continue;
            }
            next.flow |= state.flow;
            next.depth = next.depth.max(state.depth.saturating_add(1));
            let next = *next;
            if next.switch != NONE {
                self.add_triples(&state, &next, &states[next.switch as usize]);
            }
        }
        let longest = u32::from(states[to.switch as usize].depth);
        if lost || known < route.len() && has_loop(states) || longest > MAX_PATH_SWITCHES {
            RouteVerdict::Broken
        } else {
            RouteVerdict::Reached { longest }
        }
    }

    /// Adds the triples of packets that leave a switch: those from its end ports one channel
    /// further, all of them two channels further.
    #[inline]
    fn add_triples(&self, here: &SwitchState, second: &SwitchState, third: &SwitchState) {
        if here.own != 0 {
            self.triples.add(here.channel_sets(), LOCAL_INPUT, second.out_index, here.own);
        }
        if third.switch != NONE {
            let channel = second.channel_sets();
            self.triples.add(channel, here.in_index + 1, third.out_index, here.flow);
        }
    }

    /// Counts the end ports at switches without an entry for a LID.
    fn count_unrouted(&self, to: &Endpoint, route: &[u8], found: &mut UnicastFindings) {
        let switches = self.sources.iter().enumerate().zip(route);
        for ((switch, sources), _) in switches.filter(|(_, port)| **port == LFT_NO_PATH) {
            found.unrouted.add(self.fabric, switch, sources, to);
            if self.is_fault(switch, to) {
                self.add_faults(to, switch, true, &mut found.faults);
            }
        }
    }

    /// True if packets from a switch to a destination may not be dropped.
    fn is_fault(&self, switch: usize, to: &Endpoint) -> bool {
        let pair = [SwitchId(switch as u32), SwitchId(to.switch)];
        self.is_strict || self.unrouted.is_some_and(|pairs| pairs.binary_search(&pair).is_err())
    }

    /// Finds the ends of the paths to a LID that does not get all packets.
    fn explain(
        &self,
        to: &Endpoint,
        route: &[u8],
        scratch: &mut PathScratch,
        found: &mut UnicastFindings,
    ) {
        self.read(route, scratch);
        for (switch, sources) in self.sources.iter().enumerate() {
            if sources.ports.is_empty() {
                continue;
            }
            match self.end(to, route, &scratch.states, switch) {
                PathEndpoint::Arrives => {}
                PathEndpoint::Dropped { at_source } => {
                    found.has_cut_off_paths |= !at_source;
                    found.unrouted.add(self.fabric, switch, sources, to);
                    let is_listed = at_source && !self.is_fault(switch, to);
                    if self.is_strict || self.unrouted.is_some() && !is_listed {
                        self.add_faults(to, switch, at_source, &mut found.faults);
                    }
                }
                PathEndpoint::Fault => self.add_faults(to, switch, false, &mut found.faults),
            }
        }
    }

    /// Adds the faults of the end ports at a switch that do not reach a LID, except for those whose
    /// packets end at once and need no route.
    fn add_faults(&self, to: &Endpoint, switch: usize, at_source: bool, faults: &mut FaultList) {
        let may_omit = at_source && self.policy.may_omit_switch_routes();
        for &source in self.sources[switch]
            .ports
            .iter()
            .filter(|&&source| needs_route(to, self.fabric, source, may_omit))
        {
            faults.add(|| Fault::Unreachable {
                source_port: self.fabric.describe(source),
                lid: to.lid,
                destination: self.fabric.describe(to.port),
                end: walk::walk(self.fabric, self.plan, source, to.lid).end.describe(self.fabric),
            });
        }
    }

    /// The end of the path from a switch.
    fn end(&self, to: &Endpoint, route: &[u8], hops: &[SwitchState], from: usize) -> PathEndpoint {
        let mut here = from;
        for _ in 0..MAX_PATH_SWITCHES {
            let port = route[here];
            if port == LFT_NO_PATH {
                return PathEndpoint::Dropped { at_source: here == from };
            }
            if here == to.switch as usize && port == to.exit {
                return PathEndpoint::Arrives;
            }
            let next = hops[here].switch;
            if next != NONE {
                here = next as usize;
                continue;
            }
            // The entry of the source leads there, so that this is not the same as none.
            let is_dropped = self.policy.may_use_uncabled_ports() && !self.is_cabled(here, port);
            return if is_dropped {
                PathEndpoint::Dropped { at_source: false }
            } else {
                PathEndpoint::Fault
            };
        }
        PathEndpoint::Fault
    }

    /// True if a packet that leaves a switch through this port arrives somewhere.
    fn is_cabled(&self, switch: usize, port: u8) -> bool {
        let exit = self.fabric.switch_port(SwitchId(switch as u32), PortNum(port));
        exit.is_some_and(|exit| port == 0 || self.fabric.port(exit).peer.is_some())
    }
}

fn needs_route(to: &Endpoint, fabric: &Fabric, source: PortId, may_omit: bool) -> bool {
    source != to.port && !(may_omit && (to.is_switch() || fabric.node_of(source).is_switch()))
}

/// The end of a path.
enum PathEndpoint {
    Arrives,
    /// A switch has no entry, or one for a port without a cable: that of the source, or a later one.
    Dropped {
        at_source: bool,
    },
    /// The path loops, is too long, or leads to a port that is not the destination.
    Fault,
}

/// True if packets enter switches that the pass did not visit: those on a loop.
fn has_loop(states: &[SwitchState]) -> bool {
    states.iter().any(|state| state.pending > 0 && state.flow != 0)
}

/// True if two LIDs at one switch have the same entries in all other switches and arrive at their
/// own ports.
fn shares_tree(a: &Endpoint, a_column: &[u8], b: &Endpoint, b_column: &[u8]) -> bool {
    let at = a.switch as usize;
    a.switch == b.switch
        && b_column[at] == b.exit
        && a_column[at] == a.exit
        && a_column[..at] == b_column[..at]
        && a_column[at + 1..] == b_column[at + 1..]
}
