//! Facts that a snapshot of the fabric shows by itself.

use super::fact::{Cable, CableDefect, CableEnd, DuplicateGuid, FaultyCable, KnownNode};
use crate::fabric::link_rate::has_extended_speeds;
use crate::fabric::link_rate::{LinkSpeed, width_name};
use crate::fabric::{DiscoveryFault, Fabric, Port, PortId, RouteEnd};
use crate::wire::attr::{LinkWidth, PortInfo, PortState};
use crate::wire::smp::DirectedRoute;
use std::collections::BTreeMap;

/// The codes of widths, the widest one first.
const WIDTHS: [u8; 5] =
    [LinkWidth::X12, LinkWidth::X8, LinkWidth::X4, LinkWidth::X2, LinkWidth::X1];

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

/// The links that run at less than both ends support and enable, by their lower port.
pub type DegradedLinks = BTreeMap<PortId, FaultyCable>;

/// All degraded links of a snapshot.
pub fn degraded_links(fabric: &Fabric) -> DegradedLinks {
    let mut links = DegradedLinks::new();
    fabric.ports().iter().enumerate().for_each(|(index, own)| {
        let port = PortId(index as u32);
        if links.len() < MAX_FACTS {
            links.extend(degraded(fabric, port, own).map(|link| (port, link)));
        }
    });
    links
}

/// The degraded links of `new` from those of `old`: only links of ports that may have changed are looked
/// at.
pub fn update_degraded(links: &DegradedLinks, old: &Fabric, new: &Fabric) -> DegradedLinks {
    // FDR10 is no part of a port.
    let has_fdr10 = [old, new].iter().any(|fabric| fabric.extended_ports().next().is_some());
    if links.len() == MAX_FACTS || has_fdr10 || !has_same_nodes(old, new) {
        return degraded_links(new);
    }
    let mut links = links.clone();
    for (first, before, now) in new.ports().unshared(old.ports()) {
        for at in (0..now.len()).filter(|&at| has_changed(&before[at], &now[at])) {
            // The capabilities of a switch are those of its port 0.
            if now[at].num.0 == 0 {
                return degraded_links(new);
            }
            let port = PortId((first + at) as u32);
            let peers = [now[at].peer, before[at].peer];
            for port in peers.into_iter().flatten().chain([port]) {
                links.remove(&port);
                links.extend(degraded(new, port, new.port(port)).map(|link| (port, link)));
            }
        }
    }
    while links.len() > MAX_FACTS {
        links.pop_last();
    }
    links
}

/// True if two snapshots are known to have the same nodes with the same names and cables.
pub fn has_same_cables(old: &Fabric, new: &Fabric) -> bool {
    has_same_nodes(old, new)
        && old.ports().is_equal_by(new.ports(), |one, other| one.peer == other.peer)
}

fn has_changed(old: &Port, new: &Port) -> bool {
    old.peer != new.peer || old.shared_info() != new.shared_info()
}

/// True if both snapshots have the same nodes and names, with the same indexes.
fn has_same_nodes(old: &Fabric, new: &Fabric) -> bool {
    old.has_same_ids(new)
        && old.nodes().is_equal_by(new.nodes(), |one, other| one.name() == other.name())
}

/// The fault of the link at port `own`, unless its other port is lower.
fn degraded(fabric: &Fabric, port: PortId, own: &Port) -> Option<FaultyCable> {
    let peer = own.peer.filter(|&peer| peer > port)?;
    let near = own.shared_info().as_deref()?;
    let far = fabric.port(peer).shared_info().as_deref()?;
    if runs_at_best(near, far) {
        return None;
    }
    if !matches!(near.port_state(), PortState::Init | PortState::Armed | PortState::Active) {
        return None;
    }
    let width = near.link_width_active();
    let widths = near.link_width_enabled() & far.link_width_enabled();
    let widest = WIDTHS.into_iter().find(|code| code & widths != 0)?;
    let speed = LinkSpeed::of(fabric, port)?;
    let fastest = if has_extended_speeds(fabric, port)? && has_extended_speeds(fabric, peer)? {
        let speeds = LinkSpeed::enabled_mask(near) & LinkSpeed::enabled_mask(far);
        LinkSpeed::fastest(speeds)
    } else {
        let basic = near.link_speed_enabled() & far.link_speed_enabled();
        LinkSpeed::fastest(basic & BASIC_SPEEDS)
    };
    if lanes(width) >= lanes(widest) && speed >= fastest {
        return None;
    }
    let fault = CableDefect::Degraded {
        has: rate_text(width, speed),
        could: rate_text(widest, speed.max(fastest)),
    };
    Some(FaultyCable { cable: Cable::of(fabric, port)?, fault })
}

