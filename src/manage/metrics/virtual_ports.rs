//! Vports of adapter ports.

use super::family::MetricFamily;
use crate::manage::api::ApiContext;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let status = &context.virtual_ports;
    let counts = status.counts();
    let states = [("active", counts.active), ("init", counts.init), ("failed", counts.failed)];
    vec![
        MetricFamily::gauges(
            "torus_sm_vports",
            "Vports (SR-IOV) by their state",
            states.map(|(state, count)| (vec![("state", state.to_owned())], count as f64)).to_vec(),
        ),
        MetricFamily::gauge(
            "torus_sm_vport_failed_ports",
            "Ports whose vports cannot be managed",
            counts.failed_ports as f64,
        ),
        MetricFamily::counter("torus_sm_vport_requests", "Requests about vports", status.requests),
        MetricFamily::counter(
            "torus_sm_vport_activations",
            "Vports that became ACTIVE",
            status.activations,
        ),
    ]
}
