//! Ports with registrations that are not in the published snapshot, and since when.

use crate::fabric::Fabric;
use crate::ids::Guid;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Time for which the registrations of an absent port are kept, if heavy sweeps do not remove them
/// before: long enough for a host that restarts, whose clients may not register again.
pub const MAX_ABSENCE: Duration = Duration::from_secs(300);

/// Absent ports by GUID, with the time of the first snapshot without them.
#[derive(Clone, Debug, Default)]
pub(super) struct AbsentPorts(BTreeMap<Guid, Instant>);

impl AbsentPorts {
    /// Compares the ports with registrations with a new snapshot.
    pub(super) fn update(&mut self, registered: BTreeSet<Guid>, fabric: &Fabric, now: Instant) {
        let absent = registered.into_iter().filter(|&guid| fabric.end_port_by_guid(guid).is_none());
        let since = absent.map(|guid| (guid, self.0.get(&guid).copied().unwrap_or(now)));
        self.0 = since.collect();
    }

    /// Time at which [`Self::take_expired`] returns ports.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.0.values().min().map(|&since| since + MAX_ABSENCE)
    }

    /// Removes and returns the ports that have been absent for [`MAX_ABSENCE`].
    pub(super) fn take_expired(&mut self, now: Instant) -> BTreeSet<Guid> {
        let expired = self.0.iter().filter(|(_, since)| is_expired(since, now));
        let expired: BTreeSet<Guid> = expired.map(|(&guid, _)| guid).collect();
        self.0.retain(|_, since| !is_expired(since, now));
        expired
    }
}

fn is_expired(since: &Instant, now: Instant) -> bool {
    now.saturating_duration_since(*since) >= MAX_ABSENCE
}
