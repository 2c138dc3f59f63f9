//! Keeps the incidents up to date: a task beside the SM loop, woken by each status that it publishes.
//! The loop only swaps a pointer and wakes this task, which works while it does not: nothing here delays
//! a sweep or a reconfiguration.
//!
//! * [`gather`]: facts from the published states; [`floods`]: clients that send too much, with
//!   [`sa_offences`]; [`report`]: log lines and events
//! * [`expected_cables`]: those of `topo_config_file`; [`certificates`]: those that end soon;
//!   [`watched_file`]: a file that is read again when it changes

pub mod certificates;
pub mod expected_cables;
pub mod floods;
pub mod gather;
pub mod report;
pub mod sa_offences;
pub mod watched_file;

use self::certificates::Certificates;
use self::expected_cables::ExpectedCables;
use self::floods::FloodWatch;
use self::gather::Gathered;
use self::sa_offences::SaOffences;
use crate::contained;
use crate::daemon::sm_loop::files::StateFiles;
use crate::fabric::Fabric;
use crate::incidents::book::{Book, IncidentList};
use crate::incidents::cause::Subject;
use crate::incidents::causes::causes;
use crate::incidents::fact::Facts;
use crate::incidents::losses::Register;
use crate::incidents::store;
use crate::manage::action::Acceptance;
use crate::manage::feed::EventSender;
use crate::manage::loop_status::{Activity, LoopStatus};
use crate::manage::sources::SaQueryFn;
use crate::notes::counted;
use crate::perfmgr::status::PerfStatus;
use crate::replication::local::IncidentLink;
use crate::wire::attr::SmState;
use arc_swap::ArcSwap;
use chrono::Utc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

/// Time without a new status after which the state counts as settled: the ports of a switch that dies
/// go down one after the other.
const QUIET_TIME: Duration = Duration::from_millis(20);
/// Longest time from a new status to the incidents that follow from it.
const MAX_SETTLING: Duration = Duration::from_millis(80);
/// Time after which sources without a wake-up, such as counters, are looked at again.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Time after a restart or takeover for which incidents stay whose evidence takes time: a bit more than
/// two readings of the counters are apart by default.
const HOLD_TIME: Duration = Duration::from_secs(240);

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
}

pub struct IncidentKeeper {
    connections: IncidentConnections,
    sa_offences: SaOffences,
    book: Book,
    /// The time at which held incidents are released.
    held_until: Option<Instant>,
    /// The incidents of an SM that is not master.
    waiting: Book,
    losses: Register,
    /// The fabric that the register was updated with.
    known: Option<Arc<Fabric>>,
    gathered: Gathered,
    floods: FloodWatch,
    expected: ExpectedCables,
    certificates: Certificates,
    was_master: bool,
    stored: String,
}

impl IncidentKeeper {
    /// A keeper with the incidents of an earlier run.
    pub fn new(mut connections: IncidentConnections) -> Self {
        let stored = connections.files.read_incidents().unwrap_or_default();
        let query_sa = std::mem::replace(&mut connections.query_sa, Box::new(|_| false));
        let mut keeper = Self {
            connections,
            sa_offences: SaOffences::new(query_sa),
            book: Book::default(),
            held_until: None,
            waiting: Book::default(),
            losses: Register::default(),
            known: None,
            gathered: Gathered::default(),
            floods: FloodWatch::default(),
            expected: ExpectedCables::default(),
            certificates: Certificates::default(),
            was_master: false,
            stored: String::new(),
        };
        keeper.restore(&stored, "an earlier run");
        keeper
    }

