//! Role, sweeps and reconfigurations.

use super::family::{Labels, MetricFamily};
use crate::contained;
use crate::manage::api::ApiContext;
use crate::manage::loop_status::{LoopStatistics, LoopStatus, SweepKind};
use crate::publish::Subnet;
use crate::publish::repair::RepairView;
use crate::replication::status::PeerStatus;
use crate::wire::attr::SmState;
use std::collections::BTreeMap;

/// The states of an SM, as labels.
const STATES: [SmState; 4] =
    [SmState::NotActive, SmState::Discovering, SmState::Standby, SmState::Master];

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let status = &context.status;
    let mut families = role(status);
    families.extend(plan(status));
    families.extend(durations(&status.history.statistics));
    families.extend(counts(context));
    families.extend(replication(context));
    families.extend(management(context));
    families
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn count_peers(status: &LoopStatus, is_counted: impl Fn(&PeerStatus) -> bool) -> f64 {
    let replication = status.handles.replication.load();
    replication.peers.iter().filter(|(_, peer)| is_counted(peer)).count() as f64
}

fn role(status: &LoopStatus) -> Vec<MetricFamily> {
    let info = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("port_guid", status.managers.own.guid.to_string()),
    ];
    let own = STATES.map(|state| {
        (vec![("state", state.to_string())], flag(status.managers.own.state == state))
    });
    let others = STATES.map(|state| {
        let count = status.managers.others.iter().filter(|other| other.state == state).count();
        (vec![("state", state.to_string())], count as f64)
    });
    vec![
        MetricFamily::gauges(
            "torus_sm_info",
            "Version and port of the SM; always 1",
            vec![(info, 1.0)],
        ),
        MetricFamily::gauges("torus_sm_state", "1 for the state of this SM", own.into()),
        MetricFamily::gauge(
            "torus_sm_priority",
            "Priority of this SM",
            status.managers.own.priority.into(),
        ),
        MetricFamily::gauges("torus_sm_other_sms", "Other SMs by state", others.into()),
    ]
}

fn plan(status: &LoopStatus) -> Vec<MetricFamily> {
    let subnet = status.subnet.as_deref();
    let is_up = subnet.is_some_and(|subnet| subnet.failed_sets == 0);
    let engine = subnet.map(|subnet| vec![("engine", subnet.plan.routing.engine.to_owned())]);
    let generation = subnet.map_or(0, |subnet| subnet.generation);
    let config_rejected = status.config.error.is_some();
    let mut families = repair(subnet);
    families.extend([
        MetricFamily::gauge(
            "torus_sm_subnet_up",
            "1 if this SM is master and all devices are configured",
            flag(is_up),
        ),
        MetricFamily::gauge(
            "torus_sm_subnet_generation",
            "Number of the published subnet; 0 without one",
            generation as f64,
        ),
        MetricFamily::gauge(
            "torus_sm_plan_refused",
            "1 if the last reconfiguration found no valid plan",
            flag(status.rejected.is_some()),
        ),
        MetricFamily::gauges(
            "torus_sm_routing_engine_info",
            "Routing engine in use; always 1",
            engine.into_iter().map(|labels| (labels, 1.0)).collect(),
        ),
        MetricFamily::gauge(
            "torus_sm_config_rejected",
            "1 if the last reload was rejected",
            flag(config_rejected),
        ),
        MetricFamily::gauge(
            "torus_sm_config_read_timestamp_seconds",
            "Time at which the configuration in force was read",
            status.config.read.timestamp_millis() as f64 / 1000.0,
        ),
    ]);
    families
}

/// The routes around damage that torus-2QoS refuses; pairs and hops are those of switches.
fn repair(subnet: Option<&Subnet>) -> Vec<MetricFamily> {
    let Some(subnet) = subnet else { return Vec::new() };
    let repair = subnet.repair();
    vec![
        MetricFamily::gauge(
            "torus_sm_routes_repaired",
            "1 while torus-2QoS routes around damage that its own rules exclude",
            flag(repair.is_some()),
        ),
        MetricFamily::gauge(
            "torus_sm_repair_detours",
            "Ordered pairs of switches whose path differs from that of the undamaged torus",
            repair_value(&repair, &|repair| repair.detours as f64),
        ),
        MetricFamily::gauge(
            "torus_sm_repair_unrouted_pairs",
            "Ordered pairs of switches that the repaired routes leave without a route",
            repair_value(&repair, &|repair| repair.unrouted as f64),
        ),
        MetricFamily::gauge(
            "torus_sm_repair_mean_hops",
            "Mean length of detours in links between switches; 0 without any",
            repair_value(&repair, &|repair| repair.mean_hops),
        ),
        MetricFamily::gauge(
            "torus_sm_repair_longest_hops",
            "Length of the longest detour in links between switches; 0 without any",
            repair_value(&repair, &|repair| repair.longest_hops.into()),
        ),
        MetricFamily::gauge(
            "torus_sm_unrouted_host_pairs",
            "Pairs of hosts without a route, beside those of unreachable ports",
            subnet.summary.unrouted.hosts as f64,
        ),
    ]
}

