//! The daemon's [`MadSink`]: responses go to their transactions, requests to the queue of their
//! management class.
//!
//! The reader threads of the port run this code, which never blocks. If the queue of a class is
//! full, the newest MAD is dropped and counted, and its sender retries. A BUSY reply would take the
//! reader as long as an ordinary one, and would have to come from the master. When a response frees
//! a slot of the window, the reader itself sends the next queued request, which saves a round trip
//! through the async runtime; the runtime is woken once for a batch of responses. The reader may
//! also answer cheap SA requests ([`InlineResponder`]).
//!
//! **Rule for ports:** `deliver` may call [`MadPort::post`]; therefore `post` must not call the
//! sink before it returns. No lock is held while a MAD is posted.

use super::gsi_requests::GsiRequests;
use super::rmpp::{ObserverSlot, TransferObserver};
use super::smp_intake::SmpIntake;
use super::transactions::{SmpError, SmpLimits, TimeoutEffect, Transactions, Transmit};
use super::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, SendError};
use crate::contained;
use crate::ids::Lid;
use crate::wire::mad::{Method, low_tid_of, method_of};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Number of responses after which the async runtime is woken although more are being read.
const MAX_RESPONSES_PER_WAKE: usize = 64;

/// Number of SA requests without an idle moment above which the load counts as high, so that
/// requesters are served in turn.
const HIGH_LOAD_REQUESTS: usize = 64;

/// Answers SA requests in the reader thread, if that is faster than queueing them.
pub trait InlineResponder: Send + Sync {
    /// Answers a request, or declines it to have it queued. With `high_load`, each requester may
    /// use only its fair share of the reader's time.
    fn serve(&self, from: &Address, mad: &[u8], high_load: bool) -> InlineOutcome;
}

/// Result of [`InlineResponder::serve`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InlineOutcome {
    /// The request is to be queued.
    Declined,
    /// The request gets no reply.
    NoReply,
    Reply(Address, Vec<u8>),
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Inbound {
    pub agent: Agent,
    pub from: Address,
    pub mad: Vec<u8>,
    pub arrived: Instant,
}

/// Outcome of a MAD of the SA agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaOutcome {
    /// That of a SubnAdmReport, the only request of the agent.
    Report {
        /// Lower half of its transaction ID.
        tid: u32,
        /// False if the subscriber did not respond.
        answered: bool,
    },
    /// The port at this LID has not acknowledged the segments of a reply in time. The transaction
    /// ID of a reply is that of the requester's choice, and tells nothing.
    Unacknowledged(Lid),
}

/// Receivers of MADs that belong to no SMP transaction. They are closed with the port.
#[derive(Debug)]
pub struct Unsolicited {
    /// Subnet management: traps, SMInfo, TrapRepress.
    pub smp: mpsc::Receiver<Inbound>,
    /// SA requests.
    pub sa: mpsc::Receiver<Inbound>,
    /// Outcomes of reports to subscribers, and replies in segments that were not acknowledged.
    pub sa_outcomes: mpsc::Receiver<SaOutcome>,
}

/// The senders of [`Unsolicited`].
struct Queues {
    smp: mpsc::Sender<Inbound>,
    sa: mpsc::Sender<Inbound>,
    sa_outcomes: mpsc::Sender<SaOutcome>,
}

/// The MAD sink of the daemon.
pub struct MadDemux {
    transactions: Mutex<Transactions>,
    gsi: GsiRequests,
    smp_intake: SmpIntake,
    /// Set by the first client. Weak, as the port owns its sink.
    port: OnceLock<Weak<dyn MadPort>>,
    queues: Mutex<Option<Queues>>,
    inline_responder: OnceLock<Arc<dyn InlineResponder>>,
    transfer_observer: Arc<ObserverSlot>,
    counts: MadCounts,
    closed: OnceLock<String>,
}

/// Numbers of received MADs.
#[derive(Default)]
struct MadCounts {
    /// SA requests since the port was idle.
    requests_since_idle: AtomicUsize,
    /// Responses since the receivers were woken.
    responses_since_wake: AtomicUsize,
    /// MADs dropped because their queue was full.
    overflowed: AtomicU64,
    /// Responses and timeouts without a pending request.
    stray_responses: AtomicU64,
}

impl MadDemux {
    /// A sink whose queues of unsolicited MADs hold `capacity` each (at least 1).
    pub fn new(capacity: usize) -> (Arc<Self>, Unsolicited) {
        let capacity = capacity.max(1);
        let (smp_sender, smp) = mpsc::channel(capacity);
        let (sa_sender, sa) = mpsc::channel(capacity);
        let (outcome_sender, sa_outcomes) = mpsc::channel(capacity);
        let demux = Self {
            transactions: Mutex::new(Transactions::new(SmpLimits::default())),
            gsi: GsiRequests::default(),
            smp_intake: SmpIntake::default(),
            port: OnceLock::new(),
            queues: Mutex::new(Some(Queues {
                smp: smp_sender,
                sa: sa_sender,
                sa_outcomes: outcome_sender,
            })),
            inline_responder: OnceLock::new(),
            transfer_observer: Arc::default(),
            counts: MadCounts::default(),
            closed: OnceLock::new(),
        };
        (Arc::new(demux), Unsolicited { smp, sa, sa_outcomes })
    }

