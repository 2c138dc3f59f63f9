//! Subnet management transactions, without I/O and without a clock: queued requests, requests in
//! flight, and the match of responses to requests.
//!
//! A request is [submitted](Transactions::submit) to a queue. While fewer than `window` requests
//! are in flight, [`Transactions::transmit`] takes the next request from the queue, which serves the
//! devices in turn ([`super::device_queue`]), and assigns it a slot and a transaction ID. A response, an error or the deadline frees the slot and adds the
//! result to the batch of the request.
//!
//! The transaction ID has 32 bits, as the upper half of the field belongs to the port: the slot in
//! the lower 16, and the generation of the slot in the upper 16, so that a response that arrives
//! after the deadline of its request matches no later request.
//!
//! Closing a batch cancels its queued requests. Its requests in flight keep their slots, because
//! they still load the fabric, and their results are discarded.
//!
//! Each transmission has its own timeout in the port, and the retransmissions are decided here: a
//! cancelled Set must not be repeated by the port after a later one has replaced it.
//!
//! A request that is unanswered for [`STALL_TIME`] while later ones are answered is **stalled**. It
//! leaves the window, so that a silent device delays no request to another device, and is reported
//! to its batch once. It stays in flight: an answer may still arrive.

pub(super) use super::batch_state::{BatchSettings, Results};
pub(super) use super::in_flight::BatchId;
pub use super::in_flight::{SOLE_STALL_TIME, STALL_TIME, Tag};
pub use super::smp_counters::{AttributeCount, MethodCount, SmpCounters, SmpResultKind};
pub use super::smp_limits::{DEFAULT_PER_DEVICE, MAX_WINDOW, SmpLimits, UNLIMITED_WINDOW};
pub use super::smp_request::{SmpError, SmpReply, SmpRequest, SmpResult};

use super::adaptive_window::AdaptiveWindow;
use super::batch_state::Batch;
use super::device_queue::DeviceQueue;
use super::in_flight::{InFlight, check_response};
use super::slot_table::SlotTable;
use super::waiting_requests::Queued;
use crate::wire::mad::{Mad, low_tid_of};
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

/// A request that the port is to send once.
#[derive(Debug)]
pub(super) struct Transmit {
    pub tid: u32,
    pub request: SmpRequest,
    pub timeout: Duration,
}

/// The effect of a timeout in the port.
#[derive(Debug)]
pub(super) enum TimeoutEffect {
    /// No transaction matches.
    Unmatched,
    /// The transaction is complete.
    Complete,
    /// The request must be sent once more.
    Retransmit(Transmit),
}

/// The transactions of a port.
pub(super) struct Transactions {
    limits: SmpLimits,
    /// The window, unless it is fixed.
    adaptive: Option<AdaptiveWindow>,
    in_flight: SlotTable,
    /// When the latest of the answered requests was sent.
    latest_answered: Option<Instant>,
    /// The next check for stalled and late requests.
    check_at: Option<Instant>,
    queue: DeviceQueue,
    batches: Vec<Option<Batch>>,
    /// Batches with results whose tasks have not been woken.
    to_wake: Vec<BatchId>,
    closed: Option<String>,
    pub counters: SmpCounters,
}

impl Transactions {
    pub(super) fn new(limits: SmpLimits) -> Self {
        Self {
            limits,
            adaptive: adaptive_window(&limits),
            in_flight: SlotTable::default(),
            latest_answered: None,
            check_at: None,
            queue: DeviceQueue::default(),
            batches: Vec::new(),
            to_wake: Vec::new(),
            closed: None,
            counters: SmpCounters::default(),
        }
    }

    /// Sets the limits of future transmissions.
    pub(super) fn set_limits(&mut self, limits: SmpLimits) {
        if limits.adaptive != self.limits.adaptive {
            self.adaptive = adaptive_window(&limits);
        }
        self.limits = limits;
    }

