//! Validity of NodeInfo.

use crate::fabric::Node;
use crate::wire::attr::{NodeInfo, NodeKind};

/// The reason why a NodeInfo is invalid; `None` if it is valid.
pub(super) fn node_info_problem(info: &NodeInfo) -> Option<String> {
    let port = info.local_port();
    let ports = info.num_ports();
    let is_switch = info.kind() == NodeKind::Switch;
    if let NodeKind::Unknown(code) = info.kind() {
        Some(format!("node type {code}"))
    } else if info.node_guid().0 == 0 || info.port_guid().0 == 0 {
        Some("a GUID of 0".into())
    } else if ports == 255 || ports == 0 {
        Some(format!("{ports} ports"))
    } else if port.0 > ports || (port.0 == 0 && !is_switch) {
        Some(format!("reached through port {port} of {ports}"))
    } else {
        None
    }
}

/// A route to a known node that leads to another device, by the NodeInfo of that.
///
/// After cables were moved, a directed route may end at another switch, whose answers would be
/// taken for those of the expected one. So a focused sweep reads NodeInfo of each suspect, and of the
/// peer of the local port, with them. If it is that of another device, the sweep is of no use, and a
/// heavy sweep follows, which uses no earlier route.
pub(super) fn misrouting(known: &Node, found: &NodeInfo) -> Option<String> {
    let expected = known.guid();
    let found = found.node_guid();
    (expected != found)
        .then(|| format!("route {} leads to {found}, not to {expected}", known.route))
}
