//! The state that a reconfiguration leaves for the next one, grouped by what changes together.

use super::audit::Audit;
use super::mapping_reader::MappingReader;
use super::moved_cables::MovedCables;
use super::multicast_state::MulticastUpdateState;
use crate::apply::{Acknowledged, ApplyReport};
use crate::cli::configuration;
use crate::config::config_files::ConfigFiles;
use crate::config::options::Options;
use crate::config::prefix_routes::PrefixRoute;
use crate::config::qos_policy::QosPolicy;
use crate::daemon::sm_loop::baseline_cache::BaselineCache;
use crate::daemon::sm_loop::partitions::PartitionState;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::daemon::sm_loop::qos_policy::QosPolicyState;
use crate::daemon::sm_loop::transitions::TransitionMonitor;
use crate::daemon::sm_loop::unreachable_peers::UnreachablePeers;
use crate::fabric::Fabric;
use crate::fabric::node_names::NodeNames;
use crate::fabric::quarantined::QuarantinedLink;
use crate::ids::Guid;
use crate::notes::counted;
use crate::observe::m_keys::MKeys;
use crate::observe::{Observation, SweepSettings};
use crate::plan::Plan;
use crate::plan::lids::Memory;
use crate::plan::routing::chain::Chain;
use crate::publish::Subnet;
use crate::publish::restarts::Restarts;
use crate::verify::baseline::VerifiedBaseline;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use tracing::info;

/// State that follows the configuration files.
pub(super) struct ConfigState {
    pub(super) files: Arc<ConfigFiles>,
    pub(super) partitions: PartitionState,
    pub(super) qos_policy: QosPolicyState,
    node_names: Arc<NodeNames>,
    /// The prefix routes that the SA server has.
    pub(super) sent_prefix_routes: Vec<PrefixRoute>,
}

impl ConfigState {
    pub(super) fn new(files: Arc<ConfigFiles>) -> Self {
        Self {
            partitions: PartitionState::new(files.partitions.clone()),
            qos_policy: QosPolicyState::new(files.qos_policy.clone()),
            node_names: node_names(&files),
            sent_prefix_routes: Vec::new(),
            files,
        }
    }

    /// Uses other files from now on.
    pub(super) fn reload(&mut self, files: Arc<ConfigFiles>) {
        self.partitions.reload(files.partitions.clone());
        self.qos_policy.reload(files.qos_policy.clone());
        self.node_names = node_names(&files);
        self.files = files;
    }

    /// The settings of sweeps.
    pub(super) fn sweep_settings(&self, options: &Options) -> SweepSettings {
        SweepSettings::new(options, self.node_names.clone())
    }

    /// The routing engines with their files.
    ///
    /// # Errors
    /// An unknown engine name.
    pub(super) fn chain(&self, options: &Options) -> Result<Arc<Chain>, String> {
        configuration::chain(options, self.files.routing.clone()).map(Arc::new)
    }
}

fn node_names(files: &ConfigFiles) -> Arc<NodeNames> {
    let names: NodeNames = files.node_names.iter().cloned().collect();
    if !names.is_empty() {
        info!("the node name map names {}", counted(names.len(), "node", "nodes"));
    }
    Arc::new(names)
}

/// The last accepted plan.
pub(super) struct AcceptedPlan {
    /// The subnet with the plan, as last published.
    pub(super) subnet: Arc<Subnet>,
    /// The contents of qos-policy.conf.
    pub(super) qos_policy: Option<Arc<QosPolicy>>,
}

/// State that changes with each plan.
pub(super) struct PlanState {
    /// LIDs, MLIDs and P_Key indexes that the next plan keeps.
    pub(super) memory: Memory,
    /// The plan that the devices hold: the accepted one, or a later one with its routes.
    pub(super) in_force: Option<Arc<Plan>>,
    /// The last accepted plan. Later plans that are rejected keep its routes.
    pub(super) accepted: Option<AcceptedPlan>,
    /// The fabric that is planned from scratch next, without the routes in force.
    pub(super) from_scratch: Option<Arc<Fabric>>,
    /// The input of the last plan.
    pub(super) request: Option<PlanRequest>,
    pub(super) baselines: BaselineCache<VerifiedBaseline>,
    /// State of multicast updates; `None` if a full reconfiguration must come first.
    pub(super) multicast: Option<MulticastUpdateState>,
    /// Generation of the published snapshot; 0 before the first.
    pub(super) generation: u64,
}

impl PlanState {
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            memory,
            in_force: None,
            accepted: None,
            from_scratch: None,
            request: None,
            baselines: BaselineCache::default(),
            multicast: None,
            generation: 0,
        }
    }
}

/// State of the devices.
#[derive(Default)]
pub(super) struct DeviceState {
    pub(super) acknowledged: Acknowledged,
    pub(super) m_keys: MKeys,
    pub(super) transitions: TransitionMonitor,
    pub(super) unreachable_peers: UnreachablePeers,
    /// Links that are treated as down.
    pub(super) quarantined: Vec<QuarantinedLink>,
    /// Number of the table blocks in `acknowledged` that this SM has read as standby, until they
    /// are confirmed.
    pub(super) warm_blocks: Option<usize>,
    pub(super) restarts: Arc<Restarts>,
    pub(super) moved_cables: MovedCables,
    /// Some tables may not be as believed, and must be compared.
    pub(super) needs_audit: bool,
    pub(super) audit: Option<Audit>,
    pub(super) mapping_reader: MappingReader,
}

impl DeviceState {
    pub(super) fn new(m_keys: MKeys) -> Self {
        Self { m_keys, ..Self::default() }
    }

    /// Discards what the devices are known to hold.
    pub(super) fn forget_tables(&mut self) {
        self.acknowledged.forget_all();
        self.warm_blocks = None;
        self.needs_audit = false;
        self.audit = None;
        self.mapping_reader = MappingReader::default();
    }

    /// Records the nodes of which nothing was known before the subnet `generation`.
    pub(super) fn record_restarts(
        &mut self,
        observation: &Observation,
        generation: u64,
        report: &ApplyReport,
    ) {
        if !report.unknown.is_empty() {
            let restarts = Arc::make_mut(&mut self.restarts);
            restarts.record(&observation.fabric, generation, &report.unknown);
        }
    }

    /// Number of unacknowledged Sets, without refused ones that the subnet can do without.
    pub(super) fn essential_pending(&self) -> usize {
        let refused = self.acknowledged.failures().refused();
        let tolerated = refused.iter().filter(|set| !set.is_essential).count();
        self.acknowledged.pending().saturating_sub(tolerated)
    }
}

/// State since this SM became master.
#[derive(Default)]
pub(super) struct MasterState {
    /// The subnet was configured without error once.
    pub(super) was_up: bool,
    /// GUIDs of the ports of the last snapshot that were asked to register, if they can be asked.
    pub(super) registered: FxHashSet<Guid>,
}
