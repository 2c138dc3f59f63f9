//! The triples of packets that may leave each switch through every port of a group.

use crate::fabric::{Fabric, SwitchId};
use crate::ids::{Lid, Sl};
use crate::plan::Plan;
use crate::plan::adaptive::AdaptiveGroups;
use crate::plan::routing::PortMask;
use crate::verify::MAX_PATH_SWITCHES;
use crate::verify::endpoints::{Endpoint, SourcePorts};
use crate::verify::network::{Channel, NONE, SwitchNetwork};
use crate::verify::triples::{CollectedTriples, LOCAL_INPUT, Triples};
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use std::ops::Range;

/// Destinations in one task.
const LIDS_PER_CHUNK: usize = 32;

/// The triples of all cables beside those of the static routes: each input, channel and next channel
/// stands for all cables with which it is in a group.
pub(super) fn beside(
    network: &SwitchNetwork,
    triples: &Triples,
    fabric: &Fabric,
    groups: &AdaptiveGroups,
) -> CollectedTriples {
    let around = triples.collected();
    let cables: Vec<Vec<u32>> =
        network.channels.iter().map(|channel| group_of(network, fabric, groups, channel)).collect();
    (0..network.channels.len()).into_par_iter().with_min_len(64).for_each(|channel| {
        let Channel { from, to, .. } = network.channels[channel];
        for (input, next, sls) in triples.of(network, channel) {
            let inputs = input.checked_sub(1).map(|input| {
                let into =
                    network.reverse((network.out_of(from).start + usize::from(input)) as u32);
                &cables[into as usize]
            });
            let nexts = &cables[network.out_of(to).start + usize::from(next)];
            for &middle in &cables[channel] {
                let hop = network.hop_of(middle);
                let sets = hop.channel_sets();
                for &next in nexts {
                    let next = network.channels[next as usize].out_index;
                    let Some(inputs) = inputs else {
                        around.add(sets, LOCAL_INPUT, next, sls);
                        continue;
                    };
                    for &input in inputs {
                        let input = network.channels[input as usize].in_index + 1;
                        around.add(sets, input, next, sls);
                    }
                }
            }
        }
    });
    around
}

/// The channels in the group of a channel; itself alone if it has none, or if its switch was removed. None for
/// cables that were lost, which no packet takes.
fn group_of(
    network: &SwitchNetwork,
    fabric: &Fabric,
    groups: &AdaptiveGroups,
    channel: &Channel,
) -> Vec<u32> {
    let Channel { port, from, out_index, .. } = *channel;
    if from.index() >= fabric.switches().len() {
        return vec![(network.out_of(from).start + usize::from(out_index)) as u32];
    }
    let own = fabric.port(port).num.0;
    let ports = groups.of(from).ports_by_port(own);
    let channels = ports.iter().map(|num| network.hop(network.slot(from.0, num)).channel);
    channels.filter(|&channel| channel != NONE).collect()
}

/// The LIDs at a switch to which packets take the same links from all other switches.
pub(super) struct Route {
    to: Endpoint,
    pub(super) lids: Vec<Lid>,
}

/// The inputs of all passes.
pub(super) struct UnionPass<'a> {
    pub plan: &'a Plan,
    pub hints: &'a [Sl],
    pub network: &'a SwitchNetwork,
    pub sources: &'a [SourcePorts],
}

/// The ports through which packets to a LID leave a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ExitPorts {
    fixed: u8,
    /// The group; 0 for the static port alone.
    group: u16,
}

/// Buffers of a pass over the switches.
struct UnionScratch {
    /// SLs of packets from the end ports of each switch.
    own: Vec<u16>,
    /// SLs of packets on each channel.
    flow: Vec<u16>,
    /// Channels of each switch, one after another, and where they begin.
    channels: Vec<u32>,
    first: Vec<u32>,
    pending: Vec<u32>,
    depth: Vec<u32>,
    order: Vec<u32>,
}

