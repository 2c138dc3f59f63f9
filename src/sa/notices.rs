//! Sources of notices, and the selection of their subscribers (IBA vol. 1, 13.4.8.2, 13.5.3 and
//! 14.2.5.1).
//!
//! Notices 64 and 65 (a port in or out of service) are the difference of two snapshots, 66 and 67
//! (a multicast group created or deleted) are events of the registry, and all others are traps that
//! devices sent to the subnet manager. Traps above the rate limit of `observe::traps` are not
//! reported, as in OpenSM, nor are changes of alias GUIDs.
//!
//! Reports about a port go to subscribers that share a partition with it (o13-17.1.1), reports
//! about a group to subscribers in its partition, and reports of bad keys to trusted subscribers. A
//! subscription to a range of LIDs that includes a port without a common partition is removed
//! (o13-17.1.2).

use super::path_index::PathIndex;
use super::registry::groups::GroupEvent;
use super::registry::subscriptions::{Subscription, is_security_notice};
use super::registry::{Registry, subscriptions};
use super::reports::{OutgoingReport, ReportCounters, ReportQueue, ReportRetry, SubscriberKey};
use super::trap_origin;
use super::view::SubnetView;
use crate::config::options::Options;
use crate::fabric::virtual_ports::EndPort;
use crate::ids::{Gid, Lid, Pkey};
use crate::publish::Subnet;
use crate::transport::Address;
use crate::wire::attr::{Notice, TrapNumber};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// ProducerType of notices that the SA generates: class manager.
const PRODUCER_CLASS_MANAGER: u32 = 4;
/// Notice type "Subnet Management" (IBA vol. 1, 13.4.8.2).
const TYPE_SUBNET_MANAGEMENT: u8 = 3;

/// Turns events into reports to subscribers.
#[derive(Debug, Default)]
pub struct NoticeDispatcher {
    reports: ReportQueue,
    /// The snapshot whose ports have been reported.
    reported: Option<Arc<Subnet>>,
}

/// Origin of a notice, for the partition check.
#[derive(Clone, Copy)]
enum NoticeSource<'a> {
    /// A port with these P_Keys.
    Port(&'a [Pkey]),
    /// A group of this partition.
    Group(Pkey),
}

impl NoticeDispatcher {
    pub fn counters(&self) -> ReportCounters {
        self.reports.counters()
    }

    /// Reports the ports that were added and removed by a new snapshot. All ports of the first
    /// snapshot are reported as added, because earlier changes are unknown.
    pub fn subnet_published(
        &mut self,
        registry: &mut Registry,
        subnet: &Arc<Subnet>,
        now: Instant,
    ) {
        let before = self.reported.replace(subnet.clone());
        self.reports.retain_ports(|guid| subnet.fabric.end_port_by_guid(guid).is_some());
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
            for port in ports_missing_in(&old, Some(&new)) {
                let notice = sa_notice(&new, TrapNumber::GID_OUT, old.gid(port));
                self.report(registry, &new, notice, NoticeSource::Port(old.pkeys(port)), now);
            }
        }
        let old = before.as_ref().map(|before| SubnetView::new(before, &path_index));
        for port in ports_missing_in(&new, old.as_ref()) {
            let notice = sa_notice(&new, TrapNumber::GID_IN, new.gid(port));
            self.report(registry, &new, notice, NoticeSource::Port(new.pkeys(port)), now);
        }
    }

    /// Reports groups that were created or deleted.
    pub fn group_events(
        &mut self,
        registry: &mut Registry,
        subnet: &Subnet,
        events: &[GroupEvent],
        now: Instant,
    ) {
        if registry.subscriptions.is_empty() {
            return;
        }
        let path_index = PathIndex::default();
        let view = SubnetView::new(subnet, &path_index);
        for event in events {
            let number =
                if event.created { TrapNumber::MCAST_CREATED } else { TrapNumber::MCAST_DELETED };
            let notice = sa_notice(&view, number, event.mgid);
            self.report(registry, &view, notice, NoticeSource::Group(event.pkey), now);
        }
    }

    /// Reports a trap that arrived from `lid`.
    ///
    /// # Errors
    /// The reason why it is not reported: no port has that LID, or its device cannot be the origin.
    pub fn forward_trap(
        &mut self,
        registry: &mut Registry,
        subnet: &Subnet,
        lid: Lid,
        mut notice: Notice,
        now: Instant,
    ) -> Result<(), &'static str> {
        let path_index = PathIndex::default();
        let view = SubnetView::new(subnet, &path_index);
        let port = trap_origin::sender(subnet, lid).ok_or("no port has this LID")?;
        trap_origin::check(subnet, port, &notice)?;
        trap_origin::check_producer(subnet, port, &notice)?;
        notice.set_issuer_gid(view.gid(port));
        self.report(registry, &view, notice, NoticeSource::Port(view.pkeys(port)), now);
        Ok(())
    }

    fn report(
        &mut self,
        registry: &mut Registry,
        view: &SubnetView<'_>,
        notice: Notice,
        source: NoticeSource<'_>,
        now: Instant,
    ) {
        let notice = Arc::new(notice);
        let mut removed = Vec::new();
        for subscription in registry.subscriptions.iter().filter(|one| one.selects(&notice)) {
            let Some(port) = view.fabric().end_port_by_guid(subscription.subscriber) else {
                continue;
            };
            if is_security_notice(&notice) && !subscription.trusted {
                continue;
            }
            if may_receive(view, port, source) {
                let info = &subscription.info;
                let to = current_address(view, port, subscription);
                let key = (subscription.subscriber, to.qpn);
                self.reports.push(key, to, info.resp_time_value(), notice.clone(), now);
            } else if matches!(source, NoticeSource::Port(_))
                && subscriptions::lid_range(&subscription.info).is_some()
            {
                removed.push((subscription.subscriber, subscription.number));
            }
        }
        for (subscriber, number) in removed {
            registry.subscriptions.remove(subscriber, number);
        }
    }

    /// The next report to send; `None` if all subscribers with reports have one in flight.
    pub fn next(&mut self, now: Instant, retry: ReportRetry) -> Option<OutgoingReport> {
        self.reports.next(now, retry)
    }

    /// Completes a report with the outcome that the port returned.
    pub fn report_completed(&mut self, tid: u32, answered: bool, now: Instant) {
        self.reports.report_completed(tid, answered, now);
    }

    /// Ends the subscriptions of the queue pairs that have answered no report for too long. Returns
    /// each with the number of its subscriptions.
    pub fn end_silent(&mut self, registry: &mut Registry) -> Vec<(SubscriberKey, usize)> {
        let silent = self.reports.take_silent().into_iter();
        let ended = silent
            .map(|(guid, qpn)| ((guid, qpn), registry.subscriptions.remove_queue_pair(guid, qpn)));
        ended.collect()
    }

    /// True if [`Self::end_silent`] has an effect.
    pub fn has_silent(&self) -> bool {
        self.reports.has_silent()
    }

    /// Completes as unanswered the reports whose outcome the port has not returned in time.
    pub fn expire(&mut self, now: Instant) {
        self.reports.expire(now);
    }

    /// The earliest time at which [`Self::expire`] has an effect.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.reports.next_deadline()
    }

    /// Discards all reports, when this subnet manager ceases to be master.
    pub fn reset(&mut self) {
        self.reports.clear();
        self.reported = None;
    }
}

