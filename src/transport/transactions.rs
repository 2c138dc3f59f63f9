//! Subnet management transactions without I/O and without a clock: which requests wait, which
//! are under way, which answer belongs to whom.
//!
//! A request is [submitted](Transactions::submit) to a queue. While fewer than `window` requests
//! are under way, [`Transactions::transmit`] takes the oldest from the queue, gives it a place
//! and a transaction ID, and says what to send. An answer, a failure or the passing of the
//! deadline frees the place and lays the result into the batch the request belongs to.
//!
//! The transaction ID has 32 bits (the upper half of the field belongs to the port): the place
//! in the lower 16, and the generation of the place in the upper 16. An answer that comes after
//! its request was given up therefore meets no other request.
//!
//! A batch that is closed takes its queued requests with it. Those under way keep their place,
//! as they still fill the fabric, and their results are forgotten.

use super::Agent;
use crate::ids::Lid;
use crate::wire::mad::{Class, Mad, Method};
use crate::wire::smp::{self, DATA_OFFSET, DATA_SIZE, SmpRoute};
use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

/// Requests under way at once when the window is given as 0, "unlimited" (`--maxsmps 0`). The
/// umad device has no flow control towards its sender, and simulators that stand in for it
/// (ibsim) get slower above this and block for good with several hundred requests under way.
pub const UNLIMITED_WINDOW: usize = 128;

/// The widest window that can be asked for.
pub const MAX_WINDOW: usize = 4096;

/// How long after the last timeout of the port a request counts as lost for good. The port
/// answers in time by contract; this keeps a loss inside of it from stopping a sweep for ever.
const BACKSTOP_SLACK: Duration = Duration::from_secs(2);

/// Names a result inside its batch: chosen by the submitter.
pub type Tag = u64;

/// A subnet management request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpRequest {
    /// The way to the node.
    pub route: SmpRoute,
    /// Get or Set.
    pub method: Method,
    /// Attribute identifier.
    pub attr_id: u16,
    /// Attribute modifier.
    pub attr_mod: u32,
    /// Management key of the node's port.
    pub m_key: u64,
    /// The attribute; zeros for a Get.
    pub data: [u8; DATA_SIZE],
}

impl SmpRequest {
    /// A Get without management key.
    pub fn get(route: SmpRoute, attr_id: u16, attr_mod: u32) -> Self {
        Self { route, method: Method::GET, attr_id, attr_mod, m_key: 0, data: [0; DATA_SIZE] }
    }

    /// A Set without management key.
    pub fn set(route: SmpRoute, attr_id: u16, attr_mod: u32, data: [u8; DATA_SIZE]) -> Self {
        Self { route, method: Method::SET, attr_id, attr_mod, m_key: 0, data }
    }

    /// The same request with a management key.
    #[must_use]
    pub fn with_m_key(mut self, m_key: u64) -> Self {
        self.m_key = m_key;
        self
    }

    /// The agent that sends it.
    pub fn agent(&self) -> Agent {
        match self.route {
            SmpRoute::Directed(_) => Agent::SmiDirected,
            SmpRoute::Lid(_) => Agent::SmiLid,
        }
    }

    /// The LID it is sent to.
    pub fn lid(&self) -> Lid {
        match self.route {
            SmpRoute::Directed(_) => Lid::PERMISSIVE,
            SmpRoute::Lid(lid) => lid,
        }
    }

    /// The MAD with transaction ID `tid`.
    pub fn to_mad(&self, tid: u32) -> Mad {
        let Self { route, method, attr_id, attr_mod, m_key, data } = self;
        smp::request(route, *method, *attr_id, *attr_mod, *m_key, u64::from(tid), data)
    }
}

/// The answer to a [`SmpRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpReply {
    /// The attribute.
    pub data: [u8; DATA_SIZE],
    /// The status, direction bit removed: 0 (others are [`SmpError::Status`]).
    pub status: u16,
}

