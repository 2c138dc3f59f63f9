//! Queue between the fabric and the sink of an attached port.

use super::message::Message;
use crate::transport::{Address, Agent, Delivery, MadSink, Outcome};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Tasks with deliveries that have not been woken yet. They are woken when the lock of the fabric is released:
/// they need it at once, and to wake up one of them takes longer than to handle a packet.
#[derive(Default)]
pub(super) struct PendingWakeups {
    is_any: AtomicBool,
    tasks: Mutex<Vec<Arc<Notify>>>,
}

impl PendingWakeups {
    fn add(&self, task: &Arc<Notify>) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task.clone());
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn wake(&self) {
        if self.is_any.swap(false, Ordering::AcqRel) {
            let tasks =
                std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            tasks.iter().for_each(|task| task.notify_one());
        }
    }
}

/// Deliveries for one attached port.
pub(super) struct DeliveryQueue {
    contents: Mutex<Contents>,
    /// Notified when the queue is no longer empty, or is closed.
    changed: Arc<Notify>,
    wakeups: Arc<PendingWakeups>,
}

impl DeliveryQueue {
    pub(super) fn new(wakeups: Arc<PendingWakeups>) -> Self {
        Self { contents: Mutex::default(), changed: Arc::default(), wakeups }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a delivery, under the lock of the fabric.
    pub(super) fn push(&self, delivery: QueuedDelivery) {
        let mut contents = self.lock();
        contents.deliveries.push_back(delivery);
        if contents.deliveries.len() == 1 {
            self.wakeups.add(&self.changed);
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
                let agent = *agent;
                let from = *from;
                let outcome = *outcome;
                sink.deliver(Delivery { agent, from, outcome, mad: message.bytes() });
            }
            sink.idle();
            tokio::task::yield_now().await;
        }
    }
}
