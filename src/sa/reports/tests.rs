use super::*;
use crate::ids::{Lid, Sl};

/// The current time of the clock that tests may pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

const RETRY: ReportRetry = ReportRetry {
    timeout: Duration::from_millis(200),
    retries: 3,
    max_silence: Some(Duration::from_secs(600)),
};

fn notice(number: u16) -> Arc<Notice> {
    let mut notice = Notice::default();
    notice.set_trap_number(number);
    Arc::new(notice)
}

fn push_to(reports: &mut ReportQueue, subscriber: SubscriberKey, number: u16) {
    let to = Address::gsi(Lid(subscriber.0.0 as u16), Sl(0));
    reports.push(subscriber, to, 18, notice(number), now());
}

fn push(reports: &mut ReportQueue, port: u64, number: u16) {
    push_to(reports, (Guid(port), 1), number);
}

fn number(dispatch: &OutgoingReport) -> u16 {
    Notice::read(&dispatch.mad.0[DATA_OFFSET..]).trap_number()
}

#[test]
fn each_subscriber_gets_one_report_at_a_time_in_order() {
    let mut reports = ReportQueue::default();
    let now = now();
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
            reports.report_completed(first.tid, true, now)
                && reports.report_completed(second.tid, true, now)
        );
        assert!(!reports.report_completed(first.tid, true, now), "completed twice");
    }
    assert_eq!(reports.next(now, RETRY), None);
    assert_eq!(reports.counters().answered, 6);
    assert!(reports.ports.is_empty() && reports.queued == 0);
}

#[test]
fn reports_in_flight_are_bounded() {
    let mut reports = ReportQueue::default();
    let now = now();
    (1..=200).for_each(|port| push(&mut reports, port, 64));
    let sent = std::iter::from_fn(|| reports.next(now, RETRY)).count();
    assert_eq!(sent, MAX_IN_FLIGHT);
    let deadline = reports.next_deadline().expect("reports in flight");
    reports.expire(deadline - Duration::from_millis(1));
    assert_eq!(reports.next(now, RETRY), None);
    reports.expire(deadline);
    let left = std::iter::from_fn(|| reports.next(deadline, RETRY)).count();
    assert_eq!(left, 200 - MAX_IN_FLIGHT);
}

/// One port has hundreds of queue pairs that never respond; another one responds at once.
#[test]
fn silent_queue_pairs_of_a_port_do_not_delay_other_ports() {
    let mut reports = ReportQueue::default();
    let now = now();
    (1..=500).for_each(|qpn| push_to(&mut reports, (Guid(1), qpn), 64));
    let sent: Vec<_> = std::iter::from_fn(|| reports.next(now, RETRY)).collect();
    assert_eq!(sent.len(), MAX_IN_FLIGHT_PER_PORT);
    push(&mut reports, 2, 64);
    let to = reports.next(now, RETRY).expect("a report at once").to;
    assert_eq!(to.lid, Lid(2));
}

/// Ports that did not respond share a part of the reports in flight.
#[test]
fn silent_ports_do_not_take_all_reports_in_flight() {
    let mut reports = ReportQueue::default();
    let mut now = now();
    for round in 0..2 {
        (1..=100).for_each(|port| push(&mut reports, port, 64));
        let sent = std::iter::from_fn(|| reports.next(now, RETRY)).count();
        assert_eq!(sent, if round == 0 { 100 } else { MAX_SILENT_IN_FLIGHT });
        push(&mut reports, 200 + round, 64);
        assert!(reports.next(now, RETRY).is_some(), "round {round}");
        now = reports.next_deadline().expect("reports in flight");
        reports.expire(now);
    }
    let silent = std::iter::from_fn(|| reports.next(now, RETRY)).next().expect("the next ones");
    assert!(reports.report_completed(silent.tid, true, now), "it responds again");
    let guid = Guid(silent.to.lid.0.into());
    assert!(reports.ports.get(&guid).is_none_or(|port| !port.is_silent));
}

