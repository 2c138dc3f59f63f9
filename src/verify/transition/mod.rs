//! The check of the transition from one plan to the next, while old and new tables coexist.
//!
//! Both plans are free of credit loops, but while tables change, a packet may use old entries on
//! one part of its way and new ones on another. [`check`] builds the dependencies of every possible
//! mixture: for each LID, each switch may use its old or its new entry, packets arrive on each
//! input that either leads to, with the path SLs and the SL to VL mappings of both plans. The same
//! holds for multicast packets. Only cables that still exist count. Mixtures that the order of the
//! Sets excludes are left out: if a switch is written after the next one on the new route, its
//! packets meet the new entry there ([`KeepsNewRoute`]). Without a cycle in this union no deadlock
//! is possible during the transition. With one, a deadlock is possible but unlikely: it needs
//! packets on all channels of the cycle at once.
//!
//! Multicast trees whose old and new entries together have a loop are removed before the new tree
//! is written (see [`crate::apply::transition`]), so only the dependencies within each tree count.

mod trees;

pub use trees::has_ring;

use super::dependency_graph::DependencyGraph;
use super::group_sources::GroupSources;
use super::network::{NONE, SwitchNetwork};
use super::sl_to_vl::SlToVlMaps;
use super::triples::{CollectedTriples, LOCAL_INPUT};
use super::verdict::{Checks, Cycle};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, Sl};
use crate::plan::Plan;
use crate::plan::routing::{Lft, LftColumns, Routing};
use crate::wire::attr::tables::{LFT_NO_PATH, SlToVl};
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

/// LIDs in one task, whose entries are transposed together.
const LIDS_PER_CHUNK: usize = 64;

/// A plan with the fabric that it was made for.
#[derive(Clone, Copy, Debug)]
pub struct PlannedFabric<'a> {
    pub fabric: &'a Fabric,
    pub plan: &'a Plan,
}

/// The differences between two plans, and the dependencies of both together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CoexistenceReport {
    /// Number of LIDs with a changed entry in some switch.
    pub lids: usize,
    /// Number of multicast groups with a changed tree.
    pub groups: usize,
    /// True if SL to VL mappings between switches differ.
    pub sl_to_vl_differs: bool,
    /// Number of dependencies between (channel, VL) pairs.
    pub dependencies: usize,
    /// A credit loop that may form during the transition.
    pub cycle: Option<Cycle>,
}

impl CoexistenceReport {
    /// True if the routes do not change.
    pub fn is_trivial(&self) -> bool {
        self.lids == 0 && self.groups == 0 && !self.sl_to_vl_differs
    }
}

/// True if packets to a LID that a switch forwards by its new entry meet the new entry at the next
/// changed switch as well, because of the order of the Sets.
pub type KeepsNewRoute<'a> = dyn Fn(SwitchId, Lid) -> bool + Sync + 'a;

/// Computes the dependencies of `old` and `new` together, in the fabric of `new`. All devices are
/// assumed to hold the old plan; those that lost their tables hold less.
pub fn check(
    old: PlannedFabric<'_>,
    new: PlannedFabric<'_>,
    checks: &Checks,
    keeps_new_route: &KeepsNewRoute<'_>,
) -> CoexistenceReport {
    let fabric = new.fabric;
    let before = restated(old, fabric, new.plan);
    let network = SwitchNetwork::new(fabric);
    let sl_to_vl = SlToVlMaps::new(fabric, new.plan, &network);
    let others = SlToVlMaps::new(fabric, &before, &network);
    let sl_to_vl_differs = sl_to_vl_differs([&others, &sl_to_vl], &network);
    let mut found = CoexistenceReport { sl_to_vl_differs, ..CoexistenceReport::default() };
    if !sl_to_vl_differs && same_tables(&before, new.plan) {
        return found;
    }
    let triples = CollectedTriples::new(&network);
    let pass = TransitionPass {
        old,
        new,
        before: &before,
        network: &network,
        triples: &triples,
        hints: if checks.hints.is_empty() { vec![Sl(0)] } else { checks.hints.clone() },
        keeps_new_route,
        sources: [new, old].map(|stage| sources(stage, fabric)),
    };
    found.lids = pass.unicast();
    found.groups = pass.multicast();
    if found.is_trivial() {
        return found;
    }
    let cdg = if sl_to_vl_differs {
        DependencyGraph::of_any(&network, &[&sl_to_vl, &others], &triples)
    } else {
        DependencyGraph::new(&network, &sl_to_vl, &triples)
    };
    found.dependencies = cdg.dependencies();
    found.cycle = cdg.cycle(fabric, &network);
    found
}

