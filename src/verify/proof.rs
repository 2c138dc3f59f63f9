//! What is kept of a plan that passed, so that a plan that differs little from it need not be
//! checked from scratch.
//!
//! A [`Proof`] only ever says yes: that a plan passes follows from the plan that passed before,
//! and from what was looked at where the two differ. If anything is found that is not as it
//! should be, or that takes more than a look, it says nothing, and the plan is checked as a whole.
//!
//! It keeps the triples and the dependencies of the old plan, and adds those of the new one to them:
//! what has no cycle together has none alone. So a plan that passes this way is also one to which
//! the fabric may be brought switch by switch, while packets of both plans are under way.
//!
//! A cable that is lost keeps its channels, without a port that leads to them; when it is repaired, they
//! are taken up again. Where a ring is closed again, old ways the long way round and new ones often close a
//! cycle together: then the plan is compared with that from before the failure ([`super::healthy`]).

use super::channels::{Graph, node};
use super::columns::{Columns, changed_switches};
use super::ends::{Destination, Sources};
use super::lanes::Lanes;
use super::triples::{Added, LOCAL, Onward, Triples, bits};
use super::unicast::TreeOf;
use super::wiring::{Cables, NONE, Steps, Wiring};
use super::{Checks, Extent, Summary, levels, limits, multicast};
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, NodeId, PortId, SwitchId};
use crate::ids::{Mlid, Sl};
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::multicast::MulticastTables;
use crate::plan::routing::Lft;
use crate::wire::attr::tables::LFT_NO_PATH;
use std::collections::BTreeSet;
use std::sync::Arc;

/// VL 15 drops what is mapped to it.
const DROP: u8 = 15;

/// A plan that passed, and what was found on the way.
///
/// What is made from the old proof for a plan that it covered ([`super::advance`]) may have
/// triples, dependencies and lengths of paths that no packet has any more. That is safe: more of
/// them may come along then, or be found to close a cycle, but none is overlooked.
#[derive(Clone)]
pub struct Proof {
    pub(super) fabric: Arc<Fabric>,
    pub(super) plan: Arc<Plan>,
    pub(super) checks: Checks,
    pub(super) wiring: Arc<Wiring>,
    /// The forwarding tables of the plan, by switch of the wiring.
    pub(super) tables: Arc<Vec<Arc<Lft>>>,
    /// The multicast forwarding tables of the plan, by switch of the wiring.
    pub(super) groups: Arc<MulticastTables>,
    pub(super) steps: Arc<Steps>,
    pub(super) lanes: Arc<Lanes>,
    pub(super) triples: Arc<Triples>,
    pub(super) onward: Arc<Onward>,
    pub(super) graph: Arc<Graph>,
    pub(super) heights: Arc<Vec<u32>>,
    pub(super) sources: Arc<Vec<Sources>>,
    /// By LID; `None` for those that nobody has.
    pub(super) destinations: Arc<Vec<Option<Destination>>>,
    /// By LID; `None` for those that no switch has an entry for.
    pub(super) trees: Arc<Vec<Option<TreeOf>>>,
    pub(super) group_notes: Vec<(Mlid, Note)>,
    pub(super) summary: Summary,
    /// The proof from before something was lost; `None` if nothing is.
    pub(super) healthy: Option<Arc<Proof>>,
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proof({} dependencies)", self.summary.dependencies)
    }
}

/// Where a plan may differ from the one that was proven.
#[derive(Default)]
pub(super) struct Places {
    /// Ports that lost their cable.
    pub ports: Vec<PortId>,
    /// The channels that are gone with the cables.
    pub channels: Vec<u32>,
    /// The channels of cables that were lost before, and are there again.
    pub repaired: Vec<u32>,
    /// Nodes of which ports or SL to VL tables differ.
    pub nodes: BTreeSet<NodeId>,
    /// Switches with other forwarding tables, ascending.
    pub switches: Vec<u32>,
    /// Switches that are lost, as the wiring numbers them; their ports are among `ports`.
    pub lost: Vec<u32>,
    /// Switches that were lost, and are there again.
    pub returned: Vec<u32>,
}

/// What a plan that passed has more than the one that was proven.
pub(super) struct News {
    pub places: Places,
    pub triples: Added,
    /// That the proof does not have.
    pub dependencies: Vec<(u32, u32)>,
    pub group_notes: Vec<(Mlid, Note)>,
    /// No path in a changed column is longer, in switches passed.
    pub longest: u32,
    pub arrivals: Arrivals,
}

