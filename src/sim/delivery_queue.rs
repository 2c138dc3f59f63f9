//! Queue between the fabric and the sink of an attached port.

use super::message::Message;
use crate::transport::{Address, Agent, Delivery, MadSink, Outcome};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A queued [`Delivery`].
pub(super) struct QueuedDelivery {
    pub(super) agent: Agent,
    pub(super) from: Address,
    pub(super) outcome: Outcome,
    pub(super) message: Message,
}

#[derive(Default)]
struct Contents {
    deliveries: VecDeque<QueuedDelivery>,
    closed: bool,
}

/// Deliveries for one attached port.
#[derive(Default)]
pub(super) struct DeliveryQueue {
    contents: Mutex<Contents>,
    /// Notified when the queue is no longer empty, or is closed.
    changed: Notify,
}

impl DeliveryQueue {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, delivery: QueuedDelivery) {
        let mut contents = self.lock();
        contents.deliveries.push_back(delivery);
        if contents.deliveries.len() == 1 {
            self.changed.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Passes deliveries to `sink` until the port is detached.
    pub(super) async fn drain(self: Arc<Self>, sink: Arc<dyn MadSink>) {
        loop {
            let (deliveries, closed) = {
                let mut contents = self.lock();
                (std::mem::take(&mut contents.deliveries), contents.closed)
            };
            if closed {
                return sink.closed("the port was detached");
            }
            if deliveries.is_empty() {
                self.changed.notified().await;
                continue;
            }
            for QueuedDelivery { agent, from, outcome, message } in &deliveries {
                let (agent, from, outcome) = (*agent, *from, *outcome);
                sink.deliver(Delivery { agent, from, outcome, mad: message.bytes() });
            }
            sink.idle();
            tokio::task::yield_now().await;
        }
    }
}
