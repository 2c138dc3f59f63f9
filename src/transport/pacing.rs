//! Limits of background work: few requests in flight, and few per second.

use super::in_flight::Tag;
use super::smp_request::SmpRequest;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Requests that may be sent at once after a pause, since timers have a resolution of 1 ms.
const MAX_BURST: u32 = 8;

/// The limits of a client, which all its batches share.
pub(super) struct Pace {
    window: usize,
    /// Time between requests.
    interval: Duration,
    /// Time of the next request.
    next: Mutex<Instant>,
}

impl Pace {
    /// At most `window` requests in flight (at least 1), and `per_second` requests (at least 1).
    pub(super) fn new(window: usize, per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { window: window.max(1), interval, next: Mutex::new(Instant::now()) }
    }

    /// Takes a turn at `now`; else returns the time of the next one.
    fn take_turn(&self, now: Instant) -> Result<(), Instant> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if *next > now {
            return Err(*next);
        }
        let earliest = now.checked_sub(self.interval * MAX_BURST).unwrap_or(now);
        *next = (*next).max(earliest) + self.interval;
        Ok(())
    }
}

/// The requests of a batch that wait for their turn.
pub(super) struct PacedQueue {
    pace: Arc<Pace>,
    waiting: VecDeque<(Tag, SmpRequest)>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl PacedQueue {
    pub(super) fn new(pace: Arc<Pace>) -> Self {
        Self { pace, waiting: VecDeque::new(), timer: None }
    }

    pub(super) fn push(&mut self, tag: Tag, request: SmpRequest) {
        self.waiting.push_back((tag, request));
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Removes requests that wait. Returns their tags.
    pub(super) fn cancel(&mut self, is_cancelled: impl Fn(Tag) -> bool) -> Vec<Tag> {
        let mut cancelled = Vec::new();
        self.waiting.retain(|&(tag, _)| {
            let is_selected = is_cancelled(tag);
            cancelled.extend(is_selected.then_some(tag));
            !is_selected
        });
        cancelled
    }

    /// The next request to send while `in_flight` others are. Pending until its turn; also if the
    /// window is full or nothing waits, when results wake the task.
    pub(super) fn poll_next(
        &mut self,
        in_flight: usize,
        context: &mut Context<'_>,
    ) -> Poll<(Tag, SmpRequest)> {
        loop {
            if in_flight >= self.pace.window || self.waiting.is_empty() {
                return Poll::Pending;
            }
            let turn = self.pace.take_turn(Instant::now());
            match turn {
                Ok(()) => match self.waiting.pop_front() {
                    Some(next) => return Poll::Ready(next),
                    None => return Poll::Pending,
                },
                Err(next) => {
                    let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
                    timer.as_mut().reset(next);
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}
