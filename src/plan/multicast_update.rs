//! Incremental planning after a change of multicast groups and of nothing else.
//!
//! LIDs, routes, links, partitions and QoS tables do not depend on groups, so the new plan shares
//! them with the previous one. The trees of the changed MLIDs, and MulticastFDBTop, are computed as
//! [`super::compute`] does.

use super::multicast::{self, MulticastDelta};
use super::{Plan, links, multicast_sls};
use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::notes::Note;
use std::sync::Arc;

/// Updates the plan `before` after `change`. Fabric and options must be those of `before`; the
/// result then equals that of [`super::compute::compute`] for all groups.
pub fn update_multicast(
    fabric: &Fabric,
    options: &Options,
    before: &Plan,
    change: &MulticastDelta,
) -> Plan {
    let Plan { lids, routing, multicast: old, .. } = before;
    let multicast = Arc::new(multicast::update(fabric, lids, routing, old, change, options));
    let switch_infos = links::switch_targets(fabric, lids, &multicast, options);
    // The notes about groups are the last ones.
    let policy = &*routing.policy;
    let about_sls = usize::from(multicast_sls::group_note(&old.sls, policy).is_some());
    let others = before.notes.len().saturating_sub(old.notes.len() + about_sls);
    let mut notes: Vec<Note> = before.notes.iter().take(others).cloned().collect();
    notes.extend(multicast_sls::group_note(&multicast.sls, policy));
    notes.extend(multicast.notes.iter().map(|(_, note)| note.clone()));
    Plan {
        lids: lids.clone(),
        ports: before.ports.clone(),
        switch_infos,
        routing: routing.clone(),
        qos: before.qos.clone(),
        partitions: before.partitions.clone(),
        aliases: before.aliases.clone(),
        vport_aliases: before.vport_aliases.clone(),
        multicast,
        notes,
    }
}
