//! Port counters and the performance manager.

use super::family::{Family, Labels};
use crate::manage::api::ApiContext;
use crate::perfmgr::counters::{ERROR_NAMES, XMIT_WAIT};
use crate::perfmgr::database::{NodeEntry, PortEntry};
use crate::perfmgr::history::OCTETS_PER_WORD;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<Family> {
    let perf = &context.perf;
    let last = perf.last_sweep;
    let count =
        |figure: fn(&crate::perfmgr::status::PerfSweep) -> f64| last.as_ref().map_or(0.0, figure);
    let mut families = vec![
        Family::counter("torus_sm_perfmgr_sweeps", "Sweeps of the port counters", perf.sweeps),
        Family::gauge(
            "torus_sm_perfmgr_last_sweep_duration_seconds",
            "Duration of the last sweep of the port counters in seconds",
            count(|sweep| sweep.duration.as_secs_f64()),
        ),
        Family::gauge(
            "torus_sm_perfmgr_last_sweep_ports",
            "Ports that the last sweep of the port counters read",
            count(|sweep| sweep.ports as f64),
        ),
        Family::gauge(
            "torus_sm_perfmgr_last_sweep_failed_queries",
            "Counter queries of the last sweep without an answer, or with an error status",
            count(|sweep| sweep.failed as f64),
        ),
    ];
    families.extend(port_families(context));
    families
}

fn labels(node: &NodeEntry, port: u8) -> Labels {
    vec![("node", node.guid.to_string()), ("port", port.to_string())]
}

/// The counters of ports that are in the fabric. Error counters that are 0 have no samples, as
/// nearly all are.
fn port_families(context: &ApiContext<'_>) -> Vec<Family> {
    let nodes = || context.perf.database.nodes().filter(|node| node.is_active);
    let samples = |value: fn(&PortEntry) -> u64| {
        let ports = nodes().flat_map(|node| node.valid_ports().map(move |port| (node, port)));
        let sample = |(node, (number, port)): (&NodeEntry, (u8, &PortEntry))| {
            (labels(node, number), value(port))
        };
        ports.map(sample).collect::<Vec<_>>()
    };
    let mut errors = Vec::new();
    for node in nodes() {
        for (number, port) in node.valid_ports() {
            for (name, &count) in ERROR_NAMES.iter().zip(&port.errors.0[..XMIT_WAIT]) {
                if count > 0 {
                    let mut labels = labels(node, number);
                    labels.push(("counter", (*name).to_owned()));
                    errors.push((labels, count));
                }
            }
        }
    }
    vec![
        Family::counters(
            "torus_sm_port_transmit_bytes",
            "Octets that a port sent",
            samples(|port| port.data.0[0].saturating_mul(OCTETS_PER_WORD)),
        ),
        Family::counters(
            "torus_sm_port_receive_bytes",
            "Octets that a port received",
            samples(|port| port.data.0[1].saturating_mul(OCTETS_PER_WORD)),
        ),
        Family::counters(
            "torus_sm_port_transmit_packets",
            "Packets that a port sent",
            samples(|port| port.data.0[2]),
        ),
        Family::counters(
            "torus_sm_port_receive_packets",
            "Packets that a port received",
            samples(|port| port.data.0[3]),
        ),
        Family::counters(
            "torus_sm_port_transmit_wait_ticks",
            "Ticks in which a port had data but no credits",
            samples(|port| port.errors.0[XMIT_WAIT]),
        ),
        Family::counters(
            "torus_sm_port_errors",
            "Errors of a port by counter; only those that are not 0",
            errors,
        ),
    ]
}
