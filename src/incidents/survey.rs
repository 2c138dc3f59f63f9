//! Facts that a snapshot of the fabric shows by itself.

use super::fact::{Cable, CableEnd, CableFault, DuplicateGuid, FaultyCable, KnownNode};
use crate::fabric::link_rate::{LinkSpeed, width_name};
use crate::fabric::{DiscoveryFault, Fabric, PortId, RouteEnd};
use crate::wire::attr::{LinkWidth, PortState};
use crate::wire::smp::DirectedRoute;

/// The codes of widths, and their lanes.
const LANES: [(u8, u8); 5] = [
    (LinkWidth::X1, 1),
    (LinkWidth::X2, 2),
    (LinkWidth::X4, 4),
    (LinkWidth::X8, 8),
    (LinkWidth::X12, 12),
];

/// SDR, DDR and QDR in LinkSpeedEnabled.
const BASIC_SPEEDS: u8 = 0x7;

/// Facts of one kind that are kept.
const MAX_FACTS: usize = 1024;

/// The nodes of the snapshot that do not answer.
pub fn silent_nodes(fabric: &Fabric) -> Vec<KnownNode> {
    fabric.unresponsive().map(|id| KnownNode::of(fabric, id)).take(MAX_FACTS).collect()
}

/// The ports with a link behind which nothing answers NodeInfo.
pub fn unanswered(fabric: &Fabric) -> Vec<CableEnd> {
    let routes = fabric.faults().iter().filter_map(|fault| match fault {
        DiscoveryFault::NoAnswer { attribute: "NodeInfo", route, .. } => Some(route),
        _ => None,
    });
    let near = routes.filter_map(|route| last_port(fabric, route));
    let without_peer = near.filter(|&port| fabric.port(port).peer.is_none());
    let mut ends: Vec<CableEnd> =
        without_peer.map(|port| CableEnd::of(fabric, port)).take(MAX_FACTS).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// The GUIDs that two devices have.
pub fn duplicates(fabric: &Fabric) -> Vec<DuplicateGuid> {
    let mut found: Vec<DuplicateGuid> = Vec::new();
    for fault in fabric.faults() {
        let (guid, is_port, first, second) = match fault {
            DiscoveryFault::DuplicateNodeGuid { guid, first, second } => {
                (*guid, false, first, second)
            }
            DiscoveryFault::DuplicatePortGuid { guid, first, second } => {
                (*guid, true, first, second)
            }
            _ => continue,
        };
        if found.iter().all(|known| known.guid != guid) && found.len() < MAX_FACTS {
            let routes = [first, second];
            let places = routes.map(|route| place(fabric, route));
            let ends = routes.map(|route| Some(fabric.end_of(last_port(fabric, route)?)));
            found.push(DuplicateGuid { guid, is_port, places, ends });
        }
    }
    found
}

/// The port that leads to the end of a route, or the route.
fn place(fabric: &Fabric, route: &DirectedRoute) -> String {
    match last_port(fabric, route) {
        Some(port) => CableEnd::of(fabric, port).to_string(),
        None => format!("path {route}"),
    }
}

/// The last port by which a route leaves a node.
fn last_port(fabric: &Fabric, route: &DirectedRoute) -> Option<PortId> {
    let exits: Vec<_> = route.exits().collect();
    let (&last, front) = exits.split_last()?;
    let front = DirectedRoute::new(front)?;
    let RouteEnd::Port(at) = fabric.end_of_route(&front)? else { return None };
    fabric.port_of(fabric.port(at).node, last)
}

/// The links that run at less than both ends support and enable.
pub fn degraded_links(fabric: &Fabric) -> Vec<FaultyCable> {
    let degraded = fabric.port_ids().filter_map(|port| degraded(fabric, port));
    degraded.take(MAX_FACTS).collect()
}

fn degraded(fabric: &Fabric, port: PortId) -> Option<FaultyCable> {
    let own = fabric.port(port);
    let peer = own.peer.filter(|&peer| peer > port)?;
    let near = own.info()?;
    let far = fabric.port(peer).info()?;
    if !matches!(near.port_state(), PortState::Init | PortState::Armed | PortState::Active) {
        return None;
    }
    let width = near.link_width_active();
    let widths = near.link_width_enabled() & far.link_width_enabled();
    let widest = LANES.into_iter().rev().find(|(code, _)| code & widths != 0)?.0;
    let speed = fabric.link_speed(port)?;
    let fastest = if fabric.has_extended_speeds(port)? && fabric.has_extended_speeds(peer)? {
        let speeds = LinkSpeed::enabled_mask(&near) & LinkSpeed::enabled_mask(&far);
        LinkSpeed::fastest(speeds)
    } else {
        let basic = near.link_speed_enabled() & far.link_speed_enabled();
        LinkSpeed::fastest(basic & BASIC_SPEEDS)
    };
    if lanes(width) >= lanes(widest) && speed >= fastest {
        return None;
    }
    let text = |width: u8, speed: LinkSpeed| {
        format!("{} {}", width_name(width).unwrap_or("?x"), speed.name())
    };
    let fault =
        CableFault::Degraded { has: text(width, speed), could: text(widest, speed.max(fastest)) };
    Some(FaultyCable { cable: Cable::of(fabric, port)?, fault })
}

/// The lanes of a width; 0 for codes that are none.
fn lanes(width: u8) -> u8 {
    LANES.into_iter().find(|&(code, _)| code == width).map_or(0, |(_, lanes)| lanes)
}
