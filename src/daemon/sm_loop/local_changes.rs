//! Handles traps 144 and 145: reads the changed attributes, and publishes them without a sweep.

use crate::daemon::sm_loop::manager::Manager;
use crate::daemon::sm_loop::pending::PendingWork;
use crate::ids::Lid;
use crate::notes::counted;
use crate::observe::local_changes::{self, LocalChanges};
use crate::observe::traps::ChangedAttributes;
use crate::wire::attr::SmState;
use std::collections::BTreeMap;
use tracing::info;

impl Manager {
    /// Reads the attributes of the ports with these LIDs that changed.
    pub(super) async fn read_local_changes(
        &mut self,
        changed: &BTreeMap<Lid, ChangedAttributes>,
        pending: &mut PendingWork,
    ) {
        let (client, keys) = (self.context.client.clone(), self.reconfigurer.m_keys());
        let Some(observation) = self.observation.as_mut() else {
            pending.heavy = true;
            return;
        };
        let ports = local_changes::ports_by_lid(&observation.fabric, changed);
        // A port that the snapshot does not have under its LID.
        pending.heavy |= ports.len() < changed.len();
        let changes = local_changes::read(&client, keys, observation, &ports).await;
        let LocalChanges { is_changed, managers_changed, needs_plan, needs_sweep } = changes;
        info!("{} read again", counted(ports.len(), "changed port", "changed ports"));
        pending.heavy |= needs_sweep;
        if managers_changed {
            self.others_changed(pending).await;
        } else if is_changed {
            // It may be the port of a new SM that does not answer yet.
            self.mastership.look_soon();
        }
        if needs_plan {
            pending.plan = true;
        } else if is_changed && self.state() == SmState::Master {
            self.publish_observation().await;
        }
    }

    /// Publishes the snapshot with the plan in force.
    async fn publish_observation(&mut self) {
        if let Some(observation) = self.observation.as_ref() {
            self.reconfigurer.publish_observation(&self.context, &self.options, observation).await;
        }
    }
}
