//! `/v1/status`: the state of the daemon on one page.

use super::congestion::{self, CongestionView};
use super::context::ApiContext;
use super::error::ApiError;
use super::incidents::{self, IncidentSummary};
use super::message::MessageView;
use super::offenders::{self, OffenderView};
use super::query::ApiQuery;
use super::replication::{self, ReplicationPeer};
use super::reply::{HttpReply, time};
use super::smps::{self, SmpsView};
use super::unresponsive::{self, Unresponsive};
use super::virtual_ports::{VportCountsView, vport_counts};
use crate::config::options::adaptive::name_with_groups;
use crate::contained;
use crate::fabric::Fabric;
use crate::manage::loop_status::{
    Activity, Causes, LoopStatus, ReconfigureRecord, SetsByPhase, SweepKind, SweepRecord,
    SweepResult,
};
use crate::manage::sa_query::SaQuery;
use crate::notes::{Note, Severity};
use crate::publish::Subnet;
use crate::publish::repair::RepairView;
use crate::wire::attr::NodeKind;
use chrono::Utc;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Status"))]
pub(super) struct StatusView {
    version: &'static str,
    pid: u32,
    started: String,
    uptime_seconds: f64,
    sm: Sm,
    /// Other subnet managers, as last seen.
    other_sms: Vec<OtherSmView>,
    /// Connections with other instances of torus-sm (replication_peers, replication_listen).
    replication: Vec<ReplicationPeer>,
    /// `idle`, `heavy sweep`, `focused sweep`, `light sweep` or `reconfiguration`.
    activity: &'static str,
    queues: QueueView,
    /// Counts of the last sweep; null before the first one.
    fabric: Option<FabricCounts>,
    /// Panics contained since the start: each is a defect of torus-sm that the log tells about.
    contained_panics: u64,
    routing: RoutingView,
    /// The verification of the plan in force; null if there is none.
    verification: Option<Verification>,
    /// Why the last reconfiguration found no valid plan; null while a plan is in force.
    refused: Option<RefusalView>,
    /// Sources that send what only defective or hostile programs send, the most frequent first.
    offenders: Vec<OffenderView>,
    /// Congestion control; null unless this SM configures it.
    congestion_control: Option<CongestionView>,
    /// Virtual ports (SR-IOV); null unless this SM manages them.
    vports: Option<VportCountsView>,
    /// Devices that do not work as planned.
    device_faults: Vec<MessageView>,
    /// Devices that do not answer although no neighbour reports their links down: their LIDs and
    /// routes stay.
    unresponsive: Unresponsive,
    incidents: IncidentSummary,
    smps: SmpsView,
    sweeps: Vec<LoopSweepView>,
    reconfigurations: Vec<Reconfiguration>,
    configuration: ConfigurationView,
    /// Number of the last event.
    last_event: u64,
    management: Management,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Sm {
    port_guid: String,
    /// LID of the port; null if it has none.
    lid: Option<u16>,
    /// `DISCOVERING`, `STANDBY`, `MASTER` or `NOT-ACTIVE`.
    state: String,
    /// 0 to 15.
    priority: u8,
    /// Priority while this SM is master, if it is higher.
    master_priority: u8,
    /// Sweeps and replies run on a subnet that is configured.
    subnet_up: bool,
    /// Why this SM stays in DISCOVERING: the master with another SM_Key; null if there is none.
    waits_for: Option<ForeignMasterView>,
    /// Changes of the port of this SM by other managers or programs, since the start.
    foreign_port_changes: u64,
    /// The last of them; null if there was none.
    last_foreign_port_change: Option<String>,
}

/// A master whose SM_Key is not that of this SM.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ForeignMasterView {
    port_guid: String,
    /// Name of the node.
    node: String,
    priority: u8,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OtherSmView {
    port_guid: String,
    state: String,
    priority: u8,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FabricCounts {
    switches: usize,
    channel_adapters: usize,
    routers: usize,
    links: usize,
    /// Nodes and links that were in the fabric and are not found any more.
    missing_nodes: usize,
    missing_links: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Queues"))]
struct QueueView {
    /// Events that wait for the SM loop.
    sm_events: usize,
    /// Requests that wait in the SA server; null if it did not answer.
    sa_requests: Option<usize>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RoutingView {
    /// The option `routing_engine`; minhop without it.
    requested: String,
    /// The engine of the plan in force; null if there is none.
    in_use: Option<&'static str>,
    /// The name in `routing_engine` for its routes with groups of ports, such as `ar_torus`; null without groups.
    with_groups: Option<&'static str>,
    /// Engines that could not route the fabric of the plan in force.
    failed: Vec<FailedEngine>,
    /// Routes of torus-2QoS around damage that its rules exclude; null if there are none.
    repair: Option<RepairView>,
    /// Generation of the published subnet; null if there is none.
    generation: Option<u64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FailedEngine {
    engine: &'static str,
    reason: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Verification {
    /// Unicast LIDs that every source with a route reaches.
    lids: usize,
    /// Pairs of hosts without a route.
    unrouted_hosts: usize,
    /// Pairs without a route in which at least one end is a switch.
    unrouted_with_switches: usize,
    /// Switches on the longest path.
    longest_path: u32,
    /// Channel dependencies that were examined.
    dependencies: usize,
    /// The longest path and the dependencies are upper bounds: only the differences from another plan were
    /// checked.
    has_upper_bounds: bool,
    /// A credit loop that does not reject the plan; null if there is none.
    credit_loop: Option<String>,
    /// End ports without routes.
    left_out: usize,
    /// SubnSet requests that no device acknowledged.
    failed_sets: usize,
    /// Warnings and errors of plan and verification.
    messages: Vec<MessageView>,
}

/// Reasons why there is no plan.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Refusal"))]
struct RefusalView {
    /// Causes, repairs in their order, and the connectivity that is left.
    messages: Vec<MessageView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Sweep"))]
struct LoopSweepView {
    kind: SweepKind,
    causes: Causes,
    ended: String,
    duration_seconds: f64,
    /// `done`, `interrupted` or `failed`.
    result: &'static str,
    problem: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Reconfiguration {
    causes: Causes,
    ended: String,
    /// `up`, `interrupted`, `incomplete`, `delayed` or `rejected`.
    result: &'static str,
    problem: Option<String>,
    multicast_only: bool,
    /// Time for planning and verification.
    planning_seconds: f64,
    /// Time for verification; part of `planning_seconds`. A plan for multicast groups alone has 0.
    verification_seconds: f64,
    /// Time for planning, verification and programming.
    total_seconds: f64,
    /// From the first trap to the last acknowledged block of a linear forwarding table.
    trap_to_tables_seconds: Option<f64>,
    sets: usize,
    /// Sets by phase: `tables`, `moved_pkeys`, `ports`, `switch_m_keys`, `activation`, `moves`.
    sets_by_phase: SetsByPhase,
    lft_blocks: usize,
    generation: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Configuration"))]
struct ConfigurationView {
    /// Time at which the configuration in force was read.
    read: String,
    /// What the last reload rejected, and why; null if it accepted everything.
    error: Option<String>,
    /// What is wrong in the files that the daemon has started with, and is not used; null if they are
    /// right, and after a reload.
    start_error: Option<String>,
    /// The files in force.
    files: Vec<FileView>,
    /// The flags in force (log_flags, or the action loglevel).
    log_flags: u8,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "File"))]
struct FileView {
    /// The option that names the file; `config` for opensm.conf itself.
    option: &'static str,
    path: String,
    /// Time of the last modification when it was read; null if there was no such file.
    modified: Option<String>,
    /// SHA-256 of the contents; null if it could not be read.
    sha256: Option<String>,
    /// The last reload rejected later contents of the file, or found it missing.
    rejected: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Management {
    /// Open connections of the management interface.
    connections: usize,
    /// Requests to it since the start of the daemon.
    requests: u64,
}

/// The state of the daemon.
pub(super) fn status(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let status = &*context.status;
    let subnet = status.subnet.as_deref();
    // The rest is worth showing while the SA server is busy.
    let sa = context.ask_sa(SaQuery::Report).ok();
    let uptime = (Utc::now() - status.started).to_std().unwrap_or(Duration::ZERO);
    HttpReply::json(&StatusView {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        started: time(status.started),
        uptime_seconds: uptime.as_secs_f64(),
        sm: sm(status),
        other_sms: other_sms(status),
        replication: replication::peers(status),
        activity: activity(status.work.activity),
        queues: QueueView {
            sm_events: status.work.queued_events,
            sa_requests: sa.as_ref().map(|sa| sa.queued),
        },
        fabric: fabric_counts(context),
        contained_panics: contained::count(),
        routing: routing(status),
        verification: subnet.map(verification),
        refused: status.rejected.as_ref().map(|rejected| RefusalView {
            messages: rejected.notes.iter().map(MessageView::from).collect(),
        }),
        offenders: offenders::views(context, sa.as_ref()),
        congestion_control: congestion::view(context),
        vports: vport_counts(&context.virtual_ports),
        device_faults: subnet.map_or_else(Vec::new, |subnet| {
            subnet.devices.notes(&subnet.fabric).iter().map(MessageView::from).collect()
        }),
        unresponsive: unresponsive::view(&status.anomalies.unresponsive),
        incidents: incidents::summary(&context.incidents),
        smps: smps::view(context),
        sweeps: status.history.sweeps.iter().map(sweep).collect(),
        reconfigurations: status.history.reconfigurations.iter().map(reconfiguration).collect(),
        configuration: configuration(context),
        last_event: context.server.last_event,
        management: Management {
            connections: context.server.connections,
            requests: context.server.requests,
        },
    })
}

fn sm(status: &LoopStatus) -> Sm {
    let sm = &status.managers.own;
    Sm {
        port_guid: sm.guid.to_string(),
        lid: lid(status),
        state: sm.state.to_string(),
        priority: sm.priority,
        master_priority: sm.master_priority,
        subnet_up: status.subnet.as_ref().is_some_and(|subnet| subnet.failed_sets == 0),
        waits_for: status.managers.foreign_master.as_ref().map(|master| ForeignMasterView {
            port_guid: master.guid.to_string(),
            node: master.node.clone(),
            priority: master.priority,
        }),
        foreign_port_changes: status.anomalies.own_port.count,
        last_foreign_port_change: status.anomalies.own_port.last.clone(),
    }
}

/// The LID of the SM's port.
fn lid(status: &LoopStatus) -> Option<u16> {
    let fabric = status.fabric.as_ref()?;
    let planned = status.subnet.as_ref().and_then(|subnet| {
        let port = subnet.fabric.port_by_guid(status.managers.own.guid)?;
        subnet.plan.lids.base(port)
    });
    planned.or_else(|| fabric.observed_lid(fabric.local())).map(|lid| lid.0)
}

/// Counts of the last observed fabric.
fn fabric_counts(context: &ApiContext<'_>) -> Option<FabricCounts> {
    let fabric = context.status.fabric.as_ref()?;
    let linked = fabric.port_ids().filter(|&port| fabric.port(port).peer.is_some()).count();
    Some(FabricCounts {
        switches: count(fabric, NodeKind::Switch),
        channel_adapters: count(fabric, NodeKind::Ca),
        routers: count(fabric, NodeKind::Router),
        links: linked / 2,
        missing_nodes: context.missing.nodes.len(),
        missing_links: context.missing.links.len(),
    })
}

fn count(fabric: &Arc<Fabric>, kind: NodeKind) -> usize {
    fabric.nodes().iter().filter(|node| node.kind() == kind).count()
}

fn other_sms(status: &LoopStatus) -> Vec<OtherSmView> {
    status
        .managers
        .others
        .iter()
        .map(|sm| OtherSmView {
            port_guid: sm.guid.to_string(),
            state: sm.state.to_string(),
            priority: sm.priority,
        })
        .collect()
}

fn activity(activity: Activity) -> &'static str {
    match activity {
        Activity::Idle => "idle",
        Activity::Sweeping(SweepKind::Heavy) => "heavy sweep",
        Activity::Sweeping(SweepKind::Focused) => "focused sweep",
        Activity::Sweeping(SweepKind::Light) => "light sweep",
        Activity::Reconfiguring => "reconfiguration",
    }
}

fn routing(status: &LoopStatus) -> RoutingView {
    let requested = status.options.routing_engine.clone();
    let in_force = status.subnet.as_ref().map(|subnet| &subnet.plan.routing);
    let failed = in_force.into_iter().flat_map(|routing| &routing.routing_errors);
    RoutingView {
        requested: requested.unwrap_or_else(|| "minhop".to_owned()),
        in_use: in_force.map(|routing| routing.engine),
        with_groups: in_force.and_then(|routing| name_with_groups(&status.options, routing.engine)),
        failed: failed
            .map(|error| FailedEngine {
                engine: error.engine,
                reason: error.reason().map(ToString::to_string),
            })
            .collect(),
        repair: status.subnet.as_ref().and_then(|subnet| subnet.repair().cloned()),
        generation: status.subnet.as_ref().map(|subnet| subnet.generation),
    }
}

fn verification(subnet: &Subnet) -> Verification {
    let summary = &subnet.summary;
    let plan = &subnet.plan;
    let notes = plan.notes.iter().chain(&plan.routing.notes).chain(&summary.notes);
    // Several stages may report the same finding.
    let mut shown: Vec<&Note> = Vec::new();
    for note in notes.filter(|note| note.severity >= Severity::Warning) {
        if !shown.contains(&note) {
            shown.push(note);
        }
    }
    Verification {
        lids: summary.lids,
        unrouted_hosts: summary.unrouted.hosts,
        unrouted_with_switches: summary.unrouted.with_switches,
        longest_path: summary.longest_path,
        dependencies: summary.dependencies,
        has_upper_bounds: summary.has_upper_bounds(),
        credit_loop: summary.cycle.as_ref().map(ToString::to_string),
        left_out: summary.left_out.len(),
        failed_sets: subnet.failed_sets,
        messages: shown.into_iter().map(MessageView::from).collect(),
    }
}

fn sweep(record: &SweepRecord) -> LoopSweepView {
    let (result, problem) = match &record.result {
        SweepResult::Done => ("done", None),
        SweepResult::Interrupted => ("interrupted", None),
        SweepResult::Failed(problem) => ("failed", Some(problem.clone())),
    };
    LoopSweepView {
        kind: record.kind,
        causes: record.causes.clone(),
        ended: time(record.ended),
        duration_seconds: record.duration.as_secs_f64(),
        result,
        problem,
    }
}

fn reconfiguration(record: &ReconfigureRecord) -> Reconfiguration {
    let figures = &record.figures;
    Reconfiguration {
        causes: record.causes.clone(),
        ended: time(record.ended),
        result: record.result.name(),
        problem: record.result.problem().map(str::to_owned),
        multicast_only: figures.multicast_only,
        planning_seconds: figures.planning.as_secs_f64(),
        verification_seconds: figures.verifying.as_secs_f64(),
        total_seconds: figures.total.as_secs_f64(),
        trap_to_tables_seconds: record.trap_to_tables.map(|time| time.as_secs_f64()),
        sets: figures.sets,
        sets_by_phase: figures.sets_by_phase(),
        lft_blocks: figures.lft_blocks,
        generation: figures.generation,
    }
}

fn configuration(context: &ApiContext<'_>) -> ConfigurationView {
    let status = &context.status;
    let log_flags = context.server.log_flags.unwrap_or(status.options.log_flags);
    ConfigurationView {
        read: time(status.config.read),
        error: status.config.error.clone(),
        start_error: status.config.start_error.clone(),
        files: status
            .config
            .files
            .iter()
            .map(|file| FileView {
                option: file.option,
                path: file.path.display().to_string(),
                modified: file.modified.map(time),
                sha256: file.sha256.clone(),
                rejected: file.is_rejected,
            })
            .collect(),
        log_flags,
    }
}
