//! Service records (IBA vol. 1, 15.2.5.14): named by ServiceID, ServiceGID and ServiceP_Key, and
//! gone when their lease ends.

use crate::ids::{Gid, Pkey};
use crate::sa::status::ErrorStatus;
use crate::wire::record::ServiceRecord;
use crate::wire::sa::SaStatus;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What names a record: ServiceID, ServiceGID, ServiceP_Key.
pub type ServiceRid = (u64, Gid, Pkey);

/// The most records that are kept: with more, a Set gets `NO_RESOURCES`.
pub const MAX_SERVICES: usize = 65_536;

/// A record and its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    record: ServiceRecord,
    /// `None` if it stays.
    expires: Option<Instant>,
}

impl Service {
    /// The record with the seconds that are left of its lease.
    pub fn record(&self, now: Instant) -> ServiceRecord {
        let mut record = self.record;
        record.set_lease(self.left(now));
        record
    }

    /// The record with the lease it was registered with.
    pub(super) fn registered(&self) -> &ServiceRecord {
        &self.record
    }

    /// Seconds left, begun ones counted; [`ServiceRecord::NO_END`] if it stays.
    pub(super) fn left(&self, now: Instant) -> u32 {
        let Some(end) = self.expires else { return ServiceRecord::NO_END };
        let left = end.saturating_duration_since(now);
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        u32::try_from(seconds).unwrap_or(ServiceRecord::NO_END - 1).min(ServiceRecord::NO_END - 1)
    }
}

/// All service records.
#[derive(Clone, Debug, Default)]
pub struct Services {
    records: BTreeMap<ServiceRid, Service>,
    /// No record ends before this.
    next_end: Option<Instant>,
    changes: u64,
}

/// What names `record`.
pub fn name(record: &ServiceRecord) -> ServiceRid {
    (record.id(), record.gid(), record.pkey())
}

/// The record as a requester may see it.
pub(crate) fn redacted(mut record: ServiceRecord, trusted: bool) -> ServiceRecord {
    if !trusted {
        record.set_key([0; 16]);
    }
    record
}

impl Services {
    /// Counts all changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// All records, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = &Service> {
        self.records.values()
    }

    /// Registers a service, or registers it anew, until its lease ends.
    pub(crate) fn set(&mut self, record: ServiceRecord, now: Instant) -> Result<(), ErrorStatus> {
        let name = name(&record);
        if self.records.len() >= MAX_SERVICES && !self.records.contains_key(&name) {
            return Err(ErrorStatus(SaStatus::NO_RESOURCES));
        }
        self.put(record, record.lease(), now);
        Ok(())
    }

    /// Puts a record of an earlier run back, with `left` seconds of its lease to go. False if it
    /// is there already, or too many are.
    pub(super) fn restore(&mut self, record: ServiceRecord, left: u32, now: Instant) -> bool {
        let fits = self.records.len() < MAX_SERVICES && !self.records.contains_key(&name(&record));
        if fits {
            self.put(record, left, now);
        }
        fits
    }

    fn put(&mut self, record: ServiceRecord, left: u32, now: Instant) {
        let expires = (left != ServiceRecord::NO_END)
            .then(|| now.checked_add(Duration::from_secs(left.into())))
            .flatten();
        self.next_end = [self.next_end, expires].into_iter().flatten().min();
        self.records.insert(name(&record), Service { record, expires });
        self.changes += 1;
    }

    /// Takes a service back.
    pub(crate) fn delete(&mut self, name: &ServiceRid, now: Instant) -> Option<ServiceRecord> {
        let service = self.records.remove(name)?;
        self.changes += 1;
        Some(service.record(now))
    }

    /// Forgets the records whose lease has ended.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.next_end.is_none_or(|end| now < end) {
            return;
        }
        let before = self.records.len();
        self.records.retain(|_, service| service.expires.is_none_or(|end| now < end));
        self.changes += u64::from(self.records.len() != before);
        self.next_end = self.records.values().filter_map(|service| service.expires).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Now, as the daemon's clock has it.
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
    fn leases_run_out_and_can_be_renewed() {
        let (mut services, start) = (Services::default(), now());
        let after = |seconds: f64| start + Duration::from_secs_f64(seconds);
        for (id, lease) in [(1, ServiceRecord::NO_END), (2, 10), (3, 20), (4, 0)] {
            services.set(service(id, lease), start).unwrap();
        }
        services.expire(start);
        assert_eq!(ids(&services), [1, 2, 3], "a lease of nothing ends at once");
        let left = |services: &Services, seconds| {
            services.iter().map(|s| s.record(after(seconds)).lease()).collect::<Vec<_>>()
        };
        assert_eq!(left(&services, 0.5), [ServiceRecord::NO_END, 10, 20]);
        services.set(service(2, 100), after(9.0)).unwrap();
        services.expire(after(20.0));
        assert_eq!(ids(&services), [1, 2]);
        assert_eq!(left(&services, 20.0), [ServiceRecord::NO_END, 89]);
        services.expire(after(200.0));
        assert_eq!(ids(&services), [1]);
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let (mut services, now) = (Services::default(), now());
        for id in 0..MAX_SERVICES as u64 {
            services.set(service(id, ServiceRecord::NO_END), now).unwrap();
        }
        let one_more = services.set(service(1 << 32, 1), now);
        assert_eq!(one_more, Err(ErrorStatus(SaStatus::NO_RESOURCES)));
        assert_eq!(services.set(service(5, 1), now), Ok(()), "what is there can be renewed");
        services.expire(now + Duration::from_secs(2));
        assert_eq!(services.set(service(1 << 32, 1), now), Ok(()));
    }
}
