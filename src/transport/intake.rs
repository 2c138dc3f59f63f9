//! The daemon's [`MadSink`]: answers go to their transactions, everything else to its owner.
//!
//! The port's reader threads run this code. It never waits: a full queue of unsolicited MADs
//! loses the newest, counted; their senders repeat them. (To tell them would take as long as an answer,
//! and keep the reader from what comes next. Nor does it know whether this is the master.) When an answer frees a place in
//! the window, the reader sends the next queued request itself, so that the wire is kept busy
//! without a detour over the async side; that side is woken once for a run of answers. An SA
//! request that takes no time may be answered by the reader as well ([`Attendant`]).
//!
//! **Rule for ports:** `deliver` may call [`MadPort::post`]; therefore `post` must not call the
//! sink before it returns. No lock is held while a MAD is posted.

use super::transactions::{SmpError, SmpLimits, Transactions, Transmit};
use super::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, SendError};
use crate::wire::mad::{Header, Method};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Answers after which the async side is woken even though more are waiting.
const RUN: usize = 64;

/// More SA requests in a row than this are a crowd, in which ports are served in turn.
const STREAK: usize = 64;

/// Somebody who answers SA requests in the reader's thread if that takes no time worth the name.
pub trait Attendant: Send + Sync {
    /// Deals with a request, or leaves it to its queue. In a crowd nobody is to have more than
    /// a fair share of the time here.
    fn serve(&self, from: &Address, mad: &[u8], in_crowd: bool) -> Served;
}

/// What an [`Attendant`] made of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Served {
    /// Nothing: it goes into its queue.
    Declined,
    /// It gets no answer.
    Silently,
    /// It gets this answer.
    With(Address, Vec<u8>),
}

/// A MAD that answers no request of ours.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// The agent it came through.
    pub agent: Agent,
    /// From whom.
    pub from: Address,
    /// The MAD.
    pub mad: Vec<u8>,
    /// When it came.
    pub arrived: Instant,
}

/// What became of a request of the SA agent: a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conclusion {
    /// The lower half of its transaction ID.
    pub tid: u32,
    /// It was answered.
    pub answered: bool,
}

/// The receiving ends of what nobody asked for. They end when the port is gone.
#[derive(Debug)]
pub struct Unsolicited {
    /// Subnet management: traps, SMInfo, TrapRepress.
    pub smp: mpsc::Receiver<Inbound>,
    /// Requests to subnet administration.
    pub sa: mpsc::Receiver<Inbound>,
    /// What became of reports to its subscribers.
    pub reports: mpsc::Receiver<Conclusion>,
}

/// The sending ends.
struct Outlets {
    smp: mpsc::Sender<Inbound>,
    sa: mpsc::Sender<Inbound>,
    reports: mpsc::Sender<Conclusion>,
}

/// The sink of the daemon.
pub struct Intake {
    transactions: Mutex<Transactions>,
    /// Set by the first client. Weak, as the port owns its sink.
    port: OnceLock<Weak<dyn MadPort>>,
    outlets: Mutex<Option<Outlets>>,
    attendant: OnceLock<Arc<dyn Attendant>>,
    /// SA requests since the port was idle.
    streak: AtomicUsize,
    overflowed: AtomicU64,
    stray_answers: AtomicU64,
    run: AtomicUsize,
    closed: OnceLock<String>,
}

impl Intake {
    /// A sink whose queues of unsolicited MADs hold `capacity` each (at least 1).
    pub fn new(capacity: usize) -> (Arc<Self>, Unsolicited) {
        let capacity = capacity.max(1);
        let (smp_outlet, smp) = mpsc::channel(capacity);
        let (sa_outlet, sa) = mpsc::channel(capacity);
        let (reports_outlet, reports) = mpsc::channel(capacity);
        let intake = Self {
            transactions: Mutex::new(Transactions::new(SmpLimits::default())),
            port: OnceLock::new(),
            outlets: Mutex::new(Some(Outlets {
                smp: smp_outlet,
                sa: sa_outlet,
                reports: reports_outlet,
            })),
            attendant: OnceLock::new(),
            streak: AtomicUsize::new(0),
            overflowed: AtomicU64::new(0),
            stray_answers: AtomicU64::new(0),
            run: AtomicUsize::new(0),
            closed: OnceLock::new(),
        };
        (Arc::new(intake), Unsolicited { smp, sa, reports })
    }

    /// Has `attendant` asked first about SA requests. There is one at most, the first.
    pub fn attend(&self, attendant: Arc<dyn Attendant>) {
        let _ = self.attendant.set(attendant);
    }

    /// Unsolicited MADs lost because their queue was full.
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    /// Answers, or news of unanswered requests, to which no request is known.
    pub fn stray_answers(&self) -> u64 {
        self.stray_answers.load(Ordering::Relaxed)
    }

    /// Why the port is gone, if it is.
    pub fn closed_reason(&self) -> Option<&str> {
        self.closed.get().map(String::as_str)
    }

