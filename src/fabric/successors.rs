//! The ids of ports in a later snapshot, whose nodes may have other numbers.

use super::{Fabric, Node, NodeId, Port, PortId};

/// By node of a snapshot: the first port slot of the same node in a later one.
pub struct Successors {
    first_ports: Vec<Option<PortId>>,
}

impl Successors {
    /// Nodes are the same if they have the same GUID and as many ports.
    pub fn between(old: &Fabric, new: &Fabric) -> Self {
        let mut later = new.nodes().iter().peekable();
        let mut first_ports = Vec::with_capacity(old.nodes().len());
        // Nodes are ordered by GUID in both snapshots.
        for node in old.nodes().iter() {
            while later.next_if(|next| next.guid() < node.guid()).is_some() {}
            let is_same =
                |next: &&Node| next.guid() == node.guid() && next.num_ports() == node.num_ports();
            first_ports.push(later.next_if(is_same).map(|next| next.first_port));
        }
        Self { first_ports }
    }

    /// True if the later snapshot has the node, with as many ports.
    pub fn has(&self, node: NodeId) -> bool {
        self.first_ports[node.index()].is_some()
    }

    /// A port of the earlier snapshot in the later one; `None` if its node is not there.
    pub fn port(&self, port: &Port) -> Option<PortId> {
        let first = self.first_ports[port.node.index()]?;
        Some(PortId(first.0 + u32::from(port.num.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::fabric::topology::Topology;
    use crate::sim::generate::Shape;

    fn snapshot(topology: &Topology) -> Fabric {
        Fabric::from_topology(topology, 0, &SyntheticView::default()).expect("a fabric")
    }

    #[test]
    fn ports_are_found_after_nodes_have_gone_and_come() {
        let whole = Shape::torus([4, 4, 1]).build().expect("a torus");
        let mut part = whole.clone();
        // Its first nodes are switches: their loss changes the numbers of all others.
        part.nodes[3].guid.0 += 0x1_0000;
        let old = snapshot(&whole);
        let new = snapshot(&part);
        for (from, to) in [(&old, &new), (&new, &old)] {
            let successors = Successors::between(from, to);
            let mut gone = 0;
            for port in from.port_ids() {
                let (guid, num) = from.end_of(port);
                let expected = to.node_by_guid(guid).and_then(|node| to.port_of(node, num));
                assert_eq!(successors.port(from.port(port)), expected, "{guid}[{num}]");
                assert_eq!(successors.has(from.port(port).node), expected.is_some());
                gone += usize::from(expected.is_none());
            }
            assert_eq!(gone, usize::from(whole.nodes[3].num_ports) + 1);
        }
    }
}
