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
/// Interval between reports of ports above the limit.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The traps from a port.
#[derive(Debug)]
struct Sender {
    period_start: Instant,
    admitted: u32,
    /// Traps above the limit since the last report.
    omitted: u64,
}

/// Traps by source LID, of which there are at most 49,151.
#[derive(Debug, Default)]
pub(super) struct SenderLimits {
    by_lid: HashMap<Lid, Sender>,
    next_report: Option<Instant>,
}

impl SenderLimits {
    /// Counts a trap from `lid`; false if it exceeds the limit.
    pub(super) fn admit(&mut self, lid: Lid, now: Instant) -> bool {
        let fresh = Sender { period_start: now, admitted: 0, omitted: 0 };
        let sender = self.by_lid.entry(lid).or_insert(fresh);
        if now.duration_since(sender.period_start) >= PERIOD {
            (sender.period_start, sender.admitted) = (now, 0);
        }
        if sender.admitted < MAX_TRAPS {
            sender.admitted += 1;
            return true;
        }
        sender.omitted += 1;
        self.next_report.get_or_insert(now + REPORT_INTERVAL);
        false
    }

    /// The time at which [`Self::take_report`] has something to report.
    pub(super) fn next_report(&self) -> Option<Instant> {
        self.next_report
    }

    /// The ports above the limit since the last report with the numbers of omitted traps, by LID,
    /// if the report is due.
    pub(super) fn take_report(&mut self, now: Instant) -> Vec<(Lid, u64)> {
        if self.next_report.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.next_report = None;
        let omitted = self.by_lid.iter_mut().map(|(&lid, sender)| (lid, &mut sender.omitted));
        let mut report: Vec<(Lid, u64)> =
            omitted.map(|(lid, count)| (lid, std::mem::take(count))).collect();
        report.retain(|&(_, count)| count > 0);
        report.sort_unstable();
        self.by_lid.retain(|_, sender| now.duration_since(sender.period_start) < PERIOD);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flooding_port_is_limited_and_reported_and_others_are_not() {
        let (mut limits, start) = (SenderLimits::default(), Instant::now());
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
        assert_eq!(limits.take_report(due), [(Lid(1), 20_000 - u64::from(MAX_TRAPS))]);
        assert!(limits.by_lid.is_empty() && limits.next_report().is_none());
        assert!(limits.admit(Lid(1), due));
    }
}
