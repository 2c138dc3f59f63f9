//! Subnet management requests in the status.

use super::context::ApiContext;
use crate::fabric::{Fabric, NodeId, RouteEnd};
use crate::wire::smp::SmpRoute;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of devices in the status.
const MAX_LISTED: usize = 64;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SmpsView {
    /// Requests that may be in flight now (max_wire_smps, max_adaptive_wire_smps).
    window: usize,
    /// Time from a request to its response in seconds, a moving average; null before the first one.
    round_trip_seconds: Option<f64>,
    /// Requests sent again because there was no response, since the start.
    repeated: u64,
    /// The devices that most of them went to.
    repeated_to: Vec<RepeatedView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RepeatedView {
    /// NodeDescription; a directed route if no node is at its end.
    node: String,
    count: u64,
}

pub(super) fn view(context: &ApiContext<'_>) -> SmpsView {
    let smps = context.status.handles.smps.counters();
    let fabric = context.status.fabric.as_deref();
    SmpsView {
        window: smps.window,
        round_trip_seconds: smps.round_trip.map(|time| time.as_secs_f64()),
        repeated: smps.retransmissions,
        repeated_to: by_device(fabric, smps.repeated.iter().map(|(&route, &count)| (route, count))),
    }
}

/// The devices at the ends of the routes; those to which most requests were sent again come first.
/// After a reroute, the requests to a device take another route.
fn by_device(
    fabric: Option<&Fabric>,
    repeated: impl IntoIterator<Item = (SmpRoute, u64)>,
) -> Vec<RepeatedView> {
    let mut known: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut views = Vec::new();
    for (route, count) in repeated {
        match fabric.and_then(|fabric| device(fabric, &route)) {
            Some(node) => *known.entry(node).or_default() += count,
            None => views.push(RepeatedView { node: route.to_string(), count }),
        }
    }
    views.extend(fabric.into_iter().flat_map(|fabric| {
        known.iter().map(|(&node, &count)| RepeatedView {
            node: fabric.node(node).description.to_string(),
            count,
        })
    }));
    views.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.node.cmp(&b.node)));
    views.truncate(MAX_LISTED);
    views
}

/// The device at the end of a route.
fn device(fabric: &Fabric, route: &SmpRoute) -> Option<NodeId> {
    let port = match route {
        SmpRoute::Directed(route) => match fabric.end_of_route(route)? {
            RouteEnd::Port(port) => port,
            RouteEnd::Behind(_) => return None,
        },
        SmpRoute::Lid(lid) => {
            fabric.end_ports().find(|&port| fabric.observed_lid(port) == Some(*lid))?
        }
    };
    Some(fabric.port(port).node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::PortNum;
    use crate::wire::smp::DirectedRoute;
    use std::path::Path;

    #[test]
    fn a_device_is_listed_once_whatever_the_routes_to_it() {
        let text = "Switch 3 \"a\"\n[1] \"b\"[1]\n[2] \"b\"[2]\n[3] \"h\"[1]\n\n\
                    Switch 3 \"b\"\n[1] \"a\"[1]\n[2] \"a\"[2]\n\nHca 1 \"h\"\n[1] \"a\"[3]\n";
        let topology = ibnet::parse(Path::new("net"), text).expect("a fabric");
        let host = topology.nodes.iter().position(|node| node.num_ports == 1).expect("a host");
        let view = SyntheticView::default();
        let fabric = Fabric::from_topology(&topology, host, &view).expect("a fabric");
        let far = fabric.end_of_route(&DirectedRoute::new(&[PortNum(1), PortNum(1)]).expect("it"));
        let Some(RouteEnd::Port(far)) = far else { panic!("a switch") };
        let far = fabric.node_of(far).description.to_string();
        let repeated = [(route(&[1, 1]), 2), (route(&[1, 1, 3]), 9), (route(&[1, 2]), 5)];
        let listed: Vec<(String, u64)> = by_device(Some(&fabric), repeated)
            .into_iter()
            .map(|device| (device.node, device.count))
            .collect();
        assert_eq!(listed, [(route(&[1, 1, 3]).to_string(), 9), (far, 7)]);
        assert_eq!(by_device(None, repeated).len(), 3, "no device is known yet");
    }

    fn route(exits: &[u8]) -> SmpRoute {
        let exits: Vec<PortNum> = exits.iter().copied().map(PortNum).collect();
        SmpRoute::Directed(DirectedRoute::new(&exits).expect("a route"))
    }
}
