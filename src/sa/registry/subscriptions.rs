//! Subscriptions to notices (IBA vol. 1, 13.5.3 and 15.2.5.12).

use crate::ids::{Gid, Guid, Lid};
use crate::sa::registry::change_log::{ChangedKeys, EntryKey};
use crate::sa::status::ErrorStatus;
use crate::transport::Address;
use crate::wire::attr::{Notice, TrapNumber};
use crate::wire::record::{InformInfo, InformInfoRecord};
use crate::wire::sa::SaStatus;
use crate::wire::vendor::MELLANOX;
use crate::wire::vendor::facts::{TRAP_VPORT_BAD_P_KEY, TRAP_VPORT_BAD_Q_KEY};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of subscriptions; above it, SubnAdmSet gets `NO_RESOURCES`. Bounds the memory
/// that clients can allocate.
const MAX_SUBSCRIPTIONS: usize = 65_536;

/// Wildcard of LIDRangeBegin, Type and TrapNumber of InformInfo.
const ANY: u16 = 0xFFFF;
/// Wildcard of ProducerType of InformInfo.
const ANY_PRODUCER: u32 = 0xFF_FFFF;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// GUID of the subscriber's port.
    pub subscriber: Guid,
    /// Subnet prefix of SubscriberGID.
    pub prefix: u64,
    /// The Enum field of the record: unique among the subscriptions of a port.
    pub number: u16,
    /// The request; its QPN is the destination of reports.
    pub info: InformInfo,
    /// Destination of reports.
    pub to: Address,
    /// The request contained a secret SM_Key, which is required for security notices (IBA vol. 1,
    /// C15-0.2-1.16).
    pub trusted: bool,
}

impl Subscription {
    pub fn record(&self) -> InformInfoRecord {
        let mut record = InformInfoRecord::default();
        record.set_subscriber_gid(Gid::new(self.prefix, self.subscriber));
        record.set_number(self.number);
        record.set_inform_info(&self.info);
        record
    }

    /// True if both have the same subscriber, queue pair and notices. RespTimeValue may differ.
    fn is_same(&self, other: &Self) -> bool {
        let a = &self.info;
        let b = &other.info;
        let by_lid = a.gid() == Gid::default();
        self.subscriber == other.subscriber
            && self.to.lid == other.to.lid
            && self.to.qpn == other.to.qpn
            && subscribed_kind(a) == subscribed_kind(b)
            && (!by_lid || lids_of_traps(a) == lids_of_traps(b))
    }

    /// True if the subscription selects the notice. Permissions are not checked.
    pub fn selects(&self, notice: &Notice) -> bool {
        let info = &self.info;
        let source = if info.gid() == Gid::default() {
            let issuer = notice.issuer_lid();
            lid_range(info).is_none_or(|(first, last)| (first..=last).contains(&issuer))
        } else {
            info.gid() == notice.issuer_gid()
        };
        let producer = info.producer_type();
        source
            && (info.is_generic() != 0) == notice.is_generic()
            && is_any_or(info.notice_type(), notice.notice_type().into())
            && is_any_or(info.trap_number(), notice.trap_number())
            && (producer == ANY_PRODUCER || producer == notice.producer_type())
    }
}

fn subscribed_kind(info: &InformInfo) -> (Gid, bool, u16, (u16, u32, u32)) {
    let device = (info.trap_number(), info.producer_type(), info.qpn());
    (info.gid(), info.is_generic() != 0, info.notice_type(), device)
}

fn is_any_or(wanted: u16, actual: u16) -> bool {
    wanted == ANY || wanted == actual
}

fn lids_of_traps(info: &InformInfo) -> (Lid, Lid) {
    (info.lid_range_begin(), info.lid_range_end())
}

/// The selected LIDs of issuers, from first to last; `None` for all. An end of 0 selects one LID.
pub(crate) fn lid_range(info: &InformInfo) -> Option<(Lid, Lid)> {
    let first = info.lid_range_begin();
    let last = info.lid_range_end();
    (first.0 != ANY).then_some((first, if last.0 == 0 { first } else { last }))
}

/// True for notices that only trusted subscribers receive: bad M_Key, P_Key or Q_Key.
pub(crate) fn is_security_trap(trap_number: u16) -> bool {
    (TrapNumber::BAD_M_KEY..=TrapNumber::SWITCH_BAD_P_KEY).contains(&trap_number)
}

/// True for notices that only trusted subscribers receive: those about bad keys, of ports and of vports.
pub(crate) fn is_security_notice(notice: &Notice) -> bool {
    if notice.is_generic() {
        return is_security_trap(notice.trap_number());
    }
    let of_vports = [TRAP_VPORT_BAD_P_KEY.value, TRAP_VPORT_BAD_Q_KEY.value];
    notice.producer_type() == MELLANOX && of_vports.contains(&notice.vendor_trap_number())
}

#[derive(Clone, Debug, Default)]
pub struct Subscriptions {
    by_port: BTreeMap<Guid, Vec<Subscription>>,
    count: usize,
    changes: u64,
    /// For replication.
    pub(super) changed: ChangedKeys,
}

