//! The hatch of the SA desk: while the desk sleeps, its responder lies here, and whoever brings a
//! request for a single record has it answered on the spot. On an idle fabric that saves the way
//! to another thread and back, which takes longer than the answer.
//!
//! The desk [lends](Hatch::lend) the responder before it waits and [takes it back](Hatch::take_back)
//! when it wakes: what it is woken for is its own. Requests that write or want tables, and the many
//! of a crowd, are always the desk's, which serves ports in turn.

use crate::publish::Subnet;
use crate::sa::{Responder, only_reads, wants_table};
use crate::sm::desk::SelfPortrait;
use crate::transport::Address;
use crate::transport::intake::{Attendant, Served};
use std::mem::swap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

/// The hatch.
#[derive(Debug, Default)]
pub struct Hatch(Mutex<Counter>);

#[derive(Debug, Default)]
struct Counter {
    /// The desk's if the hatch is open, else one that knows nothing.
    responder: Box<Responder>,
    open: Option<Open>,
}

/// What the desk knows while the hatch is open.
#[derive(Debug)]
struct Open {
    subnet: Arc<Subnet>,
    /// Of a master, which the desk has seen.
    portrait: watch::Receiver<SelfPortrait>,
}

impl Hatch {
    /// Opens it: `responder` is exchanged for one that knows nothing. It answers about `subnet`
    /// until `portrait`, of a master, changes.
    pub fn lend(
        &self,
        responder: &mut Box<Responder>,
        subnet: Arc<Subnet>,
        portrait: watch::Receiver<SelfPortrait>,
    ) {
        let mut counter = self.lock();
        if counter.open.is_none() {
            swap(&mut counter.responder, responder);
        }
        counter.open = Some(Open { subnet, portrait });
    }

    /// Closes it: `responder` is what was lent again.
    pub fn take_back(&self, responder: &mut Box<Responder>) {
        let mut counter = self.lock();
        if counter.open.take().is_some() {
            swap(&mut counter.responder, responder);
        }
    }

    /// A panic half-way through an answer has at most miscounted it.
    fn lock(&self) -> MutexGuard<'_, Counter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attendant for Hatch {
    fn serve(&self, from: &Address, mad: &[u8]) -> Served {
        if !only_reads(mad) || wants_table(mad) {
            return Served::Declined;
        }
        let mut counter = self.lock();
        let Counter { responder, open: Some(open) } = &mut *counter else {
            return Served::Declined;
        };
        // The desk has to see to it first.
        if open.portrait.has_changed().unwrap_or(true) {
            return Served::Declined;
        }
        let now = Instant::now().into_std();
        let reply = responder.handle(&open.subnet, from, mad, now);
        reply.map_or(Served::Silently, |reply| Served::With(reply.to, reply.mad))
    }
}
