//! Link changes that a sweep has found before their traps arrived.
//!
//! The switches at both ends of a cable report its loss, one maybe some time after the other. The
//! sweep after the first trap finds the change, so the second one does not make the plan out of
//! date.

use crate::fabric::{Fabric, Port};
use crate::ids::Lid;
use crate::observe::traps::TrapEvent;
use std::collections::BTreeSet;

/// The switches with changed cables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KnownChanges(BTreeSet<Lid>);

impl KnownChanges {
    /// The switches with cables that only one of two snapshots has. None if the snapshots do not
    /// have the same nodes.
    pub fn between(last: &Fabric, now: &Fabric) -> Self {
        if !last.has_same_ids(now) {
            return Self::default();
        }
        let ports = last.ports().iter().zip(now.ports());
        let changed = ports.filter(|(before, after)| before.peer != after.peer);
        let lid = |(_, after): (&Port, &Port)| {
            let node = now.node(after.node);
            now.observed_lid(node.first_port).filter(|_| node.is_switch())
        };
        Self(changed.filter_map(lid).collect())
    }

    /// True if the trap reports a link change of one of these switches.
    pub fn explain(&self, trap: &TrapEvent) -> bool {
        trap.calls_for_sweep() && self.0.contains(&trap.subject)
    }
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

    fn explained(changes: &KnownChanges, number: u16) -> Vec<u16> {
        let trap = |lid| TrapEvent { number, subject: Lid(lid), ..TrapEvent::default() };
        (1..=8).filter(|&lid| changes.explain(&trap(lid))).collect()
    }

    #[test]
    fn both_switches_of_a_lost_cable_are_known() {
        // The cable between the second and the third switch.
        let (whole, open) = (fabric(None), fabric(Some(3)));
        for changes in [KnownChanges::between(&whole, &open), KnownChanges::between(&open, &whole)]
        {
            assert_eq!(explained(&changes, TrapNumber::LINK_STATE), [4, 6]);
            assert_eq!(explained(&changes, TrapNumber::LINK_STATE + 1), [0; 0]);
        }
        assert_eq!(KnownChanges::between(&whole, &whole), KnownChanges::default());
    }

    #[test]
    fn nothing_is_known_if_nodes_changed() {
        // Without its cable, a host is not in the snapshot.
        let (whole, open) = (fabric(None), fabric(Some(4)));
        assert_eq!(KnownChanges::between(&whole, &open), KnownChanges::default());
    }
}
