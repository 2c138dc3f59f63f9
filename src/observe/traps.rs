//! Deduplication and rate limit of traps.
//!
//! A device repeats a trap until it is repressed, so the same transaction may arrive many times; and a
//! flapping link or a defective device sends new ones continuously. [`TrapFilter`] detects duplicates and lets
//! each kind of trap of each issuer pass at a bounded rate. The last trap above the limit is delivered
//! when the period ends. The filter has no clock: time is an argument.

use crate::ids::{Lid, PortNum};
use crate::wire::attr::{Notice, TrapNumber};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Traps of one kind and issuer that pass within a [`RATE_PERIOD`].
pub const MAX_TRAPS_PER_PERIOD: u32 = 8;
/// The period of the rate limit.
pub const RATE_PERIOD: Duration = Duration::from_secs(1);
/// Pairs of issuer and kind that the filter remembers; when they exceed this number, all are discarded.
const MAX_SOURCES: usize = 65_536;

/// A trap that causes a sweep, or at least a log line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TrapEvent {
    /// LID of the issuer, from the notice.
    pub issuer: Lid,
    /// Trap number (generic traps), see [`TrapNumber`].
    pub number: u16,
    /// LID that the notice is about: the switch of trap 128, the port of 129..=131, 144 and 145.
    pub subject: Lid,
    /// Port of traps 129..=131; 0 for others.
    pub port: PortNum,
}

impl TrapEvent {
    /// True if the snapshot may be out of date: a link changed state (128), capabilities or descriptions
    /// changed (144), or the system GUID changed (145).
    pub fn calls_for_sweep(&self) -> bool {
        matches!(
            self.number,
            TrapNumber::LINK_STATE | TrapNumber::LOCAL_CHANGES | TrapNumber::SYSTEM_GUID
        )
    }
}

#[derive(Debug)]
struct Source {
    period_start: Instant,
    passed: u32,
    last_tid: u64,
    held: Option<TrapEvent>,
}

/// The decision on a trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrapVerdict {
    New(TrapEvent),
    /// The transaction was received before; the trap is only repressed again.
    Duplicate,
    /// The trap exceeds the rate limit; [`TrapFilter::due`] delivers the last such trap.
    RateLimited,
}

/// The filter, with a state for each issuer and kind.
#[derive(Debug, Default)]
pub struct TrapFilter {
    sources: HashMap<(Lid, u16, Lid, PortNum), Source>,
}

impl TrapFilter {
    /// Decides on the trap `notice` with transaction ID `tid`.
    pub fn receive(&mut self, now: Instant, tid: u64, notice: &Notice) -> TrapVerdict {
        let news = read(notice);
        if self.sources.len() >= MAX_SOURCES {
            self.sources.clear();
        }
        let fresh = Source { period_start: now, passed: 0, last_tid: !tid, held: None };
        let key = (news.issuer, news.number, news.subject, news.port);
        let source = self.sources.entry(key).or_insert(fresh);
        // Some devices leave the transaction ID 0, so their duplicates cannot be detected.
        let is_repeated = tid != 0 && source.last_tid == tid;
        if is_repeated && now.duration_since(source.period_start) < 8 * RATE_PERIOD {
            return TrapVerdict::Duplicate;
        }
        source.last_tid = tid;
        if now.duration_since(source.period_start) >= RATE_PERIOD && source.held.is_none() {
            source.period_start = now;
            source.passed = 0;
        }
        if source.passed >= MAX_TRAPS_PER_PERIOD {
            source.held = Some(news);
            return TrapVerdict::RateLimited;
        }
        source.passed += 1;
        TrapVerdict::New(news)
    }

    /// The time at which [`Self::due`] has a trap to deliver.
    pub fn next_due(&self) -> Option<Instant> {
        let held = self.sources.values().filter(|source| source.held.is_some());
        held.map(|source| source.period_start + RATE_PERIOD).min()
    }

    /// The rate-limited traps whose period is over.
    pub fn due(&mut self, now: Instant) -> Vec<TrapEvent> {
        let mut due = Vec::new();
        for source in self.sources.values_mut() {
            if now.duration_since(source.period_start) >= RATE_PERIOD
                && let Some(news) = source.held.take()
            {
                source.period_start = now;
                // A source above the limit may send one trap per period until it is below it again.
                source.passed = MAX_TRAPS_PER_PERIOD - 1;
                due.push(news);
            }
        }
        due.sort_by_key(|news| (news.issuer, news.number, news.subject, news.port));
        due
    }
}

fn read(notice: &Notice) -> TrapEvent {
    let number = notice.trap_number();
    let (subject, port) = match number {
        TrapNumber::LINK_STATE => (notice.link_state_lid(), PortNum::ZERO),
        TrapNumber::LINK_INTEGRITY..=TrapNumber::FLOW_CONTROL => {
            (notice.subject_lid(), notice.port())
        }
        TrapNumber::LOCAL_CHANGES | TrapNumber::SYSTEM_GUID => {
            (notice.subject_lid(), PortNum::ZERO)
        }
        _ => (notice.issuer_lid(), PortNum::ZERO),
    };
    TrapEvent { issuer: notice.issuer_lid(), number, subject, port }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_trap(lid: u16) -> Notice {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_trap_number(TrapNumber::LINK_STATE);
        notice.set_issuer_lid(Lid(lid));
        notice.set_link_state_lid(Lid(lid));
        notice
    }

    #[test]
    fn a_transaction_passes_once() {
        let (mut filter, now) = (TrapFilter::default(), Instant::now());
        assert!(matches!(filter.receive(now, 1, &link_trap(5)), TrapVerdict::New(_)));
        assert_eq!(filter.receive(now, 1, &link_trap(5)), TrapVerdict::Duplicate);
        assert!(matches!(filter.receive(now, 1, &link_trap(6)), TrapVerdict::New(_)));
        assert!(matches!(filter.receive(now, 2, &link_trap(5)), TrapVerdict::New(_)));
    }

    #[test]
    fn a_storm_is_limited_and_its_last_trap_delivered() {
        let (mut filter, start) = (TrapFilter::default(), Instant::now());
        let mut news = 0;
        for tid in 0..1000 {
            let now = start + Duration::from_millis(tid);
            news +=
                u32::from(matches!(filter.receive(now, tid, &link_trap(5)), TrapVerdict::New(_)));
        }
        assert_eq!(news, MAX_TRAPS_PER_PERIOD);
        let due = filter.next_due().expect("the last one is held back");
        assert_eq!(filter.due(due - Duration::from_millis(1)), []);
        assert_eq!(filter.due(due).len(), 1);
        assert_eq!(filter.next_due(), None);
    }

    #[test]
    fn a_source_below_the_limit_is_not_limited() {
        let (mut filter, start) = (TrapFilter::default(), Instant::now());
        for tid in 0..50 {
            let now = start + RATE_PERIOD * tid;
            assert!(matches!(filter.receive(now, tid.into(), &link_trap(5)), TrapVerdict::New(_)));
        }
    }
}
