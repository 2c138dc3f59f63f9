//! Delivery of notices to subscribers with SubnAdmReport, which subscribers acknowledge with
//! SubnAdmReportResp (IBA vol. 1, 13.4.11 and 15.2.2).
//!
//! This module uses no I/O and no clock. The port retransmits a report and returns its outcome;
//! [`ReportQueue`] keeps order and limits. Each subscriber (a queue pair) has one report in flight,
//! so that events arrive in order. Any number of queue pairs of a port share the limits of that
//! port: [`MAX_IN_FLIGHT_PER_PORT`] reports in flight and [`MAX_QUEUED_PER_PORT`] queued ones.
//!
//! Ports that do not respond wait for their own timeouts, not others: those whose last report was
//! unanswered share [`MAX_SILENT_IN_FLIGHT`] of the [`MAX_IN_FLIGHT`] reports in flight. After
//! [`MAX_UNANSWERED`] consecutive reports without a response, the queue of the subscriber is
//! discarded, and so are new reports during a pause that doubles with every further one. When none
//! was answered for [`ReportRetry::max_silence`], [`ReportQueue::take_silent`] names the subscriber,
//! whose subscriptions end.

use crate::ids::Guid;
use crate::transport::Address;
use crate::wire::attr::{AttrId, Notice};
use crate::wire::mad::{Class, Header, Mad, Method};
use crate::wire::sa::{CLASS_VERSION, DATA_OFFSET};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of reports in flight.
const MAX_IN_FLIGHT: usize = 128;
/// Maximum number of reports in flight to the subscribers of one port.
const MAX_IN_FLIGHT_PER_PORT: usize = 4;
/// Maximum number of reports in flight to ports whose last report was unanswered.
const MAX_SILENT_IN_FLIGHT: usize = 16;
/// Maximum number of reports queued for one subscriber; above it, the oldest is dropped.
const MAX_QUEUED: usize = 4096;
/// Maximum number of reports queued for the subscribers of one port; above it, new ones are
/// dropped.
const MAX_QUEUED_PER_PORT: usize = 8192;
/// Maximum number of queue pairs of a port that are known, as they have reports or did not respond.
const MAX_SUBSCRIBERS_PER_PORT: usize = 1024;
/// Maximum number of queued reports, 8 MiB without the notices, which subscribers share; above it,
/// new ones are dropped.
const MAX_QUEUED_IN_TOTAL: usize = 1 << 20;
/// Number of consecutive unanswered reports after which the queue of a subscriber is discarded.
const MAX_UNANSWERED: u32 = 3;
/// Limits of the pause of a subscriber that does not respond.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Maximum timeout of a transmission that RespTimeValue of a subscriber can ask for.
const MAX_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time for all transmissions of a report, unless the options ask for more.
const MAX_TOTAL_TIMEOUT: Duration = Duration::from_secs(4);
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
    /// Reports dropped before they were sent: a queue was full or discarded, or the subscriber
    /// does not respond.
    pub dropped: u64,
}

impl fmt::Display for ReportCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, answered, unanswered, dropped } = self;
        write!(f, "{sent} sent, {answered} answered, {unanswered} unanswered, {dropped} dropped")
    }
}

/// The reports of one subscriber.
#[derive(Debug)]
struct SubscriberQueue {
    to: Address,
    /// RespTimeValue of the subscriber: it responds within 4.096 us * 2^value.
    resp_time: u8,
    queued: VecDeque<Arc<Notice>>,
    has_report_in_flight: bool,
    /// Number of consecutive reports without a response.
    unanswered: u32,
    /// Time at which the first of them was sent.
    silent_since: Option<Instant>,
    /// End of the pause in which reports are dropped.
    paused_until: Option<Instant>,
}

impl SubscriberQueue {
    fn new(to: Address, resp_time: u8) -> Self {
        let queued = VecDeque::new();
        let has_report_in_flight = false;
        let unanswered = 0;
        let silent_since = None;
        let paused_until = None;
        Self { to, resp_time, queued, has_report_in_flight, unanswered, silent_since, paused_until }
    }

