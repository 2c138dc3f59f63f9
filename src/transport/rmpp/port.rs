//! The port and the sink between which the protocol runs, and its timer.

use super::core::{Core, RmppAction};
use super::packet::is_active;
use super::{Segmentation, TransferObserver};
use crate::transport::umad::rmpp::is_needed;
use crate::transport::{
    Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError,
};
use crate::wire::mad::{MAD_SIZE, Mad};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// The slot of the observer, which is set once the server exists.
pub type ObserverSlot = OnceLock<Arc<dyn TransferObserver>>;

/// Opens a port by `open` and delivers its MADs to `sink`, messages in segments as a whole. Must be
/// called in a runtime.
///
/// # Errors
/// That of `open`.
pub fn open<E>(
    sink: Arc<dyn MadSink>,
    observer: Arc<ObserverSlot>,
    open: impl FnOnce(Arc<dyn MadSink>) -> Result<Arc<dyn MadPort>, E>,
) -> Result<Arc<dyn MadPort>, E> {
    let transfers = Arc::new(Transfers {
        core: Mutex::new(Core::new()),
        observer,
        rescheduled: Notify::new(),
        port: OnceLock::new(),
        sink,
    });
    let port = open(transfers.clone())?;
    let segmentation = port.segmentation();
    let _ = transfers.port.set((Arc::downgrade(&port), segmentation));
    let is_ours = segmentation == Segmentation::Caller;
    let timer = is_ours.then(|| tokio::spawn(expire_regularly(transfers.clone())));
    Ok(Arc::new(RmppPort { port, segmentation, transfers, timer }))
}

/// The transfers of a port, and its sink.
struct Transfers {
    core: Mutex<Core>,
    observer: Arc<ObserverSlot>,
    /// Notified when the first deadline may have become earlier.
    rescheduled: Notify,
    /// Set when the port is open. Weak, as the port owns its sink.
    port: OnceLock<(Weak<dyn MadPort>, Segmentation)>,
    sink: Arc<dyn MadSink>,
}

impl Transfers {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state by `change` and executes the actions that it requires. The lock is not held
    /// while a MAD is sent or delivered.
    ///
    /// # Errors
    /// The first failure to send a packet. The transfer stays open and is repeated.
    fn update(&self, change: impl FnOnce(&mut Core, std::time::Instant)) -> Result<(), SendError> {
        let now = Instant::now().into_std();
        let (actions, is_earlier) = {
            let mut core = self.core();
            let before = core.next_deadline();
            change(&mut core, now);
            let after = core.next_deadline();
            let actions = core.take_actions();
            // With the lock, so that the observer sees the events of all threads in order.
            actions.iter().for_each(|action| self.observe(action, now));
            (actions, after.is_some() && before.is_none_or(|at| Some(at) > after))
        };
        if is_earlier {
            self.rescheduled.notify_one();
        }
        let mut result = Ok(());
        for action in actions {
            match action {
                RmppAction::Send(to, mad) => {
                    if let Err(error) = self.post(to, &mad)
                        && result.is_ok()
                    {
                        result = Err(error);
                    }
                }
                RmppAction::Deliver(from, mad) => {
                    let agent = Agent::Sa;
                    let outcome = Outcome::Arrived;
                    // The kernel reports no Q_Key.
                    let from = Address { qkey: 0, ..from };
                    self.sink.deliver(Delivery { agent, from, outcome, mad: &mad });
                }
                RmppAction::Began(..) | RmppAction::Progressed(_) | RmppAction::Ended { .. } => {}
            }
        }
        result
    }

    fn observe(&self, action: &RmppAction, now: std::time::Instant) {
        let Some(observer) = self.observer.get() else { return };
        match *action {
            RmppAction::Began(to, size) => observer.began(to, size, now),
            RmppAction::Progressed(to) => observer.progressed(to, now),
            RmppAction::Ended { to, size, end } => observer.ended(to, size, end, now),
            RmppAction::Send(..) | RmppAction::Deliver(..) => {}
        }
    }

    fn post(&self, to: Address, mad: &Mad) -> Result<(), SendError> {
        let Some(port) = self.port.get().and_then(|(port, _)| port.upgrade()) else {
            return Ok(());
        };
        let agent = Agent::Sa;
        let timeout = None;
        let retries = 0;
        port.post(&Outgoing { agent, to, timeout, retries, mad: &mad.0 })
    }
}

impl MadSink for Transfers {
    fn deliver(&self, delivery: Delivery<'_>) {
        let is_packet = delivery.agent == Agent::Sa
            && delivery.outcome == Outcome::Arrived
            && is_active(delivery.mad);
        if !is_packet {
            return self.sink.deliver(delivery);
        }
        match self.port.get() {
            Some((_, Segmentation::Caller)) if delivery.mad.len() >= MAD_SIZE => {
                let mad = Mad::read(delivery.mad);
                // A packet that is not sent is repeated after its timeout.
                let _ = self.update(|core, now| core.receive(delivery.from, &mad, now));
            }
            Some((_, Segmentation::Device | Segmentation::FirstOnly)) => {
                self.sink.deliver(delivery);
            }
            // Truncated, or the port is still being opened: the sender repeats it.
            Some((_, Segmentation::Caller)) | None => {}
        }
    }

    fn idle(&self) {
        self.sink.idle();
    }

    fn closed(&self, reason: &str) {
        let _ = self.update(|core, _| core.clear());
        self.sink.closed(reason);
    }
}

/// Handles deadlines until the port is dropped.
async fn expire_regularly(transfers: Arc<Transfers>) {
    loop {
        let next = transfers.core().next_deadline();
        match next {
            Some(at) => tokio::select! {
                () = sleep_until(at.into()) => {
                    let _ = transfers.update(Core::expire);
                }
                () = transfers.rescheduled.notified() => {}
            },
            None => transfers.rescheduled.notified().await,
        }
    }
}

/// A port that sends messages in segments.
struct RmppPort {
    port: Arc<dyn MadPort>,
    segmentation: Segmentation,
    transfers: Arc<Transfers>,
    timer: Option<JoinHandle<()>>,
}

impl MadPort for RmppPort {
    fn identity(&self) -> &PortIdentity {
        self.port.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        if out.agent != Agent::Sa || !is_needed(out.mad) {
            return self.port.post(out);
        }
        match self.segmentation {
            Segmentation::Caller => {
                self.transfers.update(|core, now| core.send(out.to, out.mad, now))
            }
            Segmentation::Device => {
                self.port.post(out)?;
                if let Some(observer) = self.transfers.observer.get() {
                    observer.handed_over(out.to.lid, out.mad.len(), Instant::now().into_std());
                }
                Ok(())
            }
            Segmentation::FirstOnly => self.port.post(out),
        }
    }
}

impl Drop for RmppPort {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.abort();
        }
        let _ = self.transfers.update(|core, _| core.clear());
    }
}
