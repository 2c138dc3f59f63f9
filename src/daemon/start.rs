//! Connects the manager and the servers to an open port.

use crate::config::config_files::ConfigFiles;
use crate::config::options::{ActivitySubjects, Options};
use crate::config::partitions::PartitionsConfig;
use crate::congestion::status::CongestionStatus;
use crate::daemon::activity::{self, ActivityReport};
use crate::daemon::congestion::{CongestionConnections, CongestionManager};
use crate::daemon::incidents::{IncidentConnections, IncidentKeeper};
use crate::daemon::manage_control::ManageControl;
use crate::daemon::messages::{SaCommand, SmEvent};
use crate::daemon::perfmgr::{self, PerfConnections, PerfManager, PerfRequest};
use crate::daemon::process::logging::LogHandle;
use crate::daemon::process::recordings::Recordings;
use crate::daemon::replication::{self, RegistryLink};
use crate::daemon::sa_server::db_file::{self, SaDbFile};
use crate::daemon::sa_server::table_workers::TableWorkers;
use crate::daemon::sa_server::{Inboxes, SaConnections, SaServer};
use crate::daemon::sm_loop::context::{Configuration, ManagerContext, ReloadFn};
use crate::daemon::sm_loop::event_queue::EventQueue;
use crate::daemon::sm_loop::files::StateFiles;
use crate::daemon::sm_loop::monitor::Monitor;
use crate::daemon::sm_loop::partitions::permanent_groups;
use crate::daemon::sm_loop::reload::limits;
use crate::daemon::sm_loop::run::{Exit, SmLoop};
use crate::daemon::sm_loop::smp_server::SmpServer;
use crate::daemon::vendor::{VendorConnections, VendorManager};
use crate::daemon::virtual_ports::{VirtualPortConnections, VirtualPortManager};
use crate::fabric::virtual_ports::VirtualPorts;
use crate::ids::Mlid;
use crate::incidents::book::IncidentList;
use crate::manage::action::Acceptance;
use crate::manage::console::ConsoleSources;
use crate::manage::feed::{self, EventReceiver, Feed};
use crate::manage::loop_status::LoopStatus;
use crate::manage::sources::{SaQueryFn, Sources};
use crate::observe::m_keys::MKeys;
use crate::perfmgr::status::PerfStatus;
use crate::plan::partitions;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::replication::local::{Local, ManagerLink};
use crate::sa::Responder;
use crate::sa::registry::Registry;
use crate::sm::sm_info::SmStatus;
use crate::transport::MadPort;
use crate::transport::client::SmpClient;
use crate::transport::demux::{MadDemux, Unsolicited};
use crate::transport::gsi::GsiClient;
use crate::vendor::status::VendorStatus;
use crate::vendor::virtual_ports::VirtualStatus;
use crate::wire::attr::SmState;
use arc_swap::ArcSwap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::warn;

/// The parameters of a daemon.
pub struct Setup {
    pub options: Options,
    /// The files that the options name.
    pub config_files: Arc<ConfigFiles>,
    /// The lines of opensm.conf whose values are wrong.
    pub ignored_lines: Vec<String>,
    /// End after the subnet is configured once (`-o`).
    pub once: bool,
    pub files: StateFiles,
    /// The flight recorder. MADs are recorded by wrappers of the port.
    pub recordings: Arc<Recordings>,
    /// Reads the configuration again on SIGHUP.
    pub reload: ReloadFn,
    /// The configuration file, if one is read.
    pub config_file: Option<PathBuf>,
    pub servers: ServerThreads,
}

/// Threads of the SMP and SA servers.
#[derive(Debug, Default)]
pub struct ServerThreads {
    /// Their runtime; `None` runs them on the manager's.
    pub handle: Option<Handle>,
    /// The runtime of the performance manager, of congestion control and of vendor-specific attributes; `None` runs it on the manager's.
    pub background: Option<Handle>,
    pub table_workers: TableWorkers,
}

impl ServerThreads {
    /// Runs the servers on `handle`, with a table worker for each further core.
    ///
    /// # Errors
    /// The kernel refuses to create a thread.
    pub fn new(handle: Handle) -> Result<Self, rayon::ThreadPoolBuildError> {
        let table_workers = TableWorkers::new()?;
        Ok(Self { handle: Some(handle), background: None, table_workers })
    }

    /// Answers all SA requests on one thread if `is_single` (`single_thread`).
    #[must_use]
    pub fn with_single_thread(self, is_single: bool) -> Self {
        let table_workers = if is_single { TableWorkers::default() } else { self.table_workers };
        Self { table_workers, ..self }
    }

    /// Runs the performance manager and congestion control on `background`.
    #[must_use]
    pub fn with_background(self, background: Handle) -> Self {
        Self { background: Some(background), ..self }
    }
}

