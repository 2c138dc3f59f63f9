//! Connects the SM loop and the servers to an open port.

use crate::daemon::activity::{self, ActivityReport};
use crate::daemon::manage_control::ManageControl;
use crate::daemon::messages::{FirstSweep, SaCommand, SmEvent};
use crate::daemon::parts::{ManagerInputs, Parts, PortConnection, Published};
use crate::daemon::perfmgr::{self, PerfRequest};
use crate::daemon::process::logging::LogHandle;
use crate::daemon::replication::{self, RegistryLink};
use crate::daemon::sa_server::Inboxes;
use crate::daemon::setup::{DaemonSetup, ServerThreads};
use crate::daemon::sm_loop::context::{
    Configuration, ManagerContext, PublishedByLoop, SharedParts,
};
use crate::daemon::sm_loop::event_queue::EventQueue;
use crate::daemon::sm_loop::monitor::Monitor;
use crate::daemon::sm_loop::reload::limits;
use crate::daemon::sm_loop::run::{Exit, SmLoop};
use crate::daemon::sm_loop::vendor_gate::{AdaptiveGate, adaptive_gate};
use crate::manage::action::Acceptance;
use crate::manage::console::ConsoleSources;
use crate::manage::feed::{self, EventReceiver, Feed};
use crate::manage::loop_status::LoopStatus;
use crate::manage::sources::{LiveSources, ManageSources, SaQueryFn};
use crate::perfmgr::status::PerfStatus;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::replication::local::{Local, ManagerLink};
use crate::sm::sm_info::SmStatus;
use crate::transport::MadPort;
use crate::transport::client::SmpClient;
use crate::transport::demux::{MadDemux, Unsolicited};
use crate::wire::attr::SmState;
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tracing::warn;

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
    connection: PortConnection,
    setup: DaemonSetup,
    queues: DaemonQueues,
    published: Published,
    shared: SharedParts,
    /// The ends of the shared state.
    replication: (ManagerLink, Local, RegistryLink),
}

/// Queues to the parts of the daemon, those between them with both ends.
struct DaemonQueues {
    /// Requests that arrive at the port.
    unsolicited: Unsolicited,
    events: (mpsc::UnboundedSender<SmEvent>, mpsc::UnboundedReceiver<SmEvent>),
    sa_commands: (mpsc::Sender<SaCommand>, mpsc::Receiver<SaCommand>),
    perf_commands: (mpsc::Sender<PerfRequest>, mpsc::Receiver<PerfRequest>),
    accepted: mpsc::Receiver<Acceptance>,
    /// The receiver of events until the management interface has it.
    receiver: Option<EventReceiver>,
}

impl Daemon {
    /// A daemon on `port`, which was opened with `demux`.
    pub fn new(
        port: Arc<dyn MadPort>,
        demux: &Arc<MadDemux>,
        unsolicited: Unsolicited,
        setup: DaemonSetup,
    ) -> Self {
        let first_state =
            if setup.options.sm_inactive { SmState::NotActive } else { SmState::Discovering };
        let sm_status = SmStatus::new(port.identity().guid, &setup.options, first_state);
        let client = SmpClient::new(port.clone(), demux, limits(&setup.options));
        let (events, receiver) = feed::channel();
        setup.recordings.report_to(events.clone());
        let activity = ActivityReport::new(&setup.files.dump_dir, &setup.options, events.clone());
        let status = Monitor::first_status(sm_status, &setup.options, client.meter());
        let sm_status = watch::Sender::new(sm_status);
        let replicated = status.handles.replication.clone();
        let (accept, accepted) = mpsc::channel(MAX_QUEUED_ACCEPTANCES);
        let feed = Feed {
            status: Arc::new(ArcSwap::from_pointee(status)),
            events,
            published: Arc::default(),
            accepted: accept,
        };
        let replication =
            replication::links(&setup.options, sm_status.subscribe(), &setup.files, replicated);
        let published = Published {
            subnet: watch::Sender::new(None),
            refused: watch::Sender::new(None),
            sm_status,
            incidents: watch::Sender::new(Arc::default()),
            perf: Arc::new(ArcSwap::from_pointee(PerfStatus::new(&setup.options))),
            congestion: Arc::default(),
            vendor: Arc::default(),
            virtualization: Arc::default(),
        };
        let queues = DaemonQueues {
            unsolicited,
            events: mpsc::unbounded_channel(),
            sa_commands: mpsc::channel(MAX_QUEUED_COMMANDS),
            perf_commands: mpsc::channel(perfmgr::MAX_QUEUED_COMMANDS),
            accepted,
            receiver: Some(receiver),
        };
        let shared = SharedParts {
            feed,
            virtual_ports: Arc::default(),
            m_keys: Arc::default(),
            activity: Arc::new(activity),
        };
        let connection = PortConnection { port, client, demux: demux.clone() };
        Self { connection, setup, queues, published, shared, replication }
    }