/// The tables of an old plan by the node and switch ids of another fabric; LIDs and ports are those
/// of the `new` plan. New switches have empty tables.
fn restated(old: PlannedFabric<'_>, fabric: &Fabric, new: &Plan) -> Plan {
    let empty = Arc::new(Lft::default());
    let mut plan = new.clone();
    let routing = Routing {
        lfts: fabric
            .switch_ids()
            .map(|switch| {
                let table = in_old(fabric, old.fabric, switch)
                    .and_then(|at| old.plan.routing.lfts.get(at.index()));
                table.unwrap_or(&empty).clone()
            })
            .collect(),
        ..old.plan.routing.as_ref().clone()
    };
    plan.routing = Arc::new(routing);
    let multicast = Arc::make_mut(&mut plan.multicast);
    multicast.by_switch = fabric
        .switch_ids()
        .map(|switch| {
            let table = in_old(fabric, old.fabric, switch)
                .and_then(|at| old.plan.multicast.by_switch.get(at.index()));
            table.cloned().unwrap_or_default()
        })
        .collect();
    let senders = old.plan.multicast.senders.iter();
    multicast.senders = senders
        .filter_map(|&(mlid, switch)| Some((mlid, in_new(fabric, old.fabric, switch)?)))
        .collect();
    for (index, rows) in new.qos.sl_to_vl.iter().enumerate() {
        let node = &fabric.nodes()[index];
        let Some(before) = old.fabric.node_by_guid(node.guid()) else { continue };
        let held = old.plan.qos.sl_to_vl_of(before);
        if held == &**rows {
            continue;
        }
        let held: HashMap<(u8, u8), SlToVl> =
            held.iter().map(|&(input, output, map)| ((input, output), map)).collect();
        // Pairs of ports without an old mapping had no traffic.
        let replaced = rows.iter().map(|&(input, output, map)| {
            (input, output, held.get(&(input, output)).copied().unwrap_or(map))
        });
        plan.qos.sl_to_vl[index] = replaced.collect();
    }
    plan
}

fn in_new(fabric: &Fabric, old_fabric: &Fabric, switch: SwitchId) -> Option<SwitchId> {
    let node = old_fabric.switches().get(switch.index())?;
    fabric.node(fabric.node_by_guid(old_fabric.node(*node).guid())?).switch
}

fn in_old(fabric: &Fabric, old_fabric: &Fabric, switch: SwitchId) -> Option<SwitchId> {
    let node = old_fabric.node_by_guid(fabric.switch(switch).guid())?;
    old_fabric.node(node).switch
}

/// True if all forwarding tables are equal.
fn same_tables(before: &Plan, new: &Plan) -> bool {
    let old = &before.routing.lfts;
    let now = &new.routing.lfts;
    let mut tables = old.iter().zip(now);
    tables.all(|(old, new)| Arc::ptr_eq(old, new) || old == new)
        && before.multicast.by_switch == new.multicast.by_switch
}

/// True if the mappings between existing cables differ.
fn sl_to_vl_differs(sl_to_vl: [&SlToVlMaps; 2], network: &SwitchNetwork) -> bool {
    network.channels.iter().enumerate().any(|(index, channel)| {
        let [old, new] = sl_to_vl;
        let mut inputs = 0..network.degree(channel.from) as u16;
        old.local(index) != new.local(index)
            || inputs.any(|input| {
                through(network, &channel.from, &channel.out_index, old, input)
                    != through(network, &channel.from, &channel.out_index, new, input)
            })
    })
}

fn through(
    network: &SwitchNetwork,
    from: &SwitchId,
    out_index: &u16,
    sl_to_vl: &SlToVlMaps,
    input: u16,
) -> SlToVl {
    sl_to_vl.through(network, *from, input, *out_index)
}

/// The inputs that all LIDs share.
struct TransitionPass<'a> {
    old: PlannedFabric<'a>,
    new: PlannedFabric<'a>,
    /// The old plan, by the ids of the new fabric.
    before: &'a Plan,
    network: &'a SwitchNetwork,
    triples: &'a CollectedTriples,
    hints: Vec<Sl>,
    keeps_new_route: &'a KeepsNewRoute<'a>,
    /// One end port of each SL group by switch, under the new plan and the old one.
    sources: [GroupSources<'a>; 2],
}

