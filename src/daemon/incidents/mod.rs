//! Keeps the incidents up to date: a task beside the SM loop, woken by each status that it publishes.
//! The loop only swaps a pointer and wakes this task, which works while it does not: nothing here delays
//! a sweep or a reconfiguration.
//!
//! * [`lost_parts`]: what the fabric had and lacks; [`source`]: the sources of all other facts, each of which
//!   keeps results that hold as long as their input: [`loop_state`], [`snapshot_facts`], [`plan_facts`],
//!   [`counted_errors`], [`floods`] with [`sa_offences`], [`certificates`], [`expected_cables`] of
//!   `topo_config_file`
//! * [`journal`]: the incidents that follow, shown, stored and replicated; [`report`]: log lines and events
//! * [`watched_file`]: a file that is read again when it changes

pub mod certificates;
pub mod counted_errors;
pub mod expected_cables;
pub mod floods;
pub mod journal;
pub mod loop_state;
pub mod lost_parts;
pub mod plan_facts;
pub mod report;
pub mod sa_offences;
pub mod snapshot_facts;
pub mod source;
pub mod watched_file;

use self::certificates::Certificates;
use self::counted_errors::CountedErrors;
use self::expected_cables::ExpectedCables;
use self::floods::{FloodSource, FloodWatch};
use self::journal::Journal;
use self::loop_state::StatusSource;
use self::lost_parts::LostParts;
use self::plan_facts::PlanSource;
use self::sa_offences::SaOffences;
use self::snapshot_facts::SnapshotSource;
use self::source::{FactSource, FactView, Watched};
use crate::contained;
use crate::daemon::sm_loop::files::StateFiles;
use crate::fabric::Fabric;
use crate::incidents::book::IncidentList;
use crate::incidents::cause::Subject;
use crate::incidents::causes::causes;
use crate::incidents::fact::Facts;
use crate::manage::action::Acceptance;
use crate::manage::feed::EventSender;
use crate::manage::loop_status::{Activity, LoopStatus};
use crate::manage::sources::SaQueryFn;
use crate::perfmgr::status::PerfStatus;
use crate::record::FlightRecorder;
use crate::replication::local::IncidentLink;
use crate::wire::attr::SmState;
use arc_swap::ArcSwap;
use chrono::Utc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::info;

/// Time without a new status after which the state counts as settled: the ports of a switch that dies
/// go down one after the other.
const QUIET_TIME: Duration = Duration::from_millis(20);
/// Longest time from a new status to the incidents that follow from it.
const MAX_SETTLING: Duration = Duration::from_millis(80);
/// Time after which sources without a wake-up, such as counters, are looked at again.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// The connections of the task with the rest of the daemon.
pub struct IncidentConnections {
    pub status: Arc<ArcSwap<LoopStatus>>,
    /// Notified after each change of the status.
    pub published: Arc<Notify>,
    pub perf: Arc<ArcSwap<PerfStatus>>,
    pub events: EventSender,
    pub incidents: watch::Sender<Arc<IncidentList>>,
    /// Identifiers of incidents whose losses an operator accepts.
    pub accepted: mpsc::Receiver<Acceptance>,
    pub query_sa: SaQueryFn,
    pub files: StateFiles,
    /// What a standby gets, and what the master has sent.
    pub shared: IncidentLink,
    pub recorder: Arc<FlightRecorder>,
}

pub struct IncidentKeeper {
    connections: IncidentConnections,
    losses: LostParts,
    /// In this order: the headline of a cable with two faults is that of the earlier source.
    sources: Vec<Box<dyn FactSource>>,
    journal: Journal,
    was_master: bool,
}

impl IncidentKeeper {
    /// A keeper with the incidents of an earlier run.
    pub fn new(mut connections: IncidentConnections) -> Self {
        let stored = connections.files.read_incidents();
        let query_sa = std::mem::replace(&mut connections.query_sa, Box::new(|_| false));
        let sa_offences = SaOffences::new(query_sa);
        let mut keeper = Self {
            connections,
            losses: LostParts::default(),
            sources: vec![
                Box::new(StatusSource::default()),
                Box::new(SnapshotSource::default()),
                Box::new(PlanSource::default()),
                Box::new(CountedErrors::default()),
                Box::new(FloodSource { sa_offences, watch: FloodWatch::default() }),
                Box::new(Certificates::default()),
                Box::new(ExpectedCables::default()),
            ],
            journal: Journal::default(),
            was_master: false,
        };
        if let Some(stored) = stored {
            keeper.restore(stored, "an earlier run");
        }
        keeper
    }

