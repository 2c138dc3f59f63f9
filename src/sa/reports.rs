//! How notices get to their subscribers: SubnAdmReport, repeated until ReportResp comes
//! (IBA vol. 1, 13.4.11 and 15.2.2).
//!
//! A core without I/O and clock. The port repeats a report by itself and tells what came of it;
//! this keeps the order and the bounds: one report at a time to each subscriber, so that what
//! went and came back is not heard the other way round; [`MAX_IN_FLIGHT`] reports under way in all;
//! [`MAX_QUEUED`] waiting for one subscriber. Who does not answer [`MAX_UNANSWERED`] reports in a row
//! has the others that wait for it dropped, so that the deaf do not hold up those who listen.

use crate::ids::Guid;
use crate::transport::Address;
use crate::wire::attr::{AttrId, Notice};
use crate::wire::mad::{Class, Header, Mad, Method};
use crate::wire::sa::{CLASS_VERSION, DATA_OFFSET};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reports under way at once.
pub const MAX_IN_FLIGHT: usize = 64;
/// Reports that wait for one subscriber; with more, the oldest is dropped.
pub const MAX_QUEUED: usize = 4096;
/// Reports in a row without answer after which the rest is dropped.
pub const MAX_UNANSWERED: u32 = 3;
/// The longest time that a subscriber's answer is waited for.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(4);
/// How long after the last repetition a report counts as unanswered though the port said nothing.
const COMPLETION_GRACE: Duration = Duration::from_secs(2);

/// A subscriber: port and queue pair.
pub type SubscriberKey = (Guid, u32);

/// A report to be sent through the port, which repeats it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingReport {
    /// To whom.
    pub to: Address,
    /// Time to wait for each answer.
    pub timeout: Duration,
    /// Repetitions.
    pub retries: u32,
    /// The lower half of its transaction ID.
    pub tid: u32,
    /// The MAD.
    pub mad: Mad,
}

/// What became of reports since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReportCounters {
    /// Reports sent, repetitions not counted.
    pub sent: u64,
    /// Reports that were answered.
    pub answered: u64,
    /// Reports that were not.
    pub unanswered: u64,
    /// Reports dropped before they were sent: too many waited, or nobody answered.
    pub dropped: u64,
}

/// What waits for one subscriber.
#[derive(Debug)]
struct SubscriberQueue {
    waiting: VecDeque<QueuedReport>,
    /// A report is under way.
    is_busy: bool,
    /// Reports in a row without answer.
    silent: u32,
}

#[derive(Debug)]
struct QueuedReport {
    to: Address,
    /// Time the subscriber needs: 4.096 us * 2^value.
    resp_time: u8,
    notice: Arc<Notice>,
}

/// How patient the port is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportRetry {
    /// The least time to wait for an answer (`transaction_timeout`).
    pub timeout: Duration,
    /// Repetitions (`transaction_retries`).
    pub retries: u32,
}

/// Reports that wait and that are under way.
#[derive(Debug, Default)]
pub struct ReportQueue {
    queues: BTreeMap<SubscriberKey, SubscriberQueue>,
    /// Subscribers with something to send, in turn.
    turns: VecDeque<SubscriberKey>,
    /// By transaction ID: to whom, and when to give up.
    under_way: BTreeMap<u32, (SubscriberKey, Instant)>,
    last_tid: u32,
    counters: ReportCounters,
}

impl ReportQueue {
    /// What became of reports.
    pub fn counters(&self) -> ReportCounters {
        self.counters
    }

    /// Has `notice` reported to `listener` at `to`.
    pub fn push(
        &mut self,
        listener: SubscriberKey,
        to: Address,
        resp_time: u8,
        notice: Arc<Notice>,
    ) {
        let queue = self.queues.entry(listener).or_insert_with(|| {
            self.turns.push_back(listener);
            SubscriberQueue { waiting: VecDeque::new(), is_busy: false, silent: 0 }
        });
        if queue.waiting.len() >= MAX_QUEUED {
            queue.waiting.pop_front();
            self.counters.dropped += 1;
        }
        queue.waiting.push_back(QueuedReport { to, resp_time, notice });
    }

