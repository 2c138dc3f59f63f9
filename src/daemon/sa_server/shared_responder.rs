//! Shares the SA responder between the SA server and the threads that read the port.
//!
//! The SA server owns the [`Responder`] ([`ResponderOwner`]). Whenever it is not about to modify
//! it, it shares the responder, and the port's reader threads answer requests for single records
//! themselves ([`SharedResponder`]): handing such a request to another thread and back takes
//! longer than the answer, and several readers answer at once. Before the server modifies the
//! responder, it takes the responder back, which waits for answers in progress; meanwhile
//! requests go to the server's queue.
//!
//! The server alone handles requests that write, requests for tables, and requests about service
//! records, whose leases expire while the responder is shared. Under load, each source port gets
//! a [fair share](FairShares) of the answers given here; further requests go to the queue, which
//! serves ports in turn.
//!
//! The lock is crossbeam's `ShardedLock`: a read lock touches only the shard of its thread, and
//! the rare write lock takes all shards. For the same reason, each thread has its own counters and
//! fair shares; the counters are summed up when the responder is taken back.

use super::fair_shares::FairShares;
use super::refused_paths::{self, AnsweredQuery};
use crate::contained;
use crate::publish::Subnet;
use crate::sa::{Responder, SaCounters, is_read_only, is_service_request, is_table_request};
use crate::sm::sm_info::SmStatus;
use crate::transport::Address;
use crate::transport::demux::{InlineOutcome, InlineResponder};
use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard};
use std::mem::take;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use tokio::sync::watch;
use tokio::time::Instant;

/// Number of counter sets: reader threads beyond this number share them, and wait for each other.
const COUNTER_SETS: usize = 4;

/// The interval of answers that are timed: reading the clock takes as long as a twentieth of an answer.
const TIMED_ANSWERS: u32 = 64;

/// The responder as the SA server holds it: either exclusively or shared.
pub(super) struct ResponderOwner {
    /// `None` while the responder is in `shared`.
    exclusive: Option<Box<Responder>>,
    shared: Arc<SharedResponder>,
    /// Answers the server gave while the responder was shared.
    counters: SaCounters,
}

impl ResponderOwner {
    pub(super) fn new(responder: Responder) -> Self {
        let exclusive = Some(Box::new(responder));
        Self { exclusive, shared: Arc::default(), counters: SaCounters::default() }
    }

    pub(super) fn shared(&self) -> Arc<SharedResponder> {
        self.shared.clone()
    }

    /// Exclusive access. Ends the sharing, which waits for answers in progress.
    pub(super) fn get(&mut self) -> &mut Responder {
        let Self { exclusive, shared, counters } = self;
        exclusive.get_or_insert_with(|| {
            let mut responder = shared.take_back().expect("owned here or shared");
            responder.counters_mut().merge(take(counters));
            responder
        })
    }

    /// Result of `view` on the responder, shared or not, and the counters of all threads.
    pub(super) fn view<T>(&self, view: impl FnOnce(&Responder) -> T) -> (T, SaCounters) {
        if let Some(responder) = &self.exclusive {
            let mut counters = responder.counters().clone();
            counters.merge(self.counters.clone());
            return (view(responder), counters);
        }
        let guard = self.shared.read();
        let responder = &guard.as_ref().expect("owned here or shared").responder;
        let mut counters = responder.counters().clone();
        counters.merge(self.counters.clone());
        for set in &self.shared.counter_sets {
            counters.merge(lock(set).counters.clone());
        }
        (view(responder), counters)
    }

    /// The responder if it is not shared: then it may have changed since it last was.
    pub(super) fn exclusive(&self) -> Option<&Responder> {
        self.exclusive.as_deref()
    }

