//! Replication of the registry: the master exports what changed, a standby imports it.
//!
//! An export is a sequence of pages. A position, the stream and the number of the last change in a
//! page, says how far an importer has come. Without a position, or with one of another stream, the
//! export starts from the beginning with [`Page::reset`]; the importer then builds a new registry
//! beside its own one, which it replaces when the last page has arrived. Leases are exported as the
//! time that remains, so that the clocks of the hosts do not matter.

mod change;
#[cfg(test)]
mod tests;

pub use change::Change;

use super::Registry;
use super::change_log::{ChangeLog, EntryKey};
use crate::ids::Mlid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;
use tokio::sync::oneshot;

/// How far a replica has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplicaPosition {
    pub stream: u64,
    /// Number of the last change that the replica has.
    pub number: u64,
}

/// Consecutive changes of a registry. It has no `Debug`, because it contains keys of services.
#[derive(Clone, Serialize, Deserialize)]
pub struct Page {
    /// The position after the page.
    pub position: ReplicaPosition,
    /// The page is the first of all registrations.
    pub reset: bool,
    /// The registry had no other changes when the page was made.
    pub is_last: bool,
    pub changes: Vec<Change>,
}

/// A request to the owner of the registry.
pub enum ReplicaRequest {
    /// Returns at most `max` changes after `since`.
    Export { since: Option<ReplicaPosition>, max: usize, reply: oneshot::Sender<Page> },
    /// Takes over a page; false if it is of no use: this SM is no standby, or pages are missing.
    Import { page: Page, reply: oneshot::Sender<bool> },
}

/// The part of the registry that serves exports.
#[derive(Clone, Debug, Default)]
pub(super) struct Exporter(Option<ChangeLog>);

/// A registry in the making, from the pages that have arrived.
#[derive(Default)]
pub struct Importer {
    staged: Option<(Registry, ReplicaPosition)>,
    /// How far the importer's own registry is a replica.
    current: Option<ReplicaPosition>,
}

/// The number of a new log.
fn new_stream() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl Registry {
    fn entry_keys(&self) -> impl Iterator<Item = EntryKey> + '_ {
        let aliases = self.aliases.iter().map(|(port, block, ..)| EntryKey::Aliases(port, block));
        let groups = self.multicast.iter().flat_map(|group| {
            let mgid = group.spec.mgid;
            let members = group.members.keys().map(move |&guid| EntryKey::Member(mgid, guid));
            std::iter::once(EntryKey::Group(mgid)).chain(members)
        });
        let services = self.services.iter().map(|service| EntryKey::Service(service.rid()));
        let subscriptions = self.subscriptions.ports().map(EntryKey::Subscriptions);
        aliases.chain(groups).chain(services).chain(subscriptions)
    }

    /// The changed keys of all parts since the last call; `None` if there were too many.
    fn take_changed(&mut self) -> Option<BTreeSet<EntryKey>> {
        let parts = [
            &mut self.multicast.changed,
            &mut self.services.changed,
            &mut self.subscriptions.changed,
            &mut self.aliases.changed,
        ];
        let taken: Vec<_> = parts.into_iter().map(|part| part.take()).collect();
        taken.into_iter().try_fold(BTreeSet::new(), |mut all, keys| {
            all.extend(keys?);
            Some(all)
        })
    }

    /// True if registrations have changed since the last [`Self::export`]; false before the first.
    pub fn has_unexported_changes(&self) -> bool {
        let parts = [
            &self.multicast.changed,
            &self.services.changed,
            &self.subscriptions.changed,
            &self.aliases.changed,
        ];
        parts.into_iter().any(|part| !part.is_empty())
    }

    /// Brings the log up to date.
    fn update_log(&mut self) -> &ChangeLog {
        if self.exporter.0.is_none() {
            self.multicast.changed.enable();
            self.services.changed.enable();
            self.subscriptions.changed.enable();
            self.aliases.changed.enable();
        }
        let changed = self.take_changed();
        let mut log = self.exporter.0.take();
        let log = match (log.take_if(|log| !self.is_stale(log)), changed) {
            (Some(mut log), Some(changed)) => {
                changed.into_iter().for_each(|key| log.add(key));
                log
            }
            _ => {
                let keys: BTreeSet<EntryKey> = self.entry_keys().collect();
                ChangeLog::new(new_stream(), keys)
            }
        };
        self.exporter.0.insert(log)
    }

    /// At most `max` changes after `since`; all registrations, from the first page on, if `since`
    /// is no position of this registry.
    pub fn export(&mut self, since: Option<ReplicaPosition>, max: usize, now: Instant) -> Page {
        let log = self.update_log();
        let start =
            since.filter(|position| position.stream == log.stream && position.number <= log.last());
        let from = start.map_or(0, |position| position.number);
        let keys: Vec<(u64, EntryKey)> = log.since(from).take(max).collect();
        let stream = log.stream;
        let last = log.last();
        let number = keys.last().map_or(last, |&(number, _)| number);
        Page {
            position: ReplicaPosition { stream, number },
            reset: start.is_none(),
            is_last: number == last,
            changes: keys.into_iter().map(|(_, key)| Change::of(self, key, now)).collect(),
        }
    }

    /// Replaces all registrations by those of `other`. The groups of the configuration stay
    /// permanent. Counts of changes go on, so that those who compare them see a change.
    fn replace(&mut self, mut other: Self) {
        let permanent = self.multicast.iter().filter(|group| group.permanent);
        let permanent: Vec<_> = permanent.map(|group| group.spec.clone()).collect();
        // A group without a free MLID is reported when this SM becomes master.
        let _ = other.set_permanent(&permanent, Mlid::LAST);
        self.multicast.replace(other.multicast);
        self.services.replace(other.services);
        self.subscriptions.replace(other.subscriptions);
        self.aliases.replace(other.aliases);
        self.missed.clear();
        self.exporter = Exporter::default();
    }

    fn is_stale(&self, log: &mut ChangeLog) -> bool {
        log.is_stale(|| self.entry_keys().count())
    }
}

impl Importer {
    /// How far the registry is a complete replica; `None` if it is none.
    pub fn position(&self) -> Option<ReplicaPosition> {
        self.current
    }

    /// Forgets the replica in the making: another SM is to be followed, or this one is master.
    pub fn stop(&mut self) {
        *self = Self::default();
    }

    /// Takes over a page; false, without effect, if the page does not follow the last one.
    pub fn import(&mut self, registry: &mut Registry, page: Page, now: Instant) -> bool {
        let Page { position, reset, is_last, changes } = page;
        if reset {
            self.current = None;
            self.staged = Some((Registry::default(), position));
        }
        if let Some((staged, last)) = self.staged.as_mut() {
            if !follows(&position.stream, &position.number, last) {
                self.stop();
                return false;
            }
            *last = position;
            changes.into_iter().for_each(|change| change.apply(staged, now));
            if is_last && let Some((staged, _)) = self.staged.take() {
                registry.replace(staged);
                self.current = Some(position);
            }
            return true;
        }
        if !self
            .current
            .as_ref()
            .is_some_and(|last| follows(&position.stream, &position.number, last))
        {
            return false;
        }
        changes.into_iter().for_each(|change| change.apply(registry, now));
        self.current = Some(position);
        true
    }
}

fn follows(stream: &u64, number: &u64, last: &ReplicaPosition) -> bool {
    last.stream == *stream && last.number <= *number
}
