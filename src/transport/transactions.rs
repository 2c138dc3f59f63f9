//! Subnet management transactions, without I/O and without a clock: queued requests, requests in flight,
//! and the match of responses to requests.
//!
//! A request is [submitted](Transactions::submit) to a queue. While fewer than `window` requests are
//! in flight, [`Transactions::transmit`] takes the oldest request from the queue and assigns it a slot
//! and a transaction ID. A response, an error or the deadline frees the slot and adds the result to the
//! batch of the request.
//!
//! The transaction ID has 32 bits, as the upper half of the field belongs to the port: the slot in the
//! lower 16, and the generation of the slot in the upper 16, so that a response that arrives after the
//! deadline of its request matches no later request.
//!
//! Closing a batch cancels its queued requests. Its requests in flight keep their slots, because they
//! still load the fabric, and their results are discarded.

pub use super::smp_request::{SmpError, SmpReply, SmpRequest, SmpResult};

use super::Agent;
use crate::wire::mad::{Class, Header, Mad, Method, low_tid_of};
use crate::wire::smp::{DATA_OFFSET, DATA_SIZE};
use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

/// Window for `--maxsmps 0`, "unlimited", in requests. The umad device has no flow control towards its
/// sender. ibsim slows down above this window and deadlocks with several hundred requests in flight.
pub const UNLIMITED_WINDOW: usize = 128;

/// Maximum window in requests; the 16 bits of a slot number are enough for it.
pub const MAX_WINDOW: usize = 4096;

/// Time after the last timeout of the port at which a request counts as unanswered. The port delivers a
/// result before; this bound keeps a loss inside the port from stopping a sweep.
const COMPLETION_GRACE: Duration = Duration::from_secs(2);

/// Identifies a request in its batch; chosen by the submitter.
pub type Tag = u64;

/// Limits of transmissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpLimits {
    /// Maximum number of requests in flight (`--maxsmps`): 1..=[`MAX_WINDOW`], 0 for
    /// [`UNLIMITED_WINDOW`].
    pub window: usize,
    /// Timeout of each transmission (`transaction_timeout`).
    pub timeout: Duration,
    /// Maximum number of retransmissions (`transaction_retries`).
    pub retries: u32,
}

impl SmpLimits {
    /// The window within its bounds.
    fn slots(&self) -> usize {
        match self.window {
            0 => UNLIMITED_WINDOW,
            window => window.min(MAX_WINDOW),
        }
    }

    /// Time from the transmission of a request to its deadline.
    fn time_to_deadline(&self) -> Duration {
        self.timeout.saturating_mul(self.retries.saturating_add(1)).saturating_add(COMPLETION_GRACE)
    }
}

/// OpenSM's defaults: 4 requests in flight, 200 ms, 3 retries.
impl Default for SmpLimits {
    fn default() -> Self {
        Self { window: 4, timeout: Duration::from_millis(200), retries: 3 }
    }
}

/// Number of requests for one attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttributeCount {
    pub attr_id: u16,
    pub gets: u64,
    pub sets: u64,
}

/// Counters since the start of the daemon.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SmpCounters {
    /// SubnGet requests sent, without retransmissions.
    pub gets: u64,
    /// SubnSet requests sent, without retransmissions.
    pub sets: u64,
    /// MADs sent that have no response.
    pub posted: u64,
    /// Responses with status 0.
    pub answered: u64,
    /// Requests without a response.
    pub unanswered: u64,
    /// Responses with an error status.
    pub refused: u64,
    /// Responses that do not match their request.
    pub malformed: u64,
    /// Requests that the port could not send.
    pub send_errors: u64,
    /// Responses without a pending request: late ones, or those to another program.
    pub unmatched: u64,
    /// Requests by attribute, in the order of first use.
    pub attributes: Vec<AttributeCount>,
}

impl SmpCounters {
    fn sent(&mut self, method: Method, attr_id: u16) {
        let at = self.attributes.iter().position(|count| count.attr_id == attr_id);
        let at = at.unwrap_or_else(|| {
            self.attributes.push(AttributeCount { attr_id, gets: 0, sets: 0 });
            self.attributes.len() - 1
        });
        if method == Method::SET {
            self.sets += 1;
            self.attributes[at].sets += 1;
        } else {
            self.gets += 1;
            self.attributes[at].gets += 1;
        }
    }

    fn ended(&mut self, result: &SmpResult) {
        let counter = match result {
            Ok(_) => &mut self.answered,
            Err(SmpError::Unanswered) => &mut self.unanswered,
            Err(SmpError::Status(_)) => &mut self.refused,
            Err(SmpError::Send(_)) => &mut self.send_errors,
            Err(SmpError::Malformed(_)) => &mut self.malformed,
        };
        *counter += 1;
    }
}

