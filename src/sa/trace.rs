//! TraceRecord (IBA vol. 1, 15.2.5.19): the nodes on the way of a path, in order. SubnAdmGetTraceTable
//! asks with the components of a PathRecord, which must name both ends; the path is the first one
//! that a PathRecord query would be answered with.
//!
//! IDs are made of GUIDs, so they stay what they are: there is one IDGeneration. The chassis is the
//! system that NodeInfo tells of. Of nodes that share no partition with the requester it learns
//! that they are there, and what kind they are.

use super::path::{self, PathEnds};
use super::query::{Query, ReplyBuilder};
use super::status::ErrorStatus;
use crate::fabric::{Node, NodeId, Port, PortId};
use crate::ids::PortNum;
use crate::wire::mad::Method;
use crate::wire::record::{PathRecord, TraceRecord};
use crate::wire::sa::SaStatus;

/// The only set of IDs.
const ID_GENERATION: u16 = 1;

/// A node on the way.
struct Hop {
    node: NodeId,
    entry: Option<PortId>,
    exit: Option<PortId>,
}

/// Answers SubnAdmGetTraceTable.
pub(super) fn trace(query: &Query<'_>, answer: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let has_source = query.mask & (PathRecord::SGID | PathRecord::SLID) != 0;
    let has_destination = query.mask & (PathRecord::DGID | PathRecord::DLID) != 0;
    if !has_source || !has_destination {
        return Err(ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    let Some(ends) = path(query)? else { return Ok(()) };
    for hop in hops(query, &ends) {
        if answer.push(&record(query, &hop)).is_break() {
            break;
        }
    }
    Ok(())
}

/// The path that a PathRecord Get would be answered with; `None` if there is none, or if it leads
/// to a multicast group.
fn path(query: &Query<'_>) -> Result<Option<PathEnds>, ErrorStatus> {
    let query = Query { method: Method::GET, ..*query };
    let mut found = ReplyBuilder::new(query.mad, query.method);
    path::paths(&query, &mut found)?;
    let Some(found) = found.first::<PathRecord>() else { return Ok(None) };
    let (slid, dlid) = (found.slid(), found.dlid());
    let port = |lid| query.view.lids().port(lid);
    Ok(port(slid).zip(port(dlid)).map(|(from, to)| PathEnds { from, to, slid, dlid }))
}

/// The nodes on the way, from source to destination.
fn hops(query: &Query<'_>, ends: &PathEnds) -> Vec<Hop> {
    let node = |port| query.view.fabric().port(port).node;
    let mut hops: Vec<Hop> = Vec::new();
    path::walk(&query.view, ends, |path::NodeTransit { entry, exit, .. }| {
        hops.push(Hop { node: node(exit), entry, exit: Some(exit) });
    });
    if hops.last().is_none_or(|last| last.node != node(ends.to)) {
        hops.push(Hop { node: node(ends.to), entry: Some(ends.to), exit: None });
    }
    if let Some(last) = hops.last_mut() {
        last.exit = None;
    }
    hops
}

fn record(query: &Query<'_>, hop: &Hop) -> TraceRecord {
    let fabric = query.view.fabric();
    let node = fabric.node(hop.node);
    let mut record = TraceRecord::default();
    record.set_gid_prefix(query.view.options().subnet_prefix);
    record.set_id_generation(ID_GENERATION);
    record.set_node_type(node.kind());
    // The ends of the path are seen, or it would not be told.
    if node.is_switch() && !query.is_visible(node.first_port) {
        return record;
    }
    record.set_node_id(node.guid().0);
    record.set_chassis_id(node.info.system_guid().0);
    let [entry, exit] = [hop.entry, hop.exit].map(|port| port.map(|port| fabric.port(port)));
    record.set_entry_port_id(entry.map_or(0, |port| id(node, port)));
    record.set_exit_port_id(exit.map_or(0, |port| id(node, port)));
    record.set_entry_port(entry.map_or(0, |port| port.num.0));
    record.set_exit_port(exit.map_or(0, |port| port.num.0));
    record
}

/// The ID of a port.
fn id(node: &Node, port: &Port) -> u64 {
    let is_external = node.is_switch() && port.num != PortNum::ZERO;
    if is_external { node.guid().0 ^ u64::from(port.num.0) << SWITCH_PORT } else { port.guid.0 }
}

/// External ports of switches have no GUID: their IDs are that of the switch with the number of the
/// port over the bits from here on, where GUIDs of nodes do not differ without differing below.
const SWITCH_PORT: u32 = 56;