    /// Uses stored incidents. `origin` is where they come from, in words.
    fn restore(&mut self, text: &str, origin: &str) {
        if text.is_empty() {
            return;
        }
        match store::parse(text) {
            Ok((book, losses)) => {
                let open = book.list().open.len();
                if open > 0 {
                    info!("{origin} has left {}", counted(open, "open incident", "open incidents"));
                }
                self.book = book;
                self.book.hold();
                self.held_until = None;
                self.losses = losses;
                self.stored = text.to_owned();
            }
            Err(problem) => {
                warn!(
                    "the incidents of {origin} cannot be read, they are detected again: {problem}"
                );
            }
        }
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
                (self.known, self.gathered) = (None, Gathered::default());
            }
        }
    }

    /// Waits until the SM loop has nothing to do for a moment, and follows the fabric meanwhile.
    async fn settle(&mut self) {
        let deadline = Instant::now() + MAX_SETTLING;
        loop {
            self.follow();
            let status = self.connections.status.load();
            let is_idle = status.activity == Activity::Idle && status.queued_events == 0;
            drop(status);
            let is_quiet =
                timeout(QUIET_TIME, self.connections.published.notified()).await.is_err();
            if (is_quiet && is_idle) || Instant::now() >= deadline {
                return;
            }
        }
    }

    /// Updates the register of losses with a new snapshot.
    fn follow(&mut self) {
        let status = self.connections.status.load();
        if status.sm.state != SmState::Master {
            self.known = None;
            return;
        }
        let Some(fabric) = status.fabric.clone() else { return };
        match self.known.replace(fabric.clone()) {
            Some(last) if Arc::ptr_eq(&last, &fabric) => {}
            Some(last) => self.losses.update(&last, &fabric),
            None => self.losses.settle(&fabric),
        }
    }

    fn observe(&mut self) {
        let status = self.connections.status.load_full();
        let is_master = status.sm.state == SmState::Master;
        let became_master = is_master && !std::mem::replace(&mut self.was_master, is_master);
        if became_master && let Some(text) = self.connections.shared.take_received() {
            self.restore(&text, "the former master");
        }
        let now = u64::try_from(Utc::now().timestamp_millis()).unwrap_or_default();
        if !is_master {
            // The master watches the fabric.
            let mut facts = gather::facts_of_waiting(&status);
            facts.own.extend(self.certificates.ending(&status.options, Utc::now()));
            let changes = self.waiting.observe(&facts, now);
            changes.iter().for_each(|change| report::report(change, &self.connections.events));
            self.show(self.waiting.list());
            return;
        }
        if became_master {
            let ended = self.waiting.observe(&Facts::default(), now);
            ended.iter().for_each(|change| report::report(change, &self.connections.events));
        }
        self.follow();
        let Some(fabric) =
            self.known.clone().filter(|_| status.subnet.is_some() || status.refused.is_some())
        else {
            return;
        };
        let perf = self.connections.perf.load();
        let instant = Instant::now();
        if instant >= *self.held_until.get_or_insert(instant + HOLD_TIME) {
            self.book.release();
        }
        let mut offences = status.offenders.list();
        offences.extend_from_slice(self.sa_offences.counts(instant));
        let floods = self.floods.look(&offences, instant);
        let mut facts = self.gathered.facts(&status, &perf, &fabric, &self.losses);
        let seen = facts.silent_nodes.len();
        facts.silent_nodes =
            self.losses.silent(&fabric, &facts.silent_nodes, &facts.unanswered).to_vec();
        // After a restart, nobody counts how many devices have fallen silent at once.
        facts.is_mass_silence |=
            facts.silent_nodes.len() > seen && self.book.is_open(&Subject::MassSilence);
        facts.floods = floods.into_iter().map(|it| gather::flood(&status, it)).collect();
        facts.own.extend(self.certificates.ending(&status.options, Utc::now()));
        self.expected.add_facts(&status.options, &fabric, &mut facts);
        let unwanted = [&facts.unexpected_cables[..], &facts.unlisted_cables].concat();
        self.losses.expect_without(&unwanted);
        let changes = self.book.observe(&facts, now);
        changes.iter().for_each(|change| report::report(change, &self.connections.events));
        self.show(self.book.list());
        self.keep();
    }

    /// Shows these incidents to readers.
    fn show(&self, list: IncidentList) {
        self.connections.incidents.send_if_modified(|shown| {
            let is_new = **shown != list;
            *shown = Arc::new(list);
            is_new
        });
    }

    /// Forgets what an incident has lost, as an operator requests.
    fn accept(&mut self, acceptance: &Acceptance) {
        let Acceptance { incident, request } = acceptance;
        let facts = Facts {
            lost_nodes: self.losses.nodes().to_vec(),
            lost_cables: self.losses.cables().cloned().collect(),
            exchanged: self.known.as_ref().map_or_else(Vec::new, |now| self.losses.exchanged(now)),
            ..Facts::default()
        };
        let causes = causes(&facts);
        let cause = causes.iter().find(|cause| cause.subject.id() == *incident);
        let result = if cause.is_some_and(|cause| self.losses.give_up(&cause.covers)) {
            Ok(format!("what incident {incident} has lost does not count as missing any more"))
        } else {
            Err(format!("there is no incident {incident} about something that is missing"))
        };
        if let Ok(text) = &result {
            info!("an operator accepts a loss: {text}");
        }
        self.connections.events.action_ended("accept", *request, result);
    }

    /// Stores the incidents, and gives them to a standby.
    fn keep(&mut self) {
        let text = store::emit(&self.book, &self.losses);
        if text == self.stored {
            return;
        }
        if let Err(problem) = self.connections.files.write_incidents(&text) {
            warn!("{problem}; incidents do not survive a restart");
        }
        self.connections.shared.provide(&text);
        self.stored = text;
    }
}
