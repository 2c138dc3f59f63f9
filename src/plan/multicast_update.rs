//! A plan after members of multicast groups came or went, and nothing else changed.
//!
//! LIDs, routes, links, partitions and QoS tables do not depend on groups: they are those of the plan
//! before, shared with it. What depends on them is made as [`super::compute`] makes it: the trees of
//! the MLIDs concerned, and MulticastFDBTop.

use super::multicast::{self, MulticastDelta};
use super::{Plan, links};
use crate::config::options::Options;
use crate::fabric::Fabric;
use std::sync::Arc;

/// What [`super::compute::compute`] would give after `change`, if `before` is what it gave for the
/// groups before, on the same fabric with the same options.
pub fn update_multicast(
    fabric: &Fabric,
    options: &Options,
    before: &Plan,
    change: &MulticastDelta,
) -> Plan {
    let Plan { lids, routing, multicast: old, .. } = before;
    let multicast = Arc::new(multicast::update(fabric, lids, routing, old, change, options));
    let switch_infos = links::switch_targets(fabric, lids, &multicast, options);
    // Those about groups come last.
    let others = before.notes.len().saturating_sub(old.notes.len());
    let found = multicast.notes.iter().map(|(_, note)| note);
    let notes = before.notes.iter().take(others).chain(found).cloned().collect();
    Plan {
        lids: lids.clone(),
        ports: before.ports.clone(),
        switch_infos,
        routing: routing.clone(),
        qos: before.qos.clone(),
        partitions: before.partitions.clone(),
        aliases: before.aliases.clone(),
        multicast,
        notes,
    }
}
