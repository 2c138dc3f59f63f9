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

use crate::daemon::sm_loop::baseline_cache::CarriedBaseline;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::vendor::adaptive::running::RunningTables;
use crate::verify::baseline::VerifiedBaseline;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// Commands that wait; the SM loop has one at a time, and a release.
const QUEUE: usize = 4;

/// Maximum time that plain tables wait for requests in flight and their repetitions.
const MAX_WAIT: Duration = Duration::from_secs(5);

pub(in crate::daemon) enum GateCommand {
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

/// The baseline of the plan that was published last, or is published next.
type Baseline = CarriedBaseline<VerifiedBaseline>;

/// The end of the SM loop.
#[derive(Clone)]
pub struct AdaptiveGate {
    commands: mpsc::Sender<GateCommand>,
    baselines: watch::Sender<Option<Baseline>>,
    is_in_use: Arc<AtomicBool>,
}

/// The end of the vendor task.
pub struct GateReceiver {
    pub(in crate::daemon) commands: mpsc::Receiver<GateCommand>,
    baselines: watch::Sender<Option<Baseline>>,
    is_in_use: Arc<AtomicBool>,
}

/// Makes both ends of a gate.
pub fn adaptive_gate() -> (AdaptiveGate, GateReceiver) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let baselines = watch::Sender::new(None);
    let is_in_use = Arc::<AtomicBool>::default();
    let gate = AdaptiveGate {
        commands: sender,
        baselines: baselines.clone(),
        is_in_use: is_in_use.clone(),
    };
    (gate, GateReceiver { commands: receiver, baselines, is_in_use })
}

impl GateReceiver {
    /// Tells the SM loop whether switches may route adaptively: before the first request about it, and after
    /// it has been switched off.
    pub(in crate::daemon) fn set_in_use(&self, is_in_use: bool) {
        self.is_in_use.store(is_in_use, Ordering::Release);
    }

    /// Takes the baseline of the last plan.
    pub(in crate::daemon) fn take_baseline(&self) -> Option<Baseline> {
        self.baselines.send_replace(None)
    }
}

impl AdaptiveGate {
    /// False if no switch routes adaptively, and none is about to: plain tables need not wait for the vendor
    /// task, whose priority is low.
    pub fn is_in_use(&self) -> bool {
        self.is_in_use.load(Ordering::Acquire)
    }

    /// Provides the baseline of a plan that is about to be published.
    pub fn provide(&self, baseline: Option<CarriedBaseline<VerifiedBaseline>>) {
        self.baselines.send_replace(baseline);
    }

    /// Ends the writing of groups until [`Self::release`]. Returns the tables in force; `None` if the vendor task
    /// does not answer.
    pub async fn hold(&self) -> Option<RunningTables> {
        let (reply, answer) = oneshot::channel();
        self.ask(GateCommand::Hold(reply), answer).await
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
        let _ = self.commands.send(GateCommand::Release).await;
    }

    /// Waits for the answer to a command; `None` if there is none in time.
    async fn ask<T>(&self, command: GateCommand, answer: oneshot::Receiver<T>) -> Option<T> {
        self.commands.send(command).await.ok()?;
        timeout(MAX_WAIT, answer).await.ok()?.ok()
    }
}