    /// Uses stored incidents. `origin` is where they come from, in words.
    fn restore(&mut self, text: String, origin: &str) {
        if let Some(losses) = self.journal.restore(text, origin) {
            self.losses.register = losses;
        }
        let open = self.journal.book.list().open;
        let recorder = &self.connections.recorder;
        open.iter().for_each(|incident| recorder.incident_open(&report::recorded(incident)));
    }

    /// Runs until the daemon ends.
    pub async fn run(mut self) {
        loop {
            tokio::select! {
                () = self.connections.published.notified() => self.settle().await,
                () = sleep(LOOK_INTERVAL) => {}
                Some(acceptance) = self.connections.accepted.recv() => self.accept(&acceptance),
            }
            let observed = contained::run(|| self.observe());
            if let Err(panic) = observed {
                contained::log("the detection of incidents", &panic, "it starts again");
                self.losses.fabric = None;
                self.sources.iter_mut().for_each(|source| source.reset());
            }
        }
    }

    /// Waits until the SM loop has nothing to do for a moment, and follows the fabric meanwhile.
    async fn settle(&mut self) {
        let deadline = Instant::now() + MAX_SETTLING;
        loop {
            let status = self.connections.status.load();
            self.losses.follow(&status);
            let is_idle = status.work.activity == Activity::Idle && status.work.queued_events == 0;
            drop(status);
            let is_quiet =
                timeout(QUIET_TIME, self.connections.published.notified()).await.is_err();
            if (is_quiet && is_idle) || Instant::now() >= deadline {
                return;
            }
        }
    }

    fn observe(&mut self) {
        let status = self.connections.status.load_full();
        let is_master = status.managers.own.state == SmState::Master;
        let became_master = is_master && !std::mem::replace(&mut self.was_master, is_master);
        if became_master && let Some(text) = self.connections.shared.take_received() {
            self.restore(text, "the former master");
        }
        let now = u64::try_from(Utc::now().timestamp_millis()).unwrap_or(0);
        self.losses.follow(&status);
        if !is_master {
            // The master watches the fabric.
            let facts = self.facts(&status, None);
            self.journal.wait(&facts, now, &self.connections);
            return;
        }
        if became_master {
            self.journal.end_waiting(now, &self.connections);
        }
        let is_known = status.subnet.is_some() || status.rejected.is_some();
        let Some(fabric) = self.losses.fabric.clone().filter(|_| is_known) else { return };
        self.journal.release(Instant::now());
        let mut facts = self.facts(&status, Some(&fabric));
        let has_earlier = self.losses.complete(&mut facts, &fabric);
        // After a restart, nobody counts how many devices have fallen silent at once.
        facts.losses.is_mass_silence |=
            has_earlier && self.journal.book.is_open(&Subject::MassSilence);
        let is_changed = self.journal.enter(&facts, now, &self.connections);
        self.journal.keep(&self.losses.register, is_changed, &self.connections);
    }

    /// The facts of all sources, about `fabric` if this SM is its master.
    fn facts(&mut self, status: &LoopStatus, fabric: Option<&Arc<Fabric>>) -> Facts {
        let losses = &self.losses;
        let perf = self.connections.perf.load_full();
        let view = FactView {
            status,
            perf: &perf,
            watched: fabric.map(|fabric| Watched { fabric, losses: &losses.register }),
            instant: Instant::now(),
            time: Utc::now(),
        };
        let mut facts = fabric.map_or_else(Facts::default, |_| losses.facts(status));
        self.sources.iter_mut().for_each(|source| source.add_facts(&view, &mut facts));
        facts
    }

    /// Forgets what an incident has lost, as an operator requests.
    fn accept(&mut self, acceptance: &Acceptance) {
        let Acceptance { incident, request } = acceptance;
        let LostParts { register, fabric } = &mut self.losses;
        let mut facts = Facts::default();
        facts.losses.nodes = register.nodes().to_vec();
        facts.losses.cables = register.cables().cloned().collect();
        facts.cables.exchanged =
            fabric.as_ref().map_or_else(Vec::new, |now| register.exchanged(now));
        let causes = causes(&facts);
        let cause = causes.iter().find(|cause| cause.subject.id() == *incident);
        let result = if cause.is_some_and(|cause| register.give_up(&cause.covers)) {
            Ok(format!("what incident {incident} has lost does not count as missing any more"))
        } else {
            Err(format!("there is no incident {incident} about something that is missing"))
        };
        if let Ok(text) = &result {
            info!("an operator accepts a loss: {text}");
        }
        self.connections.events.action_ended("accept", *request, result);
    }
}
