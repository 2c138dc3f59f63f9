//! What packets may meet while a fabric goes from one plan to the next.
//!
//! Both plans are free of credit loops, but while tables change a packet may go some of its way by
//! old entries and the rest by new ones. [`check`] builds the dependencies of all that may happen
//! then: for each LID every switch may send by its old entry or its new one, packets come in by
//! whatever brings them there, with the path SLs of both plans and with the SL to VL mappings of
//! both; so do multicast packets. Only cables that still exist count. What cannot happen because
//! of the order of the Sets is left out: where a switch is written after the next one on the new
//! way, its packets meet the new entry there ([`Commits`]). Without a cycle in this union no
//! deadlock is possible in between; with one, a deadlock is possible but far from certain: it takes
//! packets on all of its channels at once.
//!
//! Groups whose old and new tree together have a ring are cut before they are made anew (see
//! [`crate::apply::transition`]): theirs are the dependencies of either tree, not of both.

mod trees;

pub use trees::has_ring;

use super::channels::Graph;
use super::lanes::Lanes;
use super::triples::{LOCAL, Triples};
use super::wiring::{NONE, Wiring};
use super::{Checks, Cycle};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, Sl};
use crate::plan::Plan;
use crate::plan::routing::{Lft, Routing};
use crate::wire::attr::tables::{LFT_NO_PATH, SlToVl};
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

/// LIDs whose entries are read together.
const CHUNK: usize = 64;

/// A plan with the fabric that it was made for.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// The plan.
    pub plan: &'a Plan,
}

/// What old and new routes are together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coexistence {
    /// LIDs that some switch sends elsewhere than before.
    pub lids: usize,
    /// Multicast groups with other trees than before.
    pub groups: usize,
    /// SL to VL mappings of switches are not what they were.
    pub lanes_differ: bool,
    /// Dependencies between (channel, VL) pairs.
    pub dependencies: usize,
    /// Channels that may wait for each other meanwhile.
    pub cycle: Option<Cycle>,
}

impl Coexistence {
    /// True if the routes are what they were.
    pub fn is_trivial(&self) -> bool {
        self.lids == 0 && self.groups == 0 && !self.lanes_differ
    }
}

/// True for packets that a switch sends to a LID by its new entry, if they will meet the new entry
/// at the next switch that changes, too: the order of the Sets sees to that.
pub type Commits<'a> = dyn Fn(SwitchId, Lid) -> bool + Sync + 'a;

/// The dependencies of `old` and `new` together, in the fabric of `new`. What devices hold is
/// taken to be the old plan; those that lost their tables hold less.
pub fn check(
    old: Stage<'_>,
    new: Stage<'_>,
    checks: &Checks,
    commits: &Commits<'_>,
) -> Coexistence {
    let fabric = new.fabric;
    let before = restated(old, fabric, new.plan);
    let wiring = Wiring::new(fabric);
    let lanes = Lanes::new(fabric, new.plan, &wiring);
    let others = Lanes::new(fabric, &before, &wiring);
    let lanes_differ = lanes_differ([&others, &lanes], &wiring);
    let mut found = Coexistence { lanes_differ, ..Coexistence::default() };
    if !lanes_differ && same_tables(&before, new.plan) {
        return found;
    }
    let triples = Triples::new(&wiring);
    let pass = Pass::new(old, new, &before, checks, commits, &wiring, &triples);
    found.lids = pass.unicast();
    found.groups = pass.multicast();
    if found.is_trivial() {
        return found;
    }
    let graph = if lanes_differ {
        Graph::of_any(&wiring, &[&lanes, &others], &triples)
    } else {
        Graph::new(&wiring, &lanes, &triples)
    };
    found.dependencies = graph.dependencies();
    found.cycle = graph.cycle(fabric, &wiring);
    found
}

