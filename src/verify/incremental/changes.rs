//! The differences between a plan and a proven one, and the comparison of everything that must be
//! equal for an incremental check.

use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, NodeId, PortId, SwitchId};
use crate::plan::Plan;
use crate::plan::routing::Lft;
use crate::verify::limits;
use crate::verify::network::{CableChanges, NONE};
use crate::verify::proof::Proof;
use crate::verify::verdict::Checks;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Places where a plan may differ from the proven one.
#[derive(Default)]
pub(super) struct Changes {
    /// Ports that lost their cable.
    pub ports: Vec<PortId>,
    /// Channels of the lost cables.
    pub channels: Vec<u32>,
    /// Channels of cables that the proof knows as lost and that are connected again.
    pub repaired: Vec<u32>,
    /// Nodes with changed ports or SL to VL tables.
    pub nodes: BTreeSet<NodeId>,
    /// Switches with changed linear forwarding tables, ascending.
    pub switches: Vec<u32>,
    /// Switches that disappeared, by their number in the network; `ports` includes their ports.
    pub removed: Vec<u32>,
    /// Switches that the proof knows as removed and that are present again.
    pub returned: Vec<u32>,
}

/// Switches whose linear forwarding table differs, ascending. Switches without an old or a new
/// table are skipped.
pub(super) fn changed_switches(old: &[Arc<Lft>], new: &[Arc<Lft>]) -> Vec<u32> {
    let pairs = old.iter().zip(new).zip(0..);
    let changed = pairs.filter(|((old, new), _)| !Arc::ptr_eq(old, new) && old != new);
    changed.map(|(_, switch)| switch).collect()
}

impl Changes {
    /// Compares a plan, and the fabric with the same nodes that it was made for, with a proof.
    /// `None` if something differs that an incremental check requires to be equal.
    pub(super) fn find(
        proof: &Proof,
        fabric: &Fabric,
        plan: &Plan,
        checks: &Checks,
        difference: &Difference,
    ) -> Option<Self> {
        if !difference.nodes.is_empty() || !has_same_shape(proof, plan, checks) {
            return None;
        }
        let CableChanges { ports, channels, repaired } = cable_changes(proof, fabric, difference)?;
        let nodes = changed_nodes(proof, fabric, plan, difference);
        let switches = changed_switches(&proof.routes.tables, &plan.routing.lfts);
        let changes = Self { ports, channels, repaired, nodes, switches, ..Self::default() };
        let holds = changes.keep_sl_to_vl(proof, fabric, plan)
            && changes.keep_connected_tables(proof, fabric, plan)
            && changes.are_within_limits(proof, fabric, plan);
        holds.then_some(changes)
    }

    /// True for channels without a cable.
    pub(super) fn is_dead(&self, proof: &Proof, channel: u32) -> bool {
        proof.network.is_cut(channel) || self.channels.contains(&channel)
    }

    /// True if the SL to VL mappings of all changed nodes are those of the proof, except on
    /// channels without a cable.
    fn keep_sl_to_vl(&self, proof: &Proof, fabric: &Fabric, plan: &Plan) -> bool {
        let mut switches = self.nodes.iter().filter_map(|&node| fabric.node(node).switch);
        switches.all(|at| {
            proof.sl_to_vl.match_switch(fabric, plan, &proof.network, at, |channel| {
                self.is_dead(proof, channel)
            })
        })
    }

