//! Queue of timed events.

use super::event_signal::EventSignal;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Handle of a scheduled event: due time and a serial number.
pub(super) type Timer = (Instant, u64);

/// Events that follow each other closely are handled together by a thread, because to wake up for each takes
/// longer than to handle it: so many at least, and at most, within this time. A client that has fewer
/// requests under way at a time meets exact times.
const MIN_BATCH: usize = 6;
const MAX_BATCH: usize = 32;
const BATCH_TIME: Duration = Duration::from_micros(50);

/// Scheduled events, in the order in which they are due.
pub(super) struct EventQueue<E> {
    events: BTreeMap<Timer, E>,
    next_serial: u64,
    /// Raised when the first event has a new due time.
    pub(super) rescheduled: Arc<EventSignal>,
}

impl<E> EventQueue<E> {
    pub(super) fn new() -> Self {
        let rescheduled = Arc::new(EventSignal::default());
        Self { events: BTreeMap::new(), next_serial: 0, rescheduled }
    }

    pub(super) fn schedule(&mut self, after: Duration, event: E) -> Timer {
        self.schedule_at(Instant::now() + after, event)
    }

    pub(super) fn schedule_at(&mut self, due: Instant, event: E) -> Timer {
        let key = (due, self.next_serial);
        self.next_serial += 1;
        let is_first = self.events.first_key_value().is_none_or(|(first, _)| key < *first);
        self.events.insert(key, event);
        if is_first {
            self.rescheduled.raise();
        }
        key
    }

    pub(super) fn cancel(&mut self, timer: Option<Timer>) {
        if let Some(timer) = timer {
            self.events.remove(&timer);
        }
    }

    /// Time at which the next event is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.events.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Time at which the next events are to be handled by a thread: when a whole batch of them is due if they
    /// follow each other closely, else when the first one is.
    pub(super) fn next_batch_due(&self) -> Option<Instant> {
        let first = self.next_due()?;
        let times = self.events.keys().map(|&(at, _)| at);
        let batch = times.take(MAX_BATCH).take_while(|&at| at - first <= BATCH_TIME).enumerate();
        let last = batch.last().filter(|&(index, _)| index + 1 >= MIN_BATCH);
        Some(last.map_or(first, |(_, at)| at))
    }

    /// Removes the first event if it is due at `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<E> {
        let entry = self.events.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_follow_each_other_closely_are_handled_together() {
        let mut queue = EventQueue::new();
        assert_eq!(queue.next_batch_due(), None);
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        for number in 0..5 {
            queue.schedule_at(at(100 + number), number);
        }
        queue.schedule_at(at(151), 5);
        assert_eq!(queue.next_batch_due(), Some(at(100)), "the sixth is late");
        queue.schedule_at(at(150), 6);
        assert_eq!(queue.next_batch_due(), Some(at(150)));
        assert_eq!(queue.pop_due(at(99)), None);
        let due: Vec<_> = std::iter::from_fn(|| queue.pop_due(at(150))).collect();
        assert_eq!(due, [0, 1, 2, 3, 4, 6]);
        assert_eq!(queue.next_batch_due(), Some(at(151)));
        for number in 0..50 {
            queue.schedule_at(at(200), number);
        }
        queue.schedule_at(at(201), 50);
        assert_eq!(queue.pop_due(at(151)), Some(5));
        assert_eq!(queue.next_batch_due(), Some(at(200)));
    }
}
