//! The faults of a snapshot that a sweep concludes from missing answers.

use super::discovery_state::DiscoveryState;
use super::evidence::Evidence;
use super::query::DiscoveryQuery;
use super::query_fault::fault_of;
use crate::fabric::DiscoveryFault;
use std::collections::HashSet;

/// Records the queries without an answer as faults of the snapshot; of a silent device, one.
pub(super) fn record_faults(state: &mut DiscoveryState, evidence: &Evidence) {
    let mut silent = HashSet::new();
    for query in evidence.unanswered() {
        let is_silent = evidence.is_silent(query) && !matches!(query, DiscoveryQuery::Node { .. });
        if !is_silent || silent.insert(query.node()) {
            state.faults.extend(fault_of(state, query, &evidence.failure(query)));
        }
    }
}

/// Records the fault of two devices with the same GUIDs that are cabled back to back: the cable
/// of the local port seems to end at that port itself.
pub(super) fn find_own_twin(state: &mut DiscoveryState) {
    let Some(local) = state.local else { return };
    let is_alone = state.nodes().iter().all(|node| !node.is_switch());
    let first = state.node(local.0).route;
    if is_alone
        && state.peer(local) == Some(local)
        && let Some(second) = first.then(local.1)
    {
        let guid = state.node(local.0).guid();
        state.faults.push(DiscoveryFault::DuplicateNodeGuid { guid, first, second });
    }
}
