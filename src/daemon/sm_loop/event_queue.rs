//! The events of the SM loop, which it can look at before it handles them.

use crate::daemon::messages::SmEvent;
use crate::daemon::sm_loop::known_changes::KnownChanges;
use crate::wire::attr::TrapNumber;
use std::collections::VecDeque;
use tokio::sync::mpsc;

pub struct EventQueue {
    receiver: mpsc::UnboundedReceiver<SmEvent>,
    /// Events received and not handled.
    buffer: VecDeque<SmEvent>,
}

impl EventQueue {
    pub fn new(receiver: mpsc::UnboundedReceiver<SmEvent>) -> Self {
        Self { receiver, buffer: VecDeque::new() }
    }

    /// Waits for the next event; `None` if all senders have ended. Cancel safe.
    pub async fn recv(&mut self) -> Option<SmEvent> {
        match self.buffer.pop_front() {
            Some(event) => Some(event),
            None => self.receiver.recv().await,
        }
    }

    /// Number of events that have arrived.
    pub fn waiting(&self) -> usize {
        self.buffer.len() + self.receiver.len()
    }

    /// The next event, if one has arrived.
    pub fn try_recv(&mut self) -> Option<SmEvent> {
        self.buffer.pop_front().or_else(|| self.receiver.try_recv().ok())
    }

    /// Waits for a trap that reports a changed link, and keeps all events. Cancel safe.
    pub async fn link_change(&mut self) {
        self.arrival(is_link_change).await;
    }

    /// Waits for a trap that reports a changed link other than the `known` ones, and keeps all
    /// events. Cancel safe.
    pub async fn unknown_link_change(&mut self, known: KnownChanges) {
        self.arrival(|event| is_news(event, &known)).await;
    }

    /// True if a trap has arrived that reports a changed link other than the `known` ones.
    pub fn has_unknown_link_change(&mut self, known: &KnownChanges) -> bool {
        self.buffer.extend(std::iter::from_fn(|| self.receiver.try_recv().ok()));
        self.buffer.iter().any(|event| is_news(event, known))
    }

    /// Waits until another SM requests a change of role, and keeps all events. Cancel safe.
    pub async fn role_request(&mut self) {
        self.arrival(|event| matches!(event, SmEvent::Role(..))).await;
    }

    /// Waits for an event of a kind, and keeps all events.
    async fn arrival(&mut self, is_awaited: impl Fn(&SmEvent) -> bool) {
        if self.buffer.iter().any(&is_awaited) {
            return;
        }
        while let Some(event) = self.receiver.recv().await {
            let found = is_awaited(&event);
            self.buffer.push_back(event);
            if found {
                return;
            }
        }
        // The senders have ended, which `recv` reports.
        std::future::pending().await
    }
}

/// True for a trap that reports a changed link other than the `known` ones.
fn is_news(event: &SmEvent, known: &KnownChanges) -> bool {
    matches!(event, SmEvent::Trap(trap) if is_link_change(event) && !known.explain(trap))
}

fn is_link_change(event: &SmEvent) -> bool {
    matches!(event, SmEvent::Trap(trap) if trap.number == TrapNumber::LINK_STATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::Lid;
    use crate::observe::traps::TrapEvent;
    use crate::plan::tests::ring;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn events_stay_in_order_when_a_link_change_is_awaited() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut queue = EventQueue::new(receiver);
        let issuer = Lid(5);
        let number = TrapNumber::LINK_STATE;
        let trap = TrapEvent { issuer, number, subject: issuer, ..TrapEvent::default() };
        let mut context = Context::from_waker(Waker::noop());
        sender.send(SmEvent::MembershipChanged).expect("the queue exists");
        assert!(pin!(queue.link_change()).poll(&mut context).is_pending());
        sender.send(SmEvent::Trap(trap)).expect("the queue exists");
        assert_eq!(pin!(queue.link_change()).poll(&mut context), Poll::Ready(()));
        assert_eq!(pin!(queue.link_change()).poll(&mut context), Poll::Ready(()), "it is kept");
        assert_eq!(queue.try_recv(), Some(SmEvent::MembershipChanged));
        assert_eq!(queue.try_recv(), Some(SmEvent::Trap(trap)));
        assert_eq!(queue.try_recv(), None);
    }

    #[test]
    fn a_known_link_change_is_kept_but_not_awaited() {
        let view = SyntheticView::default();
        let mut topology = ring(3, &[(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)]);
        let last = Fabric::from_topology(&topology, 0, &view).expect("a fabric");
        // The cable between the switches with LIDs 2 and 4.
        topology.cables.remove(1);
        let now = Fabric::from_topology(&topology, 0, &view).expect("a fabric");
        let known = KnownChanges::between(&last, &now);

        let (sender, receiver) = mpsc::unbounded_channel();
        let mut queue = EventQueue::new(receiver);
        let mut context = Context::from_waker(Waker::noop());
        sender.send(trap(4)).expect("the queue exists");
        assert!(pin!(queue.unknown_link_change(known.clone())).poll(&mut context).is_pending());
        assert!(!queue.has_unknown_link_change(&known));
        sender.send(trap(6)).expect("the queue exists");
        assert!(queue.has_unknown_link_change(&known));
        assert!(pin!(queue.unknown_link_change(known)).poll(&mut context).is_ready());
        assert_eq!([queue.try_recv(), queue.try_recv()], [Some(trap(4)), Some(trap(6))]);
    }

    fn trap(lid: u16) -> SmEvent {
        let number = TrapNumber::LINK_STATE;
        SmEvent::Trap(TrapEvent { number, subject: Lid(lid), ..TrapEvent::default() })
    }
}
