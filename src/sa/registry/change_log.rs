//! The order in which registrations changed, so that a replica gets what changed since it was last
//! complete. Kept only while the registry is replicated.

use crate::ids::{Gid, Guid, Pkey};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Identifies a registration. A group comes before its members, and the aliases of a port before
/// the memberships that use them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum EntryKey {
    /// A block of alias GUIDs: port GUID and block number.
    Aliases(Guid, u8),
    Group(Gid),
    /// MGID, and the GUID of PortGID.
    Member(Gid, Guid),
    /// The RID of a service record: ServiceID, ServiceGID, ServiceP_Key.
    Service((u64, Gid, Pkey)),
    /// All subscriptions of a port.
    Subscriptions(Guid),
}

/// Maximum number of keys of changed registrations that wait for [`ChangeLog::add`].
const MAX_CHANGED: usize = 1 << 17;

/// Maximum number of keys in a log that no longer exist, beside as many as do exist.
const MAX_REMOVED: usize = 1 << 16;

/// The registrations of one part of the registry that changed since the last [`Self::take`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedKeys {
    /// `None` while the registry is not replicated.
    keys: Option<BTreeSet<EntryKey>>,
    has_overflowed: bool,
}

impl ChangedKeys {
    /// Records changes from now on.
    pub(super) fn enable(&mut self) {
        self.keys.get_or_insert_default();
    }

    pub(super) fn add(&mut self, key: EntryKey) {
        let Some(keys) = self.keys.as_mut() else { return };
        keys.insert(key);
        if keys.len() > MAX_CHANGED {
            keys.clear();
            self.has_overflowed = true;
        }
    }

    /// True if [`Self::take`] has nothing to return.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_overflowed && self.keys.as_ref().is_none_or(BTreeSet::is_empty)
    }

    /// The changed keys; `None` if there were too many.
    pub(super) fn take(&mut self) -> Option<BTreeSet<EntryKey>> {
        let keys = self.keys.as_mut().map(std::mem::take).unwrap_or_default();
        (!std::mem::take(&mut self.has_overflowed)).then_some(keys)
    }
}

/// All registrations in the order of their last changes, which are numbered from 1.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeLog {
    /// Number of the log: positions of another log tell nothing about this one.
    pub(super) stream: u64,
    last: u64,
    by_number: BTreeMap<u64, EntryKey>,
    numbers: FxHashMap<EntryKey, u64>,
    /// Number of the last change when it was last seen whether the log is stale.
    checked: u64,
}

impl ChangeLog {
    /// A log of registrations that exist already.
    pub(super) fn new(stream: u64, existing: impl IntoIterator<Item = EntryKey>) -> Self {
        let mut log = Self { stream, ..Self::default() };
        existing.into_iter().for_each(|key| log.add(key));
        log
    }

    /// Number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Records a change. The earlier changes of the same registration no longer matter.
    pub(super) fn add(&mut self, key: EntryKey) {
        self.last += 1;
        if let Some(old) = self.numbers.insert(key, self.last) {
            self.by_number.remove(&old);
        }
        self.by_number.insert(self.last, key);
    }

    /// True if most keys are of registrations that no longer exist. `existing` counts those that
    /// do, once in many changes.
    pub(super) fn is_stale(&mut self, existing: impl FnOnce() -> usize) -> bool {
        let is_due = self.last - self.checked > MAX_REMOVED as u64;
        if is_due {
            self.checked = self.last;
        }
        is_due && self.by_number.len() > 2 * existing() + MAX_REMOVED
    }

    /// The registrations that changed after number `since`, with the numbers of these changes.
    pub(super) fn since(&self, since: u64) -> impl Iterator<Item = (u64, EntryKey)> + '_ {
        self.by_number.range(since.saturating_add(1)..).map(|(&number, &key)| (number, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_each_registration_once_at_its_last_change() {
        let mut log = ChangeLog::new(7, (1..=3).map(key));
        log.add(key(1));
        let changes: Vec<(u64, EntryKey)> = log.since(0).collect();
        assert_eq!(changes, [(2, key(2)), (3, key(3)), (4, key(1))]);
        assert_eq!(log.since(3).count(), 1);
        assert_eq!(log.since(u64::MAX).count(), 0);
        assert!(!log.is_stale(|| 0));
        (0..2 * MAX_REMOVED as u64).for_each(|number| log.add(key(number)));
        assert!(log.is_stale(|| 0), "most keys are of removed registrations");
        assert!(!log.is_stale(|| 0), "that is checked once in many changes");
    }

    fn key(number: u64) -> EntryKey {
        EntryKey::Subscriptions(Guid(number))
    }

    #[test]
    fn changes_are_kept_while_enabled_up_to_a_limit() {
        let mut changed = ChangedKeys::default();
        changed.add(EntryKey::Subscriptions(Guid(1)));
        assert_eq!(changed.take().map(|keys| keys.len()), Some(0));
        changed.enable();
        for number in 0..=MAX_CHANGED as u64 {
            changed.add(EntryKey::Subscriptions(Guid(number)));
        }
        assert_eq!(changed.take(), None);
        assert_eq!(changed.take().map(|keys| keys.len()), Some(0));
    }
}
