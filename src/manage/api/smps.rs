//! Subnet management requests in the status.

use super::context::ApiContext;
use crate::fabric::{Fabric, RouteEnd};
use crate::wire::smp::SmpRoute;
use serde::Serialize;

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
    let smps = &context.status.smps;
    let fabric = context.status.fabric.as_deref();
    let mut repeated: Vec<RepeatedView> = Vec::new();
    for (route, &count) in &smps.repeated {
        repeated.push(RepeatedView { node: name(fabric, route), count });
    }
    repeated.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.node.cmp(&b.node)));
    repeated.truncate(MAX_LISTED);
    SmpsView {
        window: smps.window,
        round_trip_seconds: smps.round_trip.map(|time| time.as_secs_f64()),
        repeated: smps.retransmissions,
        repeated_to: repeated,
    }
}

/// Name of the device at the end of a route.
fn name(fabric: Option<&Fabric>, route: &SmpRoute) -> String {
    let node = fabric.and_then(|fabric| {
        let port = match route {
            SmpRoute::Directed(route) => match fabric.end_of_route(route)? {
                RouteEnd::Port(port) => port,
                RouteEnd::Behind(_) => return None,
            },
            SmpRoute::Lid(lid) => {
                fabric.end_ports().find(|&port| fabric.observed_lid(port) == Some(*lid))?
            }
        };
        Some(fabric.node_of(port).description.to_string())
    });
    node.unwrap_or_else(|| route.to_string())
}
