//! The state of the SM loop between two tasks: data only.

use super::agenda::Situation;
use crate::fabric::Fabric;
use crate::manage::loop_status::Causes;
use crate::observe::Observation;
use crate::observe::recent_snapshots::RecentSnapshots;
use crate::wire::attr::SmState;
use std::sync::Arc;
use std::time::Duration;

/// Delay before a failed sweep is repeated. It doubles with each failure, up to the sweep interval.
pub(super) const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Number of sweeps and reconfigurations in a row that changed links may interrupt.
pub(super) const MAX_UNFINISHED: u32 = 8;

#[derive(Debug)]
pub(super) struct LoopState {
    /// The last snapshot.
    pub(super) observation: Option<Observation>,
    /// Snapshots before it, which new ones share memory with.
    pub(super) recent: RecentSnapshots,
    /// The snapshot of the last reconfiguration that did not end early.
    pub(super) completed: Option<Arc<Fabric>>,
    /// The last reconfiguration ended early because devices were silent.
    pub(super) was_silent: bool,
    /// Sweeps and reconfigurations in a row that ended early.
    pub(super) unfinished: u32,
    /// Light sweeps that confirmed focused ones since the last trap or light sweep without a change.
    pub(super) rechecks: u32,
    /// An operator inhibits all sweeps.
    pub(super) are_sweeps_inhibited: bool,
    /// Something was left open, so that a heavy sweep takes the place of the next light one.
    pub(super) needs_heavy_sweep: bool,
    /// Delay before the next retry.
    pub(super) retry_delay: Duration,
    /// Why the work in progress is done.
    pub(super) causes: Causes,
}

impl Default for LoopState {
    fn default() -> Self {
        Self {
            observation: None,
            recent: RecentSnapshots::default(),
            completed: None,
            was_silent: false,
            unfinished: 0,
            rechecks: 0,
            are_sweeps_inhibited: false,
            needs_heavy_sweep: false,
            retry_delay: MIN_RETRY_DELAY,
            causes: Causes::new(),
        }
    }
}

impl LoopState {
    pub(super) fn situation(&self, role: SmState) -> Situation {
        Situation {
            role,
            may_focus: self.may_focus(role),
            are_sweeps_inhibited: self.are_sweeps_inhibited,
        }
    }

    /// True if a snapshot is the base for a focused sweep, and changed links have not postponed other
    /// work for too long.
    pub(super) fn may_focus(&self, role: SmState) -> bool {
        self.observation.is_some() && role == SmState::Master && self.unfinished < MAX_UNFINISHED
    }

    /// Records that changed links ended a sweep or reconfiguration early.
    pub(super) fn add_unfinished(&mut self) {
        debug_assert!(self.unfinished < MAX_UNFINISHED, "it was not to end early any more");
        self.unfinished += 1;
    }

    /// Forgets what a task that panicked may have left half done.
    pub(super) fn start_from_scratch(&mut self) {
        self.observation = None;
        self.completed = None;
        self.was_silent = false;
        self.unfinished = 0;
        self.rechecks = 0;
    }
}
