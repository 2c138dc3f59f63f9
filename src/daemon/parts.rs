//! The servers and managers beside the SM loop, each with its connections.

use crate::config::options::{ActivitySubjects, Options};
use crate::config::partitions::PartitionsConfig;
use crate::congestion::status::CongestionStatus;
use crate::daemon::congestion::{CongestionConnections, CongestionManager};
use crate::daemon::incidents::{IncidentConnections, IncidentKeeper};
use crate::daemon::messages::{DeviceNotice, FirstSweep, SmEvent, VportTrap};
use crate::daemon::perfmgr::{PerfConnections, PerfManager, PerfRequest};
use crate::daemon::sa_server::db_file::{self, SaDbFile};
use crate::daemon::sa_server::table_workers::TableWorkers;
use crate::daemon::sa_server::{SaConnections, SaServer};
use crate::daemon::setup::DaemonSetup;
use crate::daemon::sm_loop::context::SharedParts;
use crate::daemon::sm_loop::partitions::permanent_groups;
use crate::daemon::sm_loop::smp_server::{SmpServer, SmpServerConnections};
use crate::daemon::sm_loop::vendor_gate::GateReceiver;
use crate::daemon::vendor::{VendorConnections, VendorManager};
use crate::daemon::virtual_ports::{VirtualPortConnections, VirtualPortManager};
use crate::ids::Mlid;
use crate::incidents::book::IncidentList;
use crate::manage::action::Acceptance;
use crate::manage::sources::SaQueryFn;
use crate::perfmgr::status::PerfStatus;
use crate::plan::partitions;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::replication::local::IncidentLink;
use crate::sa::Responder;
use crate::sa::registry::Registry;
use crate::sm::sm_info::SmStatus;
use crate::transport::MadPort;
use crate::transport::client::SmpClient;
use crate::transport::demux::MadDemux;
use crate::transport::gsi::GsiClient;
use crate::vendor::status::VendorStatus;
use crate::vendor::virtual_ports::VirtualStatus;
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The port.
pub(super) struct PortConnection {
    pub(super) port: Arc<dyn MadPort>,
    pub(super) client: SmpClient,
    pub(super) demux: Arc<MadDemux>,
}

/// What each part of the daemon publishes.
pub(super) struct Published {
    pub(super) subnet: watch::Sender<Option<Arc<Subnet>>>,
    pub(super) refused: watch::Sender<Option<Arc<PlanRejected>>>,
    pub(super) sm_status: watch::Sender<SmStatus>,
    pub(super) incidents: watch::Sender<Arc<IncidentList>>,
    pub(super) perf: Arc<ArcSwap<PerfStatus>>,
    pub(super) congestion: Arc<ArcSwap<CongestionStatus>>,
    pub(super) vendor: Arc<ArcSwap<VendorStatus>>,
    pub(super) virtualization: Arc<ArcSwap<VirtualStatus>>,
}

/// What the servers and managers are connected to.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) connection: &'a PortConnection,
    pub(super) published: &'a Published,
    pub(super) shared: &'a SharedParts,
}

/// Channels to the managers beside the SM loop.
pub(super) struct ManagerInputs {
    pub(super) events: mpsc::UnboundedSender<SmEvent>,
    pub(super) accepted: mpsc::Receiver<Acceptance>,
    pub(super) query_sa: SaQueryFn,
    /// The incidents of the instance that is replicated.
    pub(super) shared_incidents: IncidentLink,
    pub(super) perf_commands: mpsc::Receiver<PerfRequest>,
    pub(super) gate: GateReceiver,
    pub(super) vport_traps: mpsc::Receiver<VportTrap>,
    pub(super) first_sweep: watch::Receiver<Option<Arc<FirstSweep>>>,
}

