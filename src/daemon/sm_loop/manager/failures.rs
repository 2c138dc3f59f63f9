//! Failures of sweeps and reconfigurations: retries, and the end of the daemon.

use super::{Exit, MIN_RETRY_DELAY, Manager};
use crate::daemon::process::priority::spawn_idle;
use crate::fabric::DiscoveryFault;
use crate::observe::Observation;
use tokio::time::Instant;

impl Manager {
    /// Handles a failure to configure the subnet: ends with `-o`, else schedules a retry.
    pub(in crate::daemon::sm_loop) fn failed(&mut self, problem: String) -> Option<Exit> {
        if let Some(write) = self.context.recordings.failed(&problem) {
            // The task ends by itself.
            drop(spawn_idle(write));
        }
        if self.once {
            return Some(Exit::SubnetDown(problem));
        }
        let max_delay = self.interval().unwrap_or(MIN_RETRY_DELAY * 64);
        self.next_sweep = Some(Instant::now() + self.retry_delay.min(max_delay));
        self.retry_delay = (self.retry_delay * 2).min(max_delay.max(MIN_RETRY_DELAY));
        self.reconfigurer.needs_heavy_sweep = true;
        None
    }

    /// The end of the daemon on a duplicate GUID in the first sweep (`exit_on_fatal`). As in OpenSM,
    /// only a fabric without switches is fatal, whose link seems to end at its own beginning: there is
    /// nothing to manage.
    pub(super) fn fatal(&self, observation: &Observation) -> Option<Exit> {
        if !observation.fabric.switches().is_empty() {
            return None;
        }
        let duplicate = observation.fabric.faults().iter().find(|fault| {
            matches!(
                fault,
                DiscoveryFault::DuplicateNodeGuid { .. } | DiscoveryFault::DuplicatePortGuid { .. }
            )
        })?;
        let is_first = self.observation.is_none();
        (is_first && self.options.exit_on_fatal).then(|| Exit::Fatal(duplicate.to_string()))
    }
}
