//! A batch of requests: how many have not ended, and the results that have not been taken.

use super::in_flight::Tag;
use super::smp_request::SmpResult;
use std::collections::VecDeque;
use std::task::Waker;

/// The results of a batch that have not been taken.
pub(super) type Results = VecDeque<(Tag, SmpResult)>;

/// Windows of queued requests above which the task of a batch is not woken for each response: it has nothing to
/// do that could not wait, and a wake-up costs more than to take a result. The window stays full until the task
/// runs: the requests of one window take a round trip, more than a wake-up does.
const WINDOWS_QUEUED: usize = 4;

/// Results that wait at most: a further one wakes the task of the batch in any case. It does not take more at a
/// time: while it submits new requests in return, it may keep the reader of the port from sending, until the
/// window has run empty.
const MAX_RESULTS_WAITING: usize = 128;

/// Results for which a batch makes room before they arrive: as many as a device of a few tens of vports
/// gives. Those of larger batches are taken before all have arrived.
const MAX_EXPECTED_RESULTS: usize = 64;

/// How a batch is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BatchSettings {
    /// Maximum number of retransmissions of a request, if below that of the port.
    pub max_retries: Option<u32>,
    /// Results that are no errors wake the task only when no other request of the batch is left.
    pub wakes_at_end: bool,
}

/// The requests of a batch, and their results that have not been taken.
#[derive(Default)]
pub(super) struct Batch {
    /// Requests that wait to be sent.
    pub queued: usize,
    /// Requests that wait to be sent or are in flight.
    pub unfinished: usize,
    pub settings: BatchSettings,
    pub results: Results,
    /// Tags of requests that stalled, not taken yet.
    pub stalls: Vec<Tag>,
    pub waker: Option<Waker>,
}

impl Batch {
    /// Reserves memory for the results of requests that are about to be submitted together.
    pub(super) fn expect_results(&mut self, count: usize) {
        self.results.reserve(count.min(MAX_EXPECTED_RESULTS));
    }

    /// Adds the result of a request that was sent, or that cannot be sent. True if the task of the batch is to
    /// be woken for it. `window`: maximum number of requests in flight.
    pub(super) fn ended(&mut self, tag: Tag, result: SmpResult, window: usize) -> bool {
        debug_assert!(self.unfinished > self.queued, "a request that ends is not queued");
        self.unfinished -= 1;
        let has_little_left = if self.settings.wakes_at_end {
            self.unfinished == 0
        } else {
            self.queued < WINDOWS_QUEUED * window || self.results.len() >= MAX_RESULTS_WAITING
        };
        let is_urgent = has_little_left || result.is_err();
        self.results.push_back((tag, result));
        is_urgent
    }
}