/// The initial registry: the multicast groups of the partitions, and the contents of `sa_db_file`.
/// False if part of that file could not be used.
pub(in crate::daemon) fn registry(
    options: &Options,
    config: &PartitionsConfig,
    reports_groups: bool,
) -> (Registry, bool) {
    let mut registry = Registry::default();
    registry.record_group_activities(reports_groups);
    // The first sweep logs the findings about the partitions.
    let (partitions, _) = partitions::partitions(config, options, &[]);
    let groups = permanent_groups(&partitions, options);
    let complete = db_file::restore(&mut registry, options, &groups);
    // The first sweep tells how many MLIDs the switches support.
    registry.set_permanent(&groups, Mlid::LAST);
    (registry, complete)
}

/// Capacity of the queue of notices to report; further ones are lost.
const MAX_QUEUED_NOTICES: usize = 1024;

/// Capacity of the queue of commands to the SA server.
const MAX_QUEUED_COMMANDS: usize = 4;
/// Traps about vports that wait.
const MAX_QUEUED_VPORT_TRAPS: usize = 4_096;
/// Requests of operators to accept losses that wait.
const MAX_QUEUED_ACCEPTANCES: usize = 16;

/// Sends queries to the SA server while it runs.
fn query_sa(sa_server: &mpsc::Sender<SaCommand>) -> SaQueryFn {
    let sa_server = sa_server.downgrade();
    Box::new(move |query| {
        let sender = sa_server.upgrade();
        sender.is_some_and(|sender| sender.try_send(SaCommand::Query(query)).is_ok())
    })
}

/// A daemon that is ready to run.
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
    sa_commands: (mpsc::Sender<SaCommand>, mpsc::Receiver<SaCommand>),
    feed: Feed,
    perf_commands: (mpsc::Sender<PerfRequest>, mpsc::Receiver<PerfRequest>),
    perf_status: Arc<ArcSwap<PerfStatus>>,
    congestion_status: Arc<ArcSwap<CongestionStatus>>,
    vendor_status: Arc<ArcSwap<VendorStatus>>,
    virtual_status: Arc<ArcSwap<VirtualStatus>>,
    /// The vports that were discovered, for the SM loop.
    virtual_ports: Arc<ArcSwap<VirtualPorts>>,
    /// The M_Keys that ports hold, from the SM loop.
    m_keys: Arc<ArcSwap<MKeys>>,
    activity: Arc<ActivityReport>,
    incidents: watch::Sender<Arc<IncidentList>>,
    accepted: mpsc::Receiver<Acceptance>,
    /// The receiver of events until the management interface has it.
    receiver: Option<EventReceiver>,
    /// The ends of the shared state.
    replication: (ManagerLink, Local, RegistryLink),
}

impl Daemon {
    /// A daemon on `port`, which was opened with `demux`.
    pub fn new(
        port: Arc<dyn MadPort>,
        demux: &Arc<MadDemux>,
        unsolicited: Unsolicited,
        setup: Setup,
    ) -> Self {
        let first_state =
            if setup.options.sm_inactive { SmState::NotActive } else { SmState::Discovering };
        let sm_status = SmStatus::new(port.identity().guid, &setup.options, first_state);
        let client = SmpClient::new(port.clone(), demux, limits(&setup.options));
        let (events, receiver) = feed::channel();
        setup.recordings.report_to(events.clone());
        let activity = ActivityReport::new(&setup.files.dump_dir, &setup.options, events.clone());
        let status = Monitor::first_status(sm_status, &setup.options, client.meter());
        let perf_status = Arc::new(ArcSwap::from_pointee(PerfStatus::new(&setup.options)));
        let sm_status = watch::Sender::new(sm_status);
        let shared = status.replication.clone();
        let (accept, accepted) = mpsc::channel(MAX_QUEUED_ACCEPTANCES);
        let feed = Feed {
            status: Arc::new(ArcSwap::from_pointee(status)),
            events,
            published: Arc::default(),
            accepted: accept,
        };
        let replication =
            replication::links(&setup.options, sm_status.subscribe(), &setup.files, shared);
        Self {
            port,
            client,
            demux: demux.clone(),
            unsolicited,
            setup,
            events: mpsc::unbounded_channel(),
            subnet: watch::Sender::new(None),
            refused: watch::Sender::new(None),
            sm_status,
            sa_commands: mpsc::channel(MAX_QUEUED_COMMANDS),
            feed,
            perf_commands: mpsc::channel(perfmgr::MAX_QUEUED_COMMANDS),
            perf_status,
            congestion_status: Arc::default(),
            vendor_status: Arc::default(),
            virtual_status: Arc::default(),
            virtual_ports: Arc::default(),
            m_keys: Arc::default(),
            activity: Arc::new(activity),
            incidents: watch::Sender::new(Arc::default()),
            accepted,
            receiver: Some(receiver),
            replication,
        }
    }

