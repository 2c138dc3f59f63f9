//! Growing delays between attempts at what has failed. The structure has no clock: time is an
//! argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// Delays before the next attempt, by key.
#[derive(Clone, Debug)]
pub struct Backoff<K> {
    /// Number of consecutive failures without a delay.
    tolerated: u32,
    /// Delay after the first failure that is not tolerated. It doubles with each further one.
    first: Duration,
    max: Duration,
    entries: HashMap<K, BackoffEntry>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BackoffEntry {
    failures: u32,
    next_try: Instant,
}

impl<K: Eq + Hash> Backoff<K> {
    pub fn new(tolerated: u32, first: Duration, max: Duration) -> Self {
        Self { tolerated, first, max, entries: HashMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Records a failure. Returns the delay before the next attempt.
    pub fn failed(&mut self, key: K, now: Instant) -> Duration {
        let entry = self.entries.entry(key).or_insert(BackoffEntry { failures: 0, next_try: now });
        entry.failures = entry.failures.saturating_add(1);
        let doublings = entry.failures.checked_sub(self.tolerated + 1);
        let delay = doublings.map_or(Duration::ZERO, |doublings| {
            self.first.saturating_mul(1 << doublings.min(30)).min(self.max)
        });
        entry.next_try = now + delay;
        delay
    }

    /// Ends the delays of a key.
    pub fn succeeded(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// True if an attempt must wait.
    pub fn is_delayed(&self, key: &K, now: Instant) -> bool {
        self.entries.get(key).is_some_and(|entry| now < entry.next_try)
    }

    /// Number of consecutive failures.
    pub fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// Time of the earliest attempt that waits.
    pub fn next_try(&self, now: Instant) -> Option<Instant> {
        let times = self.entries.values().map(|entry| entry.next_try);
        times.filter(|&time| time > now).min()
    }

    /// True if an attempt need no longer wait.
    pub fn has_due(&self, now: Instant) -> bool {
        self.entries.values().any(|entry| entry.next_try <= now)
    }

    /// Forgets the keys for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.entries.retain(|key, _| keep(key));
    }

    /// The keys that failed, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(0, SECOND, 5 * SECOND);
        let start = Instant::now();
        let delays: Vec<Duration> = (0..5).map(|_| backoff.failed("port", start)).collect();
        assert_eq!(delays, [1, 2, 4, 5, 5].map(|seconds| seconds * SECOND));
        assert!(backoff.is_delayed(&"port", start + 4 * SECOND));
        assert!(!backoff.is_delayed(&"port", start + 5 * SECOND));
        assert!(!backoff.is_delayed(&"other", start));
        assert_eq!(backoff.next_try(start), Some(start + 5 * SECOND));
        assert_eq!(backoff.next_try(start + 5 * SECOND), None);
        assert!((0..100).all(|_| backoff.failed("port", start) == 5 * SECOND));
    }

    #[test]
    fn tolerated_failures_and_a_success_leave_no_delay() {
        let mut backoff = Backoff::new(2, SECOND, 5 * SECOND);
        let now = Instant::now();
        assert_eq!(backoff.failed(1, now), Duration::ZERO);
        assert_eq!(backoff.failed(1, now), Duration::ZERO);
        assert_eq!(backoff.failed(1, now), SECOND);
        assert_eq!(backoff.failures(&1), 3);
        backoff.succeeded(&1);
        assert!(backoff.is_empty() && !backoff.is_delayed(&1, now));
    }
}
