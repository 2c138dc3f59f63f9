//! Delivery of notices to subscribers with SubnAdmReport, which subscribers acknowledge with
//! SubnAdmReportResp (IBA vol. 1, 13.4.11 and 15.2.2).
//!
//! This module uses no I/O and no clock. The port retransmits a report and returns its outcome;
//! [`ReportQueue`] keeps order and limits. Each subscriber has one report in flight, so that events
//! arrive in order. At most [`MAX_IN_FLIGHT`] reports are in flight, and [`MAX_QUEUED`] are queued
//! for a subscriber. After [`MAX_UNANSWERED`] consecutive reports without a response, the queue of
//! the subscriber is discarded, so that it does not delay other subscribers.

use crate::ids::Guid;
use crate::transport::Address;
use crate::wire::attr::{AttrId, Notice};
use crate::wire::mad::{Class, Header, Mad, Method};
use crate::wire::sa::{CLASS_VERSION, DATA_OFFSET};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of reports in flight.
const MAX_IN_FLIGHT: usize = 64;
/// Maximum number of reports queued for one subscriber; above it, the oldest is dropped.
const MAX_QUEUED: usize = 4096;
/// Number of consecutive unanswered reports after which the queue of a subscriber is discarded.
const MAX_UNANSWERED: u32 = 3;
/// Maximum timeout of a report, whatever RespTimeValue the subscriber asks for.
const MAX_TIMEOUT: Duration = Duration::from_secs(4);
/// Time after the last retransmission at which a report counts as unanswered if the port has
/// returned no outcome.
const COMPLETION_GRACE: Duration = Duration::from_secs(2);

/// A subscriber: port GUID and QPN.
pub type SubscriberKey = (Guid, u32);

/// A report to be sent by the port, which retransmits it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingReport {
    pub to: Address,
    /// Timeout of each transmission.
    pub timeout: Duration,
    /// Maximum number of retransmissions.
    pub retries: u32,
    /// Lower half of its transaction ID.
    pub tid: u32,
    pub mad: Mad,
}

/// Counters of reports since the start of the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReportCounters {
    /// Reports sent, without retransmissions.
    pub sent: u64,
    pub answered: u64,
    /// Reports without a response after all retransmissions.
    pub unanswered: u64,
    /// Reports dropped before they were sent: the queue was full or discarded.
    pub dropped: u64,
}

/// The reports of one subscriber.
#[derive(Debug)]
struct SubscriberQueue {
    queued: VecDeque<QueuedReport>,
    has_report_in_flight: bool,
    /// Number of consecutive reports without a response.
    unanswered: u32,
}

#[derive(Debug)]
struct QueuedReport {
    to: Address,
    /// RespTimeValue of the subscriber: it responds within 4.096 us * 2^value.
    resp_time: u8,
    notice: Arc<Notice>,
}

/// Retransmission of reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportRetry {
    /// Minimum timeout of each transmission (`transaction_timeout`).
    pub timeout: Duration,
    /// Maximum number of retransmissions (`transaction_retries`).
    pub retries: u32,
}

/// Reports that are queued and in flight.
#[derive(Debug, Default)]
pub struct ReportQueue {
    queues: BTreeMap<SubscriberKey, SubscriberQueue>,
    /// Subscribers with queued reports and none in flight, in order of service.
    ready: VecDeque<SubscriberKey>,
    /// Subscriber and deadline by transaction ID.
    in_flight: BTreeMap<u32, (SubscriberKey, Instant)>,
    last_tid: u32,
    counters: ReportCounters,
}

impl ReportQueue {
    pub fn counters(&self) -> ReportCounters {
        self.counters
    }

    /// Queues a report of `notice` to `subscriber` at the address `to`.
    pub fn push(
        &mut self,
        subscriber: SubscriberKey,
        to: Address,
        resp_time: u8,
        notice: Arc<Notice>,
    ) {
        let queue = self.queues.entry(subscriber).or_insert_with(|| {
            self.ready.push_back(subscriber);
            SubscriberQueue { queued: VecDeque::new(), has_report_in_flight: false, unanswered: 0 }
        });
        if queue.queued.len() >= MAX_QUEUED {
            queue.queued.pop_front();
            self.counters.dropped += 1;
        }
        queue.queued.push_back(QueuedReport { to, resp_time, notice });
    }