    /// True if nothing is lost with the queue.
    fn is_idle(&self) -> bool {
        self.queued.is_empty() && !self.has_report_in_flight && self.unanswered == 0
    }
}

/// The subscribers of one port.
#[derive(Debug, Default)]
struct PortReports {
    /// By QPN.
    subscribers: BTreeMap<u32, SubscriberQueue>,
    /// Subscribers with queued reports and none in flight, in order of service.
    ready: VecDeque<u32>,
    queued: usize,
    in_flight: usize,
    /// The last report was unanswered.
    is_silent: bool,
    /// The port is in one of the turns of [`ReportQueue`].
    has_turn: bool,
}

impl PortReports {
    /// True if the subscriber is known, or can be added. Forgets others without reports if
    /// necessary.
    fn has_room_for(&mut self, qpn: u32, now: Instant) -> bool {
        if self.subscribers.len() < MAX_SUBSCRIBERS_PER_PORT || self.subscribers.contains_key(&qpn)
        {
            return true;
        }
        self.subscribers.retain(|_, other| {
            let is_paused = other.paused_until.is_some_and(|end| now < end);
            is_paused || other.has_report_in_flight || !other.queued.is_empty()
        });
        self.subscribers.len() < MAX_SUBSCRIBERS_PER_PORT
    }
}

/// Retransmission of reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportRetry {
    /// Minimum timeout of each transmission (`transaction_timeout`).
    pub timeout: Duration,
    /// Maximum number of retransmissions (`transaction_retries`).
    pub retries: u32,
    /// Time without a response after which subscriptions end (`sa_max_subscriber_silence`); `None`
    /// keeps them.
    pub max_silence: Option<Duration>,
}

/// A report that was sent.
#[derive(Debug)]
struct ReportInFlight {
    subscriber: SubscriberKey,
    sent: Instant,
    deadline: Instant,
    max_silence: Option<Duration>,
    /// It counts as one of [`MAX_SILENT_IN_FLIGHT`].
    is_to_silent_port: bool,
}

/// Reports that are queued and in flight.
#[derive(Debug, Default)]
pub struct ReportQueue {
    ports: BTreeMap<Guid, PortReports>,
    /// Ports with ready subscribers, in order of service.
    turns: VecDeque<Guid>,
    /// Such ports whose last report was unanswered.
    turns_of_silent: VecDeque<Guid>,
    /// By transaction ID.
    in_flight: BTreeMap<u32, ReportInFlight>,
    silent_in_flight: usize,
    queued: usize,
    /// Subscribers whose subscriptions are to end.
    silent: Vec<SubscriberKey>,
    last_tid: u32,
    counters: ReportCounters,
}

impl ReportQueue {
    pub fn counters(&self) -> ReportCounters {
        self.counters
    }

    /// Queues a report of `notice` to `subscriber` at the address `to`, unless it exceeds a limit.
    pub fn push(
        &mut self,
        (guid, qpn): SubscriberKey,
        to: Address,
        resp_time: u8,
        notice: Arc<Notice>,
        now: Instant,
    ) {
        let is_full = self.queued >= MAX_QUEUED_IN_TOTAL;
        let port = self.ports.entry(guid).or_default();
        if !port.has_room_for(qpn, now) {
            self.counters.dropped += 1;
            return;
        }
        let own =
            port.subscribers.entry(qpn).or_insert_with(|| SubscriberQueue::new(to, resp_time));
        (own.to, own.resp_time) = (to, resp_time);
        let is_paused = own.paused_until.is_some_and(|end| now < end);
        if own.queued.len() >= MAX_QUEUED {
            own.queued.pop_front();
            self.counters.dropped += 1;
        } else if is_paused || is_full || port.queued >= MAX_QUEUED_PER_PORT {
            self.counters.dropped += 1;
            return self.remove_if_idle((guid, qpn));
        } else {
            port.queued += 1;
            self.queued += 1;
        }
        own.queued.push_back(notice);
        if own.queued.len() == 1 && !own.has_report_in_flight {
            port.ready.push_back(qpn);
            self.give_turn(guid);
        }
    }

