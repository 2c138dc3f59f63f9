//! Plans a fabric from scratch, or with the routes of an earlier plan.
//!
//! The stages run in the order of their dependencies: LIDs, routes (which lead to LIDs),
//! partitions, links, QoS tables (limited to the operational VLs of the links) and multicast trees
//! (which may depend on the routing engine).

use super::lids::{self, Memory};
use super::links::{self, LinkInput};
use super::multicast::{self, GroupMembers, MulticastTables};
use super::multicast_sls;
use super::partitions::{self, Partition, PartitionTables};
use super::qos::dropped_sls::SlUsers;
use super::qos::setup::{self, QosSetup};
use super::qos::{self, QosConfig, QosSources, QosTables};
use super::routing::chain::Chain;
use super::routing::kept_routes::{self, RoutedFabric};
use super::routing::{PreviousFabric, Routing, RoutingError, RoutingInput, vport_lids};
use super::{LidTable, Plan};
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::config::torus::TorusConfig;
use crate::fabric::{Fabric, PortId};
use crate::ids::Sl;
use crate::notes::Note;
use crate::plan::port_targets::PortTargets;
use crate::wire::attr::tables::PkeyTable;
use std::sync::Arc;

/// The input of planning.
#[derive(Clone, Copy)]
pub struct PlanInput<'a> {
    /// The observed state.
    pub fabric: &'a Fabric,
    pub options: &'a Options,
    /// The assignments of earlier plans, which are kept where possible.
    pub memory: &'a Memory,
    /// torus-2QoS.conf as read at the start of this reconfiguration; the error is reported by the
    /// engine if it needs the file.
    pub torus_config: &'a Result<TorusConfig, Vec<Note>>,
    /// The partitions of partitions.conf; without the file those of [`partitions::default`].
    pub partitions: &'a [Partition],
    /// The P_Key table blocks read from the devices, by port slot.
    pub observed_pkeys: &'a [PkeyTable],
    pub registrations: Registrations<'a>,
    /// The previous plan. Engines keep its routes where their rules allow.
    pub previous: Option<&'a Plan>,
    /// True for end ports that get ClientReregister set.
    pub reregister: &'a (dyn Fn(PortId) -> bool + Sync),
    /// The routing engines, in the order in which they are tried.
    pub chain: &'a Chain,
    /// The contents of qos-policy.conf.
    pub qos_policy: Option<&'a Arc<QosPolicy>>,
}

/// Registrations of clients that devices have to hold.
#[derive(Clone, Copy, Default)]
pub struct Registrations<'a> {
    /// The multicast groups, with those of partitions.conf.
    pub groups: &'a [GroupMembers],
    /// GUIDInfo blocks that clients requested.
    pub aliases: &'a [super::aliases::AliasBlock],
}

impl<'a> PlanInput<'a> {
    /// The QoS policy, if QoS is enabled and the policy has a `qos-setup` section.
    pub(super) fn setup_policy(&self) -> Option<&'a Arc<QosPolicy>> {
        self.qos_policy.filter(|policy| self.options.qos && policy.has_setup())
    }
}

/// The result of planning.
#[derive(Clone, Debug)]
pub struct Planned {
    pub plan: Plan,
    /// Memory for the next plan. The caller stores its `guid2lid` in the file of that name.
    pub memory: Memory,
    /// Intermediate results that an incremental plan reuses.
    pub(super) stage_results: StageResults,
}

/// Results of stages that [`super::update`] reuses if their input did not change.
#[derive(Clone, Debug, Default)]
pub(super) struct StageResults {
    pub lids: Vec<Note>,
    pub partitions: Vec<Note>,
    /// The multicast groups that were planned.
    pub groups: Arc<Vec<GroupMembers>>,
}

/// No routing engine of the chain could route the fabric.
#[derive(Clone, Debug)]
pub struct PlanError {
    /// Messages of the stages before routing.
    pub notes: Vec<Note>,
    /// The error of each engine, in the order of the chain.
    pub routing_errors: Vec<RoutingError>,
    /// The LIDs that were assigned before routing failed.
    pub lids: Arc<LidTable>,
    /// Memory for the next plan.
    pub memory: Memory,
}

