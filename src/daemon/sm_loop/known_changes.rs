//! Link changes that sweeps have found before their traps arrived.
//!
//! The switches at both ends of a cable report its loss, one maybe some time after the other; all
//! neighbours report the loss of a switch, and some of their traps are repeated after half a second
//! because they were lost with it. The sweep after the first trap finds all of these changes, so the
//! other traps do not make the plan out of date.

use crate::fabric::{End, Fabric, Node, PortId};
use crate::ids::Lid;
use crate::observe::traps::TrapEvent;
use std::collections::BTreeSet;

/// The switches with changed cables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KnownChanges(BTreeSet<Lid>);

impl KnownChanges {
    /// The switches with cables that only one of two snapshots has.
    pub fn between(last: &Fabric, now: &Fabric) -> Self {
        if last.has_same_ids(now) {
            let changed = (0..now.ports().len())
                .filter(|&index| last.ports()[index].peer != now.ports()[index].peer);
            let nodes = changed.map(|index| now.node(now.ports()[index].node));
            return Self(nodes.filter_map(|node| lid(now, node)).collect());
        }
        let switches = now.switches().iter().map(|&node| now.node(node));
        let changed = switches.filter(|node| has_other_cables(last, now, node));
        Self(changed.filter_map(|node| lid(now, node)).collect())
    }

    /// True if the trap reports a link change of one of these switches.
    pub fn explain(&self, trap: &TrapEvent) -> bool {
        trap.calls_for_sweep() && self.0.contains(&trap.subject)
    }
}

/// The LID of a switch; `None` for other nodes.
fn lid(fabric: &Fabric, node: &Node) -> Option<Lid> {
    fabric.observed_lid(node.first_port).filter(|_| node.is_switch())
}

/// True if a node is new, or has other cables than in an earlier snapshot.
fn has_other_cables(last: &Fabric, now: &Fabric, node: &Node) -> bool {
    let Some(before) = last.node_by_guid(node.guid()).map(|id| last.node(id)) else { return true };
    before.num_ports() != node.num_ports()
        || (0..=node.num_ports())
            .any(|num| far_end(last, before.first_port, num) != far_end(now, node.first_port, num))
}

/// The far end of port `num` of the node whose ports begin with `first`.
fn far_end(fabric: &Fabric, first: PortId, num: u8) -> Option<End> {
    let port = fabric.ports().get(first.index() + usize::from(num))?;
    port.peer.map(|peer| fabric.end_of(peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::plan::tests::ring;
    use crate::wire::attr::TrapNumber;

    /// A ring of four switches with a host each; the LIDs of the switches are even.
    fn fabric(without: Option<usize>) -> Fabric {
        let lids: Vec<(u16, u8)> = (1..=8).map(|lid| (lid, 0)).collect();
        let mut topology = ring(4, &lids);
        without.map(|cable| topology.cables.remove(cable));
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a fabric")
    }

    /// The ring without the switch with LID 4.
    fn without_a_switch() -> Fabric {
        let lids: Vec<(u16, u8)> = (1..=8).map(|lid| (lid, 0)).collect();
        let mut topology = ring(4, &lids);
        topology.cables.retain(|cable| cable.iter().all(|&(node, _)| node != 3));
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a fabric")
    }

    fn explained(changes: &KnownChanges, number: u16) -> Vec<u16> {
        (1..=8).filter(|&lid| changes.explain(&trap(lid, number))).collect()
    }

    fn trap(lid: u16, number: u16) -> TrapEvent {
        TrapEvent { number, subject: Lid(lid), ..TrapEvent::default() }
    }

    #[test]
    fn both_switches_of_a_lost_cable_are_known() {
        // The cable between the second and the third switch.
        let whole = fabric(None);
        let open = fabric(Some(3));
        for changes in [KnownChanges::between(&whole, &open), KnownChanges::between(&open, &whole)]
        {
            assert_eq!(explained(&changes, TrapNumber::LINK_STATE), [4, 6]);
            assert_eq!(explained(&changes, TrapNumber::LINK_STATE + 1), [0; 0]);
        }
        assert_eq!(KnownChanges::between(&whole, &whole), KnownChanges::default());
    }

    #[test]
    fn the_neighbours_of_lost_and_new_nodes_are_known() {
        // Without its cable, a host is not in the snapshot.
        let whole = fabric(None);
        let open = fabric(Some(4));
        assert_ne!(whole.nodes().len(), open.nodes().len());
        for changes in [KnownChanges::between(&whole, &open), KnownChanges::between(&open, &whole)]
        {
            assert_eq!(explained(&changes, TrapNumber::LINK_STATE), [6]);
        }
    }

    #[test]
    fn a_new_switch_and_its_neighbours_are_known() {
        let whole = fabric(None);
        let rest = without_a_switch();
        assert_eq!(rest.switches().len(), 3);
        let number = TrapNumber::LINK_STATE;
        assert_eq!(explained(&KnownChanges::between(&whole, &rest), number), [2, 6]);
        assert_eq!(explained(&KnownChanges::between(&rest, &whole), number), [2, 4, 6]);
    }
}
