//! Channel adapters that are attached to the switches of a finished fabric.

use crate::torus::random::Random;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::NodeKind;

/// The description of the aggregation node that Quantum switches show.
pub const AGGREGATION_NODE: &str = "Mellanox Technologies Aggregation Node";

/// The highest number of external ports of a switch.
const MAX_PORTS: u8 = 254;

/// Gives each switch an aggregation node with a probability of `share` percent: a channel adapter
/// at a port beyond those of the cage, as at Quantum switches.
pub fn attach_aggregation_nodes(topology: &mut Topology, random: &mut Random, share: usize) {
    for switch in 0..topology.nodes.len() {
        let node = &mut topology.nodes[switch];
        let has_room = node.kind == NodeKind::Switch && node.num_ports < MAX_PORTS;
        if !has_room || !random.percent(share) {
            continue;
        }
        node.num_ports += 1;
        let port = PortNum(node.num_ports);
        let guid = Guid(0x0012_0000_0000_0000 | (random.below(1 << 20) as u64) << 24);
        attach(topology, AGGREGATION_NODE, Guid(guid.0 | (switch as u64) << 8), (switch, port));
    }
}

/// Attaches a channel adapter with one port to a free port of a switch.
pub fn attach(topology: &mut Topology, description: &str, guid: Guid, at: (usize, PortNum)) {
    topology.cables.push([(topology.nodes.len(), PortNum(1)), at]);
    topology.nodes.push(TopologyNode::new(NodeKind::Ca, guid, 1).described(description));
}
