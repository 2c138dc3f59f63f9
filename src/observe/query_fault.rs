//! The fault of the snapshot that a failed query causes.

use super::discovery_state::DiscoveryState;
use super::query::DiscoveryQuery;
use crate::fabric::DiscoveryFault;
use crate::ids::PortNum;
use crate::transport::transactions::SmpError;

/// The fault of a query that failed with `error`; `None` for the query to the local node, without
/// which there is no snapshot.
pub(super) fn fault_of(
    state: &DiscoveryState,
    query: DiscoveryQuery,
    error: &SmpError,
) -> Option<DiscoveryFault> {
    let (attribute, node, port) = match query {
        DiscoveryQuery::Node { from: None, .. } => return None,
        DiscoveryQuery::Node { from: Some((node, port)), .. } => ("NodeInfo", node, port),
        DiscoveryQuery::Identity { node } => ("NodeInfo", node, PortNum::ZERO),
        DiscoveryQuery::Description { node } => ("NodeDescription", node, PortNum::ZERO),
        DiscoveryQuery::Switch { node } => ("SwitchInfo", node, PortNum::ZERO),
        DiscoveryQuery::Port { node, port } => ("PortInfo", node, port),
        DiscoveryQuery::Pkeys { node, port, .. } => ("P_KeyTable", node, port),
        DiscoveryQuery::Manager { node, port } => ("SMInfo", node, port),
    };
    let name = name(state, node, port);
    let (route, what) = match query {
        DiscoveryQuery::Node { route, .. } => (route, format!("the node at the far end of {name}")),
        _ => (state.port_route(node, port), name),
    };
    Some(match error {
        SmpError::Unanswered => DiscoveryFault::NoAnswer { attribute, what, route },
        other => {
            let problem = format!("{attribute}: {other}");
            DiscoveryFault::InvalidAnswer { what, route, problem }
        }
    })
}

fn name(state: &DiscoveryState, node: usize, port: PortNum) -> String {
    let node = state.node(node);
    let kind = node.kind();
    let guid = node.guid();
    match state.names.get(guid) {
        Some(name) => format!("{kind} {guid} \"{name}\"[{port}]"),
        None => format!("{kind} {guid} \"{}\"[{port}]", node.description),
    }
}
