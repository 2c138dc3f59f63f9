//! Actions of the management interface, and what it learns of reconfigurations.

use super::Manager;
use crate::config::options::Options;
use crate::daemon::sm_loop::mastership;
use crate::daemon::sm_loop::pending::PendingWork;
use crate::daemon::sm_loop::reconfigure::ReconfigureOutcome;
use crate::ids::Guid;
use crate::manage::loop_status::ReconfigureResult;
use crate::notes::Severity;
use crate::sm::peer::Peer;
use crate::wire::attr::SmState;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{info, warn};

impl Manager {
    /// Takes the request of an operator to allow or inhibit sweeps, if there is one. A heavy sweep
    /// replaces those that were inhibited.
    pub(super) fn allow_sweeps(&mut self, request: Option<bool>, pending: &mut PendingWork) {
        if let Some(is_enabled) = request
            && is_enabled == self.are_sweeps_inhibited
        {
            self.are_sweeps_inhibited = !is_enabled;
            self.monitor.sweeps_enabled(is_enabled);
            pending.heavy |= is_enabled;
            info!("an operator {} sweeps", if is_enabled { "allows" } else { "inhibits" });
        }
    }

    /// Sets the priority of this SM until the next reload.
    pub(super) async fn set_priority(&mut self, priority: u8) {
        let old = self.options.sm_priority;
        info!("an operator changes the priority of this SM from {old} to {priority}");
        let options = Options { sm_priority: priority, ..Options::clone(&self.options) };
        self.context.sm_status.send_modify(|status| status.reload(&options));
        self.options = Arc::new(options);
        self.priority_reloaded(old).await;
        if self.state() == SmState::Master {
            self.mastership.look_soon();
        }
    }

    /// Carries out requests that only a master can.
    pub(super) async fn carry_out(&mut self, todo: &PendingWork, pending: &mut PendingWork) {
        if self.state() != SmState::Master {
            return;
        }
        if todo.dump {
            self.reconfigurer.dump(&self.context);
        }
        if !todo.released.is_empty() {
            self.release_by_request(&todo.released, pending);
        }
        if !todo.quarantined.is_empty() {
            self.quarantine_by_request(&todo.quarantined, pending);
        }
        if let Some(to) = todo.handover {
            self.hand_over_by_request(to, pending).await;
        }
    }

    async fn hand_over_by_request(&mut self, to: Option<Guid>, pending: &mut PendingWork) {
        let Some(observation) = self.observation.as_ref() else { return };
        let voter = self.context.sm_status.borrow().voter();
        let successors = voter.successors(&mastership::peers(observation));
        let is_chosen = |peer: &&Peer| to.is_none_or(|guid| peer.guid() == guid);
        match (successors.iter().find(is_chosen).copied(), to) {
            (Some(peer), _) => self.hand_over(&peer, pending).await,
            (None, Some(guid)) => {
                warn!(
                    "no HANDOVER as an operator requests: the port GUID {guid} has no standby SM"
                );
            }
            (None, None) => warn!("no HANDOVER as an operator requests: there is no standby SM"),
        }
    }

    /// Reports a reconfiguration that began at `start`, after a trap that arrived at `trap`.
    pub(super) fn record_reconfiguration(
        &mut self,
        outcome: &ReconfigureOutcome,
        (start, trap): (Instant, Option<Instant>),
    ) {
        let result = match outcome {
            ReconfigureOutcome::Up => ReconfigureResult::Up,
            ReconfigureOutcome::EndedEarly(_) => ReconfigureResult::Interrupted,
            ReconfigureOutcome::Incomplete(text) => ReconfigureResult::Incomplete(text.clone()),
            ReconfigureOutcome::Delayed(text) => ReconfigureResult::Delayed(text.clone()),
            ReconfigureOutcome::Rejected(text) => ReconfigureResult::Rejected(text.clone()),
        };
        let mut figures = self.reconfigurer.take_figures();
        figures.total = start.elapsed();
        let refused = self.context.refused.borrow().clone();
        let notes = refused.iter().flat_map(|refused| &refused.notes);
        let shown = notes.filter(|note| note.severity >= Severity::Warning);
        let messages = shown.map(ToString::to_string).collect();
        let causes = self.causes.clone();
        self.monitor.reconfigured(causes, (start, trap), result, figures, messages);
    }
}