/// The entries of a switch for a LID.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SwitchEntries {
    /// The channel of the new entry; [`NONE`] if it leads to none.
    new: u32,
    /// The channel of the old entry.
    old: u32,
    changes: bool,
    keeps_new_route: bool,
}

/// Index for packets that may meet old and new entries.
const EITHER: usize = 0;
/// Index for packets that meet the new entry at the next changed switch.
const NEW: usize = 1;

impl SwitchEntries {
    const NO_RANK: Self = Self { new: NONE, old: NONE, changes: false, keeps_new_route: false };

    /// The channels that a packet may take, each with [`EITHER`] or [`NEW`] for the next switch.
    fn outputs(self, bound: usize) -> impl Iterator<Item = (u32, usize)> {
        let after = match (self.changes, self.keeps_new_route) {
            (false, _) => bound,
            (true, true) => NEW,
            (true, false) => EITHER,
        };
        let old = if self.changes && bound == EITHER { self.old } else { NONE };
        [(self.new, after), (old, EITHER)].into_iter().filter(|way| way.0 != NONE)
    }
}

/// Buffers for one LID.
struct LidScratch {
    entries: Vec<SwitchEntries>,
    /// By switch: SLs of packets from its end ports.
    own: Vec<u16>,
    /// Of one end port after the other.
    sls: Vec<Sl>,
    /// By switch: SLs of packets that pass, by [`EITHER`] and [`NEW`].
    flow: Vec<[u16; 2]>,
    grown: Vec<(u32, usize)>,
}

/// The owners of a LID under the new plan and the old one.
type Owners = [Option<PortId>; 2];

