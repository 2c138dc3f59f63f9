//! Validity of NodeInfo.

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