fn rate_text(width: u8, speed: LinkSpeed) -> String {
    format!("{} {}", width_name(width).unwrap_or("?x"), speed.name())
}

/// True if a link has the width and the speeds, basic and extended, that both ends support and enable, so
/// that it is not degraded whether or not the ends have extended speeds.
fn runs_at_best(near: &PortInfo, far: &PortInfo) -> bool {
    let widths = near.link_width_enabled() & far.link_width_enabled();
    let speeds = LinkSpeed::enabled_mask(near) & LinkSpeed::enabled_mask(far);
    let basic = speeds & BASIC_SPEEDS;
    let extended = speeds >> 3;
    // XDR has a field of its own.
    WIDTHS.into_iter().find(|code| code & widths != 0) == Some(near.link_width_active())
        && extended < 1 << 4
        && near.link_speed_ext_active2() == 0
        && near.link_speed_active() == highest_bit(basic)
        && near.link_speed_ext_active() == highest_bit(extended)
}

fn highest_bit(mask: u8) -> u8 {
    mask.checked_ilog2().map_or(0, |bit| 1 << bit)
}

/// The lanes of a width; 0 for codes that are none.
fn lanes(width: u8) -> u8 {
    match width {
        LinkWidth::X1 => 1,
        LinkWidth::X2 => 2,
        LinkWidth::X4 => 4,
        LinkWidth::X8 => 8,
        LinkWidth::X12 => 12,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::sim::generate::Shape;

    /// The fabric with other widths of these ports; a width of 0 unplugs the cable.
    fn changed(fabric: &Fabric, widths: &[(PortId, u8)]) -> Fabric {
        let mut ports = fabric.ports().clone();
        for &(port, width) in widths {
            if let Some(peer) = fabric.port(port).peer.filter(|_| width == 0) {
                ports[peer.index()].peer = None;
                ports[port.index()].peer = None;
            }
            ports[port.index()]
                .change_info(|info| info.set_link_width_active(width.max(LinkWidth::X1)));
        }
        fabric.with_contents(fabric.nodes().clone(), ports, fabric.local(), Vec::new())
    }

    #[test]
    fn degraded_links_are_the_same_after_each_change() {
        let topology = Shape::torus([6, 6, 1]).build().expect("a torus");
        let mut fabric = Fabric::from_topology(&topology, 0, &SyntheticView::default())
            .expect("a node of the topology");
        let mut links = degraded_links(&fabric);
        assert!(links.is_empty());
        let cabled: Vec<PortId> =
            fabric.port_ids().filter(|&port| fabric.port(port).peer.is_some()).collect();
        let widths = [LinkWidth::X1, LinkWidth::X4, LinkWidth::X1, LinkWidth::X1, 0];
        let mut seen = 0;
        for round in 0..200 {
            let picked = [round * 7, round * 13 + 5].map(|number| cabled[number % cabled.len()]);
            let width = widths[round % widths.len()];
            let next = changed(&fabric, &picked.map(|port| (port, width)));
            links = update_degraded(&links, &fabric, &next);
            assert_eq!(links, degraded_links(&next), "round {round}");
            seen = seen.max(links.len());
            fabric = next;
        }
        assert!(seen > 10, "{seen} degraded links");
    }
}