/// An old plan's tables by the nodes and switches of another fabric; LIDs and ports are those
/// of the `new` plan. Switches that are new have empty tables.
fn restated(old: Stage<'_>, fabric: &Fabric, new: &Plan) -> Plan {
    let there = |switch: SwitchId| {
        let node = old.fabric.node_by_guid(fabric.switch(switch).guid())?;
        old.fabric.node(node).switch
    };
    let empty = Arc::new(Lft::default());
    let lft = |switch| {
        let table = there(switch).and_then(|at| old.plan.routing.lfts.get(at.index()));
        table.unwrap_or(&empty).clone()
    };
    let masks = |switch| {
        let table = there(switch).and_then(|at| old.plan.multicast.by_switch.get(at.index()));
        table.cloned().unwrap_or_default()
    };
    let mut plan = new.clone();
    let routing = Routing {
        lfts: fabric.switch_ids().map(lft).collect(),
        ..old.plan.routing.as_ref().clone()
    };
    plan.routing = Arc::new(routing);
    let multicast = Arc::make_mut(&mut plan.multicast);
    multicast.by_switch = fabric.switch_ids().map(masks).collect();
    let here = |switch: SwitchId| {
        let node = old.fabric.switches().get(switch.index())?;
        fabric.node(fabric.node_by_guid(old.fabric.node(*node).guid())?).switch
    };
    let senders = old.plan.multicast.senders.iter();
    multicast.senders = senders.filter_map(|&(mlid, switch)| Some((mlid, here(switch)?))).collect();
    for (rows, node) in plan.qos.sl_to_vl.iter_mut().zip(fabric.nodes()) {
        let at = old.fabric.node_by_guid(node.guid());
        let held = at.and_then(|node| old.plan.qos.sl_to_vl.get(node.index()));
        if held.is_none_or(|held| held == rows) {
            continue;
        }
        let held: HashMap<(u8, u8), SlToVl> =
            held.into_iter().flatten().map(|&(i, o, map)| ((i, o), map)).collect();
        // Where there was no mapping there was no traffic.
        for (input, output, map) in rows {
            *map = held.get(&(*input, *output)).copied().unwrap_or(*map);
        }
    }
    plan
}

/// True if all forwarding tables are the same.
fn same_tables(before: &Plan, new: &Plan) -> bool {
    let (old, now) = (&before.routing.lfts, &new.routing.lfts);
    let mut tables = old.iter().zip(now);
    tables.all(|(old, new)| Arc::ptr_eq(old, new) || old == new)
        && before.multicast.by_switch == new.multicast.by_switch
}

/// True if a mapping between cables that exist is not the same in both.
fn lanes_differ(lanes: [&Lanes; 2], wiring: &Wiring) -> bool {
    wiring.channels.iter().enumerate().any(|(index, channel)| {
        let [old, new] = lanes;
        let mut inputs = 0..wiring.degree(channel.from) as u16;
        old.local(index) != new.local(index)
            || inputs.any(|input| {
                let through =
                    |lanes: &Lanes| lanes.through(wiring, channel.from, input, channel.rank);
                through(old) != through(new)
            })
    })
}

/// What all LIDs share.
struct Pass<'a> {
    old: Stage<'a>,
    new: Stage<'a>,
    /// The old plan by the ids of the new fabric.
    before: &'a Plan,
    wiring: &'a Wiring,
    triples: &'a Triples,
    hints: Vec<Sl>,
    commits: &'a Commits<'a>,
    /// By switch: one end port of each SL group, by the new plan and by the old one.
    sources: [Vec<Vec<PortId>>; 2],
}

/// The entries of a switch for a LID.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Station {
    /// The channel of the new entry; [`NONE`] if it leads to none.
    new: u32,
    /// That of the old entry.
    old: u32,
    changes: bool,
    /// As in [`Commits`].
    commits: bool,
}

/// Which entries a packet may meet: either, or only new ones until one that changes was passed.
const EITHER: usize = 0;
const NEW: usize = 1;

impl Station {
    const UNUSED: Self = Self { new: NONE, old: NONE, changes: false, commits: false };

