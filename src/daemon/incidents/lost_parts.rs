//! Follows the snapshots of a master in the register of losses.

use crate::fabric::{End, Fabric};
use crate::incidents::fact::{Cable, Facts, LossFacts};
use crate::incidents::losses::Register;
use crate::manage::loop_status::LoopStatus;
use crate::wire::attr::SmState;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Default)]
pub struct LostParts {
    pub register: Register,
    /// The snapshot that the register was updated with.
    pub fabric: Option<Arc<Fabric>>,
}

impl LostParts {
    /// Updates the register with a new snapshot.
    pub fn follow(&mut self, status: &LoopStatus) {
        if status.managers.own.state != SmState::Master {
            self.fabric = None;
            return;
        }
        let Some(fabric) = status.fabric.clone() else { return };
        match self.fabric.replace(fabric.clone()) {
            Some(last) if Arc::ptr_eq(&last, &fabric) => {}
            Some(last) => self.register.update(&last, &fabric),
            None => self.register.settle(&fabric),
        }
    }

    /// The nodes and cables that are lost.
    pub fn facts(&self, status: &LoopStatus) -> Facts {
        let unused = quarantined(status);
        let missing = self.register.cables().filter(|cable| !unused.contains(&cable.key()));
        let losses = LossFacts {
            nodes: self.register.nodes().to_vec(),
            cables: missing.cloned().collect(),
            ..LossFacts::default()
        };
        Facts { losses, ..Facts::default() }
    }

    /// Completes facts by what the register knows, and takes note of cables that do not belong where
    /// they are. Returns true if nodes were silent before a restart already.
    pub fn complete(&mut self, facts: &mut Facts, fabric: &Fabric) -> bool {
        let seen = facts.losses.silent_nodes.len();
        facts.losses.silent_nodes = self
            .register
            .silent(fabric, &facts.losses.silent_nodes, &facts.losses.unanswered)
            .to_vec();
        let unwanted = facts.cables.unexpected.iter().chain(&facts.cables.unlisted);
        self.register.expect_without(unwanted.map(Cable::key));
        facts.losses.silent_nodes.len() > seen
    }
}

/// Links that are treated as down, although they are plugged in.
fn quarantined(status: &LoopStatus) -> BTreeSet<[End; 2]> {
    let published = status.subnet.iter().flat_map(|subnet| &subnet.devices.quarantined);
    let flapping = status.anomalies.link_downs.iter().filter(|link| link.is_quarantined);
    published.map(|link| link.ends).chain(flapping.map(|link| link.ends)).collect()
}