/// LIDs that nobody had, or that belong to somebody elsewhere now.
#[derive(Default)]
pub(super) struct Arrivals {
    pub destinations: Vec<Destination>,
    /// Of those that some switch has an entry for.
    pub trees: Vec<TreeOf>,
    /// What their packets do that no packet did before.
    pub triples: Added,
}

impl Proof {
    /// What the checks find in a plan for a fabric that differs so from that of the proof; `None`
    /// if only a check of the whole plan can tell.
    pub(super) fn covers(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        checks: &Checks,
        difference: &Difference,
    ) -> Option<(Self, Summary, News)> {
        let places = self.places(fabric, plan, checks, difference)?;
        let proof = match places.repaired.is_empty() {
            true => self.clone(),
            false => self.repaired(fabric, plan, &places.repaired),
        };
        let (summary, news) = proof.follow(fabric, plan, places, Arrivals::default())?;
        Some((proof, summary, news))
    }

    /// The proof with channels of cables that are there again, which nobody has used so far.
    pub(super) fn repaired(&self, fabric: &Fabric, plan: &Plan, channels: &[u32]) -> Self {
        let wiring = self.wiring.repaired(channels);
        let switches = channels.iter().map(|&channel| wiring.channels[channel as usize].from);
        let lanes = self.lanes.with_those_of(fabric, plan, &wiring, switches);
        Self {
            steps: Arc::new(wiring.steps()),
            wiring: Arc::new(wiring),
            lanes: Arc::new(lanes),
            ..self.clone()
        }
    }

    /// Follows what differs at `places`; the rest is as it was, but for what arrived.
    pub(super) fn follow(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        places: Places,
        arrivals: Arrivals,
    ) -> Option<(Summary, News)> {
        let columns = Columns::new(self, plan, &places);
        let mut found = columns.follow()?;
        for (&triple, &sls) in &arrivals.triples {
            *found.added.entry(triple).or_default() |= sls;
        }
        let group_notes = self.groups(fabric, plan, &places, &mut found.added)?;
        let dependencies = self.dependencies(&found.added)?;
        let is_dead = |node: u32| places.channels.contains(&(node / 16));
        if !levels::stays_acyclic(&self.graph, &self.heights, is_dead, &dependencies) {
            return None;
        }
        let mut summary = Summary {
            extent: Extent::Changes,
            longest_path: self.summary.longest_path.max(found.longest),
            dependencies: self.summary.dependencies + dependencies.len(),
            notes: group_notes.iter().map(|(_, note)| note.clone()).collect(),
            ..self.summary.clone()
        };
        summary.tell(fabric);
        let (triples, longest) = (found.added, found.longest);
        Some((summary, News { places, triples, dependencies, group_notes, longest, arrivals }))
    }

    /// Everything that must be as it was is; where the rest differs.
    fn places(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        checks: &Checks,
        difference: &Difference,
    ) -> Option<Places> {
        let (old, policy) = (&*self.plan, &plan.routing.policy);
        let same = difference.nodes.is_empty()
            && *checks == self.checks
            && (Arc::ptr_eq(&old.lids, &plan.lids) || old.lids == plan.lids)
            && old.ports.len() == plan.ports.len()
            && old.qos.sl_to_vl.len() == plan.qos.sl_to_vl.len()
            && old.multicast.by_switch.len() == plan.multicast.by_switch.len();
        let promise = old.routing.policy.guarantees_no_credit_loops();
        if !same || policy.guarantees_no_credit_loops() != promise {
            return None;
        }
        policy.changes_since(&*old.routing.policy)?;
        let Cables { ports, channels, repaired } = self.cables(fabric, difference)?;
        let retargeted = old.ports.differences(&plan.ports).map(|index| PortId(index as u32));
        let touched = difference.ports.iter().copied().chain(retargeted);
        let mut nodes: BTreeSet<NodeId> = touched.map(|port| fabric.port(port).node).collect();
        let remapped = old.qos.sl_to_vl.differences(&plan.qos.sl_to_vl);
        nodes.extend(remapped.map(|index| NodeId(index as u32)));
        let is_same_size = |(old, new): (&Arc<Lft>, &Arc<Lft>)| old.0.len() == new.0.len();
        let lfts = &plan.routing.lfts;
        if old.routing.lfts.len() != lfts.len() || !self.tables.iter().zip(lfts).all(is_same_size) {
            return None;
        }
        let switches = changed_switches(&self.tables, lfts);
        let places = Places { ports, channels, repaired, nodes, switches, ..Places::default() };
        let holds = self.lanes_hold(fabric, plan, &places)
            && self.tables_hold(fabric, plan, &places)
            && within_limits(old, fabric, plan, &places);
        holds.then_some(places)
    }

