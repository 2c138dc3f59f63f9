//! Decides when changed multicast groups are planned.
//!
//! Each plan writes some blocks of multicast forwarding tables, and one block may serve a thousand
//! new members. Changes that arrive in large numbers are therefore collected until they pause for
//! [`QUIET_TIME`], or until the first of them is [`MAX_DELAY`] old. A single change is planned at
//! once.

use std::time::Duration;
use tokio::time::Instant;

/// Time without a change after which a batch is complete.
const QUIET_TIME: Duration = Duration::from_millis(10);

/// Maximum delay of a change. Together with planning and programming, a join takes well below the
/// second after which clients retransmit it.
const MAX_DELAY: Duration = Duration::from_millis(250);

/// Batches up to this size are planned without delay, if the previous one was no larger.
const MAX_IMMEDIATE_CHANGES: u64 = 16;

/// Changes of groups that the SM loop has not read yet, counted by generations of the registry.
#[derive(Debug)]
pub(super) struct PlanBatcher {
    /// The generation that the SM loop read last.
    planned: u64,
    latest: u64,
    /// Number of changes in the previous batch.
    last_batch: u64,
    /// Times of the first and the last change after `planned`.
    since: Option<(Instant, Instant)>,
    /// The SM loop was notified of this batch.
    is_notified: bool,
}

impl PlanBatcher {
    /// Starts with the registry at this generation, which the SM loop will read.
    pub(super) fn new(generation: u64) -> Self {
        Self {
            planned: generation,
            latest: generation,
            last_batch: 0,
            since: None,
            is_notified: false,
        }
    }

    /// Records that the registry has changed to this generation.
    pub(super) fn changed(&mut self, now: Instant, generation: u64) {
        if generation != self.latest {
            self.latest = generation;
            let first = self.since.map_or(now, |(first, _)| first);
            self.since = Some((first, now));
        }
    }

    /// Records that the SM loop plans the groups of this generation.
    pub(super) fn planning_started(&mut self, generation: u64) {
        self.last_batch = generation.saturating_sub(self.planned);
        self.will_be_planned(generation);
    }

    /// Records that the SM loop will plan the groups of this generation without being notified.
    pub(super) fn will_be_planned(&mut self, generation: u64) {
        (self.planned, self.latest) = (generation, generation);
        (self.since, self.is_notified) = (None, false);
    }

    /// Records that the SM loop was notified of the present batch.
    pub(super) fn notified(&mut self) {
        self.is_notified = true;
    }

    /// Time at which the batch is complete; `None` without changes, or after the notification.
    pub(super) fn due(&self) -> Option<Instant> {
        let (first, last) = self.since.filter(|_| !self.is_notified)?;
        let is_immediate = self.last_batch.max(self.latest - self.planned) <= MAX_IMMEDIATE_CHANGES;
        Some(if is_immediate { first } else { (last + QUIET_TIME).min(first + MAX_DELAY) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_single_change_is_planned_at_once() {
        let mut batcher = PlanBatcher::new(7);
        let now = Instant::now();
        batcher.changed(now, 7);
        assert_eq!(batcher.due(), None);
        batcher.changed(now, 9);
        assert_eq!(batcher.due(), Some(now));
        batcher.notified();
        batcher.changed(now + MILLISECOND, 10);
        assert_eq!(batcher.due(), None, "notified already");
        batcher.planning_started(10);
        batcher.changed(now + MILLISECOND, 11);
        assert_eq!(batcher.due(), Some(now + MILLISECOND));
        batcher.will_be_planned(11);
        assert_eq!(batcher.due(), None);
    }

    #[test]
    fn many_changes_are_collected() {
        let mut batcher = PlanBatcher::new(0);
        let start = Instant::now();
        let mut now = start;
        for generation in 1..=1000 {
            batcher.changed(now, generation);
            now += MILLISECOND;
        }
        assert_eq!(batcher.due(), Some(start + MAX_DELAY));
        batcher.planning_started(1000);
        batcher.changed(now, 1001);
        assert_eq!(batcher.due(), Some(now + QUIET_TIME), "after a large batch");
        batcher.planning_started(1001);
        batcher.changed(now, 1002);
        assert_eq!(batcher.due(), Some(now), "after a small batch");
    }
}
