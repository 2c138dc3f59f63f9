//! The switches for whose silence programming ends early.

use crate::apply::Stop;
use crate::fabric::{Fabric, NodeId};
use crate::ids::Guid;

/// The switches that are silent, or whose channel adapters are.
pub(super) fn silent_switches(fabric: &Fabric, stop: &Stop) -> Vec<Guid> {
    let Stop::Silence(nodes) = stop else { return Vec::new() };
    let switch_of = |&node: &NodeId| {
        if fabric.node(node).is_switch() {
            return Some(fabric.node(node).guid());
        }
        let peer = fabric.ports_of(node).find_map(|port| port.peer)?;
        Some(fabric.node_of(peer).guid())
    };
    nodes.iter().filter_map(switch_of).collect()
}