#[test]
fn the_queue_of_an_unresponsive_subscriber_is_discarded() {
    let mut reports = ReportQueue::default();
    let start = now();
    (0..100).for_each(|_| push(&mut reports, 1, 64));
    for _ in 0..MAX_UNANSWERED {
        let dispatch = reports.next(start, RETRY).expect("another report");
        reports.report_completed(dispatch.tid, false, start);
    }
    assert_eq!(reports.next(start, RETRY), None);
    assert_eq!(reports.counters().dropped, 100 - u64::from(MAX_UNANSWERED));
    let to = Address::gsi(Lid(1), Sl(0));
    let mut pushed = |after: Duration| {
        reports.push((Guid(1), 1), to, 18, notice(65), start + after);
        reports.next(start + after, RETRY).map(|report| report.tid)
    };
    assert_eq!(pushed(MIN_PAUSE / 2), None, "during the pause");
    let tid = pushed(MIN_PAUSE).expect("later events are reported again");
    reports.report_completed(tid, true, start);
    assert!(reports.ports.is_empty());
}

#[test]
fn queues_are_bounded_by_subscriber_and_port() {
    let mut reports = ReportQueue::default();
    (0..MAX_QUEUED as u16 + 3).for_each(|number| push(&mut reports, 1, number));
    assert_eq!(reports.counters().dropped, 3);
    let dispatch = reports.next(now(), RETRY).expect("one");
    assert_eq!(number(&dispatch), 3, "the oldest are dropped");
    for qpn in 0..1000 {
        (0..100).for_each(|number| push_to(&mut reports, (Guid(2), qpn), number));
    }
    assert_eq!(reports.ports[&Guid(2)].queued, MAX_QUEUED_PER_PORT);
    assert!(reports.ports[&Guid(2)].subscribers.len() <= MAX_QUEUED_PER_PORT / 100 + 1);
    reports.retain_ports(|guid| guid == Guid(3));
    assert!(reports.ports.is_empty() && reports.turns.is_empty() && reports.queued == 0);
    assert!(reports.report_completed(dispatch.tid, true, now()), "of a port that has left");
}

#[test]
fn response_times_are_bounded() {
    for (resp_time, expected) in
        [(0, (200, 3)), (18, (1073, 2)), (19, (2000, 1)), (31, (2000, 1)), (255, (2000, 1))]
    {
        let (timeout, retries) = transmissions(resp_time, RETRY);
        assert_eq!((timeout.as_millis(), retries), expected, "{resp_time}");
    }
    let slow = ReportRetry { timeout: Duration::from_secs(5), retries: 9, ..RETRY };
    assert_eq!(transmissions(31, slow), (slow.timeout, slow.retries), "as configured");
}

/// The subscriber of port 1 answers the last of four reports, or none, until `seconds` after the
/// first one; returns the subscribers whose subscriptions end.
fn silent_after(seconds: u64, answers: bool, max_silence: Option<Duration>) -> Vec<SubscriberKey> {
    let mut reports = ReportQueue::default();
    let start = now();
    let retry = ReportRetry { max_silence, ..RETRY };
    for (count, at) in [0, 70, 140, seconds].into_iter().enumerate() {
        let at = start + Duration::from_secs(at);
        let to = Address::gsi(Lid(1), Sl(0));
        reports.push((Guid(1), 1), to, 18, notice(64), at);
        let report = reports.next(at, retry).expect("a report");
        reports.report_completed(report.tid, answers && count == 3, at);
    }
    reports.push((Guid(1), 1), Address::gsi(Lid(1), Sl(0)), 18, notice(64), start);
    assert_eq!(reports.has_silent(), !answers && max_silence.is_some() && seconds >= 600);
    let silent = reports.take_silent();
    assert!(silent.is_empty() || reports.queued == 0, "its reports are discarded");
    silent
}

#[test]
fn subscribers_are_silent_after_a_while() {
    let limit = RETRY.max_silence;
    assert_eq!(silent_after(600, false, limit), [(Guid(1), 1)]);
    assert_eq!(silent_after(599, false, limit), []);
    assert_eq!(silent_after(600, true, limit), []);
    assert_eq!(silent_after(6000, false, None), []);
}
