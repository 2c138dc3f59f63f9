//! TraceRecord (IBA vol. 1, 15.2.5.19): the nodes of a path, in order. SubnAdmGetTraceTable
//! has the components of a PathRecord, which must name both ends, and traces the path that
//! SubnAdmGet(PathRecord) would return.
//!
//! IDs are derived from GUIDs and never change, so that IDGeneration is constant. ChassisID is the
//! SystemImageGUID. Switches without a common partition are reported with their node type only.

use super::path::{self, PathEnds};
use super::query::{Query, ReplyBuilder};
use super::status::ErrorStatus;
use super::view::SubnetView;
use crate::fabric::{Node, NodeId, Port, PortId};
use crate::ids::PortNum;
use crate::wire::mad::Method;
use crate::wire::record::{PathRecord, TraceRecord};
use crate::wire::sa::SaStatus;

/// The constant IDGeneration.
const ID_GENERATION: u16 = 1;

/// Position of the port number in the ID of a switch port. The upper byte of a GUID belongs to the
/// vendor's OUI, so that IDs of two switches do not collide.
const PORT_NUMBER_SHIFT: u32 = 56;

/// A node of the path, with the ports that packets enter and leave by.
struct Hop {
    node: NodeId,
    entry: Option<PortId>,
    exit: Option<PortId>,
}

/// Handles SubnAdmGetTraceTable.
pub(super) fn trace(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let has_source = query.mask & (PathRecord::SGID | PathRecord::SLID) != 0;
    let has_destination = query.mask & (PathRecord::DGID | PathRecord::DLID) != 0;
    if !has_source || !has_destination {
        return Err(ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    let Some(ends) = returned_path(query)? else { return Ok(()) };
    for hop in hops(query, &ends) {
        if reply.push(&record(query, &hop)).is_break() {
            break;
        }
    }
    Ok(())
}

/// The path that SubnAdmGet(PathRecord) returns; `None` if there is none or it leads to a multicast
/// group.
fn returned_path(query: &Query<'_>) -> Result<Option<PathEnds>, ErrorStatus> {
    let query = Query { method: Method::GET, ..*query };
    let mut found = ReplyBuilder::new(query.mad, query.method);
    path::paths(&query, &mut found)?;
    let Some(found) = found.first::<PathRecord>() else { return Ok(None) };
    let slid = found.slid();
    let dlid = found.dlid();
    let lids = query.view.lids();
    let ends = lids.port(slid).zip(lids.port(dlid));
    Ok(ends.map(|(from, to)| PathEnds { from: from.into(), to: to.into(), slid, dlid }))
}

/// The nodes of a path, from source to destination.
fn hops(query: &Query<'_>, ends: &PathEnds) -> Vec<Hop> {
    let mut hops: Vec<Hop> = Vec::new();
    path::walk(&query.view, ends, |path::NodeTransit { entry, exit, .. }| {
        hops.push(Hop { node: node_of(&query.view, exit), entry, exit: Some(exit) });
    });
    if hops.last().is_none_or(|last| last.node != node_of(&query.view, ends.to.physical)) {
        hops.push(Hop {
            node: node_of(&query.view, ends.to.physical),
            entry: Some(ends.to.physical),
            exit: None,
        });
    }
    if let Some(last) = hops.last_mut() {
        last.exit = None;
    }
    hops
}

fn node_of(view: &SubnetView<'_>, port: PortId) -> NodeId {
    view.fabric().port(port).node
}

fn record(query: &Query<'_>, hop: &Hop) -> TraceRecord {
    let fabric = query.view.fabric();
    let node = fabric.node(hop.node);
    let mut record = TraceRecord::default();
    record.set_gid_prefix(query.view.options().subnet_prefix);
    record.set_id_generation(ID_GENERATION);
    record.set_node_type(node.kind());
    // The ends are visible to the requester, or the path would not have been returned.
    if node.is_switch() && !query.is_visible(node.first_port) {
        return record;
    }
    record.set_node_id(node.guid().0);
    record.set_chassis_id(node.info.system_guid().0);
    let [entry, exit] = [hop.entry, hop.exit].map(|port| port.map(|port| fabric.port(port)));
    record.set_entry_port_id(entry.map_or(0, |port| port_id(node, port)));
    record.set_exit_port_id(exit.map_or(0, |port| port_id(node, port)));
    record.set_entry_port(entry.map_or(0, |port| port.num.0));
    record.set_exit_port(exit.map_or(0, |port| port.num.0));
    record
}

/// The port ID: the port GUID. External ports of switches have no GUID; their ID is the node GUID
/// with the port number XORed into its upper byte.
fn port_id(node: &Node, port: &Port) -> u64 {
    let is_external = node.is_switch() && port.num != PortNum::ZERO;
    if is_external {
        node.guid().0 ^ u64::from(port.num.0) << PORT_NUMBER_SHIFT
    } else {
        port.guid.0
    }
}
