//! Tells a person at a terminal what the daemon does: progress while the first sweep takes long,
//! the report when the subnet is up, and a line for whatever changes it afterwards.

use crate::daemon::sm_loop::manager::Exit;
use crate::daemon::start::Daemon;
use crate::publish::rejected::PlanRejected;
use crate::publish::{Subnet, report};
use crate::sm::sm_info::SmStatus;
use crate::transport::client::SmpClient;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Pause between lines of progress.
const PROGRESS: Duration = Duration::from_secs(2);

/// Follows one daemon.
pub struct ConsoleProgress {
    client: SmpClient,
    portrait: watch::Receiver<SmStatus>,
    subnet: watch::Receiver<Option<Arc<Subnet>>>,
    refused: watch::Receiver<Option<Arc<PlanRejected>>>,
    start: Instant,
    once: bool,
    was_up: bool,
    /// The generation that was told last.
    generation: u64,
    /// SMPs when the last line was printed.
    told: u64,
}

impl ConsoleProgress {
    /// A narrator for a daemon that is about to run; with `once` it will end by itself.
    pub fn new(daemon: &Daemon, once: bool) -> Self {
        let client = daemon.client();
        let (portrait, subnet, refused) = (daemon.sm_status(), daemon.subnet(), daemon.refused());
        Self {
            client,
            portrait,
            subnet,
            refused,
            start: Instant::now(),
            once,
            was_up: false,
            generation: 0,
            told: 0,
        }
    }

    /// Lets the daemon run to its end and tells what happens meanwhile.
    pub async fn follow(mut self, run: impl Future<Output = Exit>) -> Exit {
        tokio::pin!(run);
        let mut progress = interval_at(self.start + PROGRESS, PROGRESS);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let exit = loop {
            tokio::select! {
                biased;
                Ok(()) = self.subnet.changed() => self.published(),
                Ok(()) = self.refused.changed() => self.refused(),
                exit = &mut run => break exit,
                _ = progress.tick(), if !self.was_up => self.progress(),
            }
        };
        // What was published last may not have been seen.
        self.published();
        if self.refused.has_changed().unwrap_or(true) {
            self.refused();
        }
        exit
    }

    /// A pass ended without a plan, or one has a plan again (which [`Self::published`] tells).
    fn refused(&mut self) {
        let refused = self.refused.borrow_and_update().clone();
        if let Some(refused) = refused {
            println!("\nREFUSED: nothing is written to the fabric");
            print!("{}", report::rejected(&refused));
        }
    }

    fn progress(&mut self) {
        let (seconds, smps) = (self.start.elapsed().as_secs(), self.smps());
        let state = self.portrait.borrow().state;
        let doing = if smps == self.told { "planning or waiting" } else { "working" };
        println!("{seconds:>4} s: {state}, {smps} SMPs, {doing}");
        self.told = smps;
    }

    fn smps(&self) -> u64 {
        let counters = self.client.counters();
        counters.gets + counters.sets
    }

    fn published(&mut self) {
        let subnet = self.subnet.borrow_and_update().clone();
        let Some(subnet) = subnet.filter(|subnet| subnet.generation != self.generation) else {
            return;
        };
        self.generation = subnet.generation;
        let counters = self.client.counters();
        let smps = counters.gets + counters.sets;
        if subnet.failed_sets > 0 {
            println!("errors during initialization: {} Sets failed", subnet.failed_sets);
        } else if self.was_up {
            let generation = subnet.generation;
            println!("SUBNET UP again (generation {generation}, {} SMPs)", smps - self.told);
        } else {
            self.was_up = true;
            let (gets, sets) = (counters.gets, counters.sets);
            let seconds = self.start.elapsed().as_secs_f64();
            println!("\nSUBNET UP after {seconds:.3} s and {smps} SMPs ({gets} Gets, {sets} Sets)");
            print!("{}", report::bring_up(&subnet));
            if !self.once {
                println!("\nup until interrupted (Ctrl-C)");
            }
        }
        self.told = smps;
    }
}