    /// Sends events from outside, such as signals, to the SM loop.
    pub fn events(&self) -> mpsc::UnboundedSender<SmEvent> {
        self.queues.events.0.clone()
    }

    /// The activity report.
    pub fn activity(&self) -> Arc<ActivityReport> {
        self.shared.activity.clone()
    }

    /// The published snapshots.
    pub fn subnet(&self) -> watch::Receiver<Option<Arc<Subnet>>> {
        self.published.subnet.subscribe()
    }

    /// Reason why the last reconfiguration ended without a plan; `None` while a plan is in force.
    pub fn refused(&self) -> watch::Receiver<Option<Arc<PlanRejected>>> {
        self.published.refused.subscribe()
    }

    pub fn sm_status(&self) -> watch::Receiver<SmStatus> {
        self.published.sm_status.subscribe()
    }

    /// The status that the SM loop publishes.
    pub fn loop_status(&self) -> Arc<ArcSwap<LoopStatus>> {
        self.shared.feed.status.clone()
    }

    /// The SMP client, for its counters.
    pub fn client(&self) -> SmpClient {
        self.connection.client.clone()
    }

    /// The inputs of OpenSM's console. `log` and `shutdown` serve its commands.
    pub fn console(
        &self,
        log: Option<LogHandle>,
        shutdown: watch::Sender<bool>,
        on_thread_start: fn(),
    ) -> ConsoleSources {
        let control = Arc::new(self.control(log, shutdown));
        let status = self.loop_status();
        let perf = self.published.perf.clone();
        let query_sa = Arc::new(query_sa(&self.queues.sa_commands.0));
        ConsoleSources { status, perf, control, query_sa, on_thread_start }
    }

    fn control(&self, log: Option<LogHandle>, shutdown: watch::Sender<bool>) -> ManageControl {
        ManageControl {
            events: self.queues.events.0.downgrade(),
            perf: self.queues.perf_commands.0.downgrade(),
            feed: self.shared.feed.clone(),
            subnet: self.subnet(),
            recordings: self.setup.recordings.clone(),
            log,
            shutdown,
        }
    }

    /// The sources of the management interface, once; `None` from the second call on. `log` and
    /// `shutdown` serve its actions.
    pub fn management(
        &mut self,
        log: Option<LogHandle>,
        shutdown: watch::Sender<bool>,
    ) -> Option<ManageSources> {
        let query_sa = query_sa(&self.queues.sa_commands.0);
        let control = self.control(log, shutdown);
        Some(ManageSources {
            port_guid: self.connection.port.identity().guid,
            live: LiveSources {
                status: self.loop_status(),
                perf: self.published.perf.clone(),
                congestion: self.published.congestion.clone(),
                vendor: self.published.vendor.clone(),
                virtual_ports: self.published.virtualization.clone(),
                incidents: self.published.incidents.subscribe(),
                query_sa,
                control: Arc::new(control),
            },
            events: self.queues.receiver.take()?,
            earlier: Arc::new(self.setup.files.earlier_ports(&self.setup.options)),
        })
    }

    /// The sessions' end of the shared state.
    pub fn replication(&self) -> Local {
        self.replication.1.clone()
    }