/// Why there is no [`SmpReply`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SmpError {
    /// No answer within the timeout and the retries.
    #[error("no answer")]
    Unanswered,
    /// The node answered with this status (IBA vol. 1, 13.4.7).
    #[error("status 0x{0:04x}")]
    Status(u16),
    /// The request could not be sent.
    #[error("{0}")]
    Send(String),
    /// The node answered something else than what it was asked.
    #[error("answer does not fit the request: {0}")]
    Malformed(&'static str),
}

/// What becomes of a request.
pub type SmpResult = Result<SmpReply, SmpError>;

/// How requests are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpLimits {
    /// Requests under way at once, `--maxsmps`: 1..=[`MAX_WINDOW`], 0 for
    /// [`UNLIMITED_WINDOW`].
    pub window: usize,
    /// Time to wait for each answer, `transaction_timeout`.
    pub timeout: Duration,
    /// Repetitions before a request counts as unanswered, `transaction_retries`.
    pub retries: u32,
}

impl SmpLimits {
    /// The window with its bounds applied.
    fn places(&self) -> usize {
        match self.window {
            0 => UNLIMITED_WINDOW,
            window => window.min(MAX_WINDOW),
        }
    }

    /// From the sending of a request until nobody will answer it any more.
    fn backstop(&self) -> Duration {
        self.timeout.saturating_mul(self.retries.saturating_add(1)).saturating_add(BACKSTOP_SLACK)
    }
}

/// OpenSM's defaults: 4 requests under way, 200 ms, 3 retries.
impl Default for SmpLimits {
    fn default() -> Self {
        Self { window: 4, timeout: Duration::from_millis(200), retries: 3 }
    }
}

/// How often one attribute was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttributeCount {
    /// Attribute identifier.
    pub attr_id: u16,
    /// Gets sent.
    pub gets: u64,
    /// Sets sent.
    pub sets: u64,
}

/// What was sent and what came of it, since the start.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SmpCounters {
    /// Gets sent (retries of the port not counted).
    pub gets: u64,
    /// Sets sent.
    pub sets: u64,
    /// MADs sent that need no answer.
    pub posted: u64,
    /// Answers with status 0.
    pub answered: u64,
    /// Requests without answer.
    pub unanswered: u64,
    /// Answers with another status.
    pub refused: u64,
    /// Answers that do not fit their request.
    pub malformed: u64,
    /// Requests the port did not send.
    pub send_errors: u64,
    /// Answers nobody waits for: too late, or meant for somebody else.
    pub unmatched: u64,
    /// Sent requests by attribute, in order of their first use.
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

/// Names an open batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BatchId(usize);

/// The results of a batch that were not fetched yet.
pub(super) type Results = VecDeque<(Tag, SmpResult)>;

/// A request to be handed to the port now.
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

/// A request under way. `batch` is `None` once nobody waits for it.
struct Flight {
    batch: Option<BatchId>,
    tag: Tag,
    class: u8,
    method: Method,
    attr_id: u16,
    attr_mod: u32,
    deadline: Instant,
}

struct Place {
    generation: u16,
    flight: Option<Flight>,
}

#[derive(Default)]
struct Batch {
    results: Results,
    waker: Option<Waker>,
}

/// The transactions of a port.
pub(super) struct Transactions {
    limits: SmpLimits,
    places: Vec<Place>,
    free: Vec<u16>,
    in_flight: usize,
    queue: VecDeque<Queued>,
    batches: Vec<Option<Batch>>,
    /// Batches with results whose owners were not woken yet.
    to_wake: Vec<BatchId>,
    closed: Option<String>,
    pub counters: SmpCounters,
}

impl Transactions {
    pub(super) fn new(limits: SmpLimits) -> Self {
        Self {
            limits,
            places: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            queue: VecDeque::new(),
            batches: Vec::new(),
            to_wake: Vec::new(),
            closed: None,
            counters: SmpCounters::default(),
        }
    }

    /// Applies to what is sent from now on.
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