    /// True if no new table has an entry for a lost cable, no old one had an entry for a repaired
    /// cable, and no table became empty or ceased to be empty.
    pub(super) fn keep_connected_tables(
        &self,
        proof: &Proof,
        fabric: &Fabric,
        plan: &Plan,
    ) -> bool {
        let old = &*proof.routes.tables;
        let new = &plan.routing.lfts;
        let mut changed = self.switches.iter().filter(|&switch| !self.returned.contains(switch));
        let mut lost = self.ports.iter().filter_map(|&id| fabric.ports().get(id.index()));
        let mut repaired = self.repaired.iter().map(|&channel| {
            let channel = &proof.network.channels[channel as usize];
            (channel.from, fabric.port(channel.port).num.0)
        });
        changed.all(|&at| has_routes(&old[at as usize]) == has_routes(&new[at as usize]))
            && lost.all(|port| {
                let table = fabric.node(port.node).switch.map(|switch| plan.routing.lft(switch));
                table.is_some_and(|table| !table.uses(port.num.0))
            })
            && repaired.all(|(switch, num)| !old[switch.index()].uses(num))
    }

    /// True if the changed tables fit their devices.
    fn are_within_limits(&self, proof: &Proof, fabric: &Fabric, plan: &Plan) -> bool {
        let old = &proof.plan.multicast;
        let new = &plan.multicast;
        let count = if Arc::ptr_eq(old, new) { 0 } else { new.by_switch.len() };
        let groups = old.by_switch.iter().zip(&new.by_switch).zip(0..).take(count);
        let groups_changed = groups.filter(|((old, new), _)| old != new).map(|(_, switch)| switch);
        let switches = self.switches.iter().copied().chain(groups_changed).map(SwitchId);
        limits::check_some(fabric, plan, switches, self.nodes.iter().copied()).total == 0
    }
}

fn has_routes(table: &Lft) -> bool {
    table.top().is_some()
}

/// True if checks, LIDs, path SLs and the sizes of all tables are those of the proof.
fn has_same_shape(proof: &Proof, plan: &Plan, checks: &Checks) -> bool {
    let old = &*proof.plan;
    let policy = &plan.routing.policy;
    let tables = &proof.routes.tables;
    let lfts = &plan.routing.lfts;
    *checks == proof.checks
        && (Arc::ptr_eq(&old.lids, &plan.lids) || old.lids == plan.lids)
        && old.ports.len() == plan.ports.len()
        && old.qos.sl_to_vl.len() == plan.qos.sl_to_vl.len()
        && old.multicast.by_switch.len() == plan.multicast.by_switch.len()
        && old.routing.policy.guarantees_no_credit_loops() == policy.guarantees_no_credit_loops()
        && policy.changes_since(&*old.routing.policy).is_some()
        && old.routing.lfts.len() == lfts.len()
        && tables.iter().zip(lfts).all(|(old, new)| old.len() == new.len())
}

/// The nodes whose ports or SL to VL tables differ.
fn changed_nodes(
    proof: &Proof,
    fabric: &Fabric,
    plan: &Plan,
    difference: &Difference,
) -> BTreeSet<NodeId> {
    let old = &proof.plan;
    let planned = old.ports.differences(&plan.ports);
    let ports = difference.ports.iter().copied().chain(planned);
    let mut nodes: BTreeSet<NodeId> = ports.map(|port| fabric.port(port).node).collect();
    let remapped = old.qos.sl_to_vl.differences(&plan.qos.sl_to_vl);
    nodes.extend(remapped.map(|index| NodeId(index as u32)));
    nodes
}

/// The cables between switches that were lost or repaired; `None` for any other change of a cable.
fn cable_changes(proof: &Proof, fabric: &Fabric, difference: &Difference) -> Option<CableChanges> {
    let mut cables = CableChanges::default();
    for &id in &difference.ports {
        let old = proof.fabric.port(id);
        let new = fabric.port(id);
        if old.info().is_some() != new.info().is_some() {
            return None;
        }
        if old.peer == new.peer {
            continue;
        }
        match (old.peer, new.peer) {
            (Some(_), None) => {
                cables.channels.push(proof.network.hop(id.0).channel);
                cables.ports.push(id);
            }
            (None, Some(peer)) => {
                let switch = fabric.node(new.node).switch?;
                cables.repaired.push(proof.network.cut_channel(switch, id, peer)?);
            }
            _ => return None,
        }
    }
    (!cables.channels.contains(&NONE)).then_some(cables)
}