/// Plans a fabric from scratch.
///
/// # Errors
/// Returns a [`PlanError`] if no engine of the chain can route the fabric.
pub fn compute(input: &PlanInput<'_>) -> Result<Planned, Box<PlanError>> {
    let (table, memory, notes) = lids::assign(input.fabric, input.options, input.memory);
    let lids = Arc::new(table);
    match route(input, &lids, input.previous, None) {
        Ok(routing) => Ok(with_routes(input, Assigned { lids, memory, notes }, routing)),
        Err(routing_errors) => Err(Box::new(PlanError { notes, routing_errors, lids, memory })),
    }
}

/// Plans a fabric with the LIDs and routes of `routed`, a fabric for which there was an acceptable
/// plan. No engine runs.
pub fn compute_with_kept_routes(input: &PlanInput<'_>, routed: &RoutedFabric<'_>) -> Planned {
    let PlanInput { fabric, options, .. } = *input;
    let memory = input.memory.keeping(routed.fabric, routed.lids);
    let (table, memory, notes) = lids::assign(fabric, options, &memory);
    let lids = Arc::new(table);
    let routing = Arc::new(kept_routes::keep(fabric, &lids, routed));
    let routing = vport_lids::with_vports(routing, &lids, Some(routed.lids));
    with_routes(input, Assigned { lids, memory, notes }, routing)
}

/// The result of LID assignment.
pub(super) struct Assigned {
    pub lids: Arc<LidTable>,
    pub memory: Memory,
    pub notes: Vec<Note>,
}

/// Runs the stages after routing.
pub(super) fn with_routes(
    input: &PlanInput<'_>,
    assigned: Assigned,
    routing: Arc<Routing>,
) -> Planned {
    let PlanInput { fabric, options, .. } = *input;
    let Assigned { lids, mut memory, notes: lid_notes } = assigned;
    debug_assert_eq!(routing.lfts.len(), fabric.switches().len(), "a table for each switch");
    let observed = input.observed_pkeys;
    let gone = &input.memory.removed_pkeys;
    let (partitions, removed_pkeys, partition_notes) =
        partitions::tables(fabric, input.partitions, observed, gone, options);
    memory.removed_pkeys = removed_pkeys;
    let setup = input
        .setup_policy()
        .map(|policy| QosSetup::new(policy, fabric, &partitions.keys, input.partitions))
        .map(Arc::new);
    let sources = qos_sources(options, setup);
    let ports = with_links(input, &lids, &routing, sources.as_ref(), &partitions, |links| {
        links::targets(links)
    });
    let qos = sources.map_or_else(QosTables::default, |sources| {
        qos::tables(fabric, &sources, &*routing.policy, &ports)
    });
    let multicast = multicast::plan(fabric, &lids, &routing, input.registrations.groups, options);
    let stage_results = StageResults {
        lids: lid_notes,
        partitions: partition_notes,
        groups: Arc::new(input.registrations.groups.to_vec()),
    };
    let multicast = Arc::new(multicast);
    let parts = PlanParts { lids, routing, ports, qos, partitions, multicast };
    let plan = finish(input, parts, &stage_results);
    Planned { plan, memory, stage_results }
}

/// Runs the chain of routing engines.
pub(super) fn route(
    input: &PlanInput<'_>,
    lids: &LidTable,
    previous: Option<&Plan>,
    previous_fabric: Option<PreviousFabric<'_>>,
) -> Result<Arc<Routing>, Vec<RoutingError>> {
    let PlanInput { fabric, options, torus_config, .. } = *input;
    let before = previous.map(|plan| &*plan.lids);
    let previous = previous.map(|plan| &*plan.routing);
    let physical;
    let engine_lids = if lids.of_vports().next().is_some() {
        physical = lids.without_vports();
        &physical
    } else {
        lids
    };
    let routing_input = RoutingInput {
        fabric,
        lids: engine_lids,
        options,
        torus_config,
        previous,
        previous_fabric,
    };
    let routing = input.chain.route(&routing_input)?;
    Ok(vport_lids::with_vports(Arc::new(routing), lids, before))
}