    /// The channels that a packet may take, and which entries it may meet after.
    fn ways(self, bound: usize) -> impl Iterator<Item = (u32, usize)> {
        let after = match (self.changes, self.commits) {
            (false, _) => bound,
            (true, true) => NEW,
            (true, false) => EITHER,
        };
        let old = if self.changes && bound == EITHER { self.old } else { NONE };
        [(self.new, after), (old, EITHER)].into_iter().filter(|way| way.0 != NONE)
    }
}

/// Room for one LID.
struct Scratch {
    /// By switch.
    stations: Vec<Station>,
    /// By switch: SLs of its own end ports.
    own: Vec<u16>,
    /// By switch: SLs that pass, by what they may meet.
    flow: Vec<[u16; 2]>,
    grown: Vec<(u32, usize)>,
}

/// The two owners of a LID, by the new plan and the old one.
type Owners = [Option<PortId>; 2];

impl<'a> Pass<'a> {
    fn new(
        old: Stage<'a>,
        new: Stage<'a>,
        before: &'a Plan,
        checks: &Checks,
        commits: &'a Commits<'a>,
        wiring: &'a Wiring,
        triples: &'a Triples,
    ) -> Self {
        let hints = if checks.hints.is_empty() { vec![Sl(0)] } else { checks.hints.clone() };
        let sources = [new, old].map(|stage| sources(stage, new.fabric));
        Self { old, new, before, wiring, triples, hints, commits, sources }
    }

    /// Notes what unicast packets do; the number of LIDs that change.
    fn unicast(&self) -> usize {
        let mut lids: Vec<(Lid, Owners)> =
            (1..=self.new.plan.lids.max().max(self.old.plan.lids.max()).0)
                .map(|lid| (Lid(lid), self.owners(Lid(lid))))
                .filter(|(_, owners)| owners.iter().any(Option::is_some))
                .collect();
        lids.sort_by_key(|(lid, owners)| (self.groups(owners), *lid));
        lids.par_chunks(CHUNK).map(|chunk| self.chunk(chunk)).sum()
    }

    fn owners(&self, lid: Lid) -> Owners {
        [self.new.plan.lids.port(lid), self.old.plan.lids.port(lid)]
    }

    fn groups(&self, owners: &Owners) -> [Option<u32>; 2] {
        let stages = [self.new, self.old];
        std::array::from_fn(|side| {
            owners[side].map(|port| stages[side].plan.routing.policy.sl_group(port))
        })
    }

    fn chunk(&self, chunk: &[(Lid, Owners)]) -> usize {
        let switches = self.wiring.switches();
        let columns = [self.new.plan, self.before].map(|plan| columns(plan, chunk, switches));
        let mut scratch = Scratch {
            stations: vec![Station::UNUSED; switches],
            own: vec![0; switches],
            flow: vec![[0; 2]; switches],
            grown: Vec::with_capacity(switches),
        };
        let (mut groups, mut stations) = (None, Vec::new());
        let mut changed = 0;
        for (index, (lid, owners)) in chunk.iter().enumerate() {
            let range = index * switches..(index + 1) * switches;
            let (new, old) = (&columns[0][range.clone()], &columns[1][range]);
            changed += usize::from(self.read(*lid, new, old, &mut scratch));
            let same_groups = groups.replace(self.groups(owners)) == Some(self.groups(owners));
            if !same_groups {
                self.own_sls(owners, &mut scratch.own);
            } else if stations == scratch.stations {
                continue;
            }
            self.trace(&mut scratch);
            stations.clone_from(&scratch.stations);
        }
        changed
    }

    /// Where each switch sends a LID; true if one of them sends it elsewhere than before.
    fn read(&self, lid: Lid, new: &[u8], old: &[u8], scratch: &mut Scratch) -> bool {
        let channel = |switch: u32, port: u8| {
            let slot = if port == LFT_NO_PATH { NONE } else { self.wiring.slot(switch, port) };
            if slot == NONE { NONE } else { self.wiring.hop(slot).channel }
        };
        let mut differs = false;
        let entries = new.iter().zip(old);
        for ((station, switch), (&new, &old)) in scratch.stations.iter_mut().zip(0..).zip(entries) {
            *station = Station { new: channel(switch, new), ..Station::UNUSED };
            if new != old {
                differs = true;
                station.changes = true;
                station.old = channel(switch, old);
                station.commits = (self.commits)(SwitchId(switch), lid);
            }
        }
        differs
    }

