//! The performance manager: a task that reads the counters of all ports at intervals.
//!
//! It reads the published snapshot of the fabric, and sends through agents and a window of its own,
//! so that neither sweeps nor SA answers wait for it. [`crate::perfmgr`] has the data; `sweep`
//! reads all ports once, `pace` limits the rate of its queries, `targets` has their addresses,
//! `monitored` the state of agents between sweeps.

mod monitored;
mod pace;
mod sweep;
mod targets;

use crate::config::options::Options;
use crate::manage::action::RequestId;
use crate::manage::event::Event;
use crate::manage::feed::EventSender;
use crate::manage::loop_status::LoopStatus;
use crate::notes::counted;
use crate::perfmgr::command::PerfCommand;
use crate::perfmgr::dump;
use crate::perfmgr::status::PerfStatus;
use crate::publish::dump_file;
use crate::transport::gsi::{GsiClient, GsiTimeouts};
use arc_swap::ArcSwap;
use chrono::Utc;
use monitored::Monitored;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info};

/// Capacity of the queue of commands.
pub const MAX_QUEUED_COMMANDS: usize = 16;

/// Why there is no sweep.
const DISABLED: &str =
    "the performance manager is disabled; 'torus-sm perfmgr enable' starts its sweeps";

/// A command of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PerfRequest {
    /// Its number, for the event about its result.
    pub request: RequestId,
    pub command: PerfCommand,
}

/// The performance manager's connections to the rest of the daemon.
pub struct PerfConnections {
    pub client: GsiClient,
    /// The published status of the SM loop, with the fabric.
    pub loop_status: Arc<ArcSwap<LoopStatus>>,
    /// Receives the counters after each sweep.
    pub published: Arc<ArcSwap<PerfStatus>>,
    pub commands: mpsc::Receiver<PerfRequest>,
    pub events: EventSender,
}

/// The options of the performance manager that do not change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PerfOptions {
    pub timeouts: GsiTimeouts,
    pub follows_redirections: bool,
    pub max_outstanding: usize,
    pub ignores_cas: bool,
    pub logs_errors: bool,
    /// Increase of PortXmitWait that is logged; `None` logs none.
    pub xmit_wait_threshold: Option<u32>,
    /// Seconds for which samples are kept.
    pub window: u32,
}

impl PerfOptions {
    fn new(options: &Options) -> Self {
        Self {
            timeouts: GsiTimeouts {
                timeout: Duration::from_millis(options.transaction_timeout.into()),
                retries: options.transaction_retries,
            },
            follows_redirections: options.perfmgr_redir,
            max_outstanding: options.perfmgr_max_outstanding_queries.max(1) as usize,
            ignores_cas: options.perfmgr_ignore_cas,
            logs_errors: options.perfmgr_log_errors,
            xmit_wait_threshold: options
                .perfmgr_xmit_wait_log
                .then_some(options.perfmgr_xmit_wait_threshold),
            window: options.perfmgr_window_s,
        }
    }
}

/// The performance manager.
pub struct PerfManager {
    connections: PerfConnections,
    options: PerfOptions,
    /// Path of the dump file.
    dump_file: PathBuf,
    status: PerfStatus,
    monitored: Monitored,
    started: Instant,
    /// Commands that wait for the next sweep.
    awaiting_sweep: Vec<RequestId>,
}

impl PerfManager {
    /// `dump_dir`: the folder of the dump file unless `event_db_dump_file` is set.
    pub fn new(connections: PerfConnections, options: &Options, dump_dir: &Path) -> Self {
        let file = options.event_db_dump_file.as_ref().map(PathBuf::from);
        Self {
            connections,
            options: PerfOptions::new(options),
            dump_file: file.unwrap_or_else(|| dump_dir.join(dump::DEFAULT_FILE)),
            status: PerfStatus::new(options),
            monitored: Monitored::default(),
            started: Instant::now(),
            awaiting_sweep: Vec::new(),
        }
    }