    /// Maximum number of requests in flight.
    pub(super) fn window(&self) -> usize {
        self.adaptive.as_ref().map_or(self.limits.slots(), AdaptiveWindow::window)
    }

    pub(super) fn open_batch(&mut self, settings: BatchSettings) -> BatchId {
        let batch = Batch { settings, ..Batch::default() };
        if let Some(free) = self.batches.iter().position(Option::is_none) {
            self.batches[free] = Some(batch);
            return BatchId(free);
        }
        self.batches.push(Some(batch));
        BatchId(self.batches.len() - 1)
    }

    /// Closes a batch: cancels its queued requests and discards the results of those in flight.
    pub(super) fn close_batch(&mut self, batch: BatchId) {
        let closed = self.batches[batch.0].take();
        if closed.is_some_and(|closed| closed.unfinished == 0) {
            self.to_wake.retain(|&other| other != batch);
            return;
        }
        self.queue.remove(|queued| queued.batch == batch);
        self.to_wake.retain(|&other| other != batch);
        for request in self.in_flight.iter_mut() {
            if request.batch == Some(batch) {
                request.batch = None;
            }
        }
    }

    /// Cancels requests of a batch, queued or in flight. Returns their tags.
    pub(super) fn cancel(
        &mut self,
        batch: BatchId,
        is_cancelled: impl Fn(Tag) -> bool,
    ) -> Vec<Tag> {
        let mut cancelled = self.cancel_queued(batch, &is_cancelled);
        let queued = cancelled.len();
        let sent = self
            .in_flight
            .take_all(|request| request.batch == Some(batch) && is_cancelled(request.tag));
        for request in sent {
            self.release_device(&request);
            cancelled.push(request.tag);
        }
        if let Some(batch) = &mut self.batches[batch.0] {
            batch.unfinished -= cancelled.len() - queued;
            batch.stalls.retain(|&tag| !is_cancelled(tag));
        }
        cancelled
    }

    /// Cancels queued requests of a batch; those in flight stay. Returns their tags.
    pub(super) fn cancel_queued(
        &mut self,
        batch: BatchId,
        is_cancelled: impl Fn(Tag) -> bool,
    ) -> Vec<Tag> {
        let removed = self.queue.remove(|queued| queued.batch == batch && is_cancelled(queued.tag));
        if let Some(batch) = &mut self.batches[batch.0] {
            batch.queued -= removed.len();
            batch.unfinished -= removed.len();
        }
        removed.into_iter().map(|queued| queued.tag).collect()
    }

    /// Reserves memory for the results of requests that are about to be submitted together.
    pub(super) fn expect_results(&mut self, batch: BatchId, count: usize) {
        if let Some(batch) = &mut self.batches[batch.0] {
            batch.expect_results(count);
        }
    }

    pub(super) fn submit(&mut self, batch: BatchId, tag: Tag, request: SmpRequest) {
        if let Some(batch) = &mut self.batches[batch.0] {
            batch.unfinished += 1;
        }
        match &self.closed {
            Some(reason) => {
                let error = SmpError::Send(reason.clone());
                self.finish(Some(batch), tag, &request, Err(error));
            }
            None => {
                let limit = self.limits.device_slots();
                self.queue.push(Queued { batch, tag, request }, limit);
                if let Some(batch) = &mut self.batches[batch.0] {
                    batch.queued += 1;
                }
            }
        }
    }

