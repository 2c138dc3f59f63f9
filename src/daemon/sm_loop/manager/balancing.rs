//! Off-sweep balancing: when the routes in force are balanced again.

use super::Manager;
use crate::daemon::sm_loop::pending::PendingWork;
use crate::manage::loop_status::Cause;
use crate::record::entry::EventKind;
use crate::wire::attr::SmState;
use tokio::time::Instant;

impl Manager {
    /// Begins to wait for the window without a change.
    pub(super) fn schedule_balancing(&mut self) {
        let window = self.reconfigurer.balancing_window(&self.options);
        self.next_balancing = window.map(|window| Instant::now() + window);
    }

    /// Balances the routes again, and requests a reconfiguration if that improves them. Changed
    /// links end it; a reconfiguration follows them.
    pub(super) async fn balance(&mut self, pending: &mut PendingWork) {
        self.next_balancing = None;
        if self.state() != SmState::Master || self.are_sweeps_inhibited {
            return;
        }
        self.record(EventKind::Timer, || "off-sweep balancing");
        let Some(observation) = self.observation.as_ref() else { return };
        let is_better = tokio::select! {
            biased;
            () = self.events.link_change() => return,
            is_better = self.reconfigurer.balance(&self.context, &self.options, observation) => {
                is_better
            }
        };
        if is_better {
            pending.causes.insert(Cause::Timer);
            pending.plan = true;
        }
    }
}
