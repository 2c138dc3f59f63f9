//! Removes quarantined links from a snapshot.

use super::Observation;
use super::discovery_state::DiscoveryState;
use super::link_health::{Cause, Quarantined};
use crate::ids::PortNum;
use std::sync::Arc;

/// The snapshot without these links, and the links that were removed. Nodes that only they connect are
/// removed, too.
///
/// The link of the local port stays, and so do links without which a switch would be cut off. Links that
/// report errors stay if any node would be cut off.
pub fn without_links(
    observation: Observation,
    links: &[Quarantined],
) -> (Observation, Vec<Quarantined>) {
    let fabric = &observation.fabric;
    let mut state = DiscoveryState::of(fabric, &observation.pkeys);
    state.faults = fabric.faults().to_vec();
    let mut reached = vec![true; state.entries().len()];
    let mut removed = Vec::new();
    for link in links {
        let [near, far] = link.cable.map(|(guid, num)| Some((state.find(guid)?, num)));
        let (Some(near), Some(far)) = (near, far) else { continue };
        if let Some(left) = remove(&mut state, link, [near, far], &reached) {
            reached = left;
            removed.push(link.clone());
        }
    }
    if removed.is_empty() {
        return (observation, removed);
    }
    let Some((fabric, pkeys)) = state.finish() else { return (observation, Vec::new()) };
    let managers = observation.managers.iter().filter_map(|&(port, info)| {
        let port = observation.fabric.port(port);
        let node = fabric.node_by_guid(observation.fabric.node(port.node).guid())?;
        Some((fabric.port_of(node, port.num)?, info))
    });
    let managers = managers.collect();
    let Observation { changed_switches, is_unresolved, .. } = observation;
    let (fabric, pkeys) = (Arc::new(fabric), Arc::new(pkeys));
    (Observation { fabric, pkeys, managers, changed_switches, is_unresolved }, removed)
}

/// Removes a link. Returns the nodes that are reached without it; `None` if the link stays.
fn remove(
    state: &mut DiscoveryState,
    link: &Quarantined,
    [near, far]: [(usize, PortNum); 2],
    reached: &[bool],
) -> Option<Vec<bool>> {
    let peer = state.entries()[near.0].ports.get(near.1.index())?.peer;
    let is_local = [near, far].into_iter().any(|end| state.local == Some(end));
    if is_local || peer != Some(far) {
        return None;
    }
    state.disconnect(near);
    let left = state.reroute();
    let is_needed = |node: usize| match link.cause {
        Cause::Flaps => state.entries()[node].is_switch(),
        Cause::Errors(_) => true,
    };
    let cuts_off = (0..left.len()).any(|node| reached[node] && !left[node] && is_needed(node));
    if cuts_off {
        state.connect(near, far);
        return None;
    }
    Some(left)
}
