//! Removes quarantined links from a snapshot.

use super::Observation;
use super::discovery_state::DiscoveryState;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::ids::PortNum;
use std::sync::Arc;

/// The snapshot without these links, and the links that are needed and stay. Nodes that only the
/// removed links connect are removed, too.
///
/// The link of the local port is needed, and so are links without which a switch would be cut off.
/// Links that report errors are needed if any node would be cut off.
pub fn without_links(
    observation: Observation,
    links: &[QuarantinedLink],
) -> (Observation, Vec<QuarantinedLink>) {
    let fabric = &observation.fabric;
    let mut state = DiscoveryState::of(fabric, &observation.pkeys);
    let mut reached = vec![true; state.nodes().len()];
    let mut needed = Vec::new();
    let mut is_changed = false;
    for link in links {
        let [near, far] = link.ends.map(|(guid, num)| Some((state.find(guid)?, num)));
        let (Some(near), Some(far)) = (near, far) else { continue };
        if state.peer(near) != Some(far) {
            continue;
        }
        match remove(&mut state, link, [near, far], &reached) {
            Some(left) => (reached, is_changed) = (left, true),
            None => needed.push(link.clone()),
        }
    }
    if !is_changed {
        return (observation, needed);
    }
    let Some((fabric, pkeys)) = state.finish() else { return (observation, links.to_vec()) };
    let managers = observation.managers.iter().filter_map(|&(port, info)| {
        let port = observation.fabric.port(port);
        let node = fabric.node_by_guid(observation.fabric.node(port.node).guid())?;
        Some((fabric.port_of(node, port.num)?, info))
    });
    let managers = managers.collect();
    let Observation { changed_switches, unconfirmed, is_unresolved, .. } = observation;
    let fabric = Arc::new(fabric);
    let without =
        Observation { fabric, pkeys, managers, changed_switches, unconfirmed, is_unresolved };
    (without, needed)
}

/// Removes a link. Returns the nodes that are reached without it; `None` if the link is needed.
fn remove(
    state: &mut DiscoveryState,
    link: &QuarantinedLink,
    [near, far]: [(usize, PortNum); 2],
    reached: &[bool],
) -> Option<Vec<bool>> {
    if [near, far].into_iter().any(|end| state.local == Some(end)) {
        return None;
    }
    state.disconnect(near);
    let left = state.reroute();
    let cuts_off = (0..left.len())
        .any(|node| reached[node] && !left[node] && is_needed(state, &link.cause, node));
    if cuts_off {
        state.connect(near, far);
        return None;
    }
    Some(left)
}

fn is_needed(state: &DiscoveryState, cause: &QuarantineCause, node: usize) -> bool {
    match *cause {
        QuarantineCause::Flaps | QuarantineCause::Operator => state.node(node).is_switch(),
        QuarantineCause::Errors(_) => true,
    }
}
