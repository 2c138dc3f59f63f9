//! Limits the rate of connections: those above it wait in the kernel's queue, so that a flood of
//! short requests takes little time from the subnet manager.

use std::time::Duration;
use tokio::time::Instant;

/// Connections that are accepted at once after a pause: more than may be open.
const BURST: u32 = 256;

/// Time for each further connection: 500 a second.
const INTERVAL: Duration = Duration::from_millis(2);

/// The connections accepted so far.
#[derive(Debug)]
pub(super) struct AcceptRate {
    /// The time at which connections at an even rate would have reached the number accepted.
    due: Instant,
}

impl AcceptRate {
    pub(super) fn new(now: Instant) -> Self {
        Self { due: now }
    }

    /// Counts a connection that was accepted at `now`. Returns the time at which the next one may
    /// be accepted.
    pub(super) fn accepted(&mut self, now: Instant) -> Instant {
        self.due = self.due.max(now) + INTERVAL;
        self.due.checked_sub(BURST * INTERVAL).map_or(now, |next| next.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_accepted_at_the_rate() {
        let start = Instant::now() + Duration::from_secs(10);
        let mut rate = AcceptRate::new(start);
        let mut now = start;
        for _ in 0..BURST + 1000 {
            now = rate.accepted(now);
        }
        assert_eq!(now - start, 1000 * INTERVAL);
        // After a pause, a burst again.
        now += BURST * INTERVAL;
        let later = now;
        for _ in 0..BURST {
            now = rate.accepted(now);
        }
        assert_eq!(now, later);
        assert!(rate.accepted(now) > later);
    }
}