    /// Sends events from outside, such as signals, to the manager.
    pub fn events(&self) -> mpsc::UnboundedSender<SmEvent> {
        self.events.0.clone()
    }

    /// The activity report.
    pub fn activity(&self) -> Arc<ActivityReport> {
        self.activity.clone()
    }

    /// The published snapshots.
    pub fn subnet(&self) -> watch::Receiver<Option<Arc<Subnet>>> {
        self.subnet.subscribe()
    }

    /// Reason why the last reconfiguration ended without a plan; `None` while a plan is in force.
    pub fn refused(&self) -> watch::Receiver<Option<Arc<PlanRejected>>> {
        self.refused.subscribe()
    }

    pub fn sm_status(&self) -> watch::Receiver<SmStatus> {
        self.sm_status.subscribe()
    }

    /// The status that the SM loop publishes.
    pub fn loop_status(&self) -> Arc<ArcSwap<LoopStatus>> {
        self.feed.status.clone()
    }

    /// The SMP client, for its counters.
    pub fn client(&self) -> SmpClient {
        self.client.clone()
    }

    /// The inputs of OpenSM's console. `log` and `shutdown` serve its commands.
    pub fn console(
        &self,
        log: Option<LogHandle>,
        shutdown: watch::Sender<bool>,
        on_thread_start: fn(),
    ) -> ConsoleSources {
        let control = Arc::new(self.control(log, shutdown));
        let status = self.feed.status.clone();
        let perf = self.perf_status.clone();
        let query_sa = Arc::new(query_sa(&self.sa_commands.0));
        ConsoleSources { status, perf, control, query_sa, on_thread_start }
    }

    fn control(&self, log: Option<LogHandle>, shutdown: watch::Sender<bool>) -> ManageControl {
        let events = self.events.0.downgrade();
        let feed = self.feed.clone();
        let perf = self.perf_commands.0.downgrade();
        let subnet = self.subnet.subscribe();
        let recordings = self.setup.recordings.clone();
        ManageControl::new((events, perf), feed, subnet, recordings, (log, shutdown))
    }

    /// The sources of the management interface, once; `None` from the second call on. `log` and
    /// `shutdown` serve its actions.
    pub fn management(
        &mut self,
        log: Option<LogHandle>,
        shutdown: watch::Sender<bool>,
    ) -> Option<Sources> {
        let query_sa = query_sa(&self.sa_commands.0);
        let control = self.control(log, shutdown);
        Some(Sources {
            port_guid: self.port.identity().guid,
            status: self.feed.status.clone(),
            perf: self.perf_status.clone(),
            congestion: self.congestion_status.clone(),
            vendor: self.vendor_status.clone(),
            virtual_ports: self.virtual_status.clone(),
            incidents: self.incidents.subscribe(),
            events: self.receiver.take()?,
            query_sa,
            control: Arc::new(control),
            earlier: Arc::new(self.setup.files.earlier_ports(&self.setup.options)),
        })
    }

    /// The sessions' end of the shared state.
    pub fn replication(&self) -> Local {
        self.replication.1.clone()
    }