    fn own_sls(&self, owners: &Owners, own: &mut [u16]) {
        own.fill(0);
        for (side, stage) in [self.new, self.old].into_iter().enumerate() {
            let Some(to) = owners[side] else { continue };
            let policy = &stage.plan.routing.policy;
            for (own, sources) in own.iter_mut().zip(&self.sources[side]) {
                for &from in sources {
                    for &hint in &self.hints {
                        *own |= 1 << (policy.path_sl(from, to, hint).0 & 0xF);
                    }
                }
            }
        }
    }

    /// Lets packets flow wherever they may go, and notes which channels they take in a row.
    fn trace(&self, scratch: &mut Scratch) {
        let Scratch { stations, own, flow, grown } = scratch;
        grown.clear();
        for ((flow, &own), switch) in flow.iter_mut().zip(own.iter()).zip(0..) {
            *flow = [own, 0];
            if own != 0 {
                grown.push((switch, EITHER));
            }
        }
        while let Some((switch, bound)) = grown.pop() {
            let sls = flow[switch as usize][bound];
            for (channel, after) in stations[switch as usize].ways(bound) {
                let to = self.wiring.channels[channel as usize].to;
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
                self.note_ways(stations, stations[switch], bound, own, sls);
            }
        }
    }

    /// Notes what packets do that leave a switch: its own ones on the first two channels, all on
    /// the second and the third.
    fn note_ways(&self, stations: &[Station], from: Station, bound: usize, own: u16, sls: u16) {
        for (first, bound) in from.ways(bound) {
            let channel = self.wiring.channels[first as usize];
            for (second, bound) in stations[channel.to.index()].ways(bound) {
                if own != 0 {
                    self.note(first, LOCAL, second, own);
                }
                let to = self.wiring.channels[second as usize].to;
                for (third, _) in stations[to.index()].ways(bound) {
                    self.note(second, channel.peer_rank + 1, third, sls);
                }
            }
        }
    }

    fn note(&self, channel: u32, input: u16, next: u32, sls: u16) {
        let hop = self.wiring.hop_of(channel);
        let rank = self.wiring.channels[next as usize].rank;
        self.triples.add((hop.triples, hop.width), input, rank, sls);
    }
}

/// By switch of `fabric`: one end port of each SL group behind it, by the ids of `stage`.
fn sources(stage: Stage<'_>, fabric: &Fabric) -> Vec<Vec<PortId>> {
    let mut sources = vec![Vec::new(); fabric.switches().len()];
    let mut groups = vec![Vec::new(); sources.len()];
    for port in fabric.end_ports() {
        let Some(switch) = fabric.switch_behind(port) else { continue };
        let Some(there) = stage.fabric.port_by_guid(fabric.port(port).guid) else { continue };
        let group = stage.plan.routing.policy.sl_group(there);
        if stage.plan.lids.base(there).is_some() && !groups[switch.index()].contains(&group) {
            groups[switch.index()].push(group);
            sources[switch.index()].push(there);
        }
    }
    sources
}

/// The output ports for each LID of a chunk, by switch.
fn columns(plan: &Plan, chunk: &[(Lid, Owners)], switches: usize) -> Vec<u8> {
    let mut columns = vec![LFT_NO_PATH; chunk.len() * switches];
    for (switch, table) in plan.routing.lfts.iter().enumerate().take(switches) {
        for (index, (lid, _)) in chunk.iter().enumerate() {
            if let Some(&port) = table.0.get(lid.index()) {
                columns[index * switches + switch] = port;
            }
        }
    }
    columns
}
