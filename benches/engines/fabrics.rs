//! The fabrics on which engines are measured.

use testkit::torus::random::Random;
use torus_sm::fabric::topology::{NextPorts, Topology, TopologyNode};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::NodeKind;

/// 12 pods of 12 leaves with 14 hosts each and 8 aggregation switches, below 48 core switches.
pub(crate) fn fat_tree() -> Topology {
    const PODS: usize = 12;
    let leaves = 12;
    let aggregations = 8;
    let cores = 48;
    let hosts = 14;
    let pod = leaves + aggregations;
    let mut network = Network::new(PODS * pod + cores);
    for first in (0..PODS).map(|index| index * pod) {
        for aggregation in 0..aggregations {
            let switch = first + leaves + aggregation;
            (0..leaves).for_each(|leaf| network.link(first + leaf, switch));
            for core in (0..cores).filter(|core| core % aggregations == aggregation) {
                network.link(switch, PODS * pod + core);
            }
        }
        for leaf in first..first + leaves {
            (0..hosts).for_each(|_| network.host(leaf));
        }
    }
    network.topology()
}

/// A random tree with random further links.
pub(crate) fn irregular(switches: usize, chords: usize, hosts: usize) -> Topology {
    let mut random = Random::new(1);
    let mut network = Network::new(switches);
    (1..switches).for_each(|switch| network.link(random.below(switch), switch));
    for _ in 0..chords {
        let from = random.below(switches);
        let to = random.below(switches);
        if from != to {
            network.link(from, to);
        }
    }
    for switch in 0..switches {
        (0..hosts).for_each(|_| network.host(switch));
    }
    network.topology()
}

/// Switches, which are numbered from 0, and their cables.
struct Network {
    topology: Topology,
    ports: NextPorts,
}

impl Network {
    fn new(switches: usize) -> Self {
        let nodes = (0..switches).map(|index| node(NodeKind::Switch, index, 0)).collect();
        let topology = Topology { nodes, ..Topology::default() };
        Self { topology, ports: NextPorts::new(switches) }
    }

    fn link(&mut self, from: usize, to: usize) {
        let cable = [self.ports.take(from), self.ports.take(to)];
        self.topology.cables.push(cable);
    }

    fn host(&mut self, switch: usize) {
        let host = self.topology.nodes.len();
        self.topology.nodes.push(node(NodeKind::Ca, host, 1));
        let cable = [self.ports.take(switch), (host, PortNum(1))];
        self.topology.cables.push(cable);
    }

    fn topology(mut self) -> Topology {
        for (index, node) in self.topology.nodes.iter_mut().enumerate() {
            if node.kind == NodeKind::Switch {
                node.num_ports = self.ports.count(index);
            }
        }
        self.topology
    }
}

fn node(kind: NodeKind, index: usize, num_ports: u8) -> TopologyNode {
    let guid = Guid(0x1000 + index as u64 * 0x10);
    TopologyNode::new(kind, guid, num_ports).described(format!("{kind} {index}"))
}
