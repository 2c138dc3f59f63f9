//! Commands of the SM loop about adaptive routing while it writes plain forwarding tables.
//!
//! ```text
//! SM loop                      vendor task
//! hold ───────────────────────► ends what it does after the requests in flight
//!      ◄─── tables in force ───
//! switch off these ───────────►
//!      ◄─── acknowledged ──────
//! writes plain tables
//! publishes the subnet
//! release ────────────────────► plans and writes groups, switches on again
//! ```

use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::vendor::adaptive::running::RunningTables;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Commands that wait; the SM loop has one at a time, and a release.
const QUEUE: usize = 4;

/// Maximum time that plain tables wait for requests in flight and their repetitions.
const MAX_WAIT: Duration = Duration::from_secs(5);

pub(super) enum GateCommand {
    Hold(oneshot::Sender<RunningTables>),
    SwitchOff {
        /// The fabric by whose routes the switches are reached.
        fabric: Arc<Fabric>,
        switches: Vec<Guid>,
        /// Gets the switches that may still be on.
        reply: oneshot::Sender<Vec<Guid>>,
    },
    Release,
}

/// The end of the SM loop.
#[derive(Clone)]
pub struct AdaptiveGate(mpsc::Sender<GateCommand>);

/// The end of the vendor task.
pub struct GateReceiver(pub(super) mpsc::Receiver<GateCommand>);

/// Makes both ends.
pub fn adaptive_gate() -> (AdaptiveGate, GateReceiver) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (AdaptiveGate(sender), GateReceiver(receiver))
}

impl AdaptiveGate {
    /// Ends the writing of groups until [`Self::release`]. Returns the tables in force; none if the vendor task
    /// does not answer.
    pub async fn hold(&self) -> RunningTables {
        let (reply, answer) = oneshot::channel();
        self.ask(GateCommand::Hold(reply), answer).await.unwrap_or_default()
    }

    /// Switches adaptive routing off in these switches. Returns those that may still be on.
    pub async fn switch_off(&self, fabric: Arc<Fabric>, switches: Vec<Guid>) -> Vec<Guid> {
        let (reply, answer) = oneshot::channel();
        let command = GateCommand::SwitchOff { fabric, switches: switches.clone(), reply };
        self.ask(command, answer).await.unwrap_or(switches)
    }

    /// Lets groups be written again.
    pub async fn release(&self) {
        // The vendor task ends with the daemon.
        let _ = self.0.send(GateCommand::Release).await;
    }

    /// Waits for the answer to a command; `None` if there is none in time.
    async fn ask<T>(&self, command: GateCommand, answer: oneshot::Receiver<T>) -> Option<T> {
        self.0.send(command).await.ok()?;
        timeout(MAX_WAIT, answer).await.ok()?.ok()
    }
}