impl Parts<'_> {
    /// Starts the managers on the runtime `background`, and that of vports on the present one, the SM
    /// loop's: vports are a part of bringing up the subnet.
    pub(super) fn spawn_managers(
        &self,
        inputs: ManagerInputs,
        setup: &DaemonSetup,
        background: &Handle,
    ) -> JoinSet<()> {
        let Self { connection, published, shared } = *self;
        let incidents = IncidentKeeper::new(IncidentConnections {
            status: shared.feed.status.clone(),
            published: shared.feed.published.clone(),
            perf: published.perf.clone(),
            events: shared.feed.events.clone(),
            incidents: published.incidents.clone(),
            accepted: inputs.accepted,
            query_sa: inputs.query_sa,
            files: setup.files.clone(),
            shared: inputs.shared_incidents,
            recorder: setup.recordings.recorder().clone(),
        });
        let virtual_ports = VirtualPortManager::new(VirtualPortConnections {
            client: connection.client.clone(),
            subnet: published.subnet.subscribe(),
            first_sweep: inputs.first_sweep,
            m_keys: shared.m_keys.clone(),
            virtual_ports: shared.virtual_ports.clone(),
            events: inputs.events,
            traps: inputs.vport_traps,
            activity: shared.activity.clone(),
            published: published.virtualization.clone(),
            dump_dir: setup.files.dump_dir.clone(),
        });
        let mut managers = JoinSet::new();
        managers.spawn_on(incidents.run(), background);
        managers.spawn_on(setup.recordings.clone().compress(), background);
        managers.spawn_on(self.perf_manager(inputs.perf_commands, setup).run(), background);
        managers.spawn_on(self.congestion_manager().run(), background);
        managers.spawn_on(self.vendor_manager(inputs.gate).run(), background);
        managers.spawn(virtual_ports.run());
        managers
    }

    fn gsi_client(&self) -> GsiClient {
        GsiClient::new(self.connection.port.clone(), &self.connection.demux)
    }

    pub(super) fn smp_server(
        &self,
        events: mpsc::UnboundedSender<SmEvent>,
        to_report: mpsc::Sender<DeviceNotice>,
        vport_traps: mpsc::Sender<VportTrap>,
    ) -> SmpServer {
        SmpServer::new(SmpServerConnections {
            client: self.connection.client.clone(),
            sm_status: self.published.sm_status.subscribe(),
            events,
            to_report,
            vport_traps,
            published: self.published.subnet.subscribe(),
            status: self.shared.feed.status.clone(),
        })
    }

    pub(super) fn perf_manager(
        &self,
        commands: mpsc::Receiver<PerfRequest>,
        setup: &DaemonSetup,
    ) -> PerfManager {
        let connections = PerfConnections {
            client: self.gsi_client(),
            loop_status: self.shared.feed.status.clone(),
            published: self.published.perf.clone(),
            commands,
            events: self.shared.feed.events.clone(),
        };
        PerfManager::new(connections, &setup.options, &setup.files.dump_dir)
    }

    pub(super) fn congestion_manager(&self) -> CongestionManager {
        CongestionManager::new(CongestionConnections {
            client: self.gsi_client(),
            subnet: self.published.subnet.subscribe(),
            published: self.published.congestion.clone(),
            events: self.shared.feed.events.clone(),
        })
    }

    pub(super) fn vendor_manager(&self, gate: GateReceiver) -> VendorManager {
        VendorManager::new(VendorConnections {
            client: self.connection.client.clone(),
            subnet: self.published.subnet.subscribe(),
            m_keys: self.shared.m_keys.clone(),
            published: self.published.vendor.clone(),
            gate,
        })
    }

    /// The SA server, with the registry of the configuration and of `sa_db_file`. If part of that file
    /// could not be used, the options are changed so that clients register again.
    pub(super) fn sa_server(
        &self,
        events: mpsc::UnboundedSender<SmEvent>,
        table_workers: TableWorkers,
        setup: &mut DaemonSetup,
        replicas: watch::Sender<()>,
    ) -> SaServer {
        let reports_groups = self.shared.activity.wants(ActivitySubjects::MULTICAST);
        let (registry, complete) =
            registry(&setup.options, &setup.config_files.partitions, reports_groups);
        setup.options.no_clients_rereg &= complete;
        let archive = SaDbFile::new(setup.files.dump_dir.clone(), &registry)
            .read_from(setup.options.sa_db_file.as_deref());
        let responder = Responder::new(registry);
        self.connection.demux.set_transfer_observer(table_workers.open_replies().clone());
        let connections = SaConnections {
            port: self.connection.port.clone(),
            published: self.published.subnet.subscribe(),
            sm_status: self.published.sm_status.subscribe(),
            events,
        };
        SaServer::new(connections, responder, archive, table_workers)
            .with_feed(self.shared.feed.events.clone())
            .with_activity(self.shared.activity.clone())
            .with_replicas(replicas)
            .with_offenders(self.shared.feed.status.load().handles.offenders.clone())
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
