//! Spreads the queries of a sweep over time: responses to a whole window of queries at once would
//! hold up those that a reroute or the SA waits for.

use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(2);

/// Maximum number of queries that are sent in a slot: 40,960 ports then take 7.5 s.
const QUERIES_PER_SLOT: usize = 22;

/// The slots of a sweep.
#[derive(Debug)]
pub(super) struct SweepPace {
    slots: Interval,
    /// Queries that may still be sent in the current slot.
    left: usize,
}

impl SweepPace {
    pub(super) fn new() -> Self {
        let mut slots = interval(SLOT);
        // After a delay, queries are not sent in one burst.
        slots.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { slots, left: 0 }
    }

    /// True if a query may be sent now, which is counted.
    pub(super) fn take(&mut self) -> bool {
        let is_free = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_free
    }

    /// True if no query may be sent before the next slot.
    pub(super) fn is_used_up(&self) -> bool {
        self.left == 0
    }

    /// Waits for the next slot. Cancel safe.
    pub(super) async fn next_slot(&mut self) {
        self.slots.tick().await;
        self.left = QUERIES_PER_SLOT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn queries_are_spread_over_slots() {
        let start = Instant::now();
        let mut pace = SweepPace::new();
        let mut sent = 0;
        while sent < 10 * QUERIES_PER_SLOT {
            if pace.take() { sent += 1 } else { pace.next_slot().await }
        }
        // The first slot begins at once.
        assert_eq!(start.elapsed(), 9 * SLOT);
        tokio::time::advance(20 * SLOT).await;
        assert!(pace.is_used_up());
        pace.next_slot().await;
        assert_eq!((0..100).filter(|_| pace.take()).count(), QUERIES_PER_SLOT);
    }
}