fn repair_value(repair: &Option<&RepairView>, of: &dyn Fn(&RepairView) -> f64) -> f64 {
    repair.map_or(0.0, of)
}

fn durations(statistics: &LoopStatistics) -> Vec<MetricFamily> {
    let sweeps = statistics.sweeps.iter().map(|(&(kind, cause), &histogram)| {
        let labels = vec![("kind", kind.name().to_owned()), ("cause", cause.name().to_owned())];
        (labels, histogram)
    });
    let plans = statistics
        .reconfigurations
        .iter()
        .map(|(&result, &histogram)| (vec![("result", result.to_owned())], histogram));
    vec![
        MetricFamily::histograms(
            "torus_sm_sweep_duration_seconds",
            "Durations of completed sweeps",
            sweeps.collect(),
        ),
        MetricFamily::histograms(
            "torus_sm_reconfiguration_duration_seconds",
            "Durations of reconfigurations, from planning to the last acknowledged Set",
            plans.collect(),
        ),
        MetricFamily::histogram(
            "torus_sm_planning_duration_seconds",
            "Durations of planning and verification",
            statistics.planning,
        ),
        MetricFamily::histogram(
            "torus_sm_verification_duration_seconds",
            "Durations of verification, a part of planning and verification",
            statistics.verification,
        ),
        MetricFamily::histogram(
            "torus_sm_programming_duration_seconds",
            "Durations of programming the devices",
            statistics.programming,
        ),
        MetricFamily::histogram(
            "torus_sm_trap_to_tables_seconds",
            "Times from a trap to the last acknowledged block of a linear forwarding table",
            statistics.trap_to_tables,
        ),
    ]
}

fn counts(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let status = &context.status;
    let statistics = &context.status.history.statistics;
    let traps = statistics.traps.iter();
    let traps = traps.map(|(number, &count)| (vec![("number", number.to_string())], count));
    vec![
        MetricFamily::counters(
            "torus_sm_sweeps_interrupted",
            "Sweeps that changed links interrupted",
            by_sweep_kind(&statistics.interrupted_sweeps),
        ),
        MetricFamily::counters(
            "torus_sm_sweeps_failed",
            "Sweeps that failed",
            by_sweep_kind(&statistics.failed_sweeps),
        ),
        MetricFamily::counters(
            "torus_sm_traps",
            "Traps, without repetitions and those above the limits of their sender",
            traps.collect(),
        ),
        MetricFamily::gauge(
            "torus_sm_queued_events",
            "Events that wait for the SM loop",
            status.work.queued_events as f64,
        ),
    ]
}

fn by_sweep_kind(counts: &BTreeMap<SweepKind, u64>) -> Vec<(Labels, u64)> {
    let counts = counts.iter();
    counts.map(|(kind, &count)| (vec![("kind", kind.name().to_owned())], count)).collect()
}

/// Connections with other instances.
fn replication(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let status = &context.status;
    vec![
        MetricFamily::gauge(
            "torus_sm_replication_connections",
            "Connections with other instances of torus-sm, in both directions",
            count_peers(status, |peer| peer.is_connected && peer.problem.is_none()),
        ),
        MetricFamily::gauge(
            "torus_sm_replication_unconnected_peers",
            "Peers that this instance cannot connect to",
            count_peers(status, |peer| peer.is_outgoing && !peer.is_connected),
        ),
        MetricFamily::gauge(
            "torus_sm_replication_complete",
            "1 if this SM, a standby, has the state of the master",
            flag(count_peers(status, |peer| peer.sharing.is_complete) > 0.0),
        ),
        MetricFamily::gauge(
            "torus_sm_replication_different_peers",
            "Connections with instances that are configured differently",
            count_peers(status, |peer| !peer.differences.is_empty()),
        ),
    ]
}

/// The management interface, and defects.
fn management(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    vec![
        MetricFamily::counter(
            "torus_sm_contained_panics",
            "Panics contained since the start: each is a defect of torus-sm that the log tells about",
            contained::count(),
        ),
        MetricFamily::counter(
            "torus_sm_events",
            "Events of the management interface",
            context.server.last_event,
        ),
        MetricFamily::counter(
            "torus_sm_management_requests",
            "Requests to the management interface",
            context.server.requests,
        ),
        MetricFamily::gauge(
            "torus_sm_management_connections",
            "Open connections of the management interface",
            context.server.connections as f64,
        ),
    ]
}
