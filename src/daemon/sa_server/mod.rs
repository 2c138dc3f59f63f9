//! The desk for SA requests: answers come from the published snapshot and never wait for a
//! sweep. It owns the registry; the manager asks it for the multicast groups, tells it what sweeps
//! met, and hears when membership changed. It reports notices to their subscribers.
//!
//! A subnet manager that is not master, or has not finished its first sweep as master, does not
//! answer at all (IBA vol. 1, C15-0.1.3): clients repeat their requests, and a refusal would be
//! taken for the subnet's last word. What the manager wants is in `errands`;
//! requests are dealt with in `answering`.
//!
//! Requests wait port by port and are served in turn ([`crate::daemon::sa_server::request_queue`]). What has no room is answered
//! with BUSY, which names the port in the counters and the log; who is refused too many at a time, and
//! what waited too long (`max_msg_fifo_timeout`), is not answered. Unless the desk writes, single records are
//! answered at its [`hatch`](crate::daemon::sa_server::shared_responder) as well.

mod answering;
mod commands;
pub mod db_file;
mod fair_shares;
pub mod joins;
mod lending;
pub mod request_key;
pub mod request_queue;
pub mod shared_responder;
pub mod table_workers;

use crate::daemon::messages::{DeviceNotice, SaCommand, SmEvent};
use db_file::SaDbFile;

use crate::config::options::Options;
use crate::daemon::process::priority::spawn_low_priority;
use crate::publish::Subnet;
use crate::sa::notices::{self, NoticeDispatcher};
use crate::sa::{self, PathIndex, Reply, Responder};
use crate::sm::sm_info::SmStatus;
use crate::transport::demux::{Inbound, ReportOutcome};
use crate::transport::{Agent, MadPort, Outgoing};
use crate::wire::attr::{SmInfo, SmState};
use joins::Joins;
use request_queue::FairQueue;
use shared_responder::SharedResponder;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinHandle, yield_now};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use lending::Lending;
use table_workers::TableWorkers;

/// Requests that may wait.
const ROOM: usize = 8192;

/// What comes to the desk.
pub struct Inboxes {
    /// Requests.
    pub requests: mpsc::Receiver<Inbound>,
    /// What the manager wants.
    pub commands: mpsc::Receiver<SaCommand>,
    /// What became of reports.
    pub reports: mpsc::Receiver<ReportOutcome>,
    /// Notices of devices.
    pub notices: mpsc::Receiver<DeviceNotice>,
}

/// What the desk is called for.
enum Call {
    /// There is something to do already.
    Work,
    SaCommand(SaCommand),
    Request(Inbound),
    Report(ReportOutcome),
    Notice(DeviceNotice),
    /// There is another snapshot, or none any more.
    Snapshot,
    /// The next snapshot was looked at.
    Studied(Look),
    Deadline,
}

/// What came of the look at a snapshot.
type Look = Result<(Arc<Subnet>, PathIndex), JoinError>;

/// The desk.
pub struct SaServer {
    port: Arc<dyn MadPort>,
    responder: Lending,
    published: watch::Receiver<Option<Arc<Subnet>>>,
    /// The snapshot that answers are made of.
    subnet: Option<Arc<Subnet>>,
    /// The next one is being looked at.
    studying: Option<JoinHandle<(Arc<Subnet>, PathIndex)>>,
    sm_status: watch::Receiver<SmStatus>,
    waiting: FairQueue,
    table_workers: TableWorkers,
    /// Requests that only read, about to be answered: empty but for its room.
    reads: Vec<Inbound>,
    events: mpsc::UnboundedSender<SmEvent>,
    archive: SaDbFile,
    dispatcher: NoticeDispatcher,
    /// The generation of alias GUIDs that the manager knows of.
    aliases: u64,
    joins: Joins,
    /// Subnet managers that sweeps met beside this one.
    others: Vec<SmInfo>,
    /// Requests that came while the subnet was not up or not ours.
    untimely: u64,
    /// The configuration of the last snapshot.
    options: Option<Arc<Options>>,
}

