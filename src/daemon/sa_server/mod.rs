//! The SA server: answers requests to subnet administration from the published snapshot, without
//! waiting for sweeps.
//!
//! The server owns the registry (multicast members, service records, subscriptions, alias GUIDs).
//! The SM loop reads the registry and updates it with [`SaCommand`]s, and gets an [`SmEvent`] when
//! clients changed multicast groups or alias GUIDs. The server also reports notices to their
//! subscribers.
//!
//! An SM that is not master, or has not finished its first sweep as master, ignores requests
//! (IBA vol. 1, C15-0.1.3): clients retransmit them, while an error status would be taken as the
//! final answer.
//!
//! ```text
//! port reader ──► shared_responder ──► reply                    (single records)
//!      └────────► request_queue ──► answering ──► table_workers ──► reply   (reads)
//!                                       └──► registry ──► joins ──► reply   (writes)
//! ```
//!
//! * `registry`: executes the SM loop's commands; exports the registry to standby SMs, and imports that
//!   of the master; ends registrations of absent ports and subscriptions of silent queue pairs;
//! * `queries`: the answers to queries of the management interface;
//! * `answering`: admits queued requests and answers them in batches;
//! * [`request_queue`]: one queue for each source port, served in turn. When their total length
//!   reaches the limit, the port with the most requests gets BUSY replies, which are counted and
//!   logged. Refused requests beyond the limit of BUSY replies per batch, and requests older than
//!   `max_msg_fifo_timeout`, get no reply;
//! * [`request_key`]: keys that identify retransmissions;
//! * [`shared_responder`]: lets the port's reader threads answer requests for single records
//!   while the server does not modify the registry;
//! * `state`: the parts of the server's state;
//! * `fair_shares`: limits each source port's part of those answers;
//! * [`table_workers`]: threads for requests that return tables;
//! * [`open_replies`]: decides about requests for tables by replies that are not acknowledged;
//! * [`joins`]: delays, batches and deduplicates changes of multicast membership;
//! * `refused_changes`, `refused_paths`, `unmet_groups`: log lines about refused requests and groups;
//! * `group_activities`: changes of multicast groups, for the activity report;
//! * [`db_file`]: the registry on disk (opensm-sa.dump).

mod answering;
pub mod db_file;
mod fair_shares;
mod group_activities;
pub mod joins;
pub mod open_replies;
mod queries;
mod refused_changes;
mod refused_paths;
mod registry;
pub mod request_key;
pub mod request_queue;
pub mod shared_responder;
mod state;
pub mod table_workers;
mod unmet_groups;

use crate::contained;
use crate::daemon::activity::ActivityReport;
use crate::daemon::messages::{DeviceNotice, SaCommand, SmEvent};
use crate::daemon::process::priority::spawn_low_priority;
use crate::manage::event::Event;
use crate::manage::feed::EventSender;
use crate::manage::offenders::Offenders;
use crate::publish::Subnet;
use crate::sa::notices::{self, NoticeDispatcher};
use crate::sa::registry::replica::Importer;
use crate::sa::{PathIndex, Reply, Responder};
use crate::sm::sm_info::SmStatus;
use crate::transport::demux::{Inbound, SaOutcome};
use crate::transport::{Agent, MadPort, Outgoing};
use crate::wire::attr::{SmInfo, SmState};
use db_file::SaDbFile;
use joins::Joins;
use request_queue::FairQueue;
use shared_responder::{ResponderOwner, SharedResponder};
use state::{MisuseCounts, RegistryState, RequestState, SaOutputs, SnapshotState};
use std::sync::Arc;
use table_workers::TableWorkers;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinHandle, yield_now};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

/// Capacity of the request queues of all ports together.
const MAX_QUEUED_REQUESTS: usize = 8192;

/// Queues of the server's inputs.
pub struct Inboxes {
    pub requests: mpsc::Receiver<Inbound>,
    pub commands: mpsc::Receiver<SaCommand>,
    /// Replies and timeouts of reports to subscribers, and unacknowledged replies.
    pub sa_outcomes: mpsc::Receiver<SaOutcome>,
    pub notices: mpsc::Receiver<DeviceNotice>,
}

/// An input that the server handles.
enum Input {
    /// Requests or replies are queued already.
    QueuedWork,
    Command(SaCommand),
    Request(Inbound),
    Outcome(SaOutcome),
    Notice(DeviceNotice),
    /// The published snapshot was replaced or withdrawn.
    Snapshot,
    /// The new snapshot is indexed.
    Indexed(Indexed),
    /// Replies in segments have ended.
    RepliesEnded,
    Deadline,
}