/// The input of the QoS tables; `None` if QoS is disabled.
pub(super) fn qos_sources(options: &Options, setup: Option<Arc<QosSetup>>) -> Option<QosSources> {
    options.qos.then(|| QosSources { config: QosConfig::read(options), setup })
}

/// Calls `work` with the input of the links stage.
pub(super) fn with_links<T>(
    input: &PlanInput<'_>,
    lids: &LidTable,
    routing: &Routing,
    qos: Option<&QosSources>,
    partitions: &PartitionTables,
    work: impl FnOnce(&LinkInput<'_>) -> T,
) -> T {
    let PlanInput { fabric, options, reregister, .. } = *input;
    work(&LinkInput {
        fabric,
        lids,
        options,
        sm_sl: &|port| routing.policy.path_sl(port, fabric.local(), Sl(options.sm_sl)),
        vl_high_limit: &|port| qos.map(|sources| sources.high_limit(fabric, port)),
        reregister,
        enforcement: &partitions.enforcement,
    })
}

/// The results of the stages up to multicast.
pub(super) struct PlanParts {
    pub lids: Arc<LidTable>,
    pub routing: Arc<Routing>,
    pub ports: PortTargets,
    pub qos: QosTables,
    pub partitions: PartitionTables,
    pub multicast: Arc<MulticastTables>,
}

/// Adds SwitchInfo and GUID tables, and collects the notes in the order of the stages.
pub(super) fn finish(
    input: &PlanInput<'_>,
    parts: PlanParts,
    stage_results: &StageResults,
) -> Plan {
    let PlanInput { fabric, options, .. } = *input;
    let PlanParts { lids, routing, ports, qos, partitions, multicast } = parts;
    let switch_infos = links::switch_targets(fabric, &lids, &multicast, options);
    let setup_notes = setup_notes(fabric, &routing, &ports, &qos);
    let dropped = dropped_sl_notes(input, &routing, &qos);
    let earlier = stage_results.lids.iter().chain(&routing.notes).chain(&stage_results.partitions);
    let found = multicast.notes.iter().map(|(_, note)| note);
    let policy = &*routing.policy;
    let sls = [
        multicast_sls::partition_note(input.partitions, |sl| policy.multicast_sl_problem(sl)),
        multicast_sls::group_note(&multicast.sls, policy),
    ];
    let sls = sls.iter().flatten();
    let notes =
        earlier.chain(&setup_notes).chain(&dropped).chain(sls).chain(found).cloned().collect();
    let aliases = super::aliases::tables(fabric, input.registrations.aliases);
    let (vport_aliases, aliases) = aliases.into_iter().partition(|block| block.vport.is_some());
    Plan {
        lids,
        ports,
        switch_infos,
        aliases,
        vport_aliases,
        routing,
        qos,
        partitions,
        multicast,
        notes,
    }
}

/// Notes about SLs of QoS levels and partitions that the options drop. Mappings of a routing engine
/// drop none.
fn dropped_sl_notes(input: &PlanInput<'_>, routing: &Routing, tables: &QosTables) -> Vec<Note> {
    let PlanInput { fabric, options, partitions, qos_policy, .. } = *input;
    if !options.qos || routing.policy.decides_sl_to_vl() {
        return Vec::new();
    }
    let config = &QosConfig::read(options);
    let policy = qos_policy.map(|policy| &**policy);
    SlUsers { fabric, config, tables, policy, partitions }.notes()
}

/// Notes about `qos-setup` scopes that the fabric cannot implement.
fn setup_notes(
    fabric: &Fabric,
    routing: &Routing,
    targets: &PortTargets,
    qos: &QosTables,
) -> Vec<Note> {
    let Some(setup) = &qos.setup else { return Vec::new() };
    let engine = routing.engine;
    let policy = &*routing.policy;
    let context = setup::SetupContext { fabric, setup, engine, policy, targets };
    setup::diagnostics(&context).iter().map(Note::from).collect()
}
