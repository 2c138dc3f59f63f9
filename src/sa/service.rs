//! ServiceRecord (IBA vol. 1, 15.2.5.14): the services that ports offer.
//!
//! A record with a valid P_Key belongs to that partition: the port that registers it and the port
//! that offers the service must be members, and only members see it. All ports see a record without
//! P_Key.
//!
//! A port registers services for its own GIDs and for the groups that it is a member of. A service
//! with a ServiceKey is changed with that key only, and deleted with the key or by the port whose
//! GID it has: clients such as osmtest delete the record that a query returned, without its key.
//! Requests with a secret SM_Key are exempt from both.

use super::change::RegistryChange;
use super::query::{Query, ReplyBuilder};
use super::registry::services::{self, redacted};
use super::status::ErrorStatus;
use crate::ids::{Gid, Guid, Pkey};
use crate::wire::record::{ServiceRecord, matches};
use crate::wire::sa::SaStatus;

/// Required components of a registration.
const REQUIRED: u64 = ServiceRecord::ID | ServiceRecord::GID;

/// Checks SubnAdmSet: registers a service or renews its lease.
pub(super) fn register(query: &Query<'_>) -> Result<RegistryChange, ErrorStatus> {
    let mut record: ServiceRecord = query.record();
    check_pkey(query, &record)?;
    if !query.has(REQUIRED) {
        return Err(ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    check_authority(query, &record)?;
    let owner = (!query.is_privileged()).then(|| query.view.guid(query.requester));
    if let Some(owner) = owner {
        check_quota(query, &record, owner)?;
    }
    if !query.has(ServiceRecord::LEASE) {
        record.set_lease(ServiceRecord::NO_END);
    }
    let mut reply = redacted(record, query.is_privileged());
    if !query.has(ServiceRecord::PKEY) {
        reply.set_pkey(Pkey::DEFAULT_FULL);
    }
    Ok(RegistryChange::Register(Box::new([record, reply]), owner))
}

/// Checks SubnAdmDelete. The fields of the record's RID are used whatever the component mask is.
pub(super) fn unregister(query: &Query<'_>) -> Result<RegistryChange, ErrorStatus> {
    let record: ServiceRecord = query.record();
    check_pkey(query, &record)?;
    let exists = query.registry.services.get(&services::rid(&record)).is_some();
    if exists && !owns_gid(query, record.gid()) {
        check_authority(query, &record)?;
    }
    Ok(RegistryChange::Unregister {
        rid: services::rid(&record),
        privileged: query.is_privileged(),
    })
}

/// Checks that the requester and the port that offers the service are members of the partition of
/// the request.
fn check_pkey(query: &Query<'_>, record: &ServiceRecord) -> Result<(), ErrorStatus> {
    if !query.has(ServiceRecord::PKEY) {
        return Ok(());
    }
    let mut is_member = query.view.has_pkey(query.requester, record.pkey());
    if query.has(ServiceRecord::GID) && !record.gid().is_multicast() {
        let host = query.port_by_guid(record.gid().guid());
        is_member &= host.is_some_and(|port| query.view.has_pkey(port, record.pkey()));
    }
    if is_member { Ok(()) } else { Err(ErrorStatus(SaStatus::REQ_INVALID)) }
}

/// Checks that the requester may register, change or delete the service: the ServiceKey of the
/// registered record decides if it has one (IBA vol. 1, 15.2.5.14), else the ServiceGID. The key is
/// compared whatever the component mask is.
fn check_authority(query: &Query<'_>, record: &ServiceRecord) -> Result<(), ErrorStatus> {
    let registered = query.registry.services.get(&services::rid(record));
    let key = registered.map(|service| service.registered().key()).filter(|key| *key != [0; 16]);
    let is_authorised = query.is_privileged()
        || match key {
            Some(key) => key == record.key(),
            None => owns_gid(query, record.gid()),
        };
    if is_authorised { Ok(()) } else { Err(ErrorStatus(SaStatus::DENIED)) }
}

/// True if the GID is one of the requester's, or that of a group that the requester is a member of.
fn owns_gid(query: &Query<'_>, gid: Gid) -> bool {
    if gid.is_multicast() {
        let group = query.registry.group(&gid);
        return group.is_some_and(|group| group.has_port(query.view.guid(query.requester)));
    }
    query.port_by_guid(gid.guid()) == Some(query.requester)
}

/// Checks that a new service of `owner` does not exceed `sa_max_services_per_port`.
fn check_quota(query: &Query<'_>, record: &ServiceRecord, owner: Guid) -> Result<(), ErrorStatus> {
    let services = &query.registry.services;
    let is_new = services.get(&services::rid(record)).is_none();
    let quota = query.view.options().sa_max_services_per_port as usize;
    let exceeds = is_new && services.count_of(owner) >= quota;
    if exceeds { Err(ErrorStatus(SaStatus::NO_RESOURCES)) } else { Ok(()) }
}

/// SubnAdmGet and SubnAdmGetTable. The lease is not compared, because it changes every second.
pub(super) fn list(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: ServiceRecord = query.record();
    let mask = query.mask & !ServiceRecord::LEASE;
    for service in query.registry.services().iter() {
        let record = service.record(query.now);
        let pkey = record.pkey();
        let is_visible = pkey.base() == 0 || query.view.has_pkey(query.requester, pkey);
        if is_visible
            && matches(mask, &wanted, &record)
            && reply.push(&redacted(record, query.is_privileged())).is_break()
        {
            break;
        }
    }
    Ok(())
}
