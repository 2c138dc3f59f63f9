//! Nodes, links and device faults.

use super::family::MetricFamily;
use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::manage::api::ApiContext;
use crate::manage::fabric_changes::kind_name;
use crate::wire::attr::{NodeKind, PortState};

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let status = &context.status;
    let mut families = Vec::new();
    if let Some(fabric) = &status.fabric {
        families.extend(counts(fabric));
        families.push(names(fabric));
    }
    families.extend([
        MetricFamily::gauge(
            "torus_sm_unresponsive_devices",
            "Devices that do not answer although no neighbour reports their links down",
            status.anomalies.unresponsive.devices.len() as f64,
        ),
        MetricFamily::gauge(
            "torus_sm_mass_silence",
            "1 while more devices are unresponsive than unresponsive_alarm allows",
            f64::from(u8::from(status.anomalies.unresponsive.is_alarm)),
        ),
    ]);
    let Some(subnet) = &status.subnet else { return families };
    families.extend([
        MetricFamily::gauge(
            "torus_sm_unacknowledged_sets",
            "Sets of the last reconfiguration that devices did not acknowledge",
            subnet.failed_sets as f64,
        ),
        MetricFamily::gauge(
            "torus_sm_refused_sets",
            "Sets that devices refuse",
            subnet.devices.refused.len() as f64,
        ),
        MetricFamily::gauge(
            "torus_sm_silent_devices",
            "Devices that acknowledge no Sets",
            subnet.devices.silent.len() as f64,
        ),
        MetricFamily::gauge(
            "torus_sm_quarantined_links",
            "Links that are treated as down, because they flap or report errors",
            subnet.devices.quarantined.len() as f64,
        ),
        MetricFamily::gauge(
            "torus_sm_unreachable_ports",
            "End ports without routes",
            subnet.summary.left_out.len() as f64,
        ),
        MetricFamily::gauge(
            "torus_sm_lids",
            "LIDs assigned",
            subnet.plan.lids.iter().count() as f64,
        ),
    ]);
    families
}

/// The names of nodes, which the metrics of their ports have as labels only by GUID.
fn names(fabric: &Fabric) -> MetricFamily {
    let info = fabric.nodes().iter().map(|node| {
        let labels = vec![
            ("node", node.guid().to_string()),
            ("name", node.name().to_string()),
            ("kind", kind_name(node.kind()).to_owned()),
        ];
        (labels, 1.0)
    });
    let help = "Nodes by GUID with their names; always 1";
    MetricFamily::gauges("torus_sm_node_info", help, info.collect())
}

fn counts(fabric: &Fabric) -> Vec<MetricFamily> {
    let kinds = [NodeKind::Switch, NodeKind::Ca, NodeKind::Router].map(|kind| {
        let count = fabric.nodes().iter().filter(|node| node.kind() == kind).count();
        (vec![("kind", kind_name(kind).to_owned())], count as f64)
    });
    let ends = fabric.port_ids().filter_map(|port| Some((port, fabric.port(port).peer?)));
    let links: Vec<(PortId, PortId)> = ends.filter(|(port, peer)| port <= peer).collect();
    let states = [PortState::Down, PortState::Init, PortState::Armed, PortState::Active];
    let states = states.map(|state| {
        let count = links.iter().filter(|link| lower_state(fabric, link) == state).count();
        (vec![("state", state.to_string())], count as f64)
    });
    let ports = [PortState::Down, PortState::Init, PortState::Armed, PortState::Active];
    let ports = ports.map(|state| {
        let ports =
            fabric.ports().iter().filter(|port| port.num != PortNum::ZERO && port.info().is_some());
        let count = ports.filter(|port| port.state() == state).count();
        (vec![("state", state.to_string())], count as f64)
    });
    let faults = fabric.faults().len() as f64;
    vec![
        MetricFamily::gauges("torus_sm_nodes", "Nodes of the fabric", kinds.into()),
        MetricFamily::gauges(
            "torus_sm_links",
            "Links by the lower state of their ends",
            states.into(),
        ),
        MetricFamily::gauges("torus_sm_ports", "External ports by state", ports.into()),
        MetricFamily::gauge(
            "torus_sm_sweep_faults",
            "Failures of devices in the last sweep",
            faults,
        ),
    ]
}

fn lower_state(fabric: &Fabric, &(a, b): &(PortId, PortId)) -> PortState {
    fabric.port(a).state().min(fabric.port(b).state())
}