    /// The cables that are gone, and those that are there again; `None` if anything else about
    /// cables changed.
    fn cables(&self, fabric: &Fabric, difference: &Difference) -> Option<Cables> {
        let mut cables = Cables::default();
        for &id in &difference.ports {
            let (old, new) = (self.fabric.port(id), fabric.port(id));
            if old.info.is_some() != new.info.is_some() {
                return None;
            }
            if old.peer == new.peer {
                continue;
            }
            match (old.peer, new.peer) {
                (Some(_), None) => {
                    cables.channels.push(self.wiring.hop(id.0).channel);
                    cables.ports.push(id);
                }
                (None, Some(peer)) => {
                    let switch = fabric.node(new.node).switch?;
                    cables.repaired.push(self.wiring.lost(switch, id, peer)?);
                }
                _ => return None,
            }
        }
        (!cables.channels.contains(&NONE)).then_some(cables)
    }

    fn lanes_hold(&self, fabric: &Fabric, plan: &Plan, places: &Places) -> bool {
        let is_dead =
            |channel: u32| self.wiring.is_cut(channel) || places.channels.contains(&channel);
        let mut switches = places.nodes.iter().filter_map(|&node| fabric.node(node).switch);
        switches.all(|switch| self.lanes.are_those_of(fabric, plan, &self.wiring, switch, is_dead))
    }

    /// No table leads to a cable that is gone, or led to one that is there again, or has become empty or
    /// ceased to be.
    pub(super) fn tables_hold(&self, fabric: &Fabric, plan: &Plan, places: &Places) -> bool {
        let has_routes = |table: &Lft| table.0.iter().any(|&port| port != LFT_NO_PATH);
        let (old, new) = (&*self.tables, &plan.routing.lfts);
        let is_back = |switch: &u32| places.returned.contains(switch);
        let mut changed = places.switches.iter().filter(|&switch| !is_back(switch));
        let mut lost = places.ports.iter().filter_map(|&id| fabric.ports().get(id.index()));
        let mut repaired = places.repaired.iter().map(|&channel| {
            let channel = &self.wiring.channels[channel as usize];
            (channel.from, fabric.port(channel.port).num.0)
        });
        changed.all(|&at| has_routes(&old[at as usize]) == has_routes(&new[at as usize]))
            && lost.all(|port| {
                let table = fabric.node(port.node).switch.map(|switch| plan.routing.lft(switch));
                table.is_some_and(|table| !table.0.contains(&port.num.0))
            })
            && repaired.all(|(switch, num)| !old[switch.index()].0.contains(&num))
    }

    /// The SLs that came through `input` and went on through `out`.
    #[inline]
    pub(super) fn through(&self, input: u32, out: u32) -> u16 {
        self.onward.get(input, self.steps.of(out).rank)
    }

    /// The SLs that took these three channels, one after the other.
    #[inline]
    pub(super) fn triple(&self, input: u32, channel: u32, next: u32) -> u16 {
        self.triples.at(self.number(channel, self.steps.of(input).peer_rank + 1, next))
    }

    /// The number of the triple from an input through a channel to the next.
    #[inline]
    pub(super) fn number(&self, channel: u32, input: u16, next: u32) -> usize {
        let step = self.steps.of(channel);
        Triples::index((step.triples as usize, step.width), input, self.steps.of(next).rank)
    }

