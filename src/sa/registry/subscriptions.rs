//! Subscriptions to notices (IBA vol. 1, 13.5.3 and 15.2.5.12): who wants to hear of what.

use crate::ids::{Gid, Guid, Lid};
use crate::sa::status::ErrorStatus;
use crate::transport::Address;
use crate::wire::attr::{Notice, TrapNumber};
use crate::wire::record::{InformInfo, InformInfoRecord};
use crate::wire::sa::SaStatus;
use std::collections::{BTreeMap, BTreeSet};

/// The most subscriptions that are kept: with more, a Set gets `NO_RESOURCES`.
pub const MAX_SUBSCRIPTIONS: usize = 65_536;

/// "All" in the LID range, the type and the trap number of an InformInfo.
pub(crate) const ALL: u16 = 0xFFFF;
/// "All" in its producer type.
const ALL_PRODUCERS: u32 = 0xFF_FFFF;

/// A subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// The subscriber's port.
    pub subscriber: Guid,
    /// Its subnet prefix, as answers give it.
    pub prefix: u64,
    /// Tells the subscriptions of one port apart.
    pub number: u16,
    /// What it asked for; its QPN is the one reports go to.
    pub info: InformInfo,
    /// Where reports go.
    pub to: Address,
    /// It was made with our SM_Key: only then reports of security notices are for it
    /// (IBA vol. 1, C15-0.2-1.16).
    pub trusted: bool,
}

impl Subscription {
    /// The subscription as a record.
    pub fn record(&self) -> InformInfoRecord {
        let mut record = InformInfoRecord::default();
        record.set_subscriber_gid(Gid::new(self.prefix, self.subscriber));
        record.set_number(self.number);
        record.set_inform_info(&self.info);
        record
    }

    /// True if the two are one: same subscriber at the same queue pair, same notices. The time
    /// it needs to respond may differ.
    fn is_same(&self, other: &Self) -> bool {
        let (a, b) = (&self.info, &other.info);
        let by_lid = a.gid() == Gid::default();
        let lids = |info: &InformInfo| (info.lid_range_begin(), info.lid_range_end());
        let kind = |info: &InformInfo| {
            let device = (info.trap_number(), info.producer_type(), info.qpn());
            (info.gid(), info.is_generic() != 0, info.notice_type(), device)
        };
        self.subscriber == other.subscriber
            && self.to.lid == other.to.lid
            && self.to.qpn == other.to.qpn
            && kind(a) == kind(b)
            && (!by_lid || lids(a) == lids(b))
    }

    /// True if the notice is among those asked for. Whether the subscriber may have it is
    /// another question.
    pub fn wants(&self, notice: &Notice) -> bool {
        let info = &self.info;
        let source = if info.gid() == Gid::default() {
            let issuer = notice.issuer_lid();
            lid_range(info).is_none_or(|(first, last)| (first..=last).contains(&issuer))
        } else {
            info.gid() == notice.issuer_gid()
        };
        let is = |wanted: u16, is: u16| wanted == ALL || wanted == is;
        let producer = info.producer_type();
        source
            && (info.is_generic() != 0) == notice.is_generic()
            && is(info.notice_type(), notice.notice_type().into())
            && is(info.trap_number(), notice.trap_number())
            && (producer == ALL_PRODUCERS || producer == notice.producer_type())
    }
}

/// The LIDs of the sources asked for; `None` if all are. An end of 0 means that there is one.
pub(crate) fn lid_range(info: &InformInfo) -> Option<(Lid, Lid)> {
    let (first, last) = (info.lid_range_begin(), info.lid_range_end());
    (first.0 != ALL).then_some((first, if last.0 == 0 { first } else { last }))
}

/// True for the notices that only trusted ports may hear of: bad M_Keys, P_Keys, Q_Keys.
pub(crate) fn is_security(trap_number: u16) -> bool {
    (TrapNumber::BAD_M_KEY..=TrapNumber::SWITCH_BAD_P_KEY).contains(&trap_number)
}

/// All subscriptions.
#[derive(Clone, Debug, Default)]
pub struct Subscriptions {
    by_port: BTreeMap<Guid, Vec<Subscription>>,
    count: usize,
    changes: u64,
}

impl Subscriptions {
    /// Counts all changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// All subscriptions, ascending by port, then number.
    pub fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.by_port.values().flatten()
    }

    /// True if nobody subscribed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The ports that subscribed.
    pub(super) fn ports(&self) -> impl Iterator<Item = Guid> + '_ {
        self.by_port.keys().copied()
    }

    /// Adds a subscription, or renews it; its number is chosen here.
    pub(crate) fn subscribe(&mut self, mut new: Subscription) -> Result<(), ErrorStatus> {
        let own = self.by_port.entry(new.subscriber).or_default();
        self.changes += 1;
        if let Some(old) = own.iter_mut().find(|old| old.is_same(&new)) {
            new.number = old.number;
            *old = new;
            return Ok(());
        }
        let number = free_number(own).filter(|_| self.count < MAX_SUBSCRIPTIONS);
        let Some(number) = number else {
            self.tidy(new.subscriber);
            return Err(ErrorStatus(SaStatus::NO_RESOURCES));
        };
        new.number = number;
        let place = own.partition_point(|old| old.number < number);
        own.insert(place, new);
        self.count += 1;
        Ok(())
    }

    /// PathEnds a subscription.
    pub(crate) fn unsubscribe(&mut self, wanted: &Subscription) -> Result<(), ErrorStatus> {
        let invalid = ErrorStatus(SaStatus::REQ_INVALID);
        let own = self.by_port.get_mut(&wanted.subscriber).ok_or(invalid)?;
        let place = own.iter().position(|old| old.is_same(wanted)).ok_or(invalid)?;
        own.remove(place);
        self.count -= 1;
        self.changes += 1;
        self.tidy(wanted.subscriber);
        Ok(())
    }

    /// Puts a subscription of an earlier run back; false if it is there already, or too many are.
    pub(super) fn restore(&mut self, old: Subscription) -> bool {
        let is_there = self
            .by_port
            .get(&old.subscriber)
            .is_some_and(|own| own.iter().any(|other| other.is_same(&old)));
        !is_there && self.subscribe(old).is_ok()
    }

    /// PathEnds one by its name, if it is there.
    pub(crate) fn remove(&mut self, subscriber: Guid, number: u16) {
        let Some(own) = self.by_port.get_mut(&subscriber) else { return };
        let before = own.len();
        own.retain(|old| old.number != number);
        let removed = before - own.len();
        self.count -= removed;
        self.changes += removed as u64;
        self.tidy(subscriber);
    }

    /// PathEnds all subscriptions of these ports.
    pub(super) fn forget(&mut self, ports: &BTreeSet<Guid>) {
        for port in ports {
            if let Some(own) = self.by_port.remove(port) {
                self.count -= own.len();
                self.changes += 1;
            }
        }
    }

    /// PathEnds all subscriptions.
    pub(crate) fn clear(&mut self) {
        self.changes += u64::from(self.count > 0);
        self.by_port.clear();
        self.count = 0;
    }

    fn tidy(&mut self, port: Guid) {
        if self.by_port.get(&port).is_some_and(Vec::is_empty) {
            self.by_port.remove(&port);
        }
    }
}

/// The lowest number that is free; they ascend.
fn free_number(own: &[Subscription]) -> Option<u16> {
    let gap = own.iter().zip(0u16..).find(|(old, number)| old.number != *number);
    gap.map(|(_, number)| number).or_else(|| u16::try_from(own.len()).ok())
}
