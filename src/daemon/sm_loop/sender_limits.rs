//! Limits the number of traps from each port: a port that floods the subnet manager delays neither
//! the traps of others nor sweeps. It has no clock: time is an argument.

use crate::ids::Lid;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of traps that a port may send within a [`PERIOD`], repetitions included. A switch
/// with 64 ports sends fewer when all its links fail.
pub(super) const MAX_TRAPS: u32 = 256;
/// The period of the limit.
pub(super) const PERIOD: Duration = Duration::from_secs(4);
/// Maximum number of traps of a port within a [`PERIOD`] that are logged one by one.
const MAX_LOGGED: u32 = 16;
/// Interval between reports of ports above the limit.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The traps from a port.
#[derive(Debug)]
struct TrapSender {
    period_start: Instant,
    admitted: u32,
    logged: u32,
    /// Traps and SMInfo requests above the limits since the last report.
    omitted: u64,
    /// Admitted traps since the last report that were not logged.
    unlogged: u64,
}

impl TrapSender {
    fn new(period_start: Instant) -> Self {
        Self { period_start, admitted: 0, logged: 0, omitted: 0, unlogged: 0 }
    }
}

/// Traps of a port since the last report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SenderReport {
    pub(super) lid: Lid,
    /// Traps and SMInfo requests above the limits.
    pub(super) omitted: u64,
    /// Other traps that were not logged.
    pub(super) unlogged: u64,
}

/// Traps by source LID, of which there are at most 49,151.
#[derive(Debug, Default)]
pub(super) struct SenderLimits {
    by_lid: HashMap<Lid, TrapSender>,
    next_report: Option<Instant>,
}

impl SenderLimits {
    /// Counts a trap from `lid`; false if it exceeds the limit.
    pub(super) fn admit(&mut self, lid: Lid, now: Instant) -> bool {
        let sender = self.by_lid.entry(lid).or_insert_with(|| TrapSender::new(now));
        if now.duration_since(sender.period_start) >= PERIOD {
            (sender.period_start, sender.admitted, sender.logged) = (now, 0, 0);
        }
        if sender.admitted < MAX_TRAPS {
            sender.admitted += 1;
            return true;
        }
        sender.omitted += 1;
        self.next_report.get_or_insert(now + REPORT_INTERVAL);
        false
    }

    /// Counts `count` traps or SMInfo requests of `lid` that were dropped before they got here.
    pub(super) fn omitted(&mut self, lid: Lid, count: u64, now: Instant) {
        self.by_lid.entry(lid).or_insert_with(|| TrapSender::new(now)).omitted += count;
        self.next_report.get_or_insert(now + REPORT_INTERVAL);
    }

    /// True if an admitted trap of `lid` is to be logged; counts it otherwise.
    pub(super) fn is_logged(&mut self, lid: Lid, now: Instant) -> bool {
        let sender = self.by_lid.entry(lid).or_insert_with(|| TrapSender::new(now));
        if sender.logged < MAX_LOGGED {
            sender.logged += 1;
            return true;
        }
        sender.unlogged += 1;
        self.next_report.get_or_insert(now + REPORT_INTERVAL);
        false
    }

    /// The time at which [`Self::take_report`] has something to report.
    pub(super) fn next_report(&self) -> Option<Instant> {
        self.next_report
    }

    /// The ports with omitted or unlogged traps since the last report, by LID, if the report is due.
    pub(super) fn take_report(&mut self, now: Instant) -> Vec<SenderReport> {
        if self.next_report.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.next_report = None;
        let senders = self.by_lid.iter_mut();
        let mut report: Vec<SenderReport> = senders
            .map(|(&lid, sender)| SenderReport {
                lid,
                omitted: std::mem::take(&mut sender.omitted),
                unlogged: std::mem::take(&mut sender.unlogged),
            })
            .filter(|sender| sender.omitted + sender.unlogged > 0)
            .collect();
        report.sort_unstable_by_key(|sender| sender.lid);
        self.by_lid.retain(|_, sender| now.duration_since(sender.period_start) < PERIOD);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flooding_port_is_limited_and_reported_and_others_are_not() {
        let mut limits = SenderLimits::default();
        let start = Instant::now();
        let mut admitted = [0; 2];
        for number in 0..20_000 {
            let now = start + Duration::from_micros(50) * number;
            admitted[0] += u32::from(limits.admit(Lid(1), now));
            if number % 1000 == 0 {
                admitted[1] += u32::from(limits.admit(Lid(2), now));
            }
        }
        assert_eq!(admitted, [MAX_TRAPS, 20]);
        let due = limits.next_report().expect("port 1 is above the limit");
        assert_eq!(limits.take_report(due - Duration::from_millis(1)), []);
        let omitted = 20_000 - u64::from(MAX_TRAPS);
        assert_eq!(limits.take_report(due), [SenderReport { lid: Lid(1), omitted, unlogged: 0 }]);
        assert!(limits.by_lid.is_empty() && limits.next_report().is_none());
        assert!(limits.admit(Lid(1), due));
    }

    #[test]
    fn the_log_has_some_traps_of_a_port_and_the_number_of_others() {
        let mut limits = SenderLimits::default();
        let start = Instant::now();
        let logged = (0..200).filter(|_| limits.is_logged(Lid(1), start)).count();
        assert_eq!(logged, MAX_LOGGED as usize);
        let due = limits.next_report().expect("a count of the others");
        let unlogged = 200 - u64::from(MAX_LOGGED);
        assert_eq!(limits.take_report(due), [SenderReport { lid: Lid(1), omitted: 0, unlogged }]);
    }
}
