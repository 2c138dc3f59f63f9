//! Puts the desks and the manager together around an open port.

use crate::config::options::Options;
use crate::config::partitions::PartitionsConfig;
use crate::daemon::messages::SmEvent;
use crate::daemon::sa_server::db_file::{self, SaDbFile};
use crate::daemon::sa_server::table_workers::TableWorkers;
use crate::daemon::sa_server::{Inboxes, SaServer};
use crate::daemon::sm_loop::context::{Configuration, ManagerContext, ReloadFn};
use crate::daemon::sm_loop::files::StateFiles;
use crate::daemon::sm_loop::manager::{Exit, Manager, limits};
use crate::daemon::sm_loop::partitions::permanent_groups;
use crate::daemon::sm_loop::smp_server::SmpServer;
use crate::ids::Mlid;
use crate::plan::partitions;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::sa::Responder;
use crate::sa::registry::Registry;
use crate::sm::sm_info::SmStatus;
use crate::transport::MadPort;
use crate::transport::client::SmpClient;
use crate::transport::demux::{MadDemux, Unsolicited};
use crate::wire::attr::SmState;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::warn;

/// What a daemon is started with.
pub struct Setup {
    /// The configuration.
    pub options: Options,
    /// partitions.conf.
    pub partitions: Arc<PartitionsConfig>,
    /// Configure the subnet once, then end (`-o`).
    pub once: bool,
    /// Where files are.
    pub files: StateFiles,
    /// Reads the configuration anew.
    pub reload: ReloadFn,
    /// Where the desks work.
    pub servers: ServerThreads,
}

/// Threads of the SMP and SA servers.
#[derive(Debug, Default)]
pub struct ServerThreads {
    /// Their runtime; `None` runs them on the manager's.
    pub handle: Option<Handle>,
    pub table_workers: TableWorkers,
}

impl ServerThreads {
    /// Runs the servers on `handle`, with a table worker for each further core.
    ///
    /// # Errors
    /// The kernel refuses to create a thread.
    pub fn new(handle: Handle) -> Result<Self, rayon::ThreadPoolBuildError> {
        Ok(Self { handle: Some(handle), table_workers: TableWorkers::new()? })
    }
}

/// What the subnet administrator starts with: the multicast groups of the partitions, and what
/// an earlier run left. False if that was not all of use.
fn registry(options: &Options, config: &PartitionsConfig) -> (Registry, bool) {
    let mut registry = Registry::default();
    // What is odd about the partitions is told by the first sweep.
    let (partitions, _) = partitions::partitions(config, options, &[]);
    let groups = permanent_groups(&partitions, options);
    let complete = db_file::restore(&mut registry, options, &groups);
    if registry.set_permanent(&groups, Mlid::LAST).is_err() {
        warn!("there are fewer MLIDs than groups of partitions");
    }
    (registry, complete)
}

/// Notices of devices that wait to be reported; more are lost.
const NOTICES: usize = 1024;

/// A daemon around an open port, ready to run.
pub struct Daemon {
    port: Arc<dyn MadPort>,
    client: SmpClient,
    demux: Arc<MadDemux>,
    unsolicited: Unsolicited,
    setup: Setup,
    events: (mpsc::UnboundedSender<SmEvent>, mpsc::UnboundedReceiver<SmEvent>),
    subnet: watch::Sender<Option<Arc<Subnet>>>,
    refused: watch::Sender<Option<Arc<PlanRejected>>>,
    sm_status: watch::Sender<SmStatus>,
}

impl Daemon {
    /// A daemon at `port`, which was opened with `demux`.
    pub fn new(
        port: Arc<dyn MadPort>,
        demux: &Arc<MadDemux>,
        unsolicited: Unsolicited,
        setup: Setup,
    ) -> Self {
        let sm_status = SmStatus {
            guid: port.identity().guid,
            sm_key: setup.options.sm_key,
            priority: setup.options.sm_priority,
            state: SmState::Discovering,
            act_count: 0,
        };
        let client = SmpClient::new(port.clone(), demux, limits(&setup.options));
        Self {
            port,
            client,
            demux: demux.clone(),
            unsolicited,
            setup,
            events: mpsc::unbounded_channel(),
            subnet: watch::Sender::new(None),
            refused: watch::Sender::new(None),
            sm_status: watch::Sender::new(sm_status),
        }
    }

    /// Where events are sent from outside (signals, consoles).
    pub fn events(&self) -> mpsc::UnboundedSender<SmEvent> {
        self.events.0.clone()
    }

    /// Where the published snapshots appear.
    pub fn subnet(&self) -> watch::Receiver<Option<Arc<Subnet>>> {
        self.subnet.subscribe()
    }

    /// Where it appears why the last pass ended without a plan; `None` while there is one.
    pub fn refused(&self) -> watch::Receiver<Option<Arc<PlanRejected>>> {
        self.refused.subscribe()
    }

    /// What this SM says of itself.
    pub fn sm_status(&self) -> watch::Receiver<SmStatus> {
        self.sm_status.subscribe()
    }

    /// The client, for its counters.
    pub fn client(&self) -> SmpClient {
        self.client.clone()
    }

    /// Runs until the daemon ends; `shutdown` asks for it.
    pub async fn run(mut self, shutdown: watch::Receiver<bool>) -> Exit {
        let (events, inbox) = self.events;
        let (sa_server, commands) = mpsc::channel(4);
        let (to_report, notices) = mpsc::channel(NOTICES);
        let ServerThreads { handle, table_workers } = self.setup.servers;
        let at_desks = handle.unwrap_or_else(Handle::current);
        let mut desks = JoinSet::new();
        let front_desk = SmpServer::new(
            self.client.clone(),
            self.sm_status.subscribe(),
            events.clone(),
            to_report,
            self.setup.options.m_key,
        );
        desks.spawn_on(front_desk.serve(self.unsolicited.smp), &at_desks);
        let (registry, complete) = registry(&self.setup.options, &self.setup.partitions);
        // What could not be read is known to the clients alone.
        self.setup.options.no_clients_rereg &= complete;
        let archive = SaDbFile::new(self.setup.files.dump_dir.clone(), &registry)
            .read_from(self.setup.options.sa_db_file.as_deref());
        let responder = Responder::new(registry);
        let (subnet, sm_status) = (self.subnet.subscribe(), self.sm_status.subscribe());
        let desk =
            SaServer::new(self.port, responder, subnet, sm_status, events, archive, table_workers);
        self.demux.set_inline_responder(desk.shared_responder());
        let (requests, reports) = (self.unsolicited.sa, self.unsolicited.reports);
        let inboxes = Inboxes { requests, commands, reports, notices };
        // Not among the others, which end at once: this one tells what it did when the manager
        // has let go of it.
        let desk = at_desks.spawn(desk.serve(inboxes));
        let context = ManagerContext {
            client: self.client,
            events: inbox,
            sm_status: self.sm_status,
            subnet: self.subnet,
            refused: self.refused,
            sa_server,
            files: self.setup.files,
            reload: self.setup.reload,
        };
        let configuration =
            Configuration { options: self.setup.options, partitions: self.setup.partitions };
        let manager = Manager::new(context, configuration, self.setup.once);
        let exit = manager.run(shutdown).await;
        if let Err(panic) = desk.await {
            warn!("the SA desk failed: {panic}");
        }
        exit
    }
}
