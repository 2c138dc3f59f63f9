//! Progress of the daemon for the person at the terminal: a spinner on standard error during the
//! first sweep, a report on standard output when the subnet is up, and a line for every later
//! configuration.

use crate::cli::CommandFailure;
use crate::cli::output::print_or_end;
use crate::daemon::sm_loop::run::Exit;
use crate::daemon::start::Daemon;
use crate::notes::counted;
use crate::publish::rejected::PlanRejected;
use crate::publish::{Subnet, report};
use crate::sm::sm_info::SmStatus;
use crate::transport::client::SmpClient;
use crate::verify::Extent;
use indicatif::ProgressBar;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Interval between updates of the spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(200);

/// Reports the progress of one daemon.
pub(super) struct ConsoleProgress {
    client: SmpClient,
    status: watch::Receiver<SmStatus>,
    subnet: watch::Receiver<Option<Arc<Subnet>>>,
    rejected: watch::Receiver<Option<Arc<PlanRejected>>>,
    /// Hidden if standard error is not a terminal.
    spinner: ProgressBar,
    start: Instant,
    once: bool,
    reported: ReportedState,
    /// Ends the daemon when nobody reads its progress.
    shutdown: watch::Sender<bool>,
    /// The first failure of standard output.
    failure: Option<CommandFailure>,
}

/// The state at the last report.
#[derive(Default)]
struct ReportedState {
    was_up: bool,
    /// Generation of the last subnet.
    generation: u64,
    /// SMPs sent before.
    smps: u64,
}

impl ConsoleProgress {
    /// Progress of a daemon that is about to run. `once`: the daemon ends after the first sweep.
    pub(super) fn new(daemon: &Daemon, once: bool, shutdown: watch::Sender<bool>) -> Self {
        Self {
            client: daemon.client(),
            status: daemon.sm_status(),
            subnet: daemon.subnet(),
            rejected: daemon.refused(),
            spinner: ProgressBar::new_spinner(),
            start: Instant::now(),
            once,
            reported: ReportedState::default(),
            shutdown,
            failure: None,
        }
    }

    /// Runs the daemon to its end, and reports its progress.
    ///
    /// # Errors
    /// Standard output failed or was closed, which ended the daemon.
    pub(super) async fn follow(
        mut self,
        run: impl Future<Output = Exit>,
    ) -> Result<Exit, CommandFailure> {
        tokio::pin!(run);
        let mut ticks = interval(SPINNER_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let exit = loop {
            tokio::select! {
                biased;
                Ok(()) = self.subnet.changed() => self.report_subnet(),
                Ok(()) = self.rejected.changed() => self.report_rejected(),
                exit = &mut run => break exit,
                _ = ticks.tick(), if !self.reported.was_up => self.update_spinner(),
            }
        };
        self.spinner.finish_and_clear();
        // The daemon may have published just before its end.
        self.report_subnet();
        if self.rejected.has_changed().unwrap_or(true) {
            self.report_rejected();
        }
        self.failure.map_or(Ok(exit), Err)
    }

    fn update_spinner(&self) {
        let seconds = self.start.elapsed().as_secs();
        let state = self.status.borrow().state;
        self.spinner.set_message(format!("{seconds} s: {state}, {} SMPs sent", self.smps()));
        self.spinner.tick();
    }

    fn smps(&self) -> u64 {
        let counters = self.client.counters();
        counters.gets() + counters.sets()
    }

    /// Reports a plan that was rejected; does nothing if a later one was accepted.
    fn report_rejected(&mut self) {
        let rejected = self.rejected.borrow_and_update().clone();
        if let Some(rejected) = rejected {
            self.print(&format!("\nREFUSED: no routes are written to the fabric\n{}", {
                report::rejected(&rejected)
            }));
        }
    }

    /// Reports the published subnet, unless it has been reported.
    fn report_subnet(&mut self) {
        let subnet = self.subnet.borrow_and_update().clone();
        // While plans are rejected, subnets with the routes of the last accepted one are published.
        let Some(subnet) = subnet.filter(|subnet| {
            subnet.generation != self.reported.generation
                && subnet.summary.extent != Extent::KeptRoutes
        }) else {
            return;
        };
        self.reported.generation = subnet.generation;
        let smps = self.smps();
        let new_smps = smps - self.reported.smps;
        if subnet.failed_sets > 0 {
            let failed = counted(subnet.failed_sets, "Set", "Sets");
            self.print(&format!("errors during initialization: {failed} failed\n"));
        } else if self.reported.was_up {
            let generation = subnet.generation;
            self.print(&format!("SUBNET UP again (generation {generation}, {new_smps} SMPs)\n"));
        } else {
            self.reported.was_up = true;
            self.report_first_subnet(&subnet);
        }
        self.reported.smps = smps;
    }

    fn report_first_subnet(&mut self, subnet: &Subnet) {
        let counters = self.client.counters();
        let gets = counters.gets();
        let sets = counters.sets();
        let seconds = self.start.elapsed().as_secs_f64();
        let mut text = format!(
            "\nSUBNET UP after {seconds:.3} s and {} SMPs ({gets} Gets, {sets} Sets)\n{}",
            gets + sets,
            report::bring_up(subnet)
        );
        if !self.once {
            text += "\nup until interrupted (Ctrl-C)\n";
        }
        self.print(&text);
    }

    /// Prints to standard output, with the spinner out of the way.
    fn print(&mut self, text: &str) {
        if self.failure.is_some() {
            return;
        }
        if let Err(failure) = self.spinner.suspend(|| print_or_end(text)) {
            self.failure = Some(failure);
            self.shutdown.send_replace(true);
        }
        if self.reported.was_up {
            self.spinner.finish_and_clear();
        }
    }
}