impl SaServer {
    /// A desk that answers through `port` while `portrait` shows a master.
    pub fn new(
        port: Arc<dyn MadPort>,
        responder: Responder,
        published: watch::Receiver<Option<Arc<Subnet>>>,
        mut sm_status: watch::Receiver<SmStatus>,
        events: mpsc::UnboundedSender<SmEvent>,
        archive: SaDbFile,
        table_workers: TableWorkers,
    ) -> Self {
        let joins = Joins::new(responder.registry().generation());
        let aliases = responder.registry().aliases().generation();
        sm_status.mark_changed();
        Self {
            port,
            responder: Lending::new(responder),
            published,
            subnet: None,
            studying: None,
            sm_status,
            waiting: FairQueue::new(ROOM),
            table_workers,
            reads: Vec::new(),
            events,
            archive,
            dispatcher: NoticeDispatcher::default(),
            aliases,
            joins,
            others: Vec::new(),
            untimely: 0,
            options: None,
        }
    }

    /// Where single records are answered by those who bring the requests.
    pub fn hatch(&self) -> Arc<SharedResponder> {
        self.responder.hatch()
    }

    /// Serves until the port or the manager is gone, and tells what it did.
    pub async fn serve(mut self, mut inboxes: Inboxes) {
        let mut notices_open = true;
        loop {
            let due = self.next_deadline();
            self.open_hatch();
            let call = tokio::select! {
                command = inboxes.commands.recv() => command.map(Call::SaCommand),
                inbound = inboxes.requests.recv(), if self.is_ready() => {
                    inbound.map(Call::Request)
                }
                () = std::future::ready(()), if self.has_work() => Some(Call::Work),
                conclusion = inboxes.reports.recv() => conclusion.map(Call::Report),
                notice = inboxes.notices.recv(), if notices_open => {
                    notices_open = notice.is_some();
                    Some(notice.map_or(Call::Work, Call::Notice))
                }
                changed = self.published.changed() => changed.ok().map(|()| Call::Snapshot),
                studied = studied(&mut self.studying) => Some(Call::Studied(studied)),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    Some(Call::Deadline)
                }
            };
            let Some(call) = call else { break };
            self.take(call).await;
            self.answer_some(&mut inboxes.requests);
            self.send_free();
            self.tell_aliases();
            self.send_reports();
        }
        self.leave().await;
    }

    async fn take(&mut self, call: Call) {
        match call {
            // Those who share the thread have their turn.
            Call::Work => yield_now().await,
            Call::SaCommand(command) => self.run(command),
            Call::Request(inbound) => {
                self.admit(inbound);
            }
            Call::Report(ReportOutcome { tid, answered }) => {
                self.dispatcher.report_completed(tid, answered)
            }
            Call::Notice(notice) => self.forward(notice),
            Call::Snapshot => self.published(),
            Call::Studied(studied) => self.adopt(studied),
            Call::Deadline => self.due().await,
        }
    }

    /// Lets others answer single records as long as the desk does not need the responder for itself.
    fn open_hatch(&mut self) {
        let is_news = self.sm_status.has_changed().unwrap_or(true);
        if let Some(subnet) = self.own_subnet().filter(|_| !is_news) {
            self.lend(&subnet);
        }
    }

    /// Has the responder answer about `subnet` from the hatch.
    fn lend(&mut self, subnet: &Arc<Subnet>) {
        if self.responder.changed().is_some() {
            self.responder.get().prepare(subnet, Instant::now().into_std());
            self.wrote();
            self.tell_aliases();
            self.responder.lend(subnet, &self.sm_status);
        }
    }

    /// When something is to be done without being asked.
    fn next_deadline(&self) -> Option<Instant> {
        let reports = self.dispatcher.next_deadline().map(Instant::from_std);
        [reports, self.joins.next_deadline(), self.archive.due()].into_iter().flatten().min()
    }

    async fn due(&mut self) {
        let now = Instant::now();
        self.dispatcher.expire(now.into_std());
        self.joins.overdue(now);
        self.ask_for_plan(now);
        if self.archive.due().is_some_and(|due| due <= now) {
            self.write_archive().await;
        }
    }

    /// Tells the manager that groups are to be planned, if it is time for that.
    fn ask_for_plan(&mut self, now: Instant) {
        if self.joins.is_ripe(now) {
            let _ = self.events.send(SmEvent::MembershipChanged);
        }
    }

    async fn write_archive(&mut self) {
        if let Some(options) = &self.options
            && self.sm_status.borrow().state == SmState::Master
        {
            self.archive.write(self.responder.get().registry(), &options.clone()).await;
        }
    }

    /// The subnet of which this SM is master, once it is up.
    fn own_subnet(&self) -> Option<Arc<Subnet>> {
        self.subnet.clone().filter(|_| self.is_master())
    }

    fn is_master(&self) -> bool {
        self.sm_status.borrow().state == SmState::Master
    }

    /// There is a new snapshot, or none any more. Until a new one is studied, which is done
    /// elsewhere, answers are made of the last.
    fn published(&mut self) {
        let published = self.published.borrow_and_update().clone();
        match published {
            Some(subnet) => {
                self.studying = Some(spawn_low_priority(move || {
                    let studied = sa::PathIndex::new(&subnet);
                    (subnet, studied)
                }));
            }
            None => self.retire(),
        }
    }

    /// Answers are made of another snapshot from now on.
    fn adopt(&mut self, studied: Look) {
        self.studying = None;
        let (subnet, studied) = match studied {
            Ok(studied) => studied,
            Err(panic) => return warn!("a snapshot is not answered from: {panic}"),
        };
        self.responder.get().set_path_index(studied);
        self.options = Some(subnet.options.clone());
        let old = self.subnet.replace(subnet.clone());
        self.dispatcher.subnet_published(self.responder.get().registry_mut(), &subnet);
        self.wrote();
        // Whoever has a snapshot of a large fabric last is busy for a while.
        spawn_low_priority(move || drop(old));
    }

    /// The subnet is another's.
    fn retire(&mut self) {
        (self.subnet, self.studying) = (None, None);
        self.responder.get();
        self.dispatcher.reset();
        self.joins.clear();
        if let Some(options) = &self.options {
            let registry = self.responder.get().registry_mut();
            // Another SM writes GUID tables now.
            registry.clear_aliases();
            if options.drop_event_subscriptions {
                registry.clear_subscriptions();
            }
        }
    }

    /// Looks after what changed in the registry.
    fn wrote(&mut self) {
        let events = self.responder.get().registry_mut().take_group_events();
        if !events.is_empty()
            && let Some(subnet) = self.own_subnet()
        {
            self.dispatcher.group_events(self.responder.get().registry_mut(), &subnet, &events);
        }
        if let Some(options) = &self.options {
            self.archive.watch(self.responder.get().registry(), options);
        }
    }

    /// Tells the manager that there are alias GUIDs to write.
    fn tell_aliases(&mut self) {
        let Some(responder) = self.responder.changed() else { return };
        let aliases = responder.registry().aliases().generation();
        if aliases != self.aliases {
            self.aliases = aliases;
            let _ = self.events.send(SmEvent::AliasesChanged);
        }
    }

    fn forward(&mut self, DeviceNotice { from, notice }: DeviceNotice) {
        let Some(subnet) = self.own_subnet() else { return };
        if !self.dispatcher.forward_trap(self.responder.get().registry_mut(), &subnet, from, notice)
        {
            debug!("a notice from LID {from}, which is nobody's, is not reported");
        }
    }

    fn send(&self, reply: &Reply) {
        table_workers::send(&*self.port, reply);
    }

    /// Sends the reports that may be under way.
    fn send_reports(&mut self) {
        let Some(options) = &self.options else { return };
        let patience = notices::report_retry(options);
        while let Some(report) = self.dispatcher.next(Instant::now().into_std(), patience) {
            let (timeout, retries) = (Some(report.timeout), report.retries);
            let (to, mad) = (report.to, &report.mad.0[..]);
            let out = Outgoing { agent: Agent::Sa, to, timeout, retries, mad };
            if let Err(error) = self.port.post(&out) {
                debug!("reporting to LID {}: {error}", report.to.lid);
                self.dispatcher.report_completed(report.tid, false);
            }
        }
    }

    /// Tells the responder which subnet managers there are if that changed.
    fn refresh_managers(&mut self) {
        if !self.sm_status.has_changed().unwrap_or(false) {
            return;
        }
        let own = self.sm_status.borrow_and_update().sm_info();
        let others = self.others.iter().filter(|other| other.guid() != own.guid());
        let managers = std::iter::once(own).chain(others.copied());
        self.responder.get().set_managers(managers.collect());
    }

    async fn leave(mut self) {
        self.write_archive().await;
        let counters = self.responder.get().counters();
        let (total, records) = (counters.total(), counters.records());
        debug!("SA: {total} replies with {records} records; {} requests untimely", self.untimely);
        counters.lines().for_each(|line| debug!("SA: {line}"));
        debug!("SA: reports: {:?}", self.dispatcher.counters());
    }
}

/// What became of the look at a snapshot; never, if none is looked at.
async fn studied<T>(studying: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    match studying {
        Some(studying) => studying.await,
        None => std::future::pending().await,
    }
}
