//! The daemon's side: tasks publish the status and send events, without waiting for any reader.

use super::action::{Acceptance, RequestId};
use super::event::Event;
use super::loop_status::LoopStatus;
use arc_swap::ArcSwap;
use chrono::{DateTime, Utc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Notify, mpsc};

/// Capacity of the queue of events on their way to the server; further ones are counted as lost.
const MAX_QUEUED_EVENTS: usize = 4096;

/// An event with the time at which it happened.
#[derive(Clone, PartialEq, Debug)]
pub struct TimedEvent {
    pub time: DateTime<Utc>,
    pub event: Event,
}

/// Sends events. Never blocks.
#[derive(Clone, Debug)]
pub struct EventSender {
    queue: mpsc::Sender<TimedEvent>,
    lost: Arc<AtomicU64>,
}

impl EventSender {
    /// Sends an event; drops it if the queue is full, or if there is no server.
    pub fn send(&self, event: Event) {
        let event = TimedEvent { time: Utc::now(), event };
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(event) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reports the result of an action: what was done, or why it had no effect.
    pub fn action_ended(&self, action: &str, request: RequestId, result: Result<String, String>) {
        let action = action.to_owned();
        let request = request.0;
        self.send(match result {
            Ok(text) => Event::ActionDone { action, request, text },
            Err(problem) => Event::ActionFailed { action, request, problem },
        });
    }

    /// A sender without a receiver.
    pub fn disconnected() -> Self {
        channel().0
    }
}

/// Receives events.
#[derive(Debug)]
pub struct EventReceiver {
    queue: mpsc::Receiver<TimedEvent>,
    lost: Arc<AtomicU64>,
}

impl EventReceiver {
    /// Waits for the next event; `None` if all senders have ended. Cancel safe.
    pub async fn recv(&mut self) -> Option<TimedEvent> {
        self.queue.recv().await
    }

    /// Number of events lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

/// A queue of events.
pub fn channel() -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
    let lost = Arc::new(AtomicU64::new(0));
    (EventSender { queue: sender, lost: lost.clone() }, EventReceiver { queue: receiver, lost })
}

/// The outputs of the SM loop: its status and events.
#[derive(Clone)]
pub struct Feed {
    pub status: Arc<ArcSwap<LoopStatus>>,
    pub events: EventSender,
    /// Notified after each change of `status`, for one task that derives more from it.
    pub published: Arc<Notify>,
    /// Incidents whose losses operators accept.
    pub accepted: mpsc::Sender<Acceptance>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_beyond_the_capacity_are_counted() {
        let (sender, mut receiver) = channel();
        for _ in 0..MAX_QUEUED_EVENTS + 3 {
            sender.send(Event::ConfigReloaded { problems: Vec::new() });
        }
        assert_eq!((receiver.take_lost(), receiver.take_lost()), (3, 0));
        drop(sender);
        let mut received = 0;
        while receiver.recv().await.is_some() {
            received += 1;
        }
        assert_eq!(received, MAX_QUEUED_EVENTS);
    }
}
