//! What arrived at an attached port and waits for its sink.

use super::message::Message;
use crate::transport::{Address, Agent, Delivery, MadSink, Outcome};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A delivery in waiting.
pub(super) struct Parcel {
    pub(super) agent: Agent,
    pub(super) from: Address,
    pub(super) outcome: Outcome,
    pub(super) message: Message,
}

#[derive(Default)]
struct Contents {
    parcels: VecDeque<Parcel>,
    closed: bool,
}

/// The queue of one attached port.
#[derive(Default)]
pub(super) struct Mailbox {
    contents: Mutex<Contents>,
    filled: Notify,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, parcel: Parcel) {
        let mut contents = self.lock();
        contents.parcels.push_back(parcel);
        if contents.parcels.len() == 1 {
            self.filled.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Hands everything to `sink` until the port is detached.
    pub(super) async fn drain(self: Arc<Self>, sink: Arc<dyn MadSink>) {
        loop {
            let (parcels, closed) = {
                let mut contents = self.lock();
                (std::mem::take(&mut contents.parcels), contents.closed)
            };
            if closed {
                return sink.closed("the port was detached");
            }
            if parcels.is_empty() {
                self.filled.notified().await;
                continue;
            }
            for Parcel { agent, from, outcome, message } in &parcels {
                let (agent, from, outcome) = (*agent, *from, *outcome);
                sink.deliver(Delivery { agent, from, outcome, mad: message.bytes() });
            }
            sink.idle();
            tokio::task::yield_now().await;
        }
    }
}