    /// Forgets the batch: what is queued is not sent, what is under way reports to nobody.
    pub(super) fn close_batch(&mut self, batch: BatchId) {
        self.batches[batch.0] = None;
        self.queue.retain(|queued| queued.batch != batch);
        self.to_wake.retain(|&other| other != batch);
        for flight in self.places.iter_mut().filter_map(|place| place.flight.as_mut()) {
            if flight.batch == Some(batch) {
                flight.batch = None;
            }
        }
    }

    /// Forgets requests of a batch: what is queued is not sent, and what is under way gives its place to
    /// others. Returns their tags.
    pub(super) fn forget(&mut self, batch: BatchId, is_one: impl Fn(Tag) -> bool) -> Vec<Tag> {
        let mut forgotten = Vec::new();
        self.queue.retain(|queued| {
            let goes = queued.batch == batch && is_one(queued.tag);
            forgotten.extend(goes.then_some(queued.tag));
            !goes
        });
        for at in 0..self.places.len() {
            let is_it = |flight: &mut Flight| flight.batch == Some(batch) && is_one(flight.tag);
            if let Some(flight) = self.places[at].flight.take_if(is_it) {
                self.release(at);
                forgotten.push(flight.tag);
            }
        }
        forgotten
    }

    /// Queues a request.
    pub(super) fn submit(&mut self, batch: BatchId, tag: Tag, request: SmpRequest) {
        match &self.closed {
            Some(reason) => {
                let error = SmpError::Send(reason.clone());
                self.finish(Some(batch), tag, Err(error));
            }
            None => self.queue.push_back(Queued { batch, tag, request }),
        }
    }