impl Subscriptions {
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// All subscriptions, ascending by port, then number.
    pub fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.by_port.values().flatten()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn ports(&self) -> impl Iterator<Item = Guid> + '_ {
        self.by_port.keys().copied()
    }

    /// True if the subscription would be one more than `quota` of its port.
    pub(crate) fn exceeds_quota(&self, new: &Subscription, quota: usize) -> bool {
        let own = self.by_port.get(&new.subscriber);
        own.is_some_and(|own| own.len() >= quota && !own.iter().any(|old| old.is_same(new)))
    }

    /// Adds or renews a subscription, and sets its number.
    pub(crate) fn subscribe(&mut self, mut new: Subscription) -> Result<(), ErrorStatus> {
        let own = self.by_port.entry(new.subscriber).or_default();
        self.changes += 1;
        self.changed.add(EntryKey::Subscriptions(new.subscriber));
        if let Some(old) = own.iter_mut().find(|old| old.is_same(&new)) {
            new.number = old.number;
            *old = new;
            return Ok(());
        }
        let number = free_number(own).filter(|_| self.count < MAX_SUBSCRIPTIONS);
        let Some(number) = number else {
            self.remove_if_empty(new.subscriber);
            return Err(ErrorStatus(SaStatus::NO_RESOURCES));
        };
        new.number = number;
        let place = own.partition_point(|old| old.number < number);
        own.insert(place, new);
        self.count += 1;
        Ok(())
    }

    pub(crate) fn unsubscribe(&mut self, wanted: &Subscription) -> Result<(), ErrorStatus> {
        let invalid = ErrorStatus(SaStatus::REQ_INVALID);
        let own = self.by_port.get_mut(&wanted.subscriber).ok_or(invalid)?;
        let place = own.iter().position(|old| old.is_same(wanted)).ok_or(invalid)?;
        own.remove(place);
        self.count -= 1;
        self.changes += 1;
        self.changed.add(EntryKey::Subscriptions(wanted.subscriber));
        self.remove_if_empty(wanted.subscriber);
        Ok(())
    }

    /// Restores a subscription of the dump file. Returns false if it exists or the table is full.
    pub(super) fn restore(&mut self, old: Subscription) -> bool {
        let exists = self
            .by_port
            .get(&old.subscriber)
            .is_some_and(|own| own.iter().any(|other| other.is_same(&old)));
        !exists && self.subscribe(old).is_ok()
    }

    /// Removes a subscription by its number, if it exists.
    pub(crate) fn remove(&mut self, subscriber: Guid, number: u16) {
        let Some(own) = self.by_port.get_mut(&subscriber) else { return };
        let before = own.len();
        own.retain(|old| old.number != number);
        let removed = before - own.len();
        self.count -= removed;
        self.changes += removed as u64;
        self.changed.add(EntryKey::Subscriptions(subscriber));
        self.remove_if_empty(subscriber);
    }

    /// Removes the subscriptions of a queue pair of a port. Returns their number.
    pub(crate) fn remove_queue_pair(&mut self, subscriber: Guid, qpn: u32) -> usize {
        let own = self.of_port(subscriber).iter().filter(|own| own.to.qpn == qpn);
        let numbers: Vec<u16> = own.map(|own| own.number).collect();
        numbers.iter().for_each(|&number| self.remove(subscriber, number));
        numbers.len()
    }

    /// Removes all subscriptions of these ports.
    pub(super) fn remove_ports(&mut self, ports: &BTreeSet<Guid>) {
        for port in ports {
            if let Some(own) = self.by_port.remove(port) {
                self.count -= own.len();
                self.changes += 1;
                self.changed.add(EntryKey::Subscriptions(*port));
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.changes += u64::from(self.count > 0);
        let ports = self.by_port.keys().map(|&port| EntryKey::Subscriptions(port));
        ports.for_each(|key| self.changed.add(key));
        self.by_port.clear();
        self.count = 0;
    }

    /// The subscriptions of a port, ascending by number.
    pub(super) fn of_port(&self, port: Guid) -> &[Subscription] {
        self.by_port.get(&port).map_or(&[], Vec::as_slice)
    }

    /// Replaces the subscriptions of a port by those that the SM has that this one follows. Those
    /// that exceed the size of the table are omitted.
    pub(super) fn put(&mut self, port: Guid, mut all: Vec<Subscription>) {
        self.count -= self.by_port.remove(&port).map_or(0, |old| old.len());
        all.truncate(MAX_SUBSCRIPTIONS - self.count);
        all.sort_by_key(|subscription| subscription.number);
        self.count += all.len();
        self.changes += 1;
        if !all.is_empty() {
            self.by_port.insert(port, all);
        }
    }

    /// Takes over all subscriptions of `other`.
    pub(super) fn replace(&mut self, other: Self) {
        let changes = self.changes + other.changes + 1;
        *self = Self { changes, changed: std::mem::take(&mut self.changed), ..other };
    }

    fn remove_if_empty(&mut self, port: Guid) {
        if self.by_port.get(&port).is_some_and(Vec::is_empty) {
            self.by_port.remove(&port);
        }
    }
}

/// The lowest unused number. `own` is sorted by number.
fn free_number(own: &[Subscription]) -> Option<u16> {
    let gap = own.iter().zip(0u16..).find(|(old, number)| old.number != *number);
    gap.map(|(_, number)| number).or_else(|| u16::try_from(own.len()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_about_bad_keys_are_for_trusted_subscribers() {
        assert_eq!([131, 256, 257, 259].map(generic), [false, true, true, true]);
        let vendor = |producer, number| {
            let mut notice = Notice::default();
            notice.set_producer_type(producer);
            notice.set_vendor_trap_number(number);
            is_security_notice(&notice)
        };
        let of_mellanox = [1144, 1146, 1257, 1258].map(|number| vendor(MELLANOX, number));
        assert_eq!(of_mellanox, [false, false, true, true]);
        assert!(!vendor(1, 1257));
    }

    fn generic(number: u16) -> bool {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_trap_number(number);
        is_security_notice(&notice)
    }
}