    /// Takes the next request to send; `None` if the window is full, or if no device with queued
    /// requests may be sent another one.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.in_flight.in_window() >= self.window() {
            self.note_full_window();
            return None;
        }
        let (device, queued) = self.queue.pop(self.limits.device_slots())?;
        let Queued { batch, tag, request } = queued;
        let mut retries = self.limits.retries;
        if let Some(batch) = &mut self.batches[batch.0] {
            debug_assert!(batch.queued > 0, "each request of the queue is counted");
            batch.queued -= 1;
            retries = batch.settings.max_retries.map_or(retries, |max| max.min(retries));
        }
        let timeout = self.limits.timeout_of(&request);
        let tid = self.in_flight.insert(InFlight {
            batch: Some(batch),
            tag,
            request,
            device,
            sent: now,
            deadline: now + self.limits.time_to_deadline(timeout),
            timeout,
            retransmissions_left: retries,
            is_stalled: false,
        });

        let check_at = now + STALL_TIME;
        self.check_at = Some(self.check_at.map_or(check_at, |earlier| earlier.min(check_at)));
        self.counters.sent(request.method, request.attr_id);
        self.note_full_window();
        Some(Transmit { tid, request, timeout })
    }

    /// Tells the window that adapts if a request waits for nothing but the window.
    fn note_full_window(&mut self) {
        if let Some(adaptive) = &mut self.adaptive
            && self.in_flight.in_window() >= adaptive.window()
            && self.queue.has_ready()
        {
            adaptive.full();
        }
    }

    /// Completes a transaction by its response, which arrived at `now`. Returns false if no
    /// transaction matches.
    pub(super) fn answered(&mut self, mad: &[u8], now: Instant) -> bool {
        let Some(request) = low_tid_of(mad).and_then(|tid| self.take_in_flight(tid)) else {
            self.counters.unmatched += 1;
            return false;
        };
        let result = check_response(&request, mad);
        self.latest_answered = self.latest_answered.max(Some(request.sent));
        let round_trip = now.duration_since(request.sent);
        self.counters.responded(request.request.method, round_trip);
        if let Some(adaptive) = &mut self.adaptive
            && !request.is_stalled
            && request.retransmissions_left == self.limits.retries
        {
            adaptive.answered(round_trip);
        }
        self.finish_sent(&request, result);
        true
    }

    /// Handles the timeout of a transmission in the port: the request is sent once more, or its
    /// transaction ends as unanswered after the last retransmission.
    pub(super) fn timed_out(&mut self, mad: &[u8]) -> TimeoutEffect {
        let header = Mad::read(mad).header();
        let pending = low_tid_of(mad).filter(|&tid| {
            // An undeliverable TrapRepress has the transaction ID of the trap's sender.
            self.in_flight.get(tid).is_some_and(|sent| {
                sent.class() == header.class()
                    && sent.request.attr_id == header.attr_id()
                    && sent.request.method.0 == header.method()
            })
        });
        let Some(tid) = pending else {
            self.counters.unmatched += 1;
            return TimeoutEffect::Unmatched;
        };
        if let Some(sent) = self.in_flight.get_mut(tid)
            && sent.batch.is_some()
            && sent.retransmissions_left > 0
        {
            sent.retransmissions_left -= 1;
            self.counters.repeated(sent.request.route);
            if let Some(adaptive) = &mut self.adaptive {
                adaptive.lost();
            }
            let request = sent.request;
            let timeout = sent.timeout;
            return TimeoutEffect::Retransmit(Transmit { tid, request, timeout });
        }
        self.failed(tid, SmpError::Unanswered);
        TimeoutEffect::Complete
    }

    /// Completes a transaction with an error. Returns false if none matches.
    pub(super) fn failed(&mut self, tid: u32, error: SmpError) -> bool {
        let Some(request) = self.take_in_flight(tid) else { return false };
        self.finish_sent(&request, Err(error));
        true
    }

    /// Marks stalled requests, and completes transactions whose deadline has passed as unanswered.
    pub(super) fn expire(&mut self, now: Instant) {
        self.mark_stalled(now);
        self.complete_late(now);
        self.check_at = self.in_flight.iter().map(|request| request.next_check(now)).min();
    }

    fn complete_late(&mut self, now: Instant) {
        for request in self.in_flight.take_all(|request| request.deadline <= now) {
            self.release_device(&request);
            self.finish_sent(&request, Err(SmpError::Unanswered));
        }
    }

    fn mark_stalled(&mut self, now: Instant) {
        let max = self.limits.stalled();
        for request in self.in_flight.mark_stalled(now, self.latest_answered, max) {
            if let Some(adaptive) = &mut self.adaptive {
                adaptive.lost();
            }
            // Its repetition by the sender of the batch must be able to go out.
            self.queue.release(request.device, self.limits.device_slots());
            let Some(id) = request.batch else { continue };
            if let Some(batch) = &mut self.batches[id.0] {
                batch.stalls.push(request.tag);
                if batch.waker.is_some() && !self.to_wake.contains(&id) {
                    self.to_wake.push(id);
                }
            }
        }
    }

    /// The earliest time at which [`Self::expire`] may have an effect.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.check_at.filter(|_| !self.in_flight.is_empty())
    }

    /// Fails all requests, including future ones, because the port is closed.
    pub(super) fn close(&mut self, reason: &str) {
        self.closed.get_or_insert_with(|| reason.to_owned());
        self.interrupt(reason);
    }

    /// Fails all requests, because the port is lost.
    pub(super) fn interrupt(&mut self, reason: &str) {
        for request in self.in_flight.take_all(|_| true) {
            self.release_device(&request);
            self.finish_sent(&request, Err(SmpError::Send(reason.to_owned())));
        }
        for queued in self.queue.remove(|_| true) {
            if let Some(batch) = &mut self.batches[queued.batch.0] {
                batch.queued -= 1;
            }
            let error = SmpError::Send(reason.to_owned());
            self.finish(Some(queued.batch), queued.tag, &queued.request, Err(error));
        }
    }

    /// Moves the results of a batch to `into`, which must be empty.
    pub(super) fn take_results(&mut self, batch: BatchId, into: &mut Results) {
        if let Some(batch) = &mut self.batches[batch.0] {
            std::mem::swap(&mut batch.results, into);
        }
    }

    /// Takes the tags of the requests of a batch that stalled since the last call.
    pub(super) fn take_stalls(&mut self, batch: BatchId) -> Vec<Tag> {
        let Some(batch) = &mut self.batches[batch.0] else { return Vec::new() };
        std::mem::take(&mut batch.stalls)
    }

    /// Sets the waker for results of a batch.
    pub(super) fn set_waker(&mut self, batch: BatchId, waker: &Waker) {
        let Some(batch) = &mut self.batches[batch.0] else { return };
        match &mut batch.waker {
            Some(old) => old.clone_from(waker),
            None => batch.waker = Some(waker.clone()),
        }
    }

    /// The tasks to wake, after the lock has been released.
    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        let Self { to_wake, batches, .. } = self;
        let ready = to_wake.drain(..);
        ready.filter_map(|batch| batches[batch.0].as_mut()?.waker.take()).collect()
    }

    fn take_in_flight(&mut self, tid: u32) -> Option<InFlight> {
        let request = self.in_flight.take(tid)?;
        self.release_device(&request);
        Some(request)
    }

    /// Lets the device of a request that is not in flight any more be sent another one. That of a
    /// stalled request was released when it stalled.
    fn release_device(&mut self, request: &InFlight) {
        if !request.is_stalled {
            self.queue.release(request.device, self.limits.device_slots());
        }
    }

    fn finish_sent(&mut self, sent: &InFlight, result: SmpResult) {
        self.finish(sent.batch, sent.tag, &sent.request, result);
    }

    fn finish(
        &mut self,
        batch: Option<BatchId>,
        tag: Tag,
        request: &SmpRequest,
        result: SmpResult,
    ) {
        self.counters.ended(request, &result);
        let Some(id) = batch else { return };
        let window = self.window();
        let Some(batch) = &mut self.batches[id.0] else { return };
        let is_urgent = batch.ended(tag, result, window);
        if is_urgent && batch.waker.is_some() && !self.to_wake.contains(&id) {
            self.to_wake.push(id);
        }
    }
}

fn adaptive_window(limits: &SmpLimits) -> Option<AdaptiveWindow> {
    (limits.adaptive > 0).then(|| AdaptiveWindow::new(limits.adaptive.min(MAX_WINDOW)))
}