    /// Follows the trees that changed, or of which cables did. Adds what is new of them, and returns the
    /// notes about all.
    fn groups(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        places: &Places,
        added: &mut Added,
    ) -> Option<Vec<(Mlid, Note)>> {
        let mlids = self.changed_groups(fabric, plan, places);
        let mut notes = self.group_notes.clone();
        if !mlids.is_empty() {
            let wiring = self.wiring.without(&places.ports);
            let note = |channel, input, next, sls: u16| {
                let hop = self.wiring.hop_of(channel);
                if sls & !self.triples.get((hop.triples, hop.width), input, next) != 0 {
                    *added.entry((channel, input, next)).or_default() |= sls;
                }
            };
            notes.retain(|(mlid, _)| !mlids.contains(mlid));
            notes.extend(multicast::check_some(fabric, plan, &mlids, &wiring, note)?);
            notes.sort_by_key(|&(mlid, _)| mlid);
        }
        Some(notes)
    }

    fn changed_groups(&self, fabric: &Fabric, plan: &Plan, places: &Places) -> BTreeSet<Mlid> {
        let (old, new) = (&self.groups, &plan.multicast);
        let mut mlids = BTreeSet::new();
        let gone = places.lost.iter().filter_map(|&at| old.by_switch.get(at as usize));
        mlids.extend(gone.flatten().map(|entry| entry.0));
        let pairs = if Arc::ptr_eq(old, new) { 0 } else { old.by_switch.len() };
        for (old, new) in
            old.by_switch.iter().zip(&new.by_switch).take(pairs).filter(|(old, new)| old != new)
        {
            mlids.extend(old.iter().filter(|entry| !new.contains(entry)).map(|entry| entry.0));
            mlids.extend(new.iter().filter(|entry| !old.contains(entry)).map(|entry| entry.0));
        }
        let all = old.sls.iter().chain(&new.sls).map(|&(mlid, _)| mlid);
        mlids.extend(all.filter(|&mlid| old.sls_of(mlid) != new.sls_of(mlid)));
        for (one, two) in [(old, new), (new, old)] {
            let missing = one.senders.iter().filter(|sender| !two.senders.contains(sender));
            mlids.extend(missing.map(|sender| sender.0));
        }
        let repaired = places.repaired.iter().map(|&at| self.wiring.channels[at as usize].port);
        let ports = places.ports.iter().copied().chain(repaired);
        for port in ports.filter_map(|id| fabric.ports().get(id.index())) {
            let Some(switch) = fabric.node(port.node).switch else { continue };
            let entries = new.by_switch.get(switch.index()).into_iter().flatten();
            mlids
                .extend(entries.filter(|(_, mask)| mask.contains(port.num.0)).map(|entry| entry.0));
        }
        mlids
    }

    /// The dependencies of triples that are new; `None` if packets would be dropped.
    pub(super) fn dependencies(&self, added: &Added) -> Option<Vec<(u32, u32)>> {
        let (wiring, lanes) = (&self.wiring, &self.lanes);
        let mut new = Vec::new();
        for (&(channel, input, next), &sls) in added {
            let from = wiring.channels[channel as usize];
            let ahead = lanes.through(wiring, from.to, from.peer_rank, next);
            let follower = wiring.out_of(from.to).start as u32 + u32::from(next);
            for sl in bits(sls) {
                let here = match input {
                    LOCAL => lanes.local(channel as usize)[usize::from(sl)],
                    _ => 1 << lanes.through(wiring, from.from, input - 1, from.rank).vl(Sl(sl)).0,
                };
                let there = ahead.vl(Sl(sl)).0;
                if here >> DROP & 1 == 1 || there == DROP {
                    return None;
                }
                let waits = |vl: &u8| !self.graph.waits(channel, *vl, next, there);
                new.extend(
                    bits(here).filter(waits).map(|vl| (node(channel, vl), node(follower, there))),
                );
            }
        }
        new.sort_unstable();
        new.dedup();
        Some(new)
    }
}

/// What changed fits the devices.
fn within_limits(old: &Plan, fabric: &Fabric, plan: &Plan, places: &Places) -> bool {
    let is_shared = Arc::ptr_eq(&old.multicast, &plan.multicast);
    let count = if is_shared { 0 } else { plan.multicast.by_switch.len() };
    let groups = old.multicast.by_switch.iter().zip(&plan.multicast.by_switch).zip(0..).take(count);
    let regrouped = groups.filter(|((old, new), _)| old != new).map(|(_, switch)| switch);
    let switches = places.switches.iter().copied().chain(regrouped).map(SwitchId);
    limits::check_some(fabric, plan, switches, places.nodes.iter().copied()).total == 0
}