    /// Runs until the daemon ends: all senders of commands are dropped, or the task is aborted.
    pub async fn run(mut self) {
        self.publish();
        let mut next = Instant::now() + self.interval();
        loop {
            let is_enabled = self.status.settings.is_enabled;
            tokio::select! {
                request = self.connections.commands.recv() => {
                    let Some(PerfRequest { request, command }) = request else { return };
                    if self.carry_out(request, command).await {
                        next = Instant::now();
                    }
                }
                () = sleep_until(next), if is_enabled => {
                    // Sweeps start at intervals; one that takes longer delays the next.
                    next = Instant::now() + self.interval();
                    let result = self.sweep().await;
                    for request in std::mem::take(&mut self.awaiting_sweep) {
                        self.report(request, result.clone());
                    }
                }
            }
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(self.status.settings.sweep_time_s.into())
    }

    fn publish(&self) {
        self.connections.published.store(Arc::new(self.status.clone()));
    }

    fn report(&self, request: RequestId, result: Result<String, String>) {
        self.connections.events.action_ended("perfmgr", request, result);
    }

    /// Carries out a command, and reports its result unless that is the one of the next sweep.
    /// True if a sweep is due.
    async fn carry_out(&mut self, request: RequestId, command: PerfCommand) -> bool {
        let was_enabled = self.status.settings.is_enabled;
        let result = self.apply(&command).await;
        self.publish();
        let is_enabled = self.status.settings.is_enabled;
        let sweeps = match command {
            PerfCommand::Sweep | PerfCommand::SweepTime(_) => is_enabled,
            PerfCommand::Enable(_) => is_enabled && !was_enabled,
            _ => false,
        };
        if !is_enabled {
            for waiting in std::mem::take(&mut self.awaiting_sweep) {
                self.report(waiting, Err(DISABLED.to_owned()));
            }
        }
        if sweeps {
            self.awaiting_sweep.push(request);
        } else {
            self.report(request, result);
        }
        sweeps
    }

    /// Changes what a command changes. Returns what was done.
    async fn apply(&mut self, command: &PerfCommand) -> Result<String, String> {
        let settings = &mut self.status.settings;
        match *command {
            PerfCommand::Enable(enable) => {
                settings.is_enabled = enable;
                let text = if enable { "enabled" } else { "disabled" };
                Ok(format!("the performance manager is {text}"))
            }
            PerfCommand::SweepTime(seconds) => {
                settings.sweep_time_s = seconds;
                Ok(format!("sweep time {seconds} s; {DISABLED}"))
            }
            PerfCommand::RemoveNodes(remove) => {
                settings.removes_nodes = remove;
                let text = if remove { "removed" } else { "kept" };
                Ok(format!("nodes that leave the fabric are {text}"))
            }
            PerfCommand::QueryClassPortInfo(query) => {
                settings.queries_class_port_info = query;
                let text = if query { "queried" } else { "not queried" };
                Ok(format!("ClassPortInfo is {text}"))
            }
            PerfCommand::Sweep => Err(DISABLED.to_owned()),
            PerfCommand::ClearCounters => {
                self.status.database.clear(Utc::now());
                info!(place = "osm_perfmgr_clear_counters", "PerfMgr counters cleared");
                Ok("counters cleared".to_owned())
            }
            PerfCommand::ClearInactive => {
                let count = self.status.database.remove_inactive();
                info!("Removed {count} nodes from Database");
                Ok(format!("removed {}", counted(count, "node", "nodes")))
            }
            PerfCommand::ClearRedirections(ref node) => {
                let database = &self.status.database;
                self.monitored.clear_redirections(node.as_deref(), database);
                self.status.redirections = self.monitored.redirections();
                Ok("redirections cleared".to_owned())
            }
            PerfCommand::DumpCounters { is_for_machines } => self.dump(is_for_machines).await,
        }
    }

    async fn dump(&self, is_for_machines: bool) -> Result<String, String> {
        let database = self.status.database.clone();
        let path = self.dump_file.clone();
        let written = spawn_blocking(move || {
            let text = if is_for_machines {
                dump::machine_readable(&database)
            } else {
                dump::human_readable(&database, false)
            };
            dump_file::write(&path, &text).map_err(|error| error.to_string())
        });
        let written = written.await.unwrap_or_else(|panic| Err(panic.to_string()));
        match written {
            Ok(()) => {
                let text = format!("port counters written to {}", self.dump_file.display());
                info!("{text}");
                Ok(text)
            }
            Err(problem) => {
                error!("Failed to dump file {problem}");
                Err(problem)
            }
        }
    }

    /// Reads the counters of all ports. Returns the figures as text.
    async fn sweep(&mut self) -> Result<String, String> {
        let loop_status = self.connections.loop_status.load_full();
        let fabric = loop_status.fabric.clone().ok_or("the fabric has not been swept yet")?;
        self.status.is_sweeping = true;
        self.publish();
        let targets = targets::SweepTargets::new(&fabric, loop_status.subnet.as_deref());
        let mut sweep = sweep::Sweep::new(
            &self.options,
            &self.status.settings,
            targets,
            sweep::SweepMemory {
                database: &mut self.status.database,
                monitored: &mut self.monitored,
            },
            self.started,
        );
        let report = sweep.run(self.connections.client.batch(self.options.timeouts)).await;
        self.status.redirections = self.monitored.redirections();
        self.status.is_sweeping = false;
        self.status.sweeps += 1;
        self.status.last_sweep = Some(report);
        self.publish();
        self.connections.events.send(Event::CountersRead {
            duration_seconds: report.duration.as_secs_f64(),
            ports: report.ports,
            queries: report.queries,
            failed: report.failed,
        });
        Ok(format!(
            "{} read by {}, {} failed, in {:.3} s",
            counted(report.ports, "port", "ports"),
            counted(report.queries, "query", "queries"),
            report.failed,
            report.duration.as_secs_f64()
        ))
    }
}
