//! Nodes and end ports by the names that operators use.

use super::error::ApiError;
use super::query::ApiQuery;
use super::reply::time;
use crate::fabric::node_name::{self, NodeNameError, split_port};
use crate::fabric::{Fabric, Node, NodeId, PortId};
use crate::ids::{Guid, Lid, PortNum};
use crate::manage::event::EventNode;
use crate::manage::missing::{MissingNode, MissingParts};
use crate::plan::LidTable;
use chrono::Utc;

/// The node of the parameter `node`, or all nodes without it. The number of a port in it is ignored.
pub(super) fn find_nodes(
    fabric: &Fabric,
    missing: &MissingParts,
    query: &ApiQuery,
) -> Result<impl Iterator<Item = NodeId> + use<>, ApiError> {
    let wanted = query.get("node").map(|name| node(fabric, missing, split_port(name).0));
    let wanted = wanted.transpose()?;
    Ok(fabric.node_ids().filter(move |&id| wanted.is_none_or(|wanted| wanted == id)))
}

fn guid(name: &str) -> Option<Guid> {
    let digits = name.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().map(Guid)
}

/// The node with this name, else with this description.
fn node(fabric: &Fabric, missing: &MissingParts, name: &str) -> Result<NodeId, ApiError> {
    let found = find(fabric, name, |node| node.name().to_string()).or_else(|error| match error {
        NodeNameError::NoDescription(_) => find(fabric, name, |node| node.description.to_string()),
        other => Err(other),
    });
    let lost = if found.is_err() { missing.find(name) } else { None };
    if let Some(lost) = lost {
        return Err(ApiError::new(404, lost_text(lost)));
    }
    let earlier = if found.is_err() { missing.earlier.describe(name, fabric) } else { None };
    if let Some(earlier) = earlier {
        return Err(ApiError::new(404, earlier));
    }
    found.map_err(|error| match error {
        NodeNameError::NoDescription(_) => ApiError::new(404, unknown(fabric, name)),
        NodeNameError::Ambiguous { .. } => ApiError::new(400, format!("{error}: give a GUID")),
        _ => ApiError::new(404, error.to_string()),
    })
}

fn find(
    fabric: &Fabric,
    name: &str,
    name_of: fn(&Node) -> String,
) -> Result<NodeId, NodeNameError> {
    let nodes = fabric.node_ids().map(|id| (id, name_of(fabric.node(id))));
    node_name::find(name, nodes, |guid| node_of_guid(fabric, guid), |_| None)
}

/// The node with a GUID, else the node of the port with this GUID.
fn node_of_guid(fabric: &Fabric, guid: Guid) -> Option<NodeId> {
    let node = fabric.node_by_guid(guid);
    node.or_else(|| fabric.port_by_guid(guid).map(|port| fabric.port(port).node))
}

/// What is known of a node that is not found any more.
fn lost_text(lost: &MissingNode) -> String {
    let EventNode { guid, description, .. } = &lost.name;
    let ago = (Utc::now() - lost.since).num_seconds().max(0);
    let since = time(lost.since);
    format!("\"{description}\" ({guid}) is missing: it was lost {ago} s ago, at {since}")
}

fn unknown(fabric: &Fabric, name: &str) -> String {
    let names: Vec<String> = fabric.nodes().iter().map(|node| node.name().to_string()).collect();
    let hint = crate::config::suggest::closest(name, names.iter().map(String::as_str));
    let hint = hint.map_or_else(String::new, |name| format!("; did you mean '{name}'?"));
    format!("no node has the description '{name}'{hint}")
}

/// The end port with this LID, node or port GUID, or description of its node. Of several ports of a
/// node the first one with a LID is taken.
pub(super) fn end_port(
    fabric: &Fabric,
    missing: &MissingParts,
    lids: &LidTable,
    name: &str,
) -> Result<PortId, ApiError> {
    if let Ok(lid) = name.parse::<u16>() {
        return lids.port(Lid(lid)).ok_or_else(|| {
            let lost = lost_node(missing, fabric, name);
            ApiError::new(404, lost.unwrap_or_else(|| format!("no port has the LID {lid}")))
        });
    }
    let (name, num) = split_port(name);
    if let Some(num) = num {
        let id = node(fabric, missing, name)?;
        let port = fabric.port_of(id, PortNum(num)).map(|port| fabric.owner(port));
        let port = port.filter(|&port| lids.base(port).is_some());
        return port.ok_or_else(|| ApiError::new(409, format!("\"{name}\"[{num}] has no LID")));
    }
    if let Some(port) = guid(name).and_then(|guid| fabric.port_by_guid(guid)) {
        return Ok(port);
    }
    let id = node(fabric, missing, name)?;
    let port =
        fabric.end_ports().find(|port| fabric.port(*port).node == id && lids.base(*port).is_some());
    port.ok_or_else(|| ApiError::new(409, format!("the node '{name}' has no LID")))
}

fn lost_node(missing: &MissingParts, fabric: &Fabric, name: &str) -> Option<String> {
    missing.find(name).map(lost_text).or_else(|| missing.earlier.describe(name, fabric))
}