/// A snapshot with its index; an error if indexing panicked.
type Indexed = Result<(Arc<Subnet>, PathIndex), JoinError>;

pub struct SaServer {
    responder: ResponderOwner,
    sm_status: watch::Receiver<SmStatus>,
    snapshots: SnapshotState,
    requests: RequestState,
    registered: RegistryState,
    dispatcher: NoticeDispatcher,
    joins: Joins,
    /// Other subnet managers, as of the last sweep.
    other_managers: Vec<SmInfo>,
    outputs: SaOutputs,
    misuse: MisuseCounts,
}

/// What the SA server is connected with.
pub struct SaConnections {
    /// The port that it answers through.
    pub port: Arc<dyn MadPort>,
    pub published: watch::Receiver<Option<Arc<Subnet>>>,
    pub sm_status: watch::Receiver<SmStatus>,
    /// To the SM loop.
    pub events: mpsc::UnboundedSender<SmEvent>,
}

impl SaServer {
    /// A server that answers while the SM is master.
    pub fn new(
        connections: SaConnections,
        responder: Responder,
        db_file: SaDbFile,
        table_workers: TableWorkers,
    ) -> Self {
        let SaConnections { port, published, mut sm_status, events } = connections;
        let joins = Joins::new(responder.registry().generation());
        let alias_generation = responder.registry().aliases().generation();
        sm_status.mark_changed();
        let queue = FairQueue::new(MAX_QUEUED_REQUESTS);
        let importer = Importer::default();
        Self {
            responder: ResponderOwner::new(responder),
            sm_status,
            snapshots: SnapshotState { published, subnet: None, indexing: None, options: None },
            requests: RequestState { queue, table_workers, reads: Vec::new() },
            registered: RegistryState { db_file, alias_generation, importer, absence_end: None },
            dispatcher: NoticeDispatcher::default(),
            joins,
            other_managers: Vec::new(),
            outputs: SaOutputs {
                port,
                events,
                feed: EventSender::disconnected(),
                replicas: watch::Sender::new(()),
                activity: None,
            },
            misuse: MisuseCounts::default(),
        }
    }

    /// Sends events for the management interface to `feed`.
    pub fn with_feed(mut self, feed: EventSender) -> Self {
        self.outputs.feed = feed;
        self
    }

    /// Wakes the sessions with other instances by `replicas`.
    pub fn with_replicas(mut self, replicas: watch::Sender<()>) -> Self {
        self.outputs.replicas = replicas;
        self
    }

    /// Counts silent subscribers in `offenders`.
    pub fn with_offenders(mut self, offenders: Arc<Offenders>) -> Self {
        self.misuse.offenders = offenders;
        self
    }

    /// Reports changes of multicast groups to `activity`.
    pub fn with_activity(mut self, activity: Arc<ActivityReport>) -> Self {
        self.outputs.activity = Some(activity);
        self
    }

    /// The responder for the port's reader threads.
    pub fn shared_responder(&self) -> Arc<SharedResponder> {
        self.responder.shared()
    }