    /// Offers SA requests to `responder` before they are queued. Further calls have no effect.
    pub fn set_inline_responder(&self, responder: Arc<dyn InlineResponder>) {
        let _ = self.inline_responder.set(responder);
    }

    /// Reports the messages that are being sent to `observer`. Further calls have no effect.
    pub fn set_transfer_observer(&self, observer: Arc<dyn TransferObserver>) {
        let _ = self.transfer_observer.set(observer);
    }

    /// The observer of the messages that are being sent, for [`open`](super::rmpp::open).
    pub fn transfer_observer(&self) -> Arc<ObserverSlot> {
        self.transfer_observer.clone()
    }

    /// Number of unsolicited MADs dropped because their queue was full, or their sender had sent too
    /// many.
    pub fn overflowed(&self) -> u64 {
        self.counts.overflowed.load(Ordering::Relaxed)
    }

    /// Number of responses and timeouts that belong to no pending request.
    pub fn stray_responses(&self) -> u64 {
        self.counts.stray_responses.load(Ordering::Relaxed)
    }

    /// The reason why the port was closed.
    pub fn closed_reason(&self) -> Option<&str> {
        self.closed.get().map(String::as_str)
    }

    pub(super) fn attach(&self, port: &Arc<dyn MadPort>) {
        // Further clients of the same sink share the port, the window and the transactions.
        let _ = self.port.set(Arc::downgrade(port));
    }

    /// Locks the transactions. A poisoned lock is used as it is, because no holder can panic in the
    /// middle of an update.
    pub(super) fn transactions(&self) -> MutexGuard<'_, Transactions> {
        self.transactions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests of the general services classes.
    pub(super) fn gsi(&self) -> &GsiRequests {
        &self.gsi
    }

    /// The limits of unsolicited SMPs.
    pub(super) fn smp_intake(&self) -> &SmpIntake {
        &self.smp_intake
    }

    /// Sends queued requests as far as the window allows.
    pub(super) fn pump(&self) {
        loop {
            let transmit = self.transactions().transmit(Instant::now());
            let Some(transmit) = transmit else { return };
            self.send(&transmit);
        }
    }

