//! The deadlines of all transfers, in one table.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Instant;

/// At most one deadline for each key.
#[derive(Debug)]
pub(super) struct Deadlines<K> {
    by_time: BTreeSet<(Instant, K)>,
    by_key: HashMap<K, Instant>,
}

impl<K: Copy + Ord + Hash> Deadlines<K> {
    pub(super) fn new() -> Self {
        Self { by_time: BTreeSet::new(), by_key: HashMap::new() }
    }

    /// Sets the deadline of `key`, in place of the one that it has.
    pub(super) fn set(&mut self, key: K, at: Instant) {
        self.clear(key);
        self.by_time.insert((at, key));
        self.by_key.insert(key, at);
    }

    pub(super) fn clear(&mut self, key: K) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    pub(super) fn first(&self) -> Option<Instant> {
        self.by_time.first().map(|&(at, _)| at)
    }

    /// Removes the first deadline that is not later than `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<K> {
        let &(at, key) = self.by_time.first()?;
        if at > now {
            return None;
        }
        self.clear(key);
        Some(key)
    }
}