    /// Puts a port with a ready subscriber in order of service.
    fn give_turn(&mut self, guid: Guid) {
        let Some(port) = self.ports.get_mut(&guid) else { return };
        if port.has_turn || port.ready.is_empty() || port.in_flight >= MAX_IN_FLIGHT_PER_PORT {
            return;
        }
        port.has_turn = true;
        let turns = if port.is_silent { &mut self.turns_of_silent } else { &mut self.turns };
        turns.push_back(guid);
    }

    fn remove_if_idle(&mut self, (guid, qpn): SubscriberKey) {
        let Some(port) = self.ports.get_mut(&guid) else { return };
        if port.subscribers.get(&qpn).is_some_and(SubscriberQueue::is_idle) {
            port.subscribers.remove(&qpn);
        }
        if port.subscribers.is_empty() && !port.has_turn && !port.is_silent {
            self.ports.remove(&guid);
        }
    }

    /// The port whose turn it is.
    fn next_port(&mut self) -> Option<Guid> {
        while let Some(guid) = self.turns.pop_front() {
            let Some(port) = self.ports.get_mut(&guid) else { continue };
            if !port.is_silent {
                return Some(guid);
            }
            self.turns_of_silent.push_back(guid);
        }
        let has_room = self.silent_in_flight < MAX_SILENT_IN_FLIGHT;
        if has_room { self.turns_of_silent.pop_front() } else { None }
    }

    /// The next report to send; `None` at the limit of reports in flight, or if no subscriber is
    /// ready.
    pub fn next(&mut self, now: Instant, retry: ReportRetry) -> Option<OutgoingReport> {
        while self.in_flight.len() < MAX_IN_FLIGHT {
            let guid = self.next_port()?;
            if let Some(report) = self.next_of(guid, now, retry) {
                return Some(report);
            }
        }
        None
    }

    /// The next report of a port whose turn it is.
    fn next_of(&mut self, guid: Guid, now: Instant, retry: ReportRetry) -> Option<OutgoingReport> {
        let tid = self.new_tid();
        let port = self.ports.get_mut(&guid)?;
        port.has_turn = false;
        let qpn = port.ready.pop_front()?;
        let own = port.subscribers.get_mut(&qpn)?;
        let notice = own.queued.pop_front()?;
        own.has_report_in_flight = true;
        port.in_flight += 1;
        port.queued -= 1;
        self.queued -= 1;
        let to = own.to;
        let is_to_silent_port = port.is_silent;
        let (timeout, retries) = transmissions(own.resp_time, retry);
        let deadline = now + timeout.saturating_mul(retries.saturating_add(1)) + COMPLETION_GRACE;
        let subscriber = (guid, qpn);
        let max_silence = retry.max_silence;
        let report_in_flight =
            ReportInFlight { subscriber, sent: now, deadline, max_silence, is_to_silent_port };
        self.in_flight.insert(tid, report_in_flight);
        self.silent_in_flight += usize::from(is_to_silent_port);
        self.counters.sent += 1;
        self.give_turn(guid);
        Some(OutgoingReport { to, timeout, retries, tid, mad: report(tid, &notice) })
    }