    pub(super) fn attach(&self, port: &Arc<dyn MadPort>) {
        // A second client of the same intake shares the port, the window and the transactions.
        let _ = self.port.set(Arc::downgrade(port));
    }

    /// The transactions. Nothing that holds this lock can panic half-way through a change that
    /// matters, so a poisoned lock is used as it is.
    pub(super) fn transactions(&self) -> MutexGuard<'_, Transactions> {
        self.transactions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends queued requests as far as the window allows.
    pub(super) fn pump(&self) {
        loop {
            let transmit = self.transactions().transmit(Instant::now());
            let Some(transmit) = transmit else { return };
            self.send(&transmit);
        }
    }

    /// Wakes the owners of results.
    pub(super) fn wake(&self) {
        let wakers = self.transactions().wakers();
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    fn send(&self, transmit: &Transmit) {
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

    /// An answer, or a request that will have none.
    fn conclude(&self, delivery: &Delivery<'_>) {
        let transmit = {
            let mut transactions = self.transactions();
            let known = match delivery.outcome {
                Outcome::Arrived => transactions.answered(delivery.mad),
                Outcome::Unanswered => transactions.unanswered(delivery.mad),
            };
            if !known {
                self.stray_answers.fetch_add(1, Ordering::Relaxed);
                return;
            }
            transactions.transmit(Instant::now())
        };
        if let Some(transmit) = transmit {
            self.send(&transmit);
        }
        if self.run.fetch_add(1, Ordering::Relaxed) + 1 >= RUN {
            self.end_run();
        }
    }

    /// The answer to a report, or the news that there is none. Of those that find no room the
    /// sender hears nothing and gives up by itself.
    fn conclude_report(&self, delivery: &Delivery<'_>) {
        let tid = Header::read(delivery.mad).tid() as u32;
        let conclusion = Conclusion { tid, answered: delivery.outcome == Outcome::Arrived };
        let outlets = self.outlets.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outlets) = outlets.as_ref() else { return };
        if outlets.reports.try_send(conclusion).is_err() {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end_run(&self) {
        self.run.store(0, Ordering::Relaxed);
        self.wake();
    }

    /// Lets the attendant answer an SA request; false if it is still to be handed over.
    fn is_attended(&self, delivery: &Delivery<'_>) -> bool {
        if delivery.agent != Agent::Sa {
            return false;
        }
        let in_crowd = self.streak.load(Ordering::Relaxed) >= STREAK;
        // Readers in a rush do not fight for the cache line.
        if !in_crowd {
            self.streak.fetch_add(1, Ordering::Relaxed);
        }
        let Some(attendant) = self.attendant.get() else { return false };
        match attendant.serve(&delivery.from, delivery.mad, in_crowd) {
            Served::Declined => return false,
            Served::Silently => {}
            Served::With(to, mad) => self.reply(to, &mad),
        }
        true
    }

    /// Sends an answer. If that fails, silence has to do.
    fn reply(&self, to: Address, mad: &[u8]) {
        if let Some(port) = self.port.get().and_then(Weak::upgrade) {
            let _ = port.post(&Outgoing { agent: Agent::Sa, to, timeout: None, retries: 0, mad });
        }
    }

    /// A request of somebody else.
    fn hand_over(&self, delivery: &Delivery<'_>) {
        if self.is_attended(delivery) {
            return;
        }
        let inbound = Inbound {
            agent: delivery.agent,
            from: delivery.from,
            mad: delivery.mad.to_vec(),
            arrived: Instant::now(),
        };
        let lost = {
            let outlets = self.outlets.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(outlets) = outlets.as_ref() else { return };
            let outlet = match delivery.agent {
                Agent::Sa => &outlets.sa,
                Agent::SmiDirected | Agent::SmiLid => &outlets.smp,
            };
            outlet.try_send(inbound).is_err()
        };
        if lost {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn post(port: &dyn MadPort, transmit: &Transmit) -> Result<(), SendError> {
    let Transmit { tid, request, timeout, retries } = transmit;
    port.post(&Outgoing {
        agent: request.agent(),
        to: Address::smi(request.lid()),
        timeout: Some(*timeout),
        retries: *retries,
        mad: &request.to_mad(*tid).0,
    })
}

impl MadSink for Intake {
    fn deliver(&self, delivery: Delivery<'_>) {
        let Some(&method) = delivery.mad.get(3) else { return };
        let concluded = delivery.outcome == Outcome::Unanswered || Method(method).is_response();
        match (concluded, delivery.agent) {
            (false, _) => self.hand_over(&delivery),
            (true, Agent::SmiDirected | Agent::SmiLid) => self.conclude(&delivery),
            (true, Agent::Sa) => self.conclude_report(&delivery),
        }
    }

    fn idle(&self) {
        self.streak.store(0, Ordering::Relaxed);
        if self.run.load(Ordering::Relaxed) > 0 {
            self.end_run();
        }
    }

    fn closed(&self, reason: &str) {
        let _ = self.closed.set(reason.to_owned());
        self.transactions().close(reason);
        self.wake();
        self.outlets.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