impl TransitionPass<'_> {
    /// Adds the triples of unicast packets; returns the number of LIDs that change.
    fn unicast(&self) -> usize {
        let mut lids: Vec<(Lid, Owners)> =
            (1..=self.new.plan.lids.max().max(self.old.plan.lids.max()).0)
                .map(|lid| (Lid(lid), self.owners(Lid(lid))))
                .filter(|(_, owners)| owners.iter().any(Option::is_some))
                .collect();
        lids.sort_by_key(|(lid, owners)| (self.groups(*lid, owners), *lid));
        lids.par_chunks(LIDS_PER_CHUNK).map(|chunk| self.chunk(chunk)).sum()
    }

    fn owners(&self, lid: Lid) -> Owners {
        [self.new.plan.lids.port(lid), self.old.plan.lids.port(lid)]
    }

    fn groups(&self, lid: Lid, owners: &Owners) -> [Option<u32>; 2] {
        let stages = [self.new, self.old];
        std::array::from_fn(|side| {
            let plan = stages[side].plan;
            let lid = plan.lids.route_lid(lid);
            owners[side].map(|port| plan.routing.policy.destination_group(port, lid))
        })
    }

    fn chunk(&self, chunk: &[(Lid, Owners)]) -> usize {
        let switches = self.network.switches();
        let [new, old] = [self.new.plan, self.before].map(|plan| {
            LftColumns::new(&plan.routing.lfts, switches, chunk.iter().map(|(lid, _)| *lid))
        });
        let mut scratch = LidScratch {
            entries: vec![SwitchEntries::NO_RANK; switches],
            own: vec![0; switches],
            sls: Vec::new(),
            flow: vec![[0; 2]; switches],
            grown: Vec::with_capacity(switches),
        };
        let mut groups = None;
        let mut entries = Vec::new();
        let mut changed = 0;
        for ((lid, owners), (new, old)) in chunk.iter().zip(new.iter().zip(old.iter())) {
            changed += usize::from(self.read(*lid, new, old, &mut scratch));
            let same_groups =
                groups.replace(self.groups(*lid, owners)) == Some(self.groups(*lid, owners));
            if !same_groups {
                self.own_sls(*lid, owners, &mut scratch.sls, &mut scratch.own);
            } else if entries == scratch.entries {
                continue;
            }
            self.trace(&mut scratch);
            entries.clone_from(&scratch.entries);
        }
        changed
    }

    /// Reads the entries of all switches for a LID; true if one of them changes.
    fn read(&self, lid: Lid, new: &[u8], old: &[u8], scratch: &mut LidScratch) -> bool {
        let mut differs = false;
        let entries = new.iter().zip(old);
        for ((entry, switch), (&new, &old)) in scratch.entries.iter_mut().zip(0..).zip(entries) {
            let channel = channel_of_entry(self.network, switch, new);
            *entry = SwitchEntries { new: channel, ..SwitchEntries::NO_RANK };
            if new != old {
                differs = true;
                entry.changes = true;
                entry.old = channel_of_entry(self.network, switch, old);
                entry.keeps_new_route = (self.keeps_new_route)(SwitchId(switch), lid);
            }
        }
        differs
    }

    fn own_sls(&self, lid: Lid, owners: &Owners, sls: &mut Vec<Sl>, own: &mut [u16]) {
        own.fill(0);
        for (side, stage) in [self.new, self.old].into_iter().enumerate() {
            if let Some(to) = owners[side] {
                let lid = stage.plan.lids.route_lid(lid);
                self.sources[side].add_sls(to, lid, &self.hints, sls, own);
            }
        }
    }

    /// Follows packets on all routes that are possible, and adds their triples.
    fn trace(&self, scratch: &mut LidScratch) {
        let LidScratch { entries, own, flow, grown, .. } = scratch;
        grown.clear();
        for ((flow, &own), switch) in flow.iter_mut().zip(own.iter()).zip(0..) {
            *flow = [own, 0];
            if own != 0 {
                grown.push((switch, EITHER));
            }
        }
        while let Some((switch, bound)) = grown.pop() {
            let sls = flow[switch as usize][bound];
            for (channel, after) in entries[switch as usize].outputs(bound) {
                let to = self.network.channels[channel as usize].to;
                let there = &mut flow[to.index()];
                if sls & !(there[EITHER] | there[after]) != 0 {
                    there[after] |= sls;
                    grown.push((to.0, after));
                }
            }
        }
        for (switch, flow) in flow.iter().enumerate() {
            for (bound, &sls) in flow.iter().enumerate().filter(|(_, sls)| **sls != 0) {
                let own = if bound == EITHER { own[switch] } else { 0 };
                self.add_triples(entries, entries[switch], bound, own, sls);
            }
        }
    }

    /// Adds the triples of packets that leave a switch: for those of its end ports the first two
    /// channels, for all of them the second and the third.
    fn add_triples(
        &self,
        entries: &[SwitchEntries],
        from: SwitchEntries,
        bound: usize,
        own: u16,
        sls: u16,
    ) {
        for (first, bound) in from.outputs(bound) {
            let channel = self.network.channels[first as usize];
            for (second, bound) in entries[channel.to.index()].outputs(bound) {
                if own != 0 {
                    self.add(first, LOCAL_INPUT, second, own);
                }
                let to = self.network.channels[second as usize].to;
                for (third, _) in entries[to.index()].outputs(bound) {
                    self.add(second, channel.in_index + 1, third, sls);
                }
            }
        }
    }

    fn add(&self, channel: u32, input: u16, next: u32, sls: u16) {
        let hop = self.network.hop_of(channel);
        let out_index = self.network.channels[next as usize].out_index;
        self.triples.add(hop.channel_sets(), input, out_index, sls);
    }
}

/// The channel to which a switch forwards by an entry of its table.
fn channel_of_entry(network: &SwitchNetwork, switch: u32, entry: u8) -> u32 {
    if entry == LFT_NO_PATH { NONE } else { network.channel_of_port(switch, entry) }
}

/// One end port of each SL group by switch of `fabric`, with the ids of `stage`.
fn sources<'a>(stage: PlannedFabric<'a>, fabric: &Fabric) -> GroupSources<'a> {
    let policy = &*stage.plan.routing.policy;
    let mut sources = GroupSources::none(policy);
    let mut groups = vec![Vec::new(); fabric.switches().len()];
    for port in fabric.end_ports() {
        let Some(switch) = fabric.switch_behind(port) else { continue };
        let Some(there) = stage.fabric.port_by_guid(fabric.port(port).guid) else { continue };
        let group = policy.sl_group(there);
        if stage.plan.lids.base(there).is_some() && !groups[switch.index()].contains(&group) {
            groups[switch.index()].push(group);
            sources.add(switch.0, there);
        }
    }
    sources
}