    /// Runs until the daemon ends, at the latest when `shutdown` becomes true.
    pub async fn run(self, shutdown: watch::Receiver<bool>) -> Exit {
        let Self { connection, mut setup, queues, published, shared, replication } = self;
        let (link, local, registry_link) = replication;
        // Without a management interface there is no receiver of events.
        drop(queues.receiver);
        let (events, inbox) = queues.events;
        let (sa_server, commands) = queues.sa_commands;
        // Senders of commands are weak: this one lives as long as the daemon.
        let (_perf_sender, perf_commands) = queues.perf_commands;
        let (to_report, notices) = mpsc::channel(MAX_QUEUED_NOTICES);
        let (vport_traps, received_vport_traps) = mpsc::channel(MAX_QUEUED_VPORT_TRAPS);
        let first_sweep = watch::Sender::new(None);
        let (adaptive, gate) = adaptive_gate();
        let ServerThreads { handle, background, table_workers } =
            std::mem::take(&mut setup.servers);
        let runtime = handle.unwrap_or_else(Handle::current);
        let background = background.unwrap_or_else(Handle::current);
        let parts = Parts { connection: &connection, published: &published, shared: &shared };

        let inputs = ManagerInputs {
            events: events.clone(),
            accepted: queues.accepted,
            query_sa: query_sa(&sa_server),
            shared_incidents: local.incidents.clone(),
            perf_commands,
            gate,
            vport_traps: received_vport_traps,
            first_sweep: first_sweep.subscribe(),
        };
        drop(local);
        let mut servers = parts.spawn_managers(inputs, &setup, &background);
        let smp_server = parts.smp_server(events.clone(), to_report, vport_traps);
        servers.spawn_on(smp_server.serve(queues.unsolicited.smp), &runtime);
        let changes = activity::follow(shared.activity.clone(), published.subnet.subscribe());
        let changes = background.spawn(changes);
        let server = parts.sa_server(events, table_workers, &mut setup, registry_link.changed);
        connection.demux.set_inline_responder(server.shared_responder());
        let inboxes = Inboxes {
            requests: queues.unsolicited.sa,
            commands,
            sa_outcomes: queues.unsolicited.sa_outcomes,
            notices,
        };
        // The SA server is not part of the set, which is aborted when dropped: after the SM loop
        // has dropped its channel, the server still writes its file and logs its counters.
        let sa_task = runtime.spawn(server.serve(inboxes));
        servers.spawn(replication::forward(registry_link.requests, sa_server.downgrade()));

        let activity = shared.activity.clone();
        let links = LoopLinks { sa_server, first_sweep, adaptive, replication: link, inbox };
        let exit = sm_loop(connection, published, shared, setup, links).run(shutdown).await;
        if let Err(panic) = sa_task.await {
            warn!("the SA server failed: {panic}");
        }
        if let Err(panic) = changes.await {
            warn!("the activity report failed: {panic}");
        }
        activity.finish();
        exit
    }
}

/// Channels between the SM loop and the servers.
struct LoopLinks {
    sa_server: mpsc::Sender<SaCommand>,
    first_sweep: watch::Sender<Option<Arc<FirstSweep>>>,
    adaptive: AdaptiveGate,
    replication: ManagerLink,
    inbox: mpsc::UnboundedReceiver<SmEvent>,
}

fn sm_loop(
    connection: PortConnection,
    published: Published,
    shared: SharedParts,
    setup: DaemonSetup,
    links: LoopLinks,
) -> SmLoop {
    let context = ManagerContext {
        client: connection.client,
        published: PublishedByLoop {
            sm_status: published.sm_status,
            subnet: published.subnet,
            first_sweep: links.first_sweep,
            refused: published.refused,
        },
        shared,
        sa_server: links.sa_server,
        files: setup.files,
        recordings: setup.recordings,
        reload: setup.reload,
        config_file: setup.config_file,
        adaptive: links.adaptive,
        replication: links.replication,
    };
    let configuration = Configuration {
        ignored_lines: setup.ignored_lines,
        ..Configuration::new(setup.options, setup.config_files)
    };
    SmLoop::new(context, EventQueue::new(links.inbox), configuration, setup.once)
}