    /// Serves until the port is closed or the SM loop ends, then logs its counters.
    pub async fn serve(mut self, mut inboxes: Inboxes) {
        let mut notices_open = true;
        let open_replies = self.requests.table_workers.open_replies().clone();
        loop {
            let deadline = self.next_deadline();
            self.share_responder();
            let input = tokio::select! {
                command = inboxes.commands.recv() => command.map(Input::Command),
                inbound = inboxes.requests.recv(), if self.is_ready() => {
                    inbound.map(Input::Request)
                }
                () = std::future::ready(()), if self.has_work() => Some(Input::QueuedWork),
                outcome = inboxes.sa_outcomes.recv() => outcome.map(Input::Outcome),
                notice = inboxes.notices.recv(), if notices_open => {
                    notices_open = notice.is_some();
                    Some(notice.map_or(Input::QueuedWork, Input::Notice))
                }
                changed = self.snapshots.published.changed() => changed.ok().map(|()| Input::Snapshot),
                indexed = finished(&mut self.snapshots.indexing) => Some(Input::Indexed(indexed)),
                () = open_replies.freed(), if self.requests.queue.has_paused() => Some(Input::RepliesEnded),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    Some(Input::Deadline)
                }
            };
            let Some(input) = input else { break };
            let pass = self.pass(input, &mut inboxes.requests);
            if let Err(panic) = contained::run_async(pass).await {
                self.requests.reads.clear();
                contained::log("a pass of the SA server", &panic, "its requests get no reply");
            }
        }
        self.shut_down().await;
    }

    async fn pass(&mut self, input: Input, requests: &mut mpsc::Receiver<Inbound>) {
        self.handle(input).await;
        self.answer_some(requests);
        self.send_held_replies();
        self.notify_alias_change();
        self.log_forgeries();
        self.send_reports();
    }

    async fn handle(&mut self, input: Input) {
        match input {
            // Other tasks of this thread get a turn.
            Input::QueuedWork => yield_now().await,
            Input::Command(command) => self.execute(command),
            Input::Request(inbound) => self.admit(inbound),
            Input::Outcome(SaOutcome::Report { tid, answered }) => {
                self.dispatcher.report_completed(tid, answered, Instant::now().into_std());
                self.end_silent_subscriptions();
            }
            Input::Outcome(SaOutcome::Unacknowledged(lid)) => {
                self.requests
                    .table_workers
                    .open_replies()
                    .unacknowledged(lid, Instant::now().into_std());
            }
            Input::Notice(notice) => self.report_notice(notice),
            Input::Snapshot => self.snapshot_changed(),
            Input::Indexed(indexed) => self.use_snapshot(indexed),
            Input::RepliesEnded => self.requests.queue.resume(),
            Input::Deadline => self.deadline_reached().await,
        }
    }

    /// Lets reader threads answer single records while the server waits, unless a change of the
    /// SM status is still to be handled.
    fn share_responder(&mut self) {
        let has_changed = self.sm_status.has_changed().unwrap_or(true);
        if let Some(subnet) = self.own_subnet().filter(|_| !has_changed) {
            self.share_for(&subnet);
        }
    }

    fn share_for(&mut self, subnet: &Arc<Subnet>) {
        if self.responder.exclusive().is_some() {
            self.responder.get().prepare(subnet, Instant::now().into_std());
            self.registry_changed();
            self.notify_alias_change();
            self.responder.share(subnet, &self.sm_status);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let reports = self.dispatcher.next_deadline().map(Instant::from_std);
        let [joins, db_file] = [self.joins.next_deadline(), self.registered.db_file.due()];
        let others =
            [joins, db_file, self.registered.absence_end, self.requests.queue.paused_until()];
        others.into_iter().chain([reports]).flatten().min()
    }

    async fn deadline_reached(&mut self) {
        let now = Instant::now();
        self.dispatcher.expire(now.into_std());
        self.end_silent_subscriptions();
        if self.registered.absence_end.is_some_and(|end| end <= now) {
            self.responder.get().registry_mut().remove_long_absent(now.into_std());
            self.watch_absences();
            self.registry_changed();
        }
        if self.requests.queue.paused_until().is_some_and(|until| until <= now) {
            self.requests.queue.resume();
        }
        self.joins.overdue(now);
        self.request_plan(now);
        if self.registered.db_file.due().is_some_and(|due| due <= now) {
            self.write_db_file().await;
        }
    }

    /// Notifies the manager of changed multicast groups when their batch is complete.
    fn request_plan(&mut self, now: Instant) {
        if self.joins.is_batch_complete(now) {
            let _ = self.outputs.events.send(SmEvent::MembershipChanged);
        }
    }

    async fn write_db_file(&mut self) {
        if let Some(options) = &self.snapshots.options
            && self.sm_status.borrow().state == SmState::Master
        {
            let options = options.clone();
            if self.registered.db_file.write(self.responder.get().registry(), &options).await {
                self.outputs.feed.send(Event::SaDatabaseWritten);
            }
        }
    }

    /// The snapshot, if this SM is master and the subnet is configured.
    fn own_subnet(&self) -> Option<Arc<Subnet>> {
        self.snapshots.subnet.clone().filter(|_| self.is_master())
    }

    fn is_master(&self) -> bool {
        self.sm_status.borrow().state == SmState::Master
    }

    /// Starts to index a new snapshot on another thread. Requests are answered from the previous
    /// one until the index is complete.
    fn snapshot_changed(&mut self) {
        let published = self.snapshots.published.borrow_and_update().clone();
        match published {
            Some(subnet) => {
                self.snapshots.indexing = Some(spawn_low_priority(move || {
                    let index = PathIndex::new(&subnet);
                    (subnet, index)
                }));
            }
            None => self.withdraw_subnet(),
        }
    }

    /// Answers requests from this snapshot from now on.
    fn use_snapshot(&mut self, indexed: Indexed) {
        self.snapshots.indexing = None;
        let (subnet, index) = match indexed {
            Ok(indexed) => indexed,
            Err(panic) => {
                return warn!(
                    "SA: snapshot rejected, requests are answered from the previous one: \
                     indexing failed: {panic}"
                );
            }
        };
        self.responder.get().set_path_index(index);
        self.snapshots.options = Some(subnet.options.clone());
        let old = self.snapshots.subnet.replace(subnet.clone());
        let now = Instant::now().into_std();
        let registry = self.responder.get().registry_mut();
        registry.snapshot_published(&subnet.fabric, now);
        self.dispatcher.subnet_published(registry, &subnet, now);
        self.watch_absences();
        self.registry_changed();
        // Freeing the snapshot of a large fabric takes long.
        spawn_low_priority(move || drop(old));
    }

    /// Stops answering: another SM is master.
    fn withdraw_subnet(&mut self) {
        (self.snapshots.subnet, self.snapshots.indexing) = (None, None);
        // Reader threads must stop answering from the old snapshot.
        self.responder.get();
        self.dispatcher.reset();
        self.joins.clear();
        if let Some(options) = &self.snapshots.options {
            let registry = self.responder.get().registry_mut();
            // The other SM writes the GUIDInfo tables.
            registry.clear_aliases();
            if options.drop_event_subscriptions {
                registry.clear_subscriptions();
            }
        }
    }

    /// Notifies the SM loop if alias GUIDs changed.
    fn notify_alias_change(&mut self) {
        let Some(responder) = self.responder.exclusive() else { return };
        let generation = responder.registry().aliases().generation();
        if generation != self.registered.alias_generation {
            self.registered.alias_generation = generation;
            let _ = self.outputs.events.send(SmEvent::AliasesChanged);
        }
    }

    fn report_notice(&mut self, DeviceNotice { from, notice }: DeviceNotice) {
        let Some(subnet) = self.own_subnet() else { return };
        let registry = self.responder.get().registry_mut();
        let now = Instant::now().into_std();
        if let Err(reason) = self.dispatcher.forward_trap(registry, &subnet, from, notice, now) {
            let number = notice.trap_number();
            debug!("notice {number} from LID {from} is not reported: {reason}");
        }
    }

    fn send(&self, reply: &Reply) {
        table_workers::send(&*self.outputs.port, reply);
    }

    /// Sends queued reports, as many as may await their replies at a time.
    fn send_reports(&mut self) {
        let Some(options) = &self.snapshots.options else { return };
        let patience = notices::report_retry(options);
        while let Some(report) = self.dispatcher.next(Instant::now().into_std(), patience) {
            let timeout = Some(report.timeout);
            let retries = report.retries;
            let to = report.to;
            let mad = &report.mad.0[..];
            let out = Outgoing { agent: Agent::Sa, to, timeout, retries, mad };
            if let Err(error) = self.outputs.port.post(&out) {
                debug!("reporting to LID {}: {error}", report.to.lid);
                self.dispatcher.report_completed(report.tid, false, Instant::now().into_std());
            }
        }
    }

    /// Updates the subnet managers that SMInfoRecord lists.
    fn update_managers(&mut self) {
        if !self.sm_status.has_changed().unwrap_or(false) {
            return;
        }
        let own = self.sm_status.borrow_and_update().sm_info();
        let others = self.other_managers.iter().filter(|other| other.guid() != own.guid());
        let managers = std::iter::once(own).chain(others.copied());
        self.responder.get().set_managers(managers.collect());
    }

    async fn shut_down(mut self) {
        self.write_db_file().await;
        let counters = self.responder.get().counters();
        let total = counters.total();
        let records = counters.records();
        debug!(
            "SA: {total} replies with {records} records; {} requests ignored while not master",
            self.misuse.ignored_requests
        );
        counters.lines().for_each(|line| debug!("SA: {line}"));
        debug!("SA: reports: {}", self.dispatcher.counters());
    }
}

/// Waits for the task; forever if there is none.
async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}
