//! Reports to subscribers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torus_sm::ids::{Guid, Lid, Sl};
use torus_sm::sa::reports::{ReportQueue, ReportRetry};
use torus_sm::transport::Address;
use torus_sm::wire::attr::Notice;

/// Bound of the reports in flight, of all ports.
const MAX_IN_FLIGHT: usize = 128;

const RETRY: ReportRetry = ReportRetry {
    timeout: Duration::from_millis(200),
    retries: 3,
    max_silence: Some(Duration::from_secs(60)),
};

/// Notices to queue pairs that respond, do not, or leave. Three bytes are an event: kind, port and
/// queue pair, time. Each report is answered, unanswered or dropped, and none is left in the end.
pub fn reports(data: &[u8]) {
    let mut queue = ReportQueue::default();
    let mut now = Instant::now();
    let notice = Arc::new(Notice::default());
    let mut in_flight = VecDeque::new();
    let mut pushed = 0;
    for event in data.chunks_exact(3).take(4096) {
        let port = Guid((event[1] >> 4).into());
        let qpn = u32::from(event[1] & 15);
        now += Duration::from_millis(u64::from(event[2]) * 20);
        match event[0] % 8 {
            0..=3 => {
                let to = Address::gsi(Lid(port.0 as u16), Sl(0));
                queue.push((port, qpn), to, event[0] >> 3, notice.clone(), now);
                pushed += 1;
            }
            4 | 5 => {
                if let Some(tid) = in_flight.pop_front() {
                    queue.report_completed(tid, event[0] % 8 == 4, now);
                }
            }
            6 => queue.expire(now),
            _ if event[1] % 4 == 0 => queue.retain_ports(|guid| guid != port),
            _ => drop(queue.take_silent()),
        }
        while let Some(report) = queue.next(now, RETRY) {
            assert!(report.timeout <= Duration::from_secs(4), "{report:?}");
            in_flight.push_back(report.tid);
        }
        let counters = queue.counters();
        let completed = counters.answered + counters.unanswered;
        assert!(counters.sent - completed <= MAX_IN_FLIGHT as u64, "{counters:?}");
        assert!(counters.sent + counters.dropped <= pushed, "{counters:?}");
    }
    // Everything left is sent and answered.
    for _ in 0..data.len() + 2 {
        while let Some(tid) = in_flight.pop_front() {
            queue.report_completed(tid, true, now);
        }
        while let Some(report) = queue.next(now, RETRY) {
            in_flight.push_back(report.tid);
        }
    }
    assert!(in_flight.is_empty() && queue.next_deadline().is_none());
    let counters = queue.counters();
    assert_eq!(counters.sent, counters.answered + counters.unanswered);
}
