//! Vports of adapter ports.

use super::family::MetricFamily;
use crate::manage::api::ApiContext;
use crate::wire::attr::PortState;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let status = &context.virtual_ports;
    let vports = || status.ports.values().flat_map(|port| &port.vports);
    let failed = vports().filter(|vport| vport.failure.is_some()).count();
    let is_well = |state| vports().filter(move |it| it.failure.is_none() && it.state == state);
    let states = [
        ("active", is_well(PortState::Active).count()),
        ("init", is_well(PortState::Init).count()),
        ("failed", failed),
    ];
    let failed_ports = status.ports.values().filter(|port| port.failure.is_some()).count();
    vec![
        MetricFamily::gauges(
            "torus_sm_vports",
            "Vports (SR-IOV) by their state",
            states.map(|(state, count)| (vec![("state", state.to_owned())], count as f64)).to_vec(),
        ),
        MetricFamily::gauge(
            "torus_sm_vport_failed_ports",
            "Ports whose vports cannot be managed",
            failed_ports as f64,
        ),
        MetricFamily::counter("torus_sm_vport_requests", "Requests about vports", status.requests),
        MetricFamily::counter(
            "torus_sm_vport_activations",
            "Vports that became ACTIVE",
            status.activations,
        ),
    ]
}
