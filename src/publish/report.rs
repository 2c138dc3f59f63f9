//! The bring-up report: a summary of the subnet on one screen, after SUBNET UP.

use super::rejected::PlanRejected;
use super::{Subnet, path};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Mlid, Sl};
use crate::notes::{Note, Severity, counted};
use crate::plan::Plan;
use crate::plan::routing::Lft;
use crate::wire::attr::NodeKind;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// Number of LIDs that switches forward through each port, by port slot.
pub fn link_loads(fabric: &Fabric, plan: &Plan) -> Vec<usize> {
    let mut is_used = vec![false; plan.lids.max().index() + 1];
    plan.lids.iter().for_each(|(lid, _)| is_used[lid.index()] = true);
    let mut load = vec![0; fabric.ports().len()];
    for (switch, table) in fabric.switch_ids().zip(&plan.routing.lfts) {
        let lids = lids_by_port(table, &is_used);
        for num in 0..=fabric.switch(switch).num_ports() {
            if let Some(port) = fabric.switch_port(switch, num.into()) {
                load[port.index()] = lids[usize::from(num)];
            }
        }
    }
    load
}

/// The number of LIDs in use by output port; index 255 is that of LIDs without a path.
fn lids_by_port(table: &Lft, is_used: &[bool]) -> [usize; 256] {
    let mut lids = [0; 256];
    for (port, &is_used) in table.entries().zip(is_used) {
        lids[usize::from(port)] += usize::from(is_used);
    }
    lids
}

/// True for the ports of switches with links to switches.
fn joins_switches(fabric: &Fabric, port: PortId) -> bool {
    let peer = fabric.port(port).peer;
    fabric.node_of(port).is_switch() && peer.is_some_and(|at| fabric.node_of(at).is_switch())
}

/// The mean number of LIDs that are forwarded through an egress port between switches, and the
/// number of such ports; `None` without such ports. `load` is [`link_loads`].
pub fn mean_load(fabric: &Fabric, load: &[usize]) -> Option<(f64, usize)> {
    let between = fabric.port_ids().filter(|&port| joins_switches(fabric, port));
    let (total, ports) =
        between.fold((0, 0), |(total, ports), port| (total + load[port.index()], ports + 1));
    (ports > 0).then(|| (total as f64 / ports as f64, ports))
}

/// The egress port of an inter-switch link that the most LIDs are forwarded through, with their
/// number. If several ports carry equally many, returns the first. `load` is [`link_loads`].
pub fn worst_link(fabric: &Fabric, load: &[usize]) -> Option<(PortId, usize)> {
    let between = fabric.port_ids().filter(|&port| joins_switches(fabric, port));
    let loads = between.map(|port| (port, load[port.index()]));
    loads.reduce(|most, next| if next.1 > most.1 { next } else { most })
}

/// The report of a subnet that came up.
pub fn bring_up(subnet: &Subnet) -> String {
    let Subnet { fabric, plan, summary, .. } = subnet;
    let cables = fabric.ports().iter().filter(|port| port.peer.is_some()).count() / 2;
    let groups: BTreeSet<Mlid> =
        plan.multicast.by_switch.iter().flatten().map(|&(mlid, _)| mlid).collect();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "fabric:    {}, {}, {}, {}",
        counted(node_count(fabric, NodeKind::Switch), "switch", "switches"),
        counted(node_count(fabric, NodeKind::Ca), "channel adapter", "channel adapters"),
        counted(node_count(fabric, NodeKind::Router), "router", "routers"),
        counted(cables, "cable", "cables"),
    );
    let _ = writeln!(
        text,
        "routing:   {}, {} (highest LID {}), longest path {}{}",
        plan.routing.engine,
        counted(plan.lids.iter().count(), "LID", "LIDs"),
        plan.lids.max(),
        summary.bound(),
        counted(summary.longest_path as usize, "switch", "switches"),
    );
    let _ = writeln!(text, "multicast: {}", counted(groups.len(), "group", "groups"));
    let reached = match summary.unrouted.counted() {
        Some(pairs) => format!("routed, but {pairs} without a route"),
        None => "reachable from every source".to_owned(),
    };
    let loops = match summary.cycle {
        Some(_) => "CREDIT LOOP",
        None if summary.assumes_mappings => {
            "no credit loop if the mappings that switches hold are VL = SL"
        }
        None => "no credit loop",
    };
    let _ = writeln!(
        text,
        "verified:  {} {reached}, {loops} in {}{} channel dependencies",
        counted(summary.lids, "LID", "LIDs"),
        summary.bound(),
        summary.dependencies,
    );
    if let Some((port, lids)) = worst_link(fabric, &link_loads(fabric, plan)) {
        let lids = counted(lids, "LID", "LIDs");
        let _ = writeln!(text, "load:      {lids} on the busiest link, {}", fabric.describe(port));
    }
    if let Some(sample) = sample_path(fabric, plan) {
        let _ = writeln!(text, "sample:    {sample}");
    }
    let devices = subnet.devices.notes(fabric);
    let notes = plan.notes.iter().chain(&plan.routing.notes).chain(&summary.notes);
    put_notes(&mut text, notes.chain(&devices));
    text
}

fn node_count(fabric: &Arc<Fabric>, kind: NodeKind) -> usize {
    fabric.nodes().iter().filter(|node| node.kind() == kind).count()
}

/// The report of a sweep without an acceptable plan.
pub fn rejected(rejected: &PlanRejected) -> String {
    let mut text = String::new();
    put_notes(&mut text, rejected.notes.iter());
    text
}

/// Appends warnings and errors without repetitions: several stages may report the same finding.
fn put_notes<'a>(text: &mut String, reported: impl Iterator<Item = &'a Note>) {
    let mut notes: Vec<&Note> = Vec::new();
    for note in reported.filter(|note| note.severity >= Severity::Warning) {
        if notes.contains(&note) {
            continue;
        }
        notes.push(note);
        let word = if note.severity == Severity::Error { "ERROR" } else { "WARNING" };
        let _ = writeln!(text, "{word}: {note}");
    }
}

/// Describes the path from the first host to the last.
fn sample_path(fabric: &Fabric, plan: &Plan) -> Option<String> {
    let mut hosts = fabric.end_ports().filter(|port| {
        fabric.node_of(*port).kind() == NodeKind::Ca && plan.lids.base(*port).is_some()
    });
    let first = hosts.next()?;
    let last = hosts.last()?;
    let sl = plan.routing.policy.path_sl(first, last, Sl(0));
    Some(path::describe(fabric, plan, first, plan.lids.base(last)?, sl))
}