    /// Completes a report with the outcome that the port returned. Returns false for an unknown
    /// transaction ID.
    pub fn report_completed(&mut self, tid: u32, answered: bool, now: Instant) -> bool {
        let Some(completed) = self.in_flight.remove(&tid) else { return false };
        let (guid, qpn) = completed.subscriber;
        self.silent_in_flight -= usize::from(completed.is_to_silent_port);
        self.counters.answered += u64::from(answered);
        self.counters.unanswered += u64::from(!answered);
        let Some(port) = self.ports.get_mut(&guid) else { return true };
        let Some(own) = port.subscribers.get_mut(&qpn) else { return true };
        port.in_flight = port.in_flight.saturating_sub(1);
        port.is_silent = !answered;
        own.has_report_in_flight = false;
        own.unanswered = if answered { 0 } else { own.unanswered + 1 };
        let since = own.silent_since.unwrap_or(completed.sent);
        own.silent_since = (!answered).then_some(since);
        if own.unanswered > MAX_UNANSWERED
            && completed.max_silence.is_some_and(|limit| is_over(limit, now, since))
        {
            self.silent.push((guid, qpn));
        }
        own.paused_until = pause(own.unanswered).map(|pause| now + pause);
        if own.paused_until.is_some() {
            let dropped = own.queued.len();
            own.queued.clear();
            own.queued.shrink_to_fit();
            port.queued -= dropped;
            self.queued -= dropped;
            self.counters.dropped += dropped as u64;
        }
        if !own.queued.is_empty() {
            port.ready.push_back(qpn);
        }
        self.give_turn(guid);
        self.remove_if_idle((guid, qpn));
        true
    }

    /// True if [`Self::take_silent`] returns subscribers.
    pub fn has_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    /// Returns the subscribers that have answered no report for [`ReportRetry::max_silence`], and
    /// forgets them.
    pub fn take_silent(&mut self) -> Vec<SubscriberKey> {
        let silent = std::mem::take(&mut self.silent);
        for (guid, qpn) in &silent {
            let Some(port) = self.ports.get_mut(guid) else { continue };
            let Some(own) = port.subscribers.remove(qpn) else { continue };
            port.queued -= own.queued.len();
            self.queued -= own.queued.len();
            port.ready.retain(|ready| ready != qpn);
        }
        silent
    }

    /// Completes as unanswered the reports whose outcome is overdue.
    pub fn expire(&mut self, now: Instant) {
        let late = self.in_flight.iter().filter(|(_, report)| report.deadline <= now);
        let late: Vec<u32> = late.map(|(&tid, _)| tid).collect();
        for tid in late {
            self.report_completed(tid, false, now);
        }
    }

    /// The earliest time at which [`Self::expire`] has an effect.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.in_flight.values().map(|report| report.deadline).min()
    }

    /// Discards the queues of the ports for which `keeps` is false.
    pub fn retain_ports(&mut self, keeps: impl Fn(Guid) -> bool) {
        let queued = &mut self.queued;
        self.ports.retain(|&guid, port| {
            let is_kept = keeps(guid);
            if !is_kept {
                *queued -= port.queued;
            }
            is_kept
        });
        self.turns.retain(|guid| has_port(&self.ports, guid));
        self.turns_of_silent.retain(|guid| has_port(&self.ports, guid));
    }

    /// Discards all reports, when another subnet manager becomes master.
    pub fn clear(&mut self) {
        let last_tid = self.last_tid;
        let counters = self.counters;
        *self = Self { last_tid, counters, ..Self::default() };
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

fn has_port(ports: &BTreeMap<Guid, PortReports>, guid: &Guid) -> bool {
    ports.contains_key(guid)
}

fn is_over(limit: Duration, now: Instant, since: Instant) -> bool {
    now.saturating_duration_since(since) >= limit
}

/// Timeout of each transmission of a report, and number of retransmissions.
fn transmissions(resp_time: u8, retry: ReportRetry) -> (Duration, u32) {
    let resp_time = Duration::from_nanos(4096 << resp_time.min(31)).min(MAX_TIMEOUT);
    if resp_time <= retry.timeout {
        return (retry.timeout, retry.retries);
    }
    let fitting = (MAX_TOTAL_TIMEOUT.as_nanos() / resp_time.as_nanos()).max(1) as u32;
    (resp_time, retry.retries.min(fitting - 1))
}

/// The pause of a subscriber after consecutive unanswered reports.
fn pause(unanswered: u32) -> Option<Duration> {
    let beyond = unanswered.checked_sub(MAX_UNANSWERED)?;
    Some(MIN_PAUSE.saturating_mul(1 << beyond.min(16)).min(MAX_PAUSE))
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
mod tests;
