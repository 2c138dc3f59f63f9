//! The hatch of the SA desk: here lies its responder while the desk needs it for nothing or to read,
//! and whoever brings a request for a single record has it answered on the spot. That saves the way
//! to another thread and back, which takes longer than the answer; and several who bring requests
//! are served at the same time.
//!
//! The desk [lends](SharedResponder::lend) the responder and [takes it back](SharedResponder::take_back) before it changes
//! anything. Requests that write or want tables are always the desk's; so are services, whose leases
//! end while the responder lies here. In a crowd a port has no more than a fair [share](shares) here:
//! what is beyond it waits at the desk, which serves ports in turn.

use super::fair_shares::FairShares;
use crate::publish::Subnet;
use crate::sa::{Responder, SaCounters, is_read_only, is_service_request, is_table_request};
use crate::sm::sm_info::SmStatus;
use crate::transport::Address;
use crate::transport::demux::{InlineOutcome, InlineResponder};

use std::mem::{replace, take};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::error;

/// Threads that are served at the same time; of more, some wait for each other.
const WINDOWS: usize = 4;

/// The hatch.
#[derive(Debug, Default)]
pub struct SharedResponder {
    back: Mutex<Back>,
    windows: [Window; WINDOWS],
}

/// The desk's side.
#[derive(Debug, Default)]
struct Back {
    /// While it is open.
    lent: Option<Arc<Lent>>,
    /// One that knows nothing, which lies on the desk while the hatch is open; `None` then, and before
    /// it is closed for the first time.
    blank: Option<Box<Responder>>,
    /// What the desk answered from this side.
    counters: SaCounters,
}

/// What the desk lends.
#[derive(Debug)]
struct Lent {
    responder: Box<Responder>,
    subnet: Arc<Subnet>,
    /// Of a master, which the desk has seen.
    sm_status: watch::Receiver<SmStatus>,
}

/// Where a thread is served; in a cache line (or two that are fetched together) of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Window(Mutex<Counter>);

#[derive(Debug, Default)]
struct Counter {
    /// None of it leaves the counter.
    lent: Option<Arc<Lent>>,
    /// What was answered here since the desk lent it.
    counters: SaCounters,
    shares: FairShares,
}

impl SharedResponder {
    /// Opens it: `responder`, which is [prepared](Responder::prepare) for `subnet`, is exchanged for
    /// one that knows nothing. It answers about `subnet` until `portrait`, of a master, changes.
    pub fn lend(
        &self,
        responder: &mut Box<Responder>,
        subnet: Arc<Subnet>,
        sm_status: watch::Receiver<SmStatus>,
    ) {
        self.take_back(responder);
        let mut back = lock(&self.back);
        let responder = replace(responder, back.blank.take().unwrap_or_default());
        let lent = Arc::new(Lent { responder, subnet, sm_status });
        for Window(window) in &self.windows {
            lock(window).lent = Some(lent.clone());
        }
        back.lent = Some(lent);
    }

    /// Closes it: `responder` is what was lent again, and counts what it answered.
    pub fn take_back(&self, responder: &mut Box<Responder>) {
        let mut back = lock(&self.back);
        let Some(lent) = back.lent.take() else { return };
        let mut counted = take(&mut back.counters);
        for Window(window) in &self.windows {
            // This waits for an answer that is being made.
            let mut counter = lock(window);
            counter.lent = None;
            counted.merge(take(&mut counter.counters));
        }
        match Arc::into_inner(lent) {
            Some(lent) => back.blank = Some(replace(responder, lent.responder)),
            None => error!("the SA has lost its registry: it is still in use"),
        }
        responder.counters_mut().merge(counted);
    }

    /// True if the responder is lent.
    pub fn is_open(&self) -> bool {
        lock(&self.back).lent.is_some()
    }

    /// Has the desk read, and count what it answers, while it is open.
    pub fn read(&self, look: impl FnOnce(&Responder) -> SaCounters) {
        let Back { lent: Some(lent), counters, .. } = &mut *lock(&self.back) else { return };
        counters.merge(look(&lent.responder));
    }
}

/// A panic half-way through an answer has at most miscounted it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InlineResponder for SharedResponder {
    fn serve(&self, from: &Address, mad: &[u8], in_crowd: bool) -> InlineOutcome {
        if !is_quick(mad) {
            return InlineOutcome::Declined;
        }
        let Window(window) = &self.windows[number_of_thread() % WINDOWS];
        let mut counter = lock(window);
        let Counter { lent: Some(lent), counters, shares } = &mut *counter else {
            return InlineOutcome::Declined;
        };
        // The desk has to see to it first.
        let is_news = lent.sm_status.has_changed().unwrap_or(true);
        if is_news || (in_crowd && !shares.take(from.lid)) {
            return InlineOutcome::Declined;
        }
        let now = Instant::now().into_std();
        let reply = lent.responder.read(counters, &lent.subnet, from, mad, now);
        reply.map_or(InlineOutcome::NoReply, |reply| InlineOutcome::Reply(reply.to, reply.mad))
    }
}

/// True for requests that are answered here.
fn is_quick(mad: &[u8]) -> bool {
    is_read_only(mad) && !is_table_request(mad) && !is_service_request(mad)
}

/// Threads that come here, numbered.
fn number_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|&number| number)
}