    /// Wakes the tasks that wait for results.
    pub(super) fn wake(&self) {
        let wakers = self.transactions().wakers();
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Fails all requests, because the port is lost for the moment.
    pub(super) fn interrupt(&self, reason: &str) {
        self.transactions().interrupt(reason);
        self.gsi.fail_all(reason);
        self.wake();
    }

    pub(super) fn send(&self, transmit: &Transmit) {
        let error = match self.port.get().and_then(Weak::upgrade) {
            Some(port) => match post(&*port, transmit) {
                Ok(()) => return,
                Err(error) => error.to_string(),
            },
            None => "the port is gone".to_owned(),
        };
        self.transactions().failed(transmit.tid, SmpError::Send(error));
        self.wake();
    }

    /// Completes a transaction by its response or its timeout.
    fn complete_transaction(&self, delivery: &Delivery<'_>) {
        let transmit = {
            let now = Instant::now();
            let mut transactions = self.transactions();
            let effect = match delivery.outcome {
                Outcome::Unanswered => transactions.timed_out(delivery.mad),
                Outcome::Arrived if transactions.answered(delivery.mad, now) => {
                    TimeoutEffect::Complete
                }
                Outcome::Arrived => TimeoutEffect::Unmatched,
            };
            match effect {
                TimeoutEffect::Unmatched => {
                    self.counts.stray_responses.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                TimeoutEffect::Retransmit(transmit) => Some(transmit),
                TimeoutEffect::Complete => transactions.transmit(now),
            }
        };
        if let Some(transmit) = transmit {
            self.send(&transmit);
        }
        let responses = self.counts.responses_since_wake.fetch_add(1, Ordering::Relaxed) + 1;
        if responses >= MAX_RESPONSES_PER_WAKE {
            self.wake_receivers();
        }
    }

    /// Queues the outcome of a MAD of the SA agent. If the queue is full the outcome is dropped,
    /// and a report times out at the notice dispatcher.
    fn queue_sa_outcome(&self, delivery: &Delivery<'_>) {
        let Some(outcome) = sa_outcome(delivery) else {
            self.counts.stray_responses.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queues) = queues.as_ref() else { return };
        if queues.sa_outcomes.try_send(outcome).is_err() {
            self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn wake_receivers(&self) {
        self.counts.responses_since_wake.store(0, Ordering::Relaxed);
        self.wake();
    }

    /// Offers an SA request to the inline responder. Returns false if the request is to be queued.
    fn is_answered_inline(&self, delivery: &Delivery<'_>) -> bool {
        if delivery.agent != Agent::Sa {
            return false;
        }
        let high_load =
            self.counts.requests_since_idle.load(Ordering::Relaxed) >= HIGH_LOAD_REQUESTS;
        // Under high load the readers do not compete for the cache line of the counter.
        if !high_load {
            self.counts.requests_since_idle.fetch_add(1, Ordering::Relaxed);
        }
        let Some(responder) = self.inline_responder.get() else { return false };
        match responder.serve(&delivery.from, delivery.mad, high_load) {
            InlineOutcome::Declined => return false,
            InlineOutcome::NoReply => {}
            InlineOutcome::Reply(to, mad) => self.reply(to, &mad),
        }
        true
    }

    /// Sends a reply. A send error is ignored: the requester times out and retries.
    fn reply(&self, to: Address, mad: &[u8]) {
        if let Some(port) = self.port.get().and_then(Weak::upgrade) {
            let _ = port.post(&Outgoing { agent: Agent::Sa, to, timeout: None, retries: 0, mad });
        }
    }

    /// Queues a request, unless it is answered inline.
    fn queue_request(&self, delivery: &Delivery<'_>) {
        if self.is_answered_inline(delivery) {
            return;
        }
        let arrived = Instant::now();
        let is_smp = matches!(delivery.agent, Agent::SmiDirected | Agent::SmiLid);
        if is_smp && !self.smp_intake.admit(delivery.from.lid, delivery.mad, arrived) {
            self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let inbound = Inbound {
            agent: delivery.agent,
            from: delivery.from,
            mad: delivery.mad.to_vec(),
            arrived,
        };
        let is_dropped = {
            let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(queues) = queues.as_ref() else { return };
            let queue = match delivery.agent {
                Agent::Sa => &queues.sa,
                Agent::SmiDirected | Agent::SmiLid => &queues.smp,
                // The device's agent answers the requests of these classes.
                Agent::Perf | Agent::Congestion => return,
            };
            queue.try_send(inbound).is_err()
        };
        if is_dropped {
            self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The outcome that a completion of the SA agent tells; `None` for responses to no request of it.
fn sa_outcome(delivery: &Delivery<'_>) -> Option<SaOutcome> {
    let method = method_of(delivery.mad)?;
    match delivery.outcome {
        Outcome::Unanswered if method == Method::REPORT => {
            Some(SaOutcome::Report { tid: low_tid_of(delivery.mad)?, answered: false })
        }
        Outcome::Unanswered => Some(SaOutcome::Unacknowledged(delivery.from.lid)),
        Outcome::Arrived if method == Method::REPORT_RESP => {
            Some(SaOutcome::Report { tid: low_tid_of(delivery.mad)?, answered: true })
        }
        Outcome::Arrived => None,
    }
}

fn post(port: &dyn MadPort, transmit: &Transmit) -> Result<(), SendError> {
    let Transmit { tid, request, timeout } = transmit;
    port.post(&Outgoing {
        agent: request.agent(),
        to: Address::smi(request.lid()),
        timeout: Some(*timeout),
        retries: 0,
        mad: &request.to_mad(*tid).0,
    })
}

impl MadSink for MadDemux {
    /// A panic is contained, because it would end the reader thread and with it the port.
    fn deliver(&self, delivery: Delivery<'_>) {
        if let Err(panic) = contained::run(|| self.dispatch(&delivery)) {
            contained::log("the handling of a received MAD", &panic, "the MAD is ignored");
        }
    }

    fn idle(&self) {
        self.counts.requests_since_idle.store(0, Ordering::Relaxed);
        if self.counts.responses_since_wake.load(Ordering::Relaxed) > 0 {
            self.wake_receivers();
        }
    }

    fn closed(&self, reason: &str) {
        let _ = self.closed.set(reason.to_owned());
        self.transactions().close(reason);
        self.gsi.fail_all(reason);
        self.wake();
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl MadDemux {
    /// Passes a MAD to its transaction or queue.
    fn dispatch(&self, delivery: &Delivery<'_>) {
        let Some(method) = method_of(delivery.mad) else { return };
        let is_completion = delivery.outcome == Outcome::Unanswered || method.is_response();
        match (is_completion, delivery.agent) {
            (false, _) => self.queue_request(delivery),
            (true, Agent::SmiDirected | Agent::SmiLid) => self.complete_transaction(delivery),
            // Requests to another SA; the daemon has none.
            (true, Agent::Sa) if self.gsi.complete(delivery) => {}
            (true, Agent::Sa) => self.queue_sa_outcome(delivery),
            (true, Agent::Perf | Agent::Congestion) => {
                if !self.gsi.complete(delivery) {
                    self.counts.stray_responses.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}