    /// Shares the responder, which is [prepared](Responder::prepare) for `subnet`, until
    /// [`Self::get`] or a change of `sm_status`, which shows a master.
    pub(super) fn share(&mut self, subnet: &Arc<Subnet>, sm_status: &watch::Receiver<SmStatus>) {
        if let Some(responder) = self.exclusive.take() {
            let subnet = subnet.clone();
            let sm_status = sm_status.clone();
            self.shared.put(SharedState { responder, subnet, sm_status });
        }
    }

    /// Answers requests with the shared responder; `answer` returns the counts of its answers.
    /// Does nothing while the responder is not shared.
    pub(super) fn read(&mut self, answer: impl FnOnce(&Responder) -> SaCounters) {
        if let Some(state) = &*self.shared.read() {
            self.counters.merge(answer(&state.responder));
        }
    }
}

/// The responder as reader threads use it.
#[derive(Debug, Default)]
pub struct SharedResponder {
    state: ShardedLock<Option<SharedState>>,
    counter_sets: [CachePadded<Mutex<CounterSet>>; COUNTER_SETS],
}

#[derive(Debug)]
struct SharedState {
    responder: Box<Responder>,
    subnet: Arc<Subnet>,
    /// Status as of the time of sharing, when this SM was master.
    sm_status: watch::Receiver<SmStatus>,
}

#[derive(Debug, Default)]
struct CounterSet {
    /// Answers since the responder was shared.
    counters: SaCounters,
    shares: FairShares,
    /// Answers until one is timed.
    untimed: u32,
}

impl SharedResponder {
    fn put(&self, state: SharedState) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    /// Ends the sharing. The responder includes the counts of the answers given here.
    fn take_back(&self) -> Option<Box<Responder>> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner).take()?;
        let mut responder = state.responder;
        for set in &self.counter_sets {
            responder.counters_mut().merge(take(&mut lock(set).counters));
        }
        Some(responder)
    }

    fn read(&self) -> ShardedLockReadGuard<'_, Option<SharedState>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Self::read`]; `None` while the server takes or returns the responder.
    fn try_read(&self) -> Option<ShardedLockReadGuard<'_, Option<SharedState>>> {
        match self.state.try_read() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl InlineResponder for SharedResponder {
    fn serve(&self, from: &Address, mad: &[u8], in_crowd: bool) -> InlineOutcome {
        if !is_for_single_record(mad) {
            return InlineOutcome::Declined;
        }
        let guard = self.try_read();
        let Some(state) = guard.as_deref().and_then(Option::as_ref) else {
            return InlineOutcome::Declined;
        };
        let mut set = lock(&self.counter_sets[thread_number() % COUNTER_SETS]);
        let CounterSet { counters, shares, untimed } = &mut *set;
        // The server handles a change of the status first.
        let has_changed = state.sm_status.has_changed().unwrap_or(true);
        if has_changed || (in_crowd && !shares.take(from.lid)) {
            return InlineOutcome::Declined;
        }
        let now = Instant::now();
        let reply = contained::request(|| {
            state.responder.read(counters, &state.subnet, from, mad, now.into_std())
        });
        *untimed = untimed.checked_sub(1).unwrap_or_else(|| {
            counters.observe_inline(now.elapsed());
            TIMED_ANSWERS - 1
        });
        // Other threads may use the counters while a line is logged.
        drop(set);
        let Some(reply) = reply else { return InlineOutcome::NoReply };
        let SharedState { responder, subnet, .. } = state;
        let query = AnsweredQuery { from, request: mad, reply: &reply.mad };
        refused_paths::log(responder, subnet, &query, now.into_std());
        InlineOutcome::Reply(reply.to, reply.mad)
    }
}

/// Locks `mutex`, even if a panic poisoned it: the data is then at worst a wrong count.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True for requests that [`SharedResponder`] answers.
fn is_for_single_record(mad: &[u8]) -> bool {
    is_read_only(mad) && !is_table_request(mad) && !is_service_request(mad)
}

/// Numbers the calling threads from 0.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|&number| number)
}
