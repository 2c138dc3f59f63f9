//! The copy of the last snapshot from which a focused sweep starts. In a large fabric it takes
//! longer than the queries of the sweep, so it is made in advance, while nothing waits for it.

use crate::daemon::process::priority::spawn_preparation;
use crate::observe::Observation;
use crate::observe::discovery_state::DiscoveryState;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The copy, or the work that makes it.
#[derive(Default)]
pub(super) struct PreparedSweep {
    prepared: Option<(Observation, JoinHandle<DiscoveryState>)>,
}

impl PreparedSweep {
    /// Begins to copy a snapshot, unless that was done already.
    pub(super) fn prepare(&mut self, last: &Observation) {
        if !self.is_of(last) {
            let copied = last.clone();
            let copy = spawn_preparation(move || DiscoveryState::of(&copied.fabric, &copied.pkeys));
            self.prepared = Some((last.clone(), copy));
        }
    }

    fn is_of(&self, last: &Observation) -> bool {
        let is_same = |copied: &Observation| {
            Arc::ptr_eq(&copied.fabric, &last.fabric) && Arc::ptr_eq(&copied.pkeys, &last.pkeys)
        };
        self.prepared.as_ref().is_some_and(|(copied, _)| is_same(copied))
    }

    /// The state that represents a snapshot: the copy that was prepared, if it is complete and of
    /// this snapshot.
    pub(super) async fn take(&mut self, last: &Observation) -> DiscoveryState {
        let is_usable = self.is_of(last);
        let prepared = self.prepared.take().filter(|(_, copy)| is_usable && copy.is_finished());
        let state = match prepared {
            Some((_, copy)) => copy.await.ok(),
            None => None,
        };
        state.unwrap_or_else(|| DiscoveryState::of(&last.fabric, &last.pkeys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::fabric::{Fabric, ibnet};
    use crate::ids::Guid;
    use std::path::Path;

    fn observation(switch: &str) -> Observation {
        let text =
            format!("Switch 2 \"{switch}\"\n[1] \"h\"[1]\n\nHca 1 \"h\"\n[1] \"{switch}\"[1]\n");
        let topology = ibnet::parse(Path::new("net"), &text).expect("a fabric");
        let fabric = Fabric::from_topology(&topology, 0, &SyntheticView::default());
        Observation {
            fabric: Arc::new(fabric.expect("node 0")),
            pkeys: Arc::default(),
            managers: Vec::new(),
            changed_switches: Vec::new(),
            unconfirmed: Vec::new(),
            is_unresolved: false,
        }
    }

    fn guids(state: &DiscoveryState) -> Vec<Guid> {
        state.nodes().iter().map(|node| node.guid()).collect()
    }

    #[tokio::test]
    async fn a_copy_serves_only_the_snapshot_that_it_is_of() {
        let (first, second) = (observation("a"), observation("b"));
        let own = |seen: &Observation| guids(&DiscoveryState::of(&seen.fabric, &seen.pkeys));
        let mut prepared = PreparedSweep::default();
        assert_eq!(guids(&prepared.take(&first).await), own(&first), "nothing was prepared");
        prepared.prepare(&first);
        assert!(prepared.is_of(&first) && !prepared.is_of(&second));
        assert_eq!(guids(&prepared.take(&second).await), own(&second));
        prepared.prepare(&second);
        while !prepared.prepared.as_ref().is_some_and(|(_, copy)| copy.is_finished()) {
            tokio::task::yield_now().await;
        }
        assert_eq!(guids(&prepared.take(&second).await), own(&second));
        assert!(!prepared.is_of(&second), "a copy is used once");
    }
}
