//! Which notices there are, and who may hear of them (IBA vol. 1, 13.4.8.2, 13.5.3, 14.2.5.1).
//!
//! Traps 64 and 65 (a port in or out of service) are what two snapshots differ in; 66 and 67 (a
//! group came to life or ended) come from the registry; all others from devices, which sent them
//! to the subnet manager.
//!
//! What a device sends more often than the rate that `observe::traps` lets through
//! is not reported, as with OpenSM. Aliases of ports are not told of either.
//!
//! A subscriber hears of a port if both share a partition (o13-17.1.1), of a group if it is a
//! member of the group's partition, of bad keys if it is trusted. A subscription to a range of
//! LIDs that turns out to reach beyond its partitions ends (o13-17.1.2).

use super::path_index::PathIndex;
use super::registry::groups::GroupEvent;
use super::registry::subscriptions::{Subscription, is_security};
use super::registry::{Registry, subscriptions};
use super::reports::{OutgoingReport, ReportCounters, ReportQueue, ReportRetry};
use super::view::SubnetView;
use crate::config::options::Options;
use crate::fabric::PortId;
use crate::ids::{Gid, Lid, Pkey};
use crate::publish::Subnet;
use crate::transport::Address;
use crate::wire::attr::{Notice, TrapNumber};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Producer type of notices of the subnet administrator itself.
const CLASS_MANAGER: u32 = 4;
/// Type of notices of subnet management.
const SUBNET_MANAGEMENT: u8 = 3;

/// Reports what happens.
#[derive(Debug, Default)]
pub struct NoticeDispatcher {
    reports: ReportQueue,
    /// The snapshot whose ports the subscribers know of.
    known: Option<Arc<Subnet>>,
}

/// Where a notice comes from, as far as partitions are concerned.
#[derive(Clone, Copy)]
enum NoticeSource<'a> {
    /// A port with these keys.
    Port(&'a [Pkey]),
    /// A group of this partition.
    Group(Pkey),
}

impl NoticeDispatcher {
    /// What became of reports.
    pub fn counters(&self) -> ReportCounters {
        self.reports.counters()
    }