/// Index of an open batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BatchId(usize);

/// The results of a batch that have not been taken.
pub(super) type Results = VecDeque<(Tag, SmpResult)>;

/// A request that the port is to send.
#[derive(Debug)]
pub(super) struct Transmit {
    pub tid: u32,
    pub request: SmpRequest,
    pub timeout: Duration,
    pub retries: u32,
}

struct Queued {
    batch: BatchId,
    tag: Tag,
    request: SmpRequest,
}

/// A request in flight. `batch` is `None` once its batch is closed.
struct InFlight {
    batch: Option<BatchId>,
    tag: Tag,
    class: u8,
    method: Method,
    attr_id: u16,
    attr_mod: u32,
    deadline: Instant,
}

/// A position in the window.
struct Slot {
    /// Incremented for each request; never 0 in a transaction ID.
    generation: u16,
    request: Option<InFlight>,
}

#[derive(Default)]
struct Batch {
    results: Results,
    waker: Option<Waker>,
}

/// The transactions of a port.
pub(super) struct Transactions {
    limits: SmpLimits,
    slots: Vec<Slot>,
    free_slots: Vec<u16>,
    in_flight: usize,
    queue: VecDeque<Queued>,
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
            slots: Vec::new(),
            free_slots: Vec::new(),
            in_flight: 0,
            queue: VecDeque::new(),
            batches: Vec::new(),
            to_wake: Vec::new(),
            closed: None,
            counters: SmpCounters::default(),
        }
    }

    /// Sets the limits of future transmissions.
    pub(super) fn set_limits(&mut self, limits: SmpLimits) {
        self.limits = limits;
    }

    pub(super) fn open_batch(&mut self) -> BatchId {
        if let Some(free) = self.batches.iter().position(Option::is_none) {
            self.batches[free] = Some(Batch::default());
            return BatchId(free);
        }
        self.batches.push(Some(Batch::default()));
        BatchId(self.batches.len() - 1)
    }

    /// Closes a batch: cancels its queued requests and discards the results of those in flight.
    pub(super) fn close_batch(&mut self, batch: BatchId) {
        self.batches[batch.0] = None;
        self.queue.retain(|queued| queued.batch != batch);
        self.to_wake.retain(|&other| other != batch);
        for request in self.slots.iter_mut().filter_map(|slot| slot.request.as_mut()) {
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
        let mut cancelled = Vec::new();
        self.queue.retain(|queued| {
            let is_selected = queued.batch == batch && is_cancelled(queued.tag);
            cancelled.extend(is_selected.then_some(queued.tag));
            !is_selected
        });
        for at in 0..self.slots.len() {
            let is_selected =
                |request: &mut InFlight| request.batch == Some(batch) && is_cancelled(request.tag);
            if let Some(request) = self.slots[at].request.take_if(is_selected) {
                self.release(at);
                cancelled.push(request.tag);
            }
        }
        cancelled
    }

    pub(super) fn submit(&mut self, batch: BatchId, tag: Tag, request: SmpRequest) {
        match &self.closed {
            Some(reason) => {
                let error = SmpError::Send(reason.clone());
                self.finish(Some(batch), tag, Err(error));
            }
            None => self.queue.push_back(Queued { batch, tag, request }),
        }
    }

    /// Takes the next request to send; `None` if the queue is empty or the window is full.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.in_flight >= self.limits.slots() {
            return None;
        }
        let Queued { batch, tag, request } = self.queue.pop_front()?;
        let at = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, request: None });
            // At most MAX_WINDOW slots are in use.
            (self.slots.len() - 1) as u16
        });
        let slot = &mut self.slots[usize::from(at)];
        // Generation 0 is not used, so that no transaction has the ID 0.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        slot.request = Some(InFlight {
            batch: Some(batch),
            tag,
            class: match request.agent() {
                Agent::SmiLid => Class::SUBN_LID,
                _ => Class::SUBN_DIRECTED,
            },
            method: request.method,
            attr_id: request.attr_id,
            attr_mod: request.attr_mod,
            deadline: now + self.limits.time_to_deadline(),
        });
        let tid = u32::from(slot.generation) << 16 | u32::from(at);
        self.in_flight += 1;
        self.counters.sent(request.method, request.attr_id);
        Some(Transmit { tid, request, timeout: self.limits.timeout, retries: self.limits.retries })
    }

    /// Completes a transaction by its response. Returns false if no transaction matches.
    pub(super) fn answered(&mut self, mad: &[u8]) -> bool {
        let Some(request) = low_tid_of(mad).and_then(|tid| self.take_in_flight(tid)) else {
            self.counters.unmatched += 1;
            return false;
        };
        let result = check_response(&request, mad);
        self.finish(request.batch, request.tag, result);
        true
    }

    /// Completes a transaction whose request timed out in the port. Returns false if none matches.
    pub(super) fn unanswered(&mut self, mad: &[u8]) -> bool {
        let header = Mad::read(mad).header();
        let pending = low_tid_of(mad).filter(|&tid| {
            // An undeliverable TrapRepress has the transaction ID of the trap's sender.
            self.in_flight(tid).is_some_and(|request| {
                request.class == header.class()
                    && request.attr_id == header.attr_id()
                    && request.method.0 == header.method()
            })
        });
        match pending {
            Some(tid) => self.failed(tid, SmpError::Unanswered),
            None => {
                self.counters.unmatched += 1;
                false
            }
        }
    }

    /// Completes a transaction with an error. Returns false if none matches.
    pub(super) fn failed(&mut self, tid: u32, error: SmpError) -> bool {
        let Some(request) = self.take_in_flight(tid) else { return false };
        self.finish(request.batch, request.tag, Err(error));
        true
    }

    /// Completes transactions whose deadline has passed as unanswered.
    pub(super) fn expire(&mut self, now: Instant) {
        for at in 0..self.slots.len() {
            let late = self.slots[at].request.take_if(|request| request.deadline <= now);
            if let Some(request) = late {
                self.release(at);
                self.finish(request.batch, request.tag, Err(SmpError::Unanswered));
            }
        }
    }

    /// The earliest time at which [`Self::expire`] has an effect.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let requests = self.slots.iter().filter_map(|slot| slot.request.as_ref());
        requests.map(|request| request.deadline).min()
    }

    /// Fails all requests, including future ones, because the port is closed.
    pub(super) fn close(&mut self, reason: &str) {
        self.closed.get_or_insert_with(|| reason.to_owned());
        for at in 0..self.slots.len() {
            if let Some(request) = self.slots[at].request.take() {
                self.release(at);
                self.finish(request.batch, request.tag, Err(SmpError::Send(reason.to_owned())));
            }
        }
        while let Some(queued) = self.queue.pop_front() {
            let error = SmpError::Send(reason.to_owned());
            self.finish(Some(queued.batch), queued.tag, Err(error));
        }
    }

    /// Moves the results of a batch to `into`, which must be empty.
    pub(super) fn take_results(&mut self, batch: BatchId, into: &mut Results) {
        if let Some(batch) = &mut self.batches[batch.0] {
            std::mem::swap(&mut batch.results, into);
        }
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

    fn in_flight(&self, tid: u32) -> Option<&InFlight> {
        let slot = self.slots.get(usize::from(tid as u16))?;
        slot.request.as_ref().filter(|_| u32::from(slot.generation) == tid >> 16)
    }

    fn take_in_flight(&mut self, tid: u32) -> Option<InFlight> {
        self.in_flight(tid)?;
        let at = usize::from(tid as u16);
        let request = self.slots[at].request.take();
        self.release(at);
        request
    }

    fn release(&mut self, at: usize) {
        self.in_flight -= 1;
        self.free_slots.push(at as u16);
    }

    fn finish(&mut self, batch: Option<BatchId>, tag: Tag, result: SmpResult) {
        self.counters.ended(&result);
        let Some(id) = batch else { return };
        let Some(batch) = &mut self.batches[id.0] else { return };
        batch.results.push_back((tag, result));
        if batch.waker.is_some() && !self.to_wake.contains(&id) {
            self.to_wake.push(id);
        }
    }
}

/// Checks that a response matches its request and has status 0.
fn check_response(request: &InFlight, mad: &[u8]) -> SmpResult {
    let Some(data) = mad.get(DATA_OFFSET..DATA_OFFSET + DATA_SIZE) else {
        return Err(SmpError::Malformed("it is too short"));
    };
    let mut reply = SmpReply { data: [0; DATA_SIZE], status: 0 };
    reply.data.copy_from_slice(data);
    let header = Header::read(mad);
    if header.class() != request.class {
        return Err(SmpError::Malformed("another class"));
    }
    if header.method() != Method::GET_RESP.0 {
        return Err(SmpError::Malformed("another method"));
    }
    if header.attr_id() != request.attr_id {
        return Err(SmpError::Malformed("another attribute"));
    }
    if header.attr_mod() != request.attr_mod {
        return Err(SmpError::Malformed("another modifier"));
    }
    let direction_bit = if request.class == Class::SUBN_DIRECTED { 0x8000 } else { 0 };
    match header.status() & !direction_bit {
        0 => Ok(reply),
        status => Err(SmpError::Status(status)),
    }
}
