//! The bring-up report: what a person wants to know after SUBNET UP, on one screen.

use super::refused::Refused;
use super::{Subnet, path};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Mlid, Sl};
use crate::notes::{Note, Severity};
use crate::plan::Plan;
use crate::wire::attr::NodeKind;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// How many LIDs pass the port that most LIDs pass, and that port; only ports between switches
/// count, and only destinations, not sources.
pub fn worst_link(fabric: &Fabric, plan: &Plan) -> Option<(PortId, usize)> {
    let mut load = vec![0usize; fabric.ports().len()];
    for (switch, table) in fabric.switch_ids().zip(&plan.routing.lfts) {
        for (lid, _) in plan.lids.iter() {
            let port = table.out(lid).and_then(|num| fabric.switch_port(switch, num.into()));
            if let Some(port) = port {
                load[port.index()] += 1;
            }
        }
    }
    let between = |port: &PortId| {
        let peer = fabric.port(*port).peer;
        fabric.node_of(*port).is_switch() && peer.is_some_and(|at| fabric.node_of(at).is_switch())
    };
    let loads = fabric.port_ids().filter(between).map(|port| (port, load[port.index()]));
    // Of equals the first.
    loads.reduce(|most, next| if next.1 > most.1 { next } else { most })
}

/// The report.
pub fn bring_up(subnet: &Subnet) -> String {
    let Subnet { fabric, plan, summary, .. } = subnet;
    let count = |kind| fabric.nodes().iter().filter(|node| node.kind() == kind).count();
    let cables = fabric.ports().iter().filter(|port| port.peer.is_some()).count() / 2;
    let groups: BTreeSet<Mlid> =
        plan.multicast.by_switch.iter().flatten().map(|&(mlid, _)| mlid).collect();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "fabric:    {} switches, {} channel adapters, {} routers, {cables} cables",
        count(NodeKind::Switch),
        count(NodeKind::Ca),
        count(NodeKind::Router),
    );
    let _ = writeln!(
        text,
        "routing:   {}, {} LIDs up to {}, longest path {} switches",
        plan.routing.engine,
        plan.lids.iter().count(),
        plan.lids.max(),
        summary.longest_path,
    );
    let _ = writeln!(text, "multicast: {} group(s)", groups.len());
    let loops = if summary.cycle.is_some() { "CREDIT LOOP" } else { "no credit loop" };
    let _ = writeln!(
        text,
        "verified:  {} LIDs reached from everywhere, {loops} in {} dependencies",
        summary.lids, summary.dependencies,
    );
    if let Some((port, lids)) = worst_link(fabric, plan) {
        let _ =
            writeln!(text, "load:      at most {lids} LIDs on a link, {}", fabric.describe(port));
    }
    if let Some(sample) = sample(fabric, plan) {
        let _ = writeln!(text, "sample:    {sample}");
    }
    put_notes(&mut text, plan.notes.iter().chain(&plan.routing.notes).chain(&summary.notes));
    text
}

/// The report while no plan can be put into force.
pub fn refused(refused: &Refused) -> String {
    let mut text = String::new();
    put_notes(&mut text, refused.notes.iter());
    text
}

/// Warnings and errors, each once: a stage may repeat what an earlier one found.
fn put_notes<'a>(text: &mut String, told: impl Iterator<Item = &'a Note>) {
    let mut notes: Vec<&Note> = Vec::new();
    for note in told.filter(|note| note.severity >= Severity::Warning) {
        if notes.contains(&note) {
            continue;
        }
        notes.push(note);
        let word = if note.severity == Severity::Error { "ERROR" } else { "WARNING" };
        let _ = writeln!(text, "{word}: {note}");
    }
}

/// The path from the first host to the last.
fn sample(fabric: &Fabric, plan: &Plan) -> Option<String> {
    let is_host = |port: &PortId| {
        fabric.node_of(*port).kind() == NodeKind::Ca && plan.lids.base(*port).is_some()
    };
    let mut hosts = fabric.end_ports().filter(is_host);
    let first = hosts.next()?;
    let last = hosts.last()?;
    let sl = plan.routing.policy.path_sl(first, last, Sl(0));
    Some(path::describe(fabric, plan, first, plan.lids.base(last)?, sl))
}
