//! `/v1/perfmgr` and `/v1/counters`: the performance manager and the port counters.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::ApiQuery;
use super::reply::{HttpReply, time};
use crate::perfmgr::counters::{DATA_NAMES, ERROR_NAMES};
use crate::perfmgr::database::{Database, NodeEntry, PortEntry};
use crate::perfmgr::dump;
use crate::perfmgr::history::Rates;
use crate::perfmgr::redirection::RedirectedPort;
use crate::perfmgr::status::PerfSweep;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PerfmgrView {
    /// Sweeps at intervals (`perfmgr`).
    enabled: bool,
    sweeping: bool,
    /// Interval between the starts of sweeps.
    sweep_time_seconds: u16,
    /// Limit of requests in flight.
    max_outstanding_queries: u32,
    /// Nodes that leave the fabric are removed from the database.
    removes_nodes: bool,
    /// ClassPortInfo is queried for support of 64-bit counters.
    queries_class_port_info: bool,
    /// Sweeps that have ended.
    sweeps: u64,
    last_sweep: Option<SweepView>,
    /// Nodes in the database.
    nodes: usize,
    /// Ports whose agents answer at another address.
    redirections: Vec<RedirectionView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SweepView {
    ended: String,
    duration_seconds: f64,
    /// Ports read.
    ports: usize,
    /// Requests sent.
    queries: usize,
    /// Requests without an answer, or with an error status.
    failed: usize,
    /// Ports whose counters were cleared before they stop at their maximum.
    cleared: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RedirectionView {
    /// Node GUID.
    node: String,
    port: u8,
    from_lid: u16,
    to_lid: u16,
    to_queue_pair: u32,
    pkey: String,
    pkey_index: u16,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CountersView {
    ports: Vec<PortCountersView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PortCountersView {
    /// Node GUID.
    node: String,
    description: String,
    port: u8,
    /// The node is in the fabric.
    active: bool,
    /// Time from which the totals count.
    last_reset: String,
    #[serde(flatten)]
    counters: PortCounters,
}

/// The counters of a port since `last_reset`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PortCounters {
    /// Error counters and PortXmitWait with the names of OpenSM's dump.
    errors: BTreeMap<&'static str, u64>,
    /// Data in words of 4 octets, and packets.
    data: BTreeMap<&'static str, u64>,
    /// Rates between the last two sweeps.
    rates: Option<Rates>,
    /// Rates over `perfmgr_window_s`.
    window_rates: Option<Rates>,
}

impl PortCounters {
    pub(super) fn of(port: &PortEntry) -> Self {
        Self {
            errors: ERROR_NAMES.into_iter().zip(port.errors.0).collect(),
            data: DATA_NAMES.into_iter().zip(port.data.0).collect(),
            rates: port.history.latest(),
            window_rates: port.history.window(),
        }
    }
}

/// The state of the performance manager.
pub(super) fn perfmgr(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let perf = &context.perf;
    let settings = perf.settings;
    HttpReply::json(&PerfmgrView {
        enabled: settings.is_enabled,
        sweeping: perf.is_sweeping,
        sweep_time_seconds: settings.sweep_time_s,
        max_outstanding_queries: perf.max_outstanding,
        removes_nodes: settings.removes_nodes,
        queries_class_port_info: settings.queries_class_port_info,
        sweeps: perf.sweeps,
        last_sweep: perf.last_sweep.as_ref().map(sweep_view),
        nodes: perf.database.nodes().count(),
        redirections: perf.redirections.iter().map(redirection_view).collect(),
    })
}

fn sweep_view(sweep: &PerfSweep) -> SweepView {
    SweepView {
        ended: time(sweep.ended),
        duration_seconds: sweep.duration.as_secs_f64(),
        ports: sweep.ports,
        queries: sweep.queries,
        failed: sweep.failed,
        cleared: sweep.cleared,
    }
}

fn redirection_view(port: &RedirectedPort) -> RedirectionView {
    RedirectionView {
        node: port.node.to_string(),
        port: port.port.0,
        from_lid: port.from.0,
        to_lid: port.to.lid.0,
        to_queue_pair: port.to.qpn,
        pkey: port.to.pkey.to_string(),
        pkey_index: port.to.pkey_index,
    }
}

/// The nodes of the database that a query means: those that have left the fabric are there, too.
fn nodes<'a>(database: &'a Database, query: &ApiQuery) -> Result<Vec<&'a NodeEntry>, ApiError> {
    let Some(name) = query.get("node") else { return Ok(database.nodes().collect()) };
    Ok(vec![database.find(name).ok_or_else(|| unknown_name(name))?])
}

fn unknown_name(name: &str) -> ApiError {
    ApiError::new(404, format!("Node {name} not found..."))
}

/// The counters of all ports, or of a node or a port.
pub(super) fn counters(context: &ApiContext<'_>, query: &ApiQuery) -> Result<HttpReply, ApiError> {
    let nodes = nodes(&context.perf.database, query)?;
    let errors_only = query.flag("errors_only")?.unwrap_or(false);
    let only = query.number("port")?.map(|port| u8::try_from(port).unwrap_or(u8::MAX));
    match query.get("format") {
        Some("opensm") => {
            let texts = nodes.iter().map(|node| dump::node_text(node, only, errors_only));
            return Ok(HttpReply::text("text/plain; charset=utf-8", texts.collect()));
        }
        None | Some("json") => {}
        Some(other) => {
            let text = format!("format: '{other}' is neither json nor opensm");
            return Err(ApiError::new(400, text));
        }
    }
    let ports = nodes.iter().flat_map(|node| node.valid_ports().map(move |port| (*node, port)));
    let ports = ports.filter(|(_, (number, port))| is_wanted(&only, *number, port, errors_only));
    HttpReply::json(&CountersView {
        ports: ports
            .map(|(node, (number, port))| PortCountersView {
                node: node.guid.to_string(),
                description: node.name.clone(),
                port: number,
                active: node.is_active,
                last_reset: time(port.last_reset),
                counters: PortCounters::of(port),
            })
            .collect(),
    })
}

fn is_wanted(only: &Option<u8>, number: u8, port: &PortEntry, errors_only: bool) -> bool {
    only.is_none_or(|only| only == number)
        && (!errors_only || port.errors.0.iter().any(|&count| count > 0))
}
