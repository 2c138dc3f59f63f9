//! Storms of changed links, such as a mass boot: changes are collected, and programming is not
//! interrupted for them. Each reconfiguration writes the same forwarding table blocks again, so
//! that few large ones settle the fabric sooner than many small ones. It has no clock: time is an
//! argument.

use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Number of traps about changed links within [`PERIOD`] above which they are a storm. A lost
/// switch with 64 ports causes fewer.
const MAX_PROMPT_CHANGES: usize = 64;
/// The period in which traps are counted.
const PERIOD: Duration = Duration::from_secs(1);
/// Minimum time between the beginnings of two focused sweeps during a storm.
pub(super) const COLLECTION_TIME: Duration = Duration::from_millis(50);

/// The rate at which links change.
#[derive(Debug, Default)]
pub(super) struct LinkStorm {
    /// Times of the last traps, at most one more than [`MAX_PROMPT_CHANGES`].
    changes: VecDeque<Instant>,
    last_sweep: Option<Instant>,
}

impl LinkStorm {
    /// Records a trap about a changed link.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changes.push_back(now);
        if self.changes.len() > MAX_PROMPT_CHANGES + 1 {
            self.changes.pop_front();
        }
    }

    /// Records the beginning of a focused sweep.
    pub(super) fn sweeping(&mut self, now: Instant) {
        self.last_sweep = Some(now);
    }

    /// True while more than [`MAX_PROMPT_CHANGES`] traps arrived within the last [`PERIOD`].
    pub(super) fn is_storm(&self, now: Instant) -> bool {
        let oldest = self.changes.front().filter(|_| self.changes.len() > MAX_PROMPT_CHANGES);
        oldest.is_some_and(|&oldest| now.duration_since(oldest) < PERIOD)
    }

    /// The time until which changes are collected before the next focused sweep.
    pub(super) fn collect_until(&self, now: Instant) -> Option<Instant> {
        let due = self.last_sweep? + COLLECTION_TIME;
        (self.is_storm(now) && now < due).then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A storm with a trap each millisecond.
    fn storm(start: Instant, traps: u32) -> LinkStorm {
        let mut storm = LinkStorm::default();
        (0..traps).for_each(|at| storm.changed(start + Duration::from_millis(at.into())));
        storm
    }

    #[test]
    fn the_changes_of_a_lost_switch_are_no_storm() {
        let start = Instant::now();
        let mut lost = storm(start, 64);
        lost.sweeping(start);
        assert!(!lost.is_storm(start + Duration::from_millis(64)));
        assert_eq!(lost.collect_until(start + Duration::from_millis(1)), None);
    }

    #[test]
    fn a_storm_is_collected_until_it_calms_down() {
        let start = Instant::now();
        let mut boot = storm(start, 500);
        let now = start + Duration::from_millis(500);
        assert_eq!(boot.collect_until(now), None, "the first sweep is not delayed");
        boot.sweeping(now);
        assert_eq!(boot.collect_until(now), Some(now + COLLECTION_TIME));
        assert_eq!(boot.collect_until(now + COLLECTION_TIME), None);
        assert!(!boot.is_storm(start + Duration::from_millis(1500)));
    }
}
