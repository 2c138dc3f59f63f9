//! Service records with their leases (IBA vol. 1, 15.2.5.14).

use crate::ids::{Gid, Guid, Pkey};
use crate::sa::registry::change_log::{ChangedKeys, EntryKey};
use crate::sa::status::ErrorStatus;
use crate::wire::record::ServiceRecord;
use crate::wire::sa::SaStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The RID of a service record: ServiceID, ServiceGID, ServiceP_Key.
pub type ServiceRid = (u64, Gid, Pkey);

/// Maximum number of records; above it, SubnAdmSet gets `NO_RESOURCES`. Bounds the memory that
/// clients can allocate.
const MAX_SERVICES: usize = 65_536;

/// A registered service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    record: ServiceRecord,
    /// The port that registered it, with whose absence it ends; `None` if it was registered with
    /// the SM_Key, or restored.
    owner: Option<Guid>,
    /// End of the lease; `None` for an indefinite one.
    expires: Option<Instant>,
}

impl Service {
    /// The record with the remaining seconds of its lease.
    pub fn record(&self, now: Instant) -> ServiceRecord {
        let mut record = self.record;
        record.set_lease(self.remaining_lease(now));
        record
    }

    /// The record with the lease of its registration.
    pub(in crate::sa) fn registered(&self) -> &ServiceRecord {
        &self.record
    }

    pub(super) fn rid(&self) -> ServiceRid {
        rid(&self.record)
    }

    pub(super) fn owner(&self) -> Option<Guid> {
        self.owner
    }

