//! Queue of timed events.

use super::event_signal::EventSignal;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Handle of a scheduled event: due time and a serial number.
pub(super) type Timer = (Instant, u64);

/// Scheduled events, in the order in which they are due.
pub(super) struct Schedule<E> {
    events: BTreeMap<Timer, E>,
    next_serial: u64,
    /// Raised when the first event has a new due time.
    pub(super) rescheduled: Arc<EventSignal>,
}

impl<E> Schedule<E> {
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