    /// The next report to be sent now; `None` if all wait for answers or nothing is left.
    pub fn next(&mut self, now: Instant, patience: ReportRetry) -> Option<OutgoingReport> {
        if self.under_way.len() >= MAX_IN_FLIGHT {
            return None;
        }
        let listener = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&listener)?;
        let QueuedReport { to, resp_time, notice } = queue.waiting.pop_front()?;
        queue.is_busy = true;
        let needed = Duration::from_nanos(4096 << resp_time.min(31));
        let timeout = patience.timeout.max(needed.min(MAX_TIMEOUT));
        let tid = self.new_tid();
        let total = timeout.saturating_mul(patience.retries.saturating_add(1));
        self.under_way.insert(tid, (listener, now + total + COMPLETION_GRACE));
        self.counters.sent += 1;
        Some(OutgoingReport {
            to,
            timeout,
            retries: patience.retries,
            tid,
            mad: report(tid, &notice),
        })
    }

    /// The port tells what came of a report; false if it is none of ours.
    pub fn report_completed(&mut self, tid: u32, answered: bool) -> bool {
        let Some((listener, _)) = self.under_way.remove(&tid) else { return false };
        self.counters.answered += u64::from(answered);
        self.counters.unanswered += u64::from(!answered);
        let Some(queue) = self.queues.get_mut(&listener) else { return true };
        queue.is_busy = false;
        queue.silent = if answered { 0 } else { queue.silent + 1 };
        if queue.silent >= MAX_UNANSWERED {
            self.counters.dropped += queue.waiting.len() as u64;
            queue.waiting.clear();
        }
        if queue.waiting.is_empty() {
            self.queues.remove(&listener);
        } else {
            self.turns.push_back(listener);
        }
        true
    }

    /// Gives up what the port should have told about long ago.
    pub fn expire(&mut self, now: Instant) {
        let late = self.under_way.iter().filter(|(_, (_, deadline))| *deadline <= now);
        let late: Vec<u32> = late.map(|(&tid, _)| tid).collect();
        for tid in late {
            self.report_completed(tid, false);
        }
    }

    /// When [`Self::expire`] may have something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.under_way.values().map(|&(_, deadline)| deadline).min()
    }

    /// Forgets everything: what was to be told is another's to say.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.turns.clear();
        self.under_way.clear();
    }

    fn new_tid(&mut self) -> u32 {
        loop {
            self.last_tid = self.last_tid.wrapping_add(1);
            if self.last_tid != 0 && !self.under_way.contains_key(&self.last_tid) {
                return self.last_tid;
            }
        }
    }
}

/// SubnAdmReport(Notice).
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

    /// Now, as the daemon's clock has it.
    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    const PATIENT: ReportRetry = ReportRetry { timeout: Duration::from_millis(200), retries: 3 };

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
    fn one_at_a_time_to_each_and_in_order() {
        let (mut reports, now) = (ReportQueue::default(), now());
        for trap in [64, 65, 66] {
            push(&mut reports, 1, trap);
            push(&mut reports, 2, trap);
        }
        for trap in [64, 65, 66] {
            let first = reports.next(now, PATIENT).expect("one for the first");
            let second = reports.next(now, PATIENT).expect("one for the second");
            assert_eq!((number(&first), number(&second)), (trap, trap));
            assert_ne!(first.to, second.to);
            assert!(first.timeout > Duration::from_secs(1), "the time the subscriber needs");
            assert_eq!(reports.next(now, PATIENT), None);
            assert!(
                reports.report_completed(first.tid, true)
                    && reports.report_completed(second.tid, true)
            );
            assert!(!reports.report_completed(first.tid, true), "told twice");
        }
        assert_eq!(reports.next(now, PATIENT), None);
        assert_eq!(reports.counters().answered, 6);
        assert!(reports.queues.is_empty());
    }

    #[test]
    fn the_window_is_bounded() {
        let (mut reports, now) = (ReportQueue::default(), now());
        (1..=200).for_each(|port| push(&mut reports, port, 64));
        let sent = std::iter::from_fn(|| reports.next(now, PATIENT)).count();
        assert_eq!(sent, MAX_IN_FLIGHT);
        let deadline = reports.next_deadline().expect("they are under way");
        reports.expire(deadline - Duration::from_millis(1));
        assert_eq!(reports.next(now, PATIENT), None);
        reports.expire(deadline);
        assert_eq!(std::iter::from_fn(|| reports.next(deadline, PATIENT)).count(), MAX_IN_FLIGHT);
    }

    #[test]
    fn the_deaf_hold_nobody_up() {
        let (mut reports, now) = (ReportQueue::default(), now());
        (0..100).for_each(|_| push(&mut reports, 1, 64));
        for _ in 0..MAX_UNANSWERED {
            let dispatch = reports.next(now, PATIENT).expect("another try");
            reports.report_completed(dispatch.tid, false);
        }
        assert_eq!(reports.next(now, PATIENT), None);
        assert_eq!(reports.counters().dropped, 100 - u64::from(MAX_UNANSWERED));
        push(&mut reports, 1, 65);
        assert!(reports.next(now, PATIENT).is_some(), "what happens later is told again");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut reports = ReportQueue::default();
        (0..MAX_QUEUED as u16 + 3).for_each(|number| push(&mut reports, 1, number));
        assert_eq!(reports.counters().dropped, 3);
        let dispatch = reports.next(now(), PATIENT).expect("one");
        assert_eq!(number(&dispatch), 3, "the oldest go first");
    }
}
