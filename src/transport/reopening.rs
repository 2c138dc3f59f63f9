//! A port that is opened again after its device has failed or was removed, so that the daemon
//! survives the reset or the replacement of an adapter.
//!
//! While there is no device, requests fail at once, and nothing is received.

use super::demux::MadDemux;
use super::{Delivery, MadPort, MadSink, Outgoing, PortIdentity, SendError};
use crate::notes::time_text;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

/// Interval between attempts to open the port again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Opens the port, which delivers its MADs to the sink. Called from a thread that may block.
pub type OpenPort<E> = dyn Fn(Arc<dyn MadSink>) -> Result<Arc<dyn MadPort>, E> + Send + Sync;

type Current = RwLock<Option<Arc<dyn MadPort>>>;

/// A port that is opened again when it fails.
pub struct ReopeningPort {
    identity: PortIdentity,
    current: Arc<Current>,
    reopener: JoinHandle<()>,
}

impl ReopeningPort {
    /// Opens the port by `open`, and opens it again after each failure. Must be called in a
    /// runtime.
    ///
    /// # Errors
    /// That of the first call of `open`.
    pub fn new<E: std::fmt::Display + Send + 'static>(
        demux: &Arc<MadDemux>,
        open: impl Fn(Arc<dyn MadSink>) -> Result<Arc<dyn MadPort>, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let (failed, failures) = mpsc::unbounded_channel();
        let relay = Arc::new(Relay { demux: demux.clone(), failed });
        let port = open(relay.clone())?;
        let identity = port.identity().clone();
        let current = Arc::new(RwLock::new(Some(port)));
        let reopener = Reopener { current: current.clone(), relay, open: Arc::new(open) };
        let reopener = tokio::spawn(reopener.run(identity.clone(), failures));
        Ok(Self { identity, current, reopener })
    }
}

impl MadPort for ReopeningPort {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let port = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let PortIdentity { device, port: number, .. } = &self.identity;
        match port {
            Some(port) => port.post(out),
            None => Err(SendError::Closed { device: device.clone(), port: *number }),
        }
    }
}

impl Drop for ReopeningPort {
    fn drop(&mut self) {
        self.reopener.abort();
        replace(&self.current, None);
    }
}

/// Replaces the port. The old one is dropped outside the lock, because it waits for its readers.
fn replace(current: &Current, port: Option<Arc<dyn MadPort>>) {
    let mut held = current.write().unwrap_or_else(PoisonError::into_inner);
    let old = std::mem::replace(&mut *held, port);
    drop(held);
    drop(old);
}

/// Passes MADs to the demux, and failures of the port to the reopener.
struct Relay {
    demux: Arc<MadDemux>,
    failed: mpsc::UnboundedSender<String>,
}

impl MadSink for Relay {
    fn deliver(&self, delivery: Delivery<'_>) {
        self.demux.deliver(delivery);
    }

    fn idle(&self) {
        self.demux.idle();
    }

    fn closed(&self, reason: &str) {
        let _ = self.failed.send(reason.to_owned());
    }
}

/// The task that opens the port again.
struct Reopener<E> {
    current: Arc<Current>,
    relay: Arc<Relay>,
    open: Arc<OpenPort<E>>,
}

impl<E: std::fmt::Display + Send + 'static> Reopener<E> {
    async fn run(self, identity: PortIdentity, mut failures: mpsc::UnboundedReceiver<String>) {
        let PortIdentity { device, port, guid } = identity;
        while let Some(reason) = failures.recv().await {
            error!(
                "port GUID {guid} ({device} port {port}) is lost: {reason}; this SM manages no subnet \
                 until the port is back"
            );
            let start = Instant::now();
            replace(&self.current, None);
            self.relay.demux.interrupt(&reason);
            self.reopen().await;
            // The readers of the lost port may each have reported it.
            while failures.try_recv().is_ok() {}
            info!("port GUID {guid} is open again after {}", time_text(start.elapsed()));
        }
    }

    /// Tries until the port is open. Each new reason for a failure is logged.
    async fn reopen(&self) {
        let mut logged = String::new();
        loop {
            sleep(RETRY_INTERVAL).await;
            let open = self.open.clone();
            let relay = self.relay.clone();
            let opened = spawn_blocking(move || open(relay).map_err(|error| error.to_string()));
            match opened.await.unwrap_or_else(|panic| Err(panic.to_string())) {
                Ok(port) => return replace(&self.current, Some(port)),
                Err(problem) if problem == logged => {}
                Err(problem) => {
                    warn!("the port cannot be opened again yet: {problem}");
                    logged = problem;
                }
            }
        }
    }
}