/// Timeout and retries of reports, by the options `transaction_timeout` and `transaction_retries`,
/// and the end of subscriptions by `sa_max_subscriber_silence`.
pub fn report_retry(options: &Options) -> ReportRetry {
    let timeout = Duration::from_millis(options.transaction_timeout.into());
    let silence = options.sa_max_subscriber_silence;
    let max_silence = (silence > 0).then(|| Duration::from_secs(silence.into()));
    ReportRetry { timeout, retries: options.transaction_retries, max_silence }
}

/// The end ports of `view` that `other` does not contain.
fn ports_missing_in<'a>(view: &SubnetView<'a>, other: Option<&SubnetView<'a>>) -> Vec<EndPort> {
    let view = *view;
    let other = other.copied();
    let fabric = view.fabric();
    let physical = fabric.end_ports().map(EndPort::from);
    let with_vports =
        fabric.virtual_ports().ports().filter_map(|(guid, _)| fabric.port_by_guid(guid));
    let vports = with_vports.flat_map(|port| fabric.vports_of(port).map(|(end, _)| end));
    physical.chain(vports).filter(|end| is_missing(&other, &view, end)).collect()
}

fn is_missing(other: &Option<SubnetView<'_>>, view: &SubnetView<'_>, end: &EndPort) -> bool {
    other.is_none_or(|other| other.fabric().end_port_by_guid(view.guid(*end)).is_none())
}

/// A notice that the SA generates.
fn sa_notice(view: &SubnetView<'_>, number: u16, subject: Gid) -> Notice {
    let local = view.fabric().local();
    let mut notice = Notice::default();
    notice.set_is_generic(true);
    notice.set_notice_type(TYPE_SUBNET_MANAGEMENT);
    notice.set_producer_type(PRODUCER_CLASS_MANAGER);
    notice.set_trap_number(number);
    notice.set_issuer_lid(view.lids().base_of_owner(view.fabric(), local).unwrap_or(Lid(0)));
    notice.set_subject_gid(subject);
    notice.set_issuer_gid(view.gid(local));
    notice
}

/// True if the partitions of a subscriber allow a report about `source`.
fn may_receive(view: &SubnetView<'_>, port: EndPort, source: NoticeSource<'_>) -> bool {
    match source {
        NoticeSource::Port(keys) => {
            view.pkeys(port).iter().any(|own| keys.iter().any(|other| own.matches(*other)))
        }
        NoticeSource::Group(key) => view.has_pkey(port, key),
    }
}

/// The current address of a subscriber, whose LID may have changed since it subscribed.
fn current_address(view: &SubnetView<'_>, end: EndPort, subscription: &Subscription) -> Address {
    let lids = view.lids();
    let lid = lids.receives_at(view.fabric(), end);
    let has_moved = lids.owner(subscription.to.lid) != lid.and_then(|lid| lids.owner(lid));
    match lid {
        Some(lid) if has_moved => Address { lid, ..subscription.to },
        _ => subscription.to,
    }
}