    /// Runs until the daemon ends, at the latest when `shutdown` becomes true.
    pub async fn run(mut self, shutdown: watch::Receiver<bool>) -> Exit {
        let (events, inbox) = self.events;
        let (sa_server, commands) = self.sa_commands;
        // Without a management interface there is no receiver of events.
        drop(self.receiver);
        let (link, local, registry_link) = self.replication;
        let shared_incidents = local.incidents.clone();
        drop(local);
        let (to_report, notices) = mpsc::channel(MAX_QUEUED_NOTICES);
        let ServerThreads { handle, background, table_workers } = self.setup.servers;
        let runtime = handle.unwrap_or_else(Handle::current);
        let background = background.unwrap_or_else(Handle::current);
        let mut servers = JoinSet::new();
        let smp_server = SmpServer::new(
            self.client.clone(),
            self.sm_status.subscribe(),
            events.clone(),
            to_report,
            self.subnet.subscribe(),
            self.feed.status.clone(),
        );
        let (vport_traps, received_vport_traps) = mpsc::channel(MAX_QUEUED_VPORT_TRAPS);
        let smp_server = smp_server.with_vport_traps(vport_traps);
        servers.spawn_on(smp_server.serve(self.unsolicited.smp), &runtime);
        // Senders of commands are weak: this one lives as long as the daemon.
        let (_perf_sender, perf_commands) = self.perf_commands;
        let published_perf = self.perf_status.clone();
        let connections = PerfConnections {
            client: GsiClient::new(self.port.clone(), &self.demux),
            loop_status: self.feed.status.clone(),
            published: self.perf_status,
            commands: perf_commands,
            events: self.feed.events.clone(),
        };
        let dump_dir = &self.setup.files.dump_dir;
        let incidents = IncidentKeeper::new(IncidentConnections {
            status: self.feed.status.clone(),
            published: self.feed.published.clone(),
            perf: published_perf,
            events: self.feed.events.clone(),
            incidents: self.incidents,
            accepted: self.accepted,
            query_sa: query_sa(&sa_server),
            files: self.setup.files.clone(),
            shared: shared_incidents,
        });
        servers.spawn_on(incidents.run(), &background);
        servers.spawn_on(self.setup.recordings.clone().compress(), &background);
        let perfmgr = PerfManager::new(connections, &self.setup.options, dump_dir);
        servers.spawn_on(perfmgr.run(), &background);
        let congestion = CongestionManager::new(CongestionConnections {
            client: GsiClient::new(self.port.clone(), &self.demux),
            subnet: self.subnet.subscribe(),
            published: self.congestion_status,
            events: self.feed.events.clone(),
        });
        servers.spawn_on(congestion.run(), &background);
        let vendor = VendorManager::new(VendorConnections {
            client: self.client.clone(),
            subnet: self.subnet.subscribe(),
            m_keys: self.m_keys.clone(),
            published: self.vendor_status,
        });
        servers.spawn_on(vendor.run(), &background);
        let first_sweep = watch::Sender::new(None);
        let virtual_ports = VirtualPortManager::new(VirtualPortConnections {
            client: self.client.clone(),
            subnet: self.subnet.subscribe(),
            first_sweep: first_sweep.subscribe(),
            m_keys: self.m_keys.clone(),
            virtual_ports: self.virtual_ports.clone(),
            events: events.clone(),
            traps: received_vport_traps,
            activity: self.activity.clone(),
            published: self.virtual_status,
            dump_dir: self.setup.files.dump_dir.clone(),
        });
        // On the runtime of the SM loop: vports are a part of bringing up the subnet.
        servers.spawn(virtual_ports.run());
        let reported_changes = activity::follow(self.activity.clone(), self.subnet.subscribe());
        let reported_changes = background.spawn(reported_changes);
        let reports_groups = self.activity.wants(ActivitySubjects::MULTICAST);
        let (registry, complete) =
            registry(&self.setup.options, &self.setup.config_files.partitions, reports_groups);
        // If part of the file could not be used, clients must register again.
        self.setup.options.no_clients_rereg &= complete;
        let archive = SaDbFile::new(self.setup.files.dump_dir.clone(), &registry)
            .read_from(self.setup.options.sa_db_file.as_deref());
        let responder = Responder::new(registry);
        let open_replies = table_workers.open_replies().clone();
        let connections = SaConnections {
            port: self.port,
            published: self.subnet.subscribe(),
            sm_status: self.sm_status.subscribe(),
            events,
        };
        let server = SaServer::new(connections, responder, archive, table_workers)
            .with_feed(self.feed.events.clone())
            .with_activity(self.activity.clone())
            .with_replicas(registry_link.changed)
            .with_offenders(self.feed.status.load().offenders.clone());
        self.demux.set_inline_responder(server.shared_responder());
        self.demux.set_transfer_observer(open_replies);
        let requests = self.unsolicited.sa;
        let sa_outcomes = self.unsolicited.sa_outcomes;
        let inboxes = Inboxes { requests, commands, sa_outcomes, notices };
        // The SA server is not part of the set, which is aborted when dropped: after the manager
        // has dropped its channel, the server still writes its file and logs its counters.
        let sa_task = runtime.spawn(server.serve(inboxes));
        servers.spawn(replication::forward(registry_link.requests, sa_server.downgrade()));
        let context = ManagerContext {
            client: self.client,
            sm_status: self.sm_status,
            subnet: self.subnet,
            first_sweep,
            refused: self.refused,
            sa_server,
            files: self.setup.files,
            recordings: self.setup.recordings,
            reload: self.setup.reload,
            config_file: self.setup.config_file,
            feed: self.feed,
            m_keys: self.m_keys,
            virtual_ports: self.virtual_ports,
            activity: self.activity.clone(),
            replication: link,
        };
        let configuration = Configuration {
            ignored_lines: self.setup.ignored_lines,
            ..Configuration::new(self.setup.options, self.setup.config_files)
        };
        let events = EventQueue::new(inbox);
        let sm_loop = SmLoop::new(context, events, configuration, self.setup.once);
        let exit = sm_loop.run(shutdown).await;
        if let Err(panic) = sa_task.await {
            warn!("the SA server failed: {panic}");
        }
        if let Err(panic) = reported_changes.await {
            warn!("the activity report failed: {panic}");
        }
        self.activity.finish();
        exit
    }
}