    /// The next report to send; `None` at the limit of reports in flight, or if no subscriber is
    /// ready.
    pub fn next(&mut self, now: Instant, retry: ReportRetry) -> Option<OutgoingReport> {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return None;
        }
        let subscriber = self.ready.pop_front()?;
        let queue = self.queues.get_mut(&subscriber)?;
        let QueuedReport { to, resp_time, notice } = queue.queued.pop_front()?;
        queue.has_report_in_flight = true;
        let resp_time = Duration::from_nanos(4096 << resp_time.min(31));
        let timeout = retry.timeout.max(resp_time.min(MAX_TIMEOUT));
        let tid = self.new_tid();
        let total = timeout.saturating_mul(retry.retries.saturating_add(1));
        self.in_flight.insert(tid, (subscriber, now + total + COMPLETION_GRACE));
        self.counters.sent += 1;
        Some(OutgoingReport { to, timeout, retries: retry.retries, tid, mad: report(tid, &notice) })
    }

    /// Completes a report with the outcome that the port returned. Returns false for an unknown
    /// transaction ID.
    pub fn report_completed(&mut self, tid: u32, answered: bool) -> bool {
        let Some((subscriber, _)) = self.in_flight.remove(&tid) else { return false };
        self.counters.answered += u64::from(answered);
        self.counters.unanswered += u64::from(!answered);
        let Some(queue) = self.queues.get_mut(&subscriber) else { return true };
        queue.has_report_in_flight = false;
        queue.unanswered = if answered { 0 } else { queue.unanswered + 1 };
        if queue.unanswered >= MAX_UNANSWERED {
            self.counters.dropped += queue.queued.len() as u64;
            queue.queued.clear();
        }
        if queue.queued.is_empty() {
            self.queues.remove(&subscriber);
        } else {
            self.ready.push_back(subscriber);
        }
        true
    }

    /// Completes as unanswered the reports whose outcome is overdue.
    pub fn expire(&mut self, now: Instant) {
        let late = self.in_flight.iter().filter(|(_, (_, deadline))| *deadline <= now);
        let late: Vec<u32> = late.map(|(&tid, _)| tid).collect();
        for tid in late {
            self.report_completed(tid, false);
        }
    }

    /// The earliest time at which [`Self::expire`] has an effect.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.in_flight.values().map(|&(_, deadline)| deadline).min()
    }

    /// Discards all reports, when another subnet manager becomes master.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.ready.clear();
        self.in_flight.clear();
    }

    fn new_tid(&mut self) -> u32 {
        loop {
            self.last_tid = self.last_tid.wrapping_add(1);
            if self.last_tid != 0 && !self.in_flight.contains_key(&self.last_tid) {
                return self.last_tid;
            }
        }
    }
}

/// The MAD of SubnAdmReport(Notice).
fn report(tid: u32, notice: &Notice) -> Mad {
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(Class::SUBN_ADM);
    header.set_class_version(CLASS_VERSION);
    header.set_method(Method::REPORT.0);
    header.set_tid(tid.into());
    header.set_attr_id(AttrId::NOTICE);
    let mut mad = Mad::default();
    mad.set_header(&header);
    notice.write(&mut mad.0[DATA_OFFSET..]);
    mad
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lid, Sl};

    /// The current time of the clock that tests may pause.
    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    const RETRY: ReportRetry = ReportRetry { timeout: Duration::from_millis(200), retries: 3 };

    fn notice(number: u16) -> Arc<Notice> {
        let mut notice = Notice::default();
        notice.set_trap_number(number);
        Arc::new(notice)
    }

    fn push(reports: &mut ReportQueue, port: u64, number: u16) {
        let to = Address::gsi(Lid(port as u16), Sl(0));
        reports.push((Guid(port), 1), to, 18, notice(number));
    }

    fn number(dispatch: &OutgoingReport) -> u16 {
        Notice::read(&dispatch.mad.0[DATA_OFFSET..]).trap_number()
    }

    #[test]
    fn each_subscriber_gets_one_report_at_a_time_in_order() {
        let (mut reports, now) = (ReportQueue::default(), now());
        for trap in [64, 65, 66] {
            push(&mut reports, 1, trap);
            push(&mut reports, 2, trap);
        }
        for trap in [64, 65, 66] {
            let first = reports.next(now, RETRY).expect("a report for the first");
            let second = reports.next(now, RETRY).expect("a report for the second");
            assert_eq!((number(&first), number(&second)), (trap, trap));
            assert_ne!(first.to, second.to);
            assert!(first.timeout > Duration::from_secs(1), "the time the subscriber needs");
            assert_eq!(reports.next(now, RETRY), None);
            assert!(
                reports.report_completed(first.tid, true)
                    && reports.report_completed(second.tid, true)
            );
            assert!(!reports.report_completed(first.tid, true), "completed twice");
        }
        assert_eq!(reports.next(now, RETRY), None);
        assert_eq!(reports.counters().answered, 6);
        assert!(reports.queues.is_empty());
    }

    #[test]
    fn reports_in_flight_are_bounded() {
        let (mut reports, now) = (ReportQueue::default(), now());
        (1..=200).for_each(|port| push(&mut reports, port, 64));
        let sent = std::iter::from_fn(|| reports.next(now, RETRY)).count();
        assert_eq!(sent, MAX_IN_FLIGHT);
        let deadline = reports.next_deadline().expect("reports in flight");
        reports.expire(deadline - Duration::from_millis(1));
        assert_eq!(reports.next(now, RETRY), None);
        reports.expire(deadline);
        assert_eq!(std::iter::from_fn(|| reports.next(deadline, RETRY)).count(), MAX_IN_FLIGHT);
    }

    #[test]
    fn the_queue_of_an_unresponsive_subscriber_is_discarded() {
        let (mut reports, now) = (ReportQueue::default(), now());
        (0..100).for_each(|_| push(&mut reports, 1, 64));
        for _ in 0..MAX_UNANSWERED {
            let dispatch = reports.next(now, RETRY).expect("another report");
            reports.report_completed(dispatch.tid, false);
        }
        assert_eq!(reports.next(now, RETRY), None);
        assert_eq!(reports.counters().dropped, 100 - u64::from(MAX_UNANSWERED));
        push(&mut reports, 1, 65);
        assert!(reports.next(now, RETRY).is_some(), "later events are reported again");
    }

    #[test]
    fn the_queue_of_a_subscriber_is_bounded() {
        let mut reports = ReportQueue::default();
        (0..MAX_QUEUED as u16 + 3).for_each(|number| push(&mut reports, 1, number));
        assert_eq!(reports.counters().dropped, 3);
        let dispatch = reports.next(now(), RETRY).expect("one");
        assert_eq!(number(&dispatch), 3, "the oldest are dropped");
    }
}
