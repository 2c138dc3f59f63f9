//! The progress of a reply, for its limits of time and memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// Time for a request and its reply, streams of events excepted.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Time without progress after which a stream of events is closed.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// Progress of a reply, for the limits of time.
#[derive(Debug)]
pub(super) struct ReplyProgress {
    start: Instant,
    /// Milliseconds from `start` to the last part of a stream of events; 0 for other replies.
    last_part: AtomicU64,
    /// Memory of the reply, given back when the connection ends: hyper keeps the text until it is
    /// sent.
    memory: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ReplyProgress {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), last_part: AtomicU64::new(0), memory: Mutex::default() }
    }

    /// Records that the client took a part of a stream.
    pub(super) fn part_taken(&self) {
        let millis = self.start.elapsed().as_millis() as u64;
        self.last_part.store(millis.max(1), Ordering::Relaxed);
    }

    /// Keeps the memory of the reply until the connection ends.
    pub(super) fn hold(&self, memory: OwnedSemaphorePermit) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }

    /// True if the client is too slow.
    pub(super) fn is_overdue(&self) -> bool {
        match self.last_part.load(Ordering::Relaxed) {
            0 => self.start.elapsed() > REQUEST_TIMEOUT,
            last => self.start.elapsed() > Duration::from_millis(last) + STREAM_TIMEOUT,
        }
    }
}