impl UnionPass<'_> {
    /// The routes to LIDs with a group in a switch; first the safe ones, then those on which packets
    /// circle, get lost or pass too many switches.
    pub(super) fn routes(
        &self,
        destinations: &[Endpoint],
        groups: &AdaptiveGroups,
    ) -> (Vec<Route>, Vec<Route>) {
        let routes: Vec<Vec<(Route, bool)>> = destinations
            .par_chunks(LIDS_PER_CHUNK)
            .map(|chunk| self.routes_of(chunk, groups))
            .collect();
        let mut safe = Vec::new();
        let mut broken = Vec::new();
        for (route, is_safe) in routes.into_iter().flatten() {
            if is_safe {
                safe.push(route);
            } else {
                broken.push(route);
            }
        }
        (safe, broken)
    }

    /// The routes to some LIDs, each with whether all packets arrive.
    fn routes_of(&self, chunk: &[Endpoint], groups: &AdaptiveGroups) -> Vec<(Route, bool)> {
        let mut scratch = UnionScratch::new(self.network);
        let mut routes: Vec<(Route, bool)> = Vec::new();
        let mut before: Vec<ExitPorts> = Vec::new();
        for to in chunk {
            let exits = self.exits(to, groups);
            if exits.iter().all(|exit| exit.group == 0) {
                continue;
            }
            match routes.last_mut() {
                Some((last, _)) if is_same_route(&last.to, &before, to, &exits) => {
                    last.lids.push(to.lid);
                }
                _ => {
                    let is_safe = self.trace(to, &exits, groups, &mut scratch, |_, _, _, _| ());
                    routes.push((Route { to: *to, lids: vec![to.lid] }, is_safe));
                }
            }
            before = exits;
        }
        routes
    }

    /// Adds the triples of safe routes.
    pub(super) fn add(
        &self,
        routes: &[Route],
        groups: &AdaptiveGroups,
        triples: &CollectedTriples,
    ) {
        routes.par_chunks(LIDS_PER_CHUNK).for_each(|routes| {
            let mut scratch = UnionScratch::new(self.network);
            for Route { to, .. } in routes {
                let exits = self.exits(to, groups);
                self.trace(to, &exits, groups, &mut scratch, |channel, input, next, sls| {
                    let hop = self.network.hop_of(channel);
                    triples.add(hop.channel_sets(), input, next, sls);
                });
            }
        });
    }

    fn exits(&self, to: &Endpoint, groups: &AdaptiveGroups) -> Vec<ExitPorts> {
        let tables = self.plan.routing.lfts.iter().zip(0..).take(self.network.switches());
        tables
            .map(|(table, switch)| {
                let fixed = table.entry(to.lid);
                ExitPorts { fixed, group: groups.number(SwitchId(switch), to.lid, fixed) }
            })
            .collect()
    }

    /// Follows all packets to a LID and calls `add` with channel, input, next channel and SLs of each
    /// triple. Returns false, possibly after some triples, if not all packets arrive that static ports
    /// deliver.
    fn trace(
        &self,
        to: &Endpoint,
        exits: &[ExitPorts],
        groups: &AdaptiveGroups,
        scratch: &mut UnionScratch,
        mut add: impl FnMut(u32, u16, u16, u16),
    ) -> bool {
        let network = self.network;
        self.start(to, exits, groups, scratch);
        let UnionScratch { own, flow, channels, first, pending, depth, order } = scratch;
        let mut next_place = 0;
        while let Some(&here) = order.get(next_place) {
            next_place += 1;
            let switch = here as usize;
            let inputs: Vec<(u16, u16)> = network
                .into(SwitchId(here))
                .filter(|&channel| flow[channel as usize] != 0)
                .map(|channel| {
                    (network.channels[channel as usize].in_index + 1, flow[channel as usize])
                })
                .chain((own[switch] != 0).then_some((LOCAL_INPUT, own[switch])))
                .collect();
            let all = inputs.iter().fold(0, |all, &(_, sls)| all | sls);
            let is_long = depth[switch] > MAX_PATH_SWITCHES;
            if all != 0 && (is_long || !self.delivers(to, exits, groups, switch)) {
                return false;
            }
            for &channel in &channels[channels_of(first, switch)] {
                let next = network.channels[channel as usize].to.index();
                if all != 0 {
                    flow[channel as usize] = all;
                    depth[next] = depth[next].max(depth[switch] + 1);
                    for &after in &channels[channels_of(first, next)] {
                        let after = network.channels[after as usize].out_index;
                        for &(input, sls) in &inputs {
                            add(channel, input, after, sls);
                        }
                    }
                }
                pending[next] -= 1;
                if pending[next] == 0 {
                    order.push(next as u32);
                }
            }
        }
        // Switches on a circle were not visited.
        let is_circled = (0..network.switches())
            .any(|switch| pending[switch] > 0 && self.may_be_entered(switch, own, flow));
        !is_circled
    }

    /// True if packets begin at a switch or arrive there from a visited one.
    fn may_be_entered(&self, switch: usize, own: &[u16], flow: &[u16]) -> bool {
        let mut into = self.network.into(SwitchId(switch as u32));
        own[switch] != 0 || into.any(|channel| flow[channel as usize] != 0)
    }

    /// True if all ports that a switch may choose lead on, or are the destination itself.
    fn delivers(
        &self,
        to: &Endpoint,
        exits: &[ExitPorts],
        groups: &AdaptiveGroups,
        switch: usize,
    ) -> bool {
        let ExitPorts { fixed, group } = exits[switch];
        if switch == to.switch as usize {
            return group == 0 && fixed == to.exit;
        }
        let ports = ports_of(groups, switch, fixed, group);
        fixed == LFT_NO_PATH
            || ports.iter().all(|port| leads_on(exits, self.network, port, switch, fixed))
    }

    /// Fills in own SLs, channels and the numbers of channels into each switch.
    fn start(
        &self,
        to: &Endpoint,
        exits: &[ExitPorts],
        groups: &AdaptiveGroups,
        scratch: &mut UnionScratch,
    ) {
        let network = self.network;
        let policy = &*self.plan.routing.policy;
        scratch.flow.fill(0);
        scratch.pending.fill(0);
        scratch.depth.fill(1);
        scratch.channels.clear();
        scratch.first.clear();
        scratch.order.clear();
        for (switch, &ExitPorts { fixed, group }) in exits.iter().enumerate() {
            scratch.first.push(scratch.channels.len() as u32);
            let has_route = fixed != LFT_NO_PATH;
            scratch.own[switch] =
                if has_route { self.sources[switch].sls(policy, to, self.hints) } else { 0 };
            if !has_route || switch == to.switch as usize {
                continue;
            }
            for port in ports_of(groups, switch, fixed, group).iter() {
                let slot = network.slot(switch as u32, port);
                if slot != NONE && network.hop(slot).channel != NONE {
                    let hop = network.hop(slot);
                    scratch.channels.push(hop.channel);
                    scratch.pending[hop.switch as usize] += 1;
                }
            }
        }
        scratch.first.push(scratch.channels.len() as u32);
        let pending = &scratch.pending;
        scratch.order.extend((0..exits.len() as u32).filter(|&at| pending[at as usize] == 0));
    }
}

