//! Which traps are news.
//!
//! A device repeats a trap until it is repressed, so the same transaction may arrive many times;
//! and a flapping link or a broken device sends new ones without end. [`TrapFilter`] tells news
//! from repetitions and lets each kind of trap of each issuer through at a bounded rate; what it
//! holds back is not lost but told when the period ends. It owns no clock: time is an argument.

use crate::ids::{Lid, PortNum};
use crate::wire::attr::{Notice, TrapNumber};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Traps of one kind and issuer that pass within one [`RATE_PERIOD`].
pub const MAX_TRAPS_PER_PERIOD: u32 = 8;
/// The period that rates are counted over.
pub const RATE_PERIOD: Duration = Duration::from_secs(1);
/// Issuers and kinds kept in mind; beyond that the desk forgets and starts anew.
const MAX_SOURCES: usize = 65_536;

/// A trap that calls for a look at the fabric, or at least for a line in the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TrapEvent {
    /// LID of the issuer, as the notice gives it.
    pub issuer: Lid,
    /// Trap number (generic traps), see [`TrapNumber`].
    pub number: u16,
    /// LID the notice speaks of: the switch of trap 128, the port of 129..=131, 144, 145.
    pub subject: Lid,
    /// Port of traps 129..=131, else 0.
    pub port: PortNum,
}

impl TrapEvent {
    /// True if the trap means that the picture of the fabric may be wrong: a link changed state
    /// (128), capabilities or descriptions changed (144), the system GUID changed (145).
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

/// What the desk makes of a trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrapVerdict {
    /// Something new.
    New(TrapEvent),
    /// The same transaction again: repress it again, nothing else.
    Duplicate,
    /// Too many of this kind: it will be told by [`TrapFilter::due`].
    RateLimited,
}

/// Counters of the desk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct TrapCounters {
    /// Traps that were news.
    pub news: u64,
    /// Repetitions.
    pub repetitions: u64,
    /// Traps held back by the rate limit.
    pub held_back: u64,
}

/// Tells news from noise.
#[derive(Debug, Default)]
pub struct TrapFilter {
    sources: HashMap<(Lid, u16, Lid, PortNum), Source>,
    /// What happened so far.
    pub counters: TrapCounters,
}

impl TrapFilter {
    /// Judges the trap `notice` with transaction `tid`.
    pub fn receive(&mut self, now: Instant, tid: u64, notice: &Notice) -> TrapVerdict {
        let news = read(notice);
        if self.sources.len() >= MAX_SOURCES {
            self.sources.clear();
        }
        let fresh = Source { period_start: now, passed: 0, last_tid: !tid, held: None };
        let key = (news.issuer, news.number, news.subject, news.port);
        let source = self.sources.entry(key).or_insert(fresh);
        // Some devices number no transactions at all; theirs cannot be told apart.
        let is_repeated = tid != 0 && source.last_tid == tid;
        if is_repeated && now.duration_since(source.period_start) < 8 * RATE_PERIOD {
            self.counters.repetitions += 1;
            return TrapVerdict::Duplicate;
        }
        source.last_tid = tid;
        if now.duration_since(source.period_start) >= RATE_PERIOD && source.held.is_none() {
            source.period_start = now;
            source.passed = 0;
        }
        if source.passed >= MAX_TRAPS_PER_PERIOD {
            source.held = Some(news);
            self.counters.held_back += 1;
            return TrapVerdict::RateLimited;
        }
        source.passed += 1;
        self.counters.news += 1;
        TrapVerdict::New(news)
    }

    /// When [`Self::due`] will have something to tell.
    pub fn next_due(&self) -> Option<Instant> {
        let held = self.sources.values().filter(|source| source.held.is_some());
        held.map(|source| source.period_start + RATE_PERIOD).min()
    }

    /// What was held back and whose period is over.
    pub fn due(&mut self, now: Instant) -> Vec<TrapEvent> {
        let mut told = Vec::new();
        for source in self.sources.values_mut() {
            if now.duration_since(source.period_start) >= RATE_PERIOD
                && let Some(news) = source.held.take()
            {
                source.period_start = now;
                // A source that exceeded its rate earns one trap a period until it calms down.
                source.passed = MAX_TRAPS_PER_PERIOD - 1;
                told.push(news);
            }
        }
        told.sort_by_key(|news| (news.issuer, news.number, news.subject, news.port));
        told
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
    fn the_same_transaction_is_told_once() {
        let (mut desk, now) = (TrapFilter::default(), Instant::now());
        assert!(matches!(desk.receive(now, 1, &link_trap(5)), TrapVerdict::New(_)));
        assert_eq!(desk.receive(now, 1, &link_trap(5)), TrapVerdict::Duplicate);
        assert!(matches!(desk.receive(now, 1, &link_trap(6)), TrapVerdict::New(_)));
        assert!(matches!(desk.receive(now, 2, &link_trap(5)), TrapVerdict::New(_)));
    }

    #[test]
    fn a_storm_is_held_back_but_its_end_is_told() {
        let (mut desk, start) = (TrapFilter::default(), Instant::now());
        let mut news = 0;
        for tid in 0..1000 {
            let now = start + Duration::from_millis(tid);
            news += u32::from(matches!(desk.receive(now, tid, &link_trap(5)), TrapVerdict::New(_)));
        }
        assert_eq!(news, MAX_TRAPS_PER_PERIOD);
        let due = desk.next_due().expect("the last one is held back");
        assert_eq!(desk.due(due - Duration::from_millis(1)), []);
        assert_eq!(desk.due(due).len(), 1);
        assert_eq!(desk.next_due(), None);
    }

    #[test]
    fn a_calm_source_may_speak_again() {
        let (mut desk, start) = (TrapFilter::default(), Instant::now());
        for tid in 0..50 {
            let now = start + RATE_PERIOD * tid;
            assert!(matches!(desk.receive(now, tid.into(), &link_trap(5)), TrapVerdict::New(_)));
        }
    }
}
