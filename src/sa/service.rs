//! ServiceRecord (IBA vol. 1, 15.2.5.14): who offers which service.
//!
//! A record belongs to a partition if its P_Key is valid: then the port that registers it and
//! the port that offers the service must be members, and only members see it. A record without
//! P_Key is for all.

use super::change::RegistryChange;
use super::query::{Query, ReplyBuilder};
use super::registry::services::{self, redacted};
use super::status::ErrorStatus;
use crate::ids::Pkey;
use crate::wire::record::{ServiceRecord, matches};
use crate::wire::sa::SaStatus;

/// What a registration must say.
const REQUIRED: u64 = ServiceRecord::ID | ServiceRecord::GID;

/// Checks a Set.
pub(super) fn register(query: &Query<'_>) -> Result<RegistryChange, ErrorStatus> {
    let mut record: ServiceRecord = query.record();
    check_key(query, &record)?;
    if !query.has(REQUIRED) {
        return Err(ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    if !query.has(ServiceRecord::LEASE) {
        record.set_lease(ServiceRecord::NO_END);
    }
    let mut answer = redacted(record, query.trusted);
    if !query.has(ServiceRecord::PKEY) {
        answer.set_pkey(Pkey::DEFAULT_FULL);
    }
    Ok(RegistryChange::Register(Box::new([record, answer])))
}

/// Checks a Delete. The fields that name a record count, whatever the component mask says.
pub(super) fn unregister(query: &Query<'_>) -> Result<RegistryChange, ErrorStatus> {
    let record: ServiceRecord = query.record();
    check_key(query, &record)?;
    Ok(RegistryChange::Unregister { name: services::name(&record), trusted: query.trusted })
}

/// A P_Key in the request must be one of the requester's, and of the port that offers the
/// service.
fn check_key(query: &Query<'_>, record: &ServiceRecord) -> Result<(), ErrorStatus> {
    if !query.has(ServiceRecord::PKEY) {
        return Ok(());
    }
    let mut is_right = query.view.has_pkey(query.requester, record.pkey());
    if query.has(ServiceRecord::GID) && !record.gid().is_multicast() {
        let host = query.port_by_guid(record.gid().guid());
        is_right &= host.is_some_and(|port| query.view.has_pkey(port, record.pkey()));
    }
    if is_right { Ok(()) } else { Err(ErrorStatus(SaStatus::REQ_INVALID)) }
}

/// Get and GetTable. A lease is no criterion: it is another one every second.
pub(super) fn list(query: &Query<'_>, answer: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: ServiceRecord = query.record();
    let mask = query.mask & !ServiceRecord::LEASE;
    for service in query.registry.services().iter() {
        let record = service.record(query.now);
        let pkey = record.pkey();
        let is_seen = pkey.base() == 0 || query.view.has_pkey(query.requester, pkey);
        if is_seen
            && matches(mask, &wanted, &record)
            && answer.push(&redacted(record, query.trusted)).is_break()
        {
            break;
        }
    }
    Ok(())
}