fn leads_on(
    exits: &[ExitPorts],
    network: &SwitchNetwork,
    port: u8,
    switch: usize,
    fixed: u8,
) -> bool {
    let slot = network.slot(switch as u32, port);
    let next = if slot == NONE { NONE } else { network.hop(slot).switch };
    // Static routes may end at a switch without an entry, which is a finding of their own.
    next != NONE && (port == fixed || exits[next as usize].fixed != LFT_NO_PATH)
}

fn channels_of(first: &[u32], switch: usize) -> Range<usize> {
    first[switch] as usize..first[switch + 1] as usize
}

fn ports_of(groups: &AdaptiveGroups, switch: usize, fixed: u8, group: u16) -> PortMask {
    if group > 0 {
        return groups.of(SwitchId(switch as u32)).masks()[usize::from(group)];
    }
    PortMask::only(fixed)
}

/// True if packets to two LIDs take the same links with the same SLs.
fn is_same_route(a: &Endpoint, a_exits: &[ExitPorts], b: &Endpoint, b_exits: &[ExitPorts]) -> bool {
    let at = a.switch as usize;
    (a.group, a.switch) == (b.group, b.switch)
        && a_exits[at].fixed == a.exit
        && b_exits[at].fixed == b.exit
        && a_exits
            .iter()
            .zip(b_exits)
            .enumerate()
            .all(|(index, (a, b))| index == at || a == b || a.group > 0 && a.group == b.group)
}

impl UnionScratch {
    fn new(network: &SwitchNetwork) -> Self {
        let switches = network.switches();
        Self {
            own: vec![0; switches],
            flow: vec![0; network.channels.len()],
            channels: Vec::new(),
            first: Vec::with_capacity(switches + 1),
            pending: vec![0; switches],
            depth: vec![0; switches],
            order: Vec::with_capacity(switches),
        }
    }
}