    /// There is a new snapshot: reports ports that came and went. The first one reports all its
    /// ports, for nobody knows what happened before.
    pub fn subnet_published(&mut self, registry: &mut Registry, subnet: &Arc<Subnet>) {
        let before = self.known.replace(subnet.clone());
        if registry.subscriptions.is_empty() {
            return;
        }
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(&before.fabric, &subnet.fabric)) {
            return;
        }
        let path_index = PathIndex::default();
        let new = SubnetView::new(subnet, &path_index);
        if let Some(before) = &before {
            let old = SubnetView::new(before, &path_index);
            for port in missing(&old, Some(&new)) {
                let notice = own(&new, TrapNumber::GID_OUT, old.gid(port));
                self.report(registry, &new, notice, NoticeSource::Port(old.pkeys(port)));
            }
        }
        let old = before.as_ref().map(|before| SubnetView::new(before, &path_index));
        for port in missing(&new, old.as_ref()) {
            let notice = own(&new, TrapNumber::GID_IN, new.gid(port));
            self.report(registry, &new, notice, NoticeSource::Port(new.pkeys(port)));
        }
    }

    /// Reports groups that came to life or ended.
    pub fn group_events(
        &mut self,
        registry: &mut Registry,
        subnet: &Subnet,
        events: &[GroupEvent],
    ) {
        if registry.subscriptions.is_empty() {
            return;
        }
        let path_index = PathIndex::default();
        let view = SubnetView::new(subnet, &path_index);
        for event in events {
            let number =
                if event.created { TrapNumber::MCAST_CREATED } else { TrapNumber::MCAST_DELETED };
            let notice = own(&view, number, event.mgid);
            self.report(registry, &view, notice, NoticeSource::Group(event.pkey));
        }
    }

    /// Reports what the device at `lid` sent. False if there is no device of that LID.
    pub fn forward_trap(
        &mut self,
        registry: &mut Registry,
        subnet: &Subnet,
        lid: Lid,
        mut notice: Notice,
    ) -> bool {
        let path_index = PathIndex::default();
        let view = SubnetView::new(subnet, &path_index);
        // What comes from LID 0 comes from the own port.
        let own = (lid == Lid(0)).then(|| view.fabric().local());
        let Some(port) = own.or_else(|| view.lids().port(lid)) else { return false };
        notice.set_issuer_gid(view.gid(port));
        self.report(registry, &view, notice, NoticeSource::Port(view.pkeys(port)));
        true
    }

    fn report(
        &mut self,
        registry: &mut Registry,
        view: &SubnetView<'_>,
        notice: Notice,
        source: NoticeSource<'_>,
    ) {
        let notice = Arc::new(notice);
        let mut ended = Vec::new();
        for subscription in registry.subscriptions.iter().filter(|one| one.wants(&notice)) {
            let Some(port) = view.fabric().port_by_guid(subscription.subscriber) else { continue };
            let is_secret = notice.is_generic() && is_security(notice.trap_number());
            if is_secret && !subscription.trusted {
                continue;
            }
            if may_hear(view, port, source) {
                let (info, to) = (&subscription.info, address(view, port, subscription));
                let listener = (subscription.subscriber, to.qpn);
                self.reports.push(listener, to, info.resp_time_value(), notice.clone());
            } else if matches!(source, NoticeSource::Port(_))
                && subscriptions::lid_range(&subscription.info).is_some()
            {
                ended.push((subscription.subscriber, subscription.number));
            }
        }
        for (subscriber, number) in ended {
            registry.subscriptions.remove(subscriber, number);
        }
    }

    /// The next report to be sent now.
    pub fn next(&mut self, now: Instant, patience: ReportRetry) -> Option<OutgoingReport> {
        self.reports.next(now, patience)
    }

    /// The port tells what came of a report.
    pub fn report_completed(&mut self, tid: u32, answered: bool) {
        self.reports.report_completed(tid, answered);
    }

    /// Gives up what nobody told of.
    pub fn expire(&mut self, now: Instant) {
        self.reports.expire(now);
    }

    /// When [`Self::expire`] may have something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.reports.next_deadline()
    }

    /// This subnet manager is not master any more.
    pub fn reset(&mut self) {
        self.reports.clear();
        self.known = None;
    }
}

/// The patience that the configuration asks for.
pub fn report_retry(options: &Options) -> ReportRetry {
    let timeout = Duration::from_millis(options.transaction_timeout.into());
    ReportRetry { timeout, retries: options.transaction_retries }
}

/// The end ports of `view` that `other` does not have.
fn missing<'a>(view: &SubnetView<'a>, other: Option<&SubnetView<'a>>) -> Vec<PortId> {
    let (view, other) = (*view, other.copied());
    let is_missing = |port: &PortId| {
        other.is_none_or(|other| other.fabric().port_by_guid(view.guid(*port)).is_none())
    };
    view.fabric().end_ports().filter(is_missing).collect()
}

/// A notice of the subnet administrator itself.
fn own(view: &SubnetView<'_>, number: u16, subject: Gid) -> Notice {
    let local = view.fabric().local();
    let mut notice = Notice::default();
    notice.set_is_generic(true);
    notice.set_notice_type(SUBNET_MANAGEMENT);
    notice.set_producer_type(CLASS_MANAGER);
    notice.set_trap_number(number);
    notice.set_issuer_lid(view.lids().base_of_owner(view.fabric(), local).unwrap_or_default());
    notice.set_subject_gid(subject);
    notice.set_issuer_gid(view.gid(local));
    notice
}

fn may_hear(view: &SubnetView<'_>, port: PortId, source: NoticeSource<'_>) -> bool {
    match source {
        NoticeSource::Port(keys) => {
            view.pkeys(port).iter().any(|own| keys.iter().any(|other| own.matches(*other)))
        }
        NoticeSource::Group(key) => view.has_pkey(port, key),
    }
}

/// Where the subscriber is now: it may have another LID than when it subscribed.
fn address(view: &SubnetView<'_>, port: PortId, subscription: &Subscription) -> Address {
    let lids = view.lids();
    let has_moved = lids.port(subscription.to.lid) != Some(port);
    match lids.base(port) {
        Some(lid) if has_moved => Address { lid, ..subscription.to },
        _ => subscription.to,
    }
}
