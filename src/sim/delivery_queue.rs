//! Queue between the fabric and the sink of an attached port.

use super::event_signal::EventSignal;
use super::packet::Message;
use crate::transport::{Address, Agent, Delivery, MadSink, Outcome};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Deliveries whose memory a queue keeps.
const MAX_IDLE_CAPACITY: usize = 1024;

/// A queued [`Delivery`].
pub(super) struct QueuedDelivery {
    pub(super) agent: Agent,
    pub(super) from: Address,
    pub(super) outcome: Outcome,
    pub(super) message: Message,
}

/// Result of [`PortDeliveries::pass_on`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PassedOn {
    All,
    Nothing,
    /// The port was detached.
    Closed,
}

#[derive(Default)]
struct Contents {
    deliveries: VecDeque<QueuedDelivery>,
    /// The memory of deliveries that were passed on, for the next ones.
    spare: VecDeque<QueuedDelivery>,
    closed: bool,
}

/// Tasks and threads with deliveries that have not been woken yet. They are woken when the lock of the fabric
/// is released: they need it at once, and to wake up one of them takes longer than to handle a packet.
#[derive(Default)]
pub(super) struct PendingWakeups {
    is_any: AtomicBool,
    signals: Mutex<Vec<Arc<EventSignal>>>,
}

impl PendingWakeups {
    fn add(&self, signal: &Arc<EventSignal>) {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal.clone());
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn wake(&self) {
        if self.is_any.swap(false, Ordering::AcqRel) {
            let signals =
                std::mem::take(&mut *self.signals.lock().unwrap_or_else(PoisonError::into_inner));
            signals.iter().for_each(|signal| signal.raise());
        }
    }
}

/// Deliveries for one attached port.
pub(super) struct DeliveryQueue {
    contents: Mutex<Contents>,
    /// Raised when the queue is no longer empty, or is closed.
    pub(super) changed: Arc<EventSignal>,
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
        self.changed.raise();
    }

    /// Takes the deliveries; `None` if the port was detached.
    fn take(&self) -> Option<VecDeque<QueuedDelivery>> {
        let mut contents = self.lock();
        let spare = std::mem::take(&mut contents.spare);
        let deliveries = std::mem::replace(&mut contents.deliveries, spare);
        (!contents.closed).then_some(deliveries)
    }

    fn give_back(&self, mut passed_on: VecDeque<QueuedDelivery>) {
        passed_on.clear();
        passed_on.shrink_to(MAX_IDLE_CAPACITY);
        self.lock().spare = passed_on;
    }
}

/// The deliveries of a port, and what they are for.
#[derive(Clone)]
pub(super) struct PortDeliveries {
    pub(super) queue: Arc<DeliveryQueue>,
    pub(super) sink: Arc<dyn MadSink>,
}

impl PortDeliveries {
    /// Passes them on until the port is detached.
    pub(super) async fn drain(self) {
        loop {
            match self.pass_on() {
                PassedOn::All => tokio::task::yield_now().await,
                PassedOn::Nothing => self.queue.changed.raised().await,
                PassedOn::Closed => return,
            }
        }
    }

    /// Passes those that are queued to the sink, or tells it that the port was detached.
    pub(super) fn pass_on(&self) -> PassedOn {
        let Some(deliveries) = self.queue.take() else {
            self.sink.closed("the port was detached");
            return PassedOn::Closed;
        };
        if deliveries.is_empty() {
            self.queue.give_back(deliveries);
            return PassedOn::Nothing;
        }
        for QueuedDelivery { agent, from, outcome, message } in &deliveries {
            let agent = *agent;
            let from = *from;
            let outcome = *outcome;
            self.sink.deliver(Delivery { agent, from, outcome, mad: message.bytes() });
        }
        self.sink.idle();
        self.queue.give_back(deliveries);
        PassedOn::All
    }
}
