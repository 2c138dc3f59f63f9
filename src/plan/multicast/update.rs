//! Incremental update after a change of groups: the trees of the changed MLIDs are recomputed, all
//! others are kept.

use super::{GroupMembers, MulticastTables, plan};
use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::plan::LidTable;
use crate::plan::routing::Routing;
use std::collections::BTreeSet;

/// The groups that changed since the previous tables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastDelta {
    /// The MLIDs of groups that were created, deleted, or have other members.
    pub mlids: BTreeSet<Mlid>,
    /// All present groups with these MLIDs.
    pub groups: Vec<GroupMembers>,
}

/// Updates the tables `before`. Fabric, routes and options must be those of `before`; the result
/// then equals that of [`plan`] for all groups.
pub fn update(
    fabric: &Fabric,
    lids: &LidTable,
    routing: &Routing,
    before: &MulticastTables,
    change: &MulticastDelta,
    options: &Options,
) -> MulticastTables {
    let new = plan(fabric, lids, routing, &change.groups, options);
    let mlids = &change.mlids;
    let rows = before.by_switch.iter().zip(new.by_switch);
    MulticastTables {
        by_switch: rows.map(|(old, new)| replaced(old, new, mlids, |entry| entry.0)).collect(),
        senders: replaced(&before.senders, new.senders, mlids, |sender| sender.0),
        sls: replaced(&before.sls, new.sls, mlids, |sls| sls.0),
        notes: replaced(&before.notes, new.notes, mlids, |note| note.0),
    }
}

/// Replaces the entries of `mlids` in `old` by `new`. All are ascending by MLID.
fn replaced<T: Clone>(
    old: &[T],
    new: Vec<T>,
    mlids: &BTreeSet<Mlid>,
    mlid: impl Fn(&T) -> Mlid,
) -> Vec<T> {
    let mut new = new.into_iter().peekable();
    let mut all = Vec::with_capacity(old.len() + new.len());
    for entry in old.iter().filter(|entry| !mlids.contains(&mlid(entry))) {
        while let Some(earlier) = new.next_if(|new| mlid(new) < mlid(entry)) {
            all.push(earlier);
        }
        all.push(entry.clone());
    }
    all.extend(new);
    debug_assert!(all.is_sorted_by_key(mlid), "readers search by MLID");
    all
}