    /// The next request to send, if there is one and the window has room.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.in_flight >= self.limits.places() {
            return None;
        }
        let Queued { batch, tag, request } = self.queue.pop_front()?;
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, flight: None });
            // At most MAX_WINDOW places are ever in use.
            (self.places.len() - 1) as u16
        });
        let place = &mut self.places[usize::from(at)];
        // Generation 0 is never used: a transaction ID of 0 is no transaction.
        place.generation = place.generation.checked_add(1).unwrap_or(1);
        place.flight = Some(Flight {
            batch: Some(batch),
            tag,
            class: match request.agent() {
                Agent::SmiLid => Class::SUBN_LID,
                _ => Class::SUBN_DIRECTED,
            },
            method: request.method,
            attr_id: request.attr_id,
            attr_mod: request.attr_mod,
            deadline: now + self.limits.backstop(),
        });
        let tid = u32::from(place.generation) << 16 | u32::from(at);
        self.in_flight += 1;
        self.counters.sent(request.method, request.attr_id);
        Some(Transmit { tid, request, timeout: self.limits.timeout, retries: self.limits.retries })
    }

    /// Takes an answer. False if no transaction waits for it.
    pub(super) fn answered(&mut self, mad: &[u8]) -> bool {
        let Some(flight) = tid_of(mad).and_then(|tid| self.land(tid)) else {
            self.counters.unmatched += 1;
            return false;
        };
        let result = judge(&flight, mad);
        self.finish(flight.batch, flight.tag, result);
        true
    }

    /// Takes a request that the port gave up. False if it is none of ours.
    pub(super) fn unanswered(&mut self, mad: &[u8]) -> bool {
        let header = Mad::read(mad).header();
        let ours = tid_of(mad).filter(|&tid| {
            // A repressed trap that could not be delivered carries a foreign transaction ID.
            self.flight(tid).is_some_and(|flight| {
                flight.class == header.class()
                    && flight.attr_id == header.attr_id()
                    && flight.method.0 == header.method()
            })
        });
        match ours {
            Some(tid) => self.failed(tid, SmpError::Unanswered),
            None => {
                self.counters.unmatched += 1;
                false
            }
        }
    }

    /// Ends the transaction `tid` with an error. False if there is no such transaction.
    pub(super) fn failed(&mut self, tid: u32, error: SmpError) -> bool {
        let Some(flight) = self.land(tid) else { return false };
        self.finish(flight.batch, flight.tag, Err(error));
        true
    }

    /// Gives up what is under way longer than any port would let it be.
    pub(super) fn expire(&mut self, now: Instant) {
        for at in 0..self.places.len() {
            let late = self.places[at].flight.take_if(|flight| flight.deadline <= now);
            if let Some(flight) = late {
                self.release(at);
                self.finish(flight.batch, flight.tag, Err(SmpError::Unanswered));
            }
        }
    }

    /// When [`Self::expire`] will have something to do at the earliest.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let flights = self.places.iter().filter_map(|place| place.flight.as_ref());
        flights.map(|flight| flight.deadline).min()
    }

    /// The port is gone: everything fails, and everything that is still to come.
    pub(super) fn close(&mut self, reason: &str) {
        self.closed.get_or_insert_with(|| reason.to_owned());
        for at in 0..self.places.len() {
            if let Some(flight) = self.places[at].flight.take() {
                self.release(at);
                self.finish(flight.batch, flight.tag, Err(SmpError::Send(reason.to_owned())));
            }
        }
        while let Some(queued) = self.queue.pop_front() {
            let error = SmpError::Send(reason.to_owned());
            self.finish(Some(queued.batch), queued.tag, Err(error));
        }
    }

    /// Moves the batch's results to `into`, which must be empty.
    pub(super) fn take_results(&mut self, batch: BatchId, into: &mut Results) {
        if let Some(batch) = &mut self.batches[batch.0] {
            std::mem::swap(&mut batch.results, into);
        }
    }

    /// Remembers whom to wake when results come in.
    pub(super) fn park(&mut self, batch: BatchId, waker: &Waker) {
        let Some(batch) = &mut self.batches[batch.0] else { return };
        match &mut batch.waker {
            Some(parked) => parked.clone_from(waker),
            None => batch.waker = Some(waker.clone()),
        }
    }

    /// Whom to wake now, to be called after the lock is released.
    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        let Self { to_wake, batches, .. } = self;
        let ready = to_wake.drain(..);
        ready.filter_map(|batch| batches[batch.0].as_mut()?.waker.take()).collect()
    }

    fn flight(&self, tid: u32) -> Option<&Flight> {
        let place = self.places.get(usize::from(tid as u16))?;
        place.flight.as_ref().filter(|_| u32::from(place.generation) == tid >> 16)
    }

    fn land(&mut self, tid: u32) -> Option<Flight> {
        self.flight(tid)?;
        let at = usize::from(tid as u16);
        let flight = self.places[at].flight.take();
        self.release(at);
        flight
    }

    fn release(&mut self, at: usize) {
        self.in_flight -= 1;
        self.free.push(at as u16);
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

/// The lower half of the transaction ID.
fn tid_of(mad: &[u8]) -> Option<u32> {
    mad.get(12..16)?.try_into().ok().map(u32::from_be_bytes)
}

/// Whether the answer `mad` answers `flight`.
fn judge(flight: &Flight, mad: &[u8]) -> SmpResult {
    let Some(data) = mad.get(DATA_OFFSET..DATA_OFFSET + DATA_SIZE) else {
        return Err(SmpError::Malformed("it is too short"));
    };
    let mut reply = SmpReply { data: [0; DATA_SIZE], status: 0 };
    reply.data.copy_from_slice(data);
    let header = crate::wire::mad::Header::read(mad);
    if header.class() != flight.class {
        return Err(SmpError::Malformed("another class"));
    }
    if header.method() != Method::GET_RESP.0 {
        return Err(SmpError::Malformed("another method"));
    }
    if header.attr_id() != flight.attr_id {
        return Err(SmpError::Malformed("another attribute"));
    }
    if header.attr_mod() != flight.attr_mod {
        return Err(SmpError::Malformed("another modifier"));
    }
    let direction_bit = if flight.class == Class::SUBN_DIRECTED { 0x8000 } else { 0 };
    match header.status() & !direction_bit {
        0 => Ok(reply),
        status => Err(SmpError::Status(status)),
    }
}