    /// Remaining seconds, rounded up; [`ServiceRecord::NO_END`] for an indefinite lease.
    pub(super) fn remaining_lease(&self, now: Instant) -> u32 {
        let Some(end) = self.expires else { return ServiceRecord::NO_END };
        let remaining = end.saturating_duration_since(now);
        let seconds = remaining.as_secs() + u64::from(remaining.subsec_nanos() > 0);
        u32::try_from(seconds).unwrap_or(ServiceRecord::NO_END - 1).min(ServiceRecord::NO_END - 1)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Services {
    records: BTreeMap<ServiceRid, Service>,
    /// Number of records by owner.
    by_owner: BTreeMap<Guid, usize>,
    /// Time before which no lease ends; `None` if all leases are indefinite.
    next_end: Option<Instant>,
    changes: u64,
    /// For replication.
    pub(super) changed: ChangedKeys,
}

pub(crate) fn rid(record: &ServiceRecord) -> ServiceRid {
    (record.id(), record.gid(), record.pkey())
}

/// The record with ServiceKey cleared for requesters without privileges.
pub(crate) fn redacted(mut record: ServiceRecord, privileged: bool) -> ServiceRecord {
    if !privileged {
        record.set_key([0; 16]);
    }
    record
}

impl Services {
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// All records, ascending by RID.
    pub fn iter(&self) -> impl Iterator<Item = &Service> {
        self.records.values()
    }

    pub(crate) fn get(&self, rid: &ServiceRid) -> Option<&Service> {
        self.records.get(rid)
    }

    /// Number of services that a port has registered.
    pub(crate) fn count_of(&self, owner: Guid) -> usize {
        self.by_owner.get(&owner).copied().unwrap_or(0)
    }

    /// The ports that own services.
    pub(super) fn ports(&self) -> impl Iterator<Item = Guid> + '_ {
        self.by_owner.keys().copied()
    }

    /// Registers a service or renews its lease.
    pub(crate) fn set(
        &mut self,
        record: ServiceRecord,
        owner: Option<Guid>,
        now: Instant,
    ) -> Result<(), ErrorStatus> {
        let rid = rid(&record);
        if self.records.len() >= MAX_SERVICES && !self.records.contains_key(&rid) {
            return Err(ErrorStatus(SaStatus::NO_RESOURCES));
        }
        self.insert(record, owner, record.lease(), now);
        Ok(())
    }

    /// Restores a record of the dump file with `lease` seconds remaining. Returns false if its RID
    /// exists or the table is full.
    pub(super) fn restore(&mut self, record: ServiceRecord, lease: u32, now: Instant) -> bool {
        let fits = self.records.len() < MAX_SERVICES && !self.records.contains_key(&rid(&record));
        if fits {
            self.insert(record, None, lease, now);
        }
        fits
    }

    /// Takes over a service of the SM that this one follows, with `lease` seconds remaining.
    pub(super) fn put(
        &mut self,
        record: ServiceRecord,
        owner: Option<Guid>,
        lease: u32,
        now: Instant,
    ) {
        if self.records.len() < MAX_SERVICES || self.records.contains_key(&rid(&record)) {
            self.insert(record, owner, lease, now);
        }
    }

    /// Takes over all services of `other`.
    pub(super) fn replace(&mut self, other: Self) {
        let changes = self.changes + other.changes + 1;
        *self = Self { changes, changed: std::mem::take(&mut self.changed), ..other };
    }

    fn insert(&mut self, record: ServiceRecord, owner: Option<Guid>, lease: u32, now: Instant) {
        let expires = (lease != ServiceRecord::NO_END)
            .then(|| now.checked_add(Duration::from_secs(lease.into())))
            .flatten();
        self.next_end = [self.next_end, expires].into_iter().flatten().min();
        self.changed.add(EntryKey::Service(rid(&record)));
        let old = self.records.insert(rid(&record), Service { record, owner, expires });
        self.release(old.and_then(|old| old.owner));
        if let Some(owner) = owner {
            *self.by_owner.entry(owner).or_default() += 1;
        }
        self.changes += 1;
    }

    /// Removes a service and returns its record.
    pub(crate) fn delete(&mut self, rid: &ServiceRid, now: Instant) -> Option<ServiceRecord> {
        let service = self.records.remove(rid)?;
        self.release(service.owner);
        self.changes += 1;
        self.changed.add(EntryKey::Service(*rid));
        Some(service.record(now))
    }

    /// Removes the services whose lease ended by `now`.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.next_end.is_none_or(|end| now < end) {
            return;
        }
        self.retain(|service| service.expires.is_none_or(|end| now < end));
        self.next_end = self.records.values().filter_map(|service| service.expires).min();
    }

    /// Removes the services that these ports registered.
    pub(super) fn remove_ports(&mut self, ports: &BTreeSet<Guid>) {
        self.retain(|service| service.owner.is_none_or(|owner| !ports.contains(&owner)));
    }

    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
    }

    fn retain(&mut self, keeps: impl Fn(&Service) -> bool) {
        let mut owners = Vec::new();
        let changed = &mut self.changed;
        self.records.retain(|rid, service| {
            let is_kept = keeps(service);
            if !is_kept {
                changed.add(EntryKey::Service(*rid));
                owners.push(service.owner);
            }
            is_kept
        });
        self.changes += u64::from(!owners.is_empty());
        owners.into_iter().for_each(|owner| self.release(owner));
    }

    /// Counts one service less of `owner`.
    fn release(&mut self, owner: Option<Guid>) {
        let Some(owner) = owner else { return };
        if let Some(count) = self.by_owner.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.by_owner.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The current time of the clock that tests may pause.
    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn service(id: u64, lease: u32) -> ServiceRecord {
        let mut record = ServiceRecord::default();
        record.set_id(id);
        record.set_lease(lease);
        record
    }

    fn ids(services: &Services) -> Vec<u64> {
        services.iter().map(|service| service.registered().id()).collect()
    }

    #[test]
    fn leases_end_and_can_be_renewed() {
        let mut services = Services::default();
        let start = now();
        for (id, lease) in [(1, ServiceRecord::NO_END), (2, 10), (3, 20), (4, 0)] {
            services.set(service(id, lease), None, start).unwrap();
        }
        services.expire(start);
        assert_eq!(ids(&services), [1, 2, 3], "a lease of 0 seconds ends at once");
        assert_eq!(left(&services, 0.5, start), [ServiceRecord::NO_END, 10, 20]);
        services.set(service(2, 100), None, after(9.0, start)).unwrap();
        services.expire(after(20.0, start));
        assert_eq!(ids(&services), [1, 2]);
        assert_eq!(left(&services, 20.0, start), [ServiceRecord::NO_END, 89]);
        services.expire(after(200.0, start));
        assert_eq!(ids(&services), [1]);
    }

    fn left(services: &Services, seconds: f64, start: Instant) -> Vec<u32> {
        services.iter().map(|s| s.record(after(seconds, start)).lease()).collect::<Vec<_>>()
    }

    fn after(seconds: f64, start: Instant) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn the_number_of_services_is_bounded() {
        let mut services = Services::default();
        let now = now();
        for id in 0..MAX_SERVICES as u64 {
            services.set(service(id, ServiceRecord::NO_END), None, now).unwrap();
        }
        let one_more = services.set(service(1 << 32, 1), None, now);
        assert_eq!(one_more, Err(ErrorStatus(SaStatus::NO_RESOURCES)));
        assert_eq!(
            services.set(service(5, 1), None, now),
            Ok(()),
            "existing services can be renewed"
        );
        services.expire(now + Duration::from_secs(2));
        assert_eq!(services.set(service(1 << 32, 1), None, now), Ok(()));
    }

    #[test]
    fn services_are_counted_by_port_and_end_with_it() {
        let mut services = Services::default();
        let now = now();
        let one = Some(Guid(1));
        let other = Some(Guid(2));
        for (id, owner, lease) in [(1, one, 9), (2, one, 1), (3, other, 9), (4, None, 9)] {
            services.set(service(id, lease), owner, now).unwrap();
        }
        assert_eq!(counts(&services), [2, 1]);
        services.set(service(1, 9), one, now).unwrap();
        assert_eq!(counts(&services), [2, 1], "renewed");
        services.expire(now + Duration::from_secs(2));
        assert_eq!(counts(&services), [1, 1]);
        services.remove_ports(&BTreeSet::from([Guid(1)]));
        assert_eq!((ids(&services), counts(&services)), (vec![3, 4], [0, 1]));
        services.delete(&rid(&service(3, 9)), now).unwrap();
        assert!(services.by_owner.is_empty());
    }

    fn counts(services: &Services) -> [usize; 2] {
        [1, 2].map(|guid| services.count_of(Guid(guid)))
    }
}
