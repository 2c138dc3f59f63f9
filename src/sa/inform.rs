//! InformInfo (IBA vol. 1, 13.4.8.3 and 13.5.3): subscribes to notices. InformInfoRecord
//! (15.2.5.12): lists the subscriptions.

use super::change::RegistryChange;
use super::query::{Query, ReplyBuilder};
use super::registry::subscriptions::{Subscription, is_security_trap, lid_range};
use super::status::ErrorStatus;
use crate::ids::{Gid, Lid};
use crate::transport::{Address, GSI_QKEY};
use crate::wire::record::{InformInfo, InformInfoRecord};
use crate::wire::sa::{DATA_OFFSET, SaStatus};

fn require(condition: bool) -> Result<(), ErrorStatus> {
    if condition { Ok(()) } else { Err(ErrorStatus(SaStatus::REQ_INVALID)) }
}

/// Checks SubnAdmSet(InformInfo), which subscribes or unsubscribes. Reports go to the sender of the
/// request; a request to unsubscribe contains the QPN of the subscription (13.4.8.3).
pub(super) fn change(query: &Query<'_>) -> Result<RegistryChange, ErrorStatus> {
    let request: InformInfo = query.record();
    require(request.subscribe() <= 1)?;
    let wants_security = request.is_generic() != 0 && is_security_trap(request.trap_number());
    require(query.is_privileged() || !wants_security)?;
    let mut info = request;
    let subscribes = request.subscribe() == 1;
    if subscribes {
        require(may_subscribe(query, &request))?;
        info.set_qpn(query.from.qpn);
    }
    let subscription = Box::new(Subscription {
        subscriber: query.view.guid(query.requester),
        prefix: query.view.options().subnet_prefix,
        number: 0,
        info,
        to: Address { qkey: GSI_QKEY, ..*query.from },
        trusted: query.is_privileged(),
    });
    let quota = query.view.options().sa_max_subscriptions_per_port as usize;
    if subscribes && query.registry.subscriptions.exceeds_quota(&subscription, quota) {
        return Err(ErrorStatus(SaStatus::NO_RESOURCES));
    }
    Ok(if subscribes {
        RegistryChange::Subscribe(subscription, request)
    } else {
        RegistryChange::Unsubscribe(subscription, request)
    })
}

/// Checks that the requester shares a partition with every selected source (o13-14.1.1). A LID
/// range of 0 to 0 is accepted, because osmtest subscribes with it, and matches no notice.
fn may_subscribe(query: &Query<'_>, info: &InformInfo) -> bool {
    if info.gid() != Gid::default() {
        let port = query.view.fabric().end_port_by_guid(info.gid().guid());
        return port.is_some_and(|port| query.is_visible(port));
    }
    let Some((first, last)) = lid_range(info) else { return true };
    let lids = query.view.lids();
    let mut sources = (first.0..=last.0.min(lids.max().0)).filter_map(|lid| lids.port(Lid(lid)));
    let exists = first.is_unicast() || last == Lid::default();
    exists && first <= last && first <= lids.max() && sources.all(|port| query.is_visible(port))
}

/// Clears the Subscribe field of an error reply to SubnAdmSet (o13-13.1.1).
pub(super) fn clear_subscribe(mad: &mut [u8]) {
    const SUBSCRIBE_AT: usize = DATA_OFFSET + 23;
    if let Some(subscribe) = mad.get_mut(SUBSCRIBE_AT) {
        *subscribe = 0;
    }
}

/// SubnAdmGet and SubnAdmGetTable of InformInfoRecord. Only trusted requesters see the QPN
/// (C15-0.2-1.16).
pub(super) fn list(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: InformInfoRecord = query.record();
    for subscription in query.registry.subscriptions().iter() {
        let subscriber = query.view.fabric().end_port_by_guid(subscription.subscriber);
        if !subscriber.is_some_and(|port| query.is_visible(port)) {
            continue;
        }
        let mut record = subscription.record();
        if !query.is_trusted() {
            let mut info = record.inform_info();
            info.set_qpn(0);
            record.set_inform_info(&info);
        }
        if query.push_if_matching(&wanted, &record, reply).is_break() {
            break;
        }
    }
    Ok(())
}
