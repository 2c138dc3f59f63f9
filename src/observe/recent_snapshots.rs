//! Memory shared with earlier snapshots.
//!
//! A heavy sweep, and a focused one that finds other nodes than before, makes a snapshot from nothing. Most of
//! it equals a snapshot that is still in use: the last one, or that of a fabric before a fault that has been
//! repaired since, which the proofs keep.

use super::Observation;
use crate::fabric::Fabric;
use std::sync::{Arc, Weak};

/// Number of earlier snapshots to compare with.
const MAX_RECENT: usize = 8;

/// The last snapshots, of which those still in use are compared with.
#[derive(Debug, Default)]
pub struct RecentSnapshots {
    /// Latest last.
    snapshots: Vec<Weak<Fabric>>,
}

impl RecentSnapshots {
    /// Lets a new snapshot share memory with earlier ones, where they are equal.
    pub fn share(&mut self, observation: &mut Observation) {
        self.snapshots.retain(|snapshot| snapshot.strong_count() > 0);
        if let Some(fabric) = Arc::get_mut(&mut observation.fabric) {
            for earlier in self.snapshots.iter().rev().filter_map(Weak::upgrade) {
                fabric.share_memory(&earlier);
            }
        }
        let excess = (self.snapshots.len() + 1).saturating_sub(MAX_RECENT);
        self.snapshots.drain(..excess);
        self.snapshots.push(Arc::downgrade(&observation.fabric));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::sim::generate::Shape;

    fn observation(hosts: u8) -> Observation {
        let shape = Shape { hosts, ..Shape::torus([4, 4, 1]) };
        let topology = shape.build().expect("it fits");
        let view = SyntheticView::default();
        let fabric = Fabric::from_topology(&topology, 0, &view).expect("a node");
        let pkeys = vec![Arc::default(); fabric.ports().len()];
        Observation {
            fabric: Arc::new(fabric),
            pkeys: Arc::new(pkeys),
            managers: Vec::new(),
            changed_switches: Vec::new(),
            unconfirmed: Vec::new(),
            is_unresolved: false,
        }
    }

    #[test]
    fn an_equal_snapshot_that_is_in_use_is_shared() {
        let mut recent = RecentSnapshots::default();
        let mut whole = observation(10);
        recent.share(&mut whole);
        let mut smaller = observation(9);
        recent.share(&mut smaller);
        assert!(shared(&smaller, &whole) < whole.fabric.ports().len() / 2);

        let mut repaired = observation(10);
        assert_eq!(shared(&repaired, &whole), 0);
        recent.share(&mut repaired);
        let last_page = whole.fabric.ports().len() % 128;
        assert_eq!(shared(&repaired, &whole), whole.fabric.ports().len() - last_page);
        assert!(repaired.fabric.shares_index(&whole.fabric));

        let unused = Arc::downgrade(&whole.fabric);
        drop(whole);
        assert_eq!(unused.strong_count(), 0, "nothing is kept");
    }

    fn shared(one: &Observation, two: &Observation) -> usize {
        let unshared: usize =
            one.fabric.ports().unshared(two.fabric.ports()).map(|(_, page, _)| page.len()).sum();
        one.fabric.ports().len() - unshared
    }

    #[test]
    fn the_number_of_snapshots_is_bounded() {
        let mut recent = RecentSnapshots::default();
        let mut all: Vec<Observation> = (0..20).map(|_| observation(1)).collect();
        all.iter_mut().for_each(|snapshot| recent.share(snapshot));
        assert_eq!(recent.snapshots.len(), MAX_RECENT);
    }
}
