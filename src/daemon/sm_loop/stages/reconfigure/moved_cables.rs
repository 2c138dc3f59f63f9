//! Cables that were moved from one switch port to another while the subnet was up.
//!
//! When cables are exchanged, the traps of their ports arrive one after the other. A Set that is
//! sent after the first of them, along a directed route that crosses the exchanged cables, reaches
//! another device than the one it was meant for, and is acknowledged. So the tables of all devices
//! are compared with the plan after a cable was moved.

use crate::fabric::{End, Fabric, NodeId, Port};
use std::collections::HashMap;

/// Remembers cables that were lost, since a cable is mostly lost before it is found elsewhere.
#[derive(Default)]
pub(super) struct MovedCables {
    /// The far ends of lost cables of switch ports.
    lost: HashMap<End, FarEnd>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct FarEnd {
    end: End,
    is_switch: bool,
}

impl MovedCables {
    /// Takes over the changes from one snapshot to the next. True if a switch port has another far
    /// end than before, and one of both far ends is a switch: routes lead through it.
    pub(super) fn compare(&mut self, last: &Fabric, now: &Fabric) -> bool {
        let has_same_ids = last.has_same_ids(now);
        for &gone in last.switches().iter().filter(|node| is_gone(now, last, **node, has_same_ids))
        {
            let guid = last.node(gone).guid();
            for port in last.ports_of(gone) {
                self.lost.extend(far_end(last, port).map(|far| ((guid, port.num), far)));
            }
        }
        let mut is_moved = false;
        let switches = now.switches().iter();
        for &node in switches.filter(|node| !has_same_ids || !is_still(last, now, **node)) {
            let guid = now.node(node).guid();
            let before = last.node_by_guid(guid);
            for port in now.ports_of(node) {
                let before = before.and_then(|before| last.port_of(before, port.num));
                let before = before.and_then(|before| far_end(last, last.port(before)));
                is_moved |= self.port_compared((guid, port.num), before, far_end(now, port));
            }
        }
        is_moved
    }

    /// Takes over the far end of a port, before and now. True if the cable was moved.
    fn port_compared(&mut self, end: End, before: Option<FarEnd>, now: Option<FarEnd>) -> bool {
        let Some(now) = now else {
            self.lost.extend(before.map(|before| (end, before)));
            return false;
        };
        let lost = if self.lost.is_empty() { None } else { self.lost.remove(&end) };
        before.or(lost).is_some_and(|before| before != now && (before.is_switch || now.is_switch))
    }
}

/// Nearly all cables are where they were.
fn is_still(last: &Fabric, now: &Fabric, node: NodeId) -> bool {
    let before = last.ports_of(node).map(|port| port.peer);
    before.eq(now.ports_of(node).map(|port| port.peer))
}

fn is_gone(now: &Fabric, last: &Fabric, node: NodeId, has_same_ids: bool) -> bool {
    !has_same_ids && now.node_by_guid(last.node(node).guid()).is_none()
}

fn far_end(fabric: &Fabric, port: &Port) -> Option<FarEnd> {
    let peer = port.peer?;
    Some(FarEnd { end: fabric.end_of(peer), is_switch: fabric.node_of(peer).is_switch() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::fabric::topology::Topology;
    use crate::fabric::topology::TopologyNode;
    use crate::ids::PortNum;
    use crate::sim::generate::Shape;

    fn torus() -> Topology {
        "3x3x1".parse::<Shape>().expect("a shape").build().expect("a fabric")
    }

    fn fabric(topology: &Topology) -> Fabric {
        Fabric::from_topology(topology, topology.nodes.len() - 1, &SyntheticView::default())
            .expect("the node exists")
    }

    /// The indexes of two cables between switches that share no switch, and of two of hosts.
    fn cables(topology: &Topology) -> ([usize; 2], [usize; 2]) {
        let fabric = fabric(topology);
        let between = of(&fabric, &topology.cables, &topology.nodes, 2);
        let hosts = of(&fabric, &topology.cables, &topology.nodes, 1);
        ([between[0], *between.last().expect("a cable")], [hosts[0], hosts[1]])
    }

    fn of(
        fabric: &Fabric,
        cables: &[[(usize, PortNum); 2]],
        nodes: &[TopologyNode],
        switches: usize,
    ) -> Vec<usize> {
        let ends = cables.iter().enumerate();
        let of = ends.filter(|(_, cable)| {
            cable.iter().filter(|(node, _)| is_switch(fabric, nodes, *node)).count() == switches
        });
        of.map(|(index, _)| index).collect::<Vec<_>>()
    }

    fn is_switch(fabric: &Fabric, nodes: &[TopologyNode], node: usize) -> bool {
        let node = fabric.node_by_guid(nodes[node].guid).expect("a node");
        fabric.node(node).is_switch()
    }

    /// Exchanges the second ends of two cables.
    fn exchanged(topology: &Topology, [a, b]: [usize; 2]) -> Topology {
        let mut other = topology.clone();
        (other.cables[a][1], other.cables[b][1]) = (topology.cables[b][1], topology.cables[a][1]);
        other
    }

    fn without(topology: &Topology, mut lost: [usize; 2]) -> Topology {
        let mut other = topology.clone();
        lost.sort_unstable();
        for &index in lost.iter().rev() {
            other.cables.remove(index);
        }
        other
    }

    #[test]
    fn exchanged_cables_between_switches_are_found() {
        let topology = torus();
        let (between, _) = cables(&topology);
        let last = fabric(&topology);
        let now = fabric(&exchanged(&topology, between));
        assert!(MovedCables::default().compare(&last, &now));
        assert!(!MovedCables::default().compare(&last, &last));
    }

    #[test]
    fn a_cable_that_was_lost_before_it_is_found_elsewhere_was_moved() {
        let topology = torus();
        let (between, _) = cables(&topology);
        let last = fabric(&topology);
        let open = fabric(&without(&topology, between));
        let mut cables = MovedCables::default();
        assert!(!cables.compare(&last, &open));
        assert!(cables.compare(&open, &fabric(&exchanged(&topology, between))));

        let mut cables = MovedCables::default();
        assert!(!cables.compare(&last, &open));
        assert!(!cables.compare(&open, &last), "a cable that comes back was not moved");
        assert!(cables.lost.is_empty());
    }

    #[test]
    fn cables_of_hosts_may_be_exchanged() {
        let topology = torus();
        let (_, hosts) = cables(&topology);
        let now = fabric(&exchanged(&topology, hosts));
        assert!(!MovedCables::default().compare(&fabric(&topology), &now));
    }

    #[test]
    fn a_switch_that_comes_back_elsewhere_was_moved() {
        let topology = torus();
        let (between, _) = cables(&topology);
        let last = fabric(&topology);
        // All cables of a switch are lost, so that the switch is.
        let node = topology.cables[between[0]][1].0;
        let mut alone = topology.clone();
        alone.cables.retain(|cable| cable.iter().all(|end| end.0 != node));
        let gone = fabric(&alone);
        let mut cables = MovedCables::default();
        assert!(!cables.compare(&last, &gone));
        assert!(cables.lost.keys().all(|(_, num)| *num > PortNum::ZERO));
        assert!(cables.compare(&gone, &fabric(&exchanged(&topology, between))));
    }
}
