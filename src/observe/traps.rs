//! Deduplication and rate limit of traps.
//!
//! A device repeats a trap until it is repressed, so the same transaction may arrive many times;
//! and a flapping link or a defective device sends new ones continuously. [`TrapFilter`] detects
//! duplicates and lets each kind of trap of each issuer pass at a bounded rate. The traps above the
//! limit are delivered as one when the period ends. The filter has no clock: time is an argument.

use crate::ids::{Lid, PortNum};
use crate::wire::attr::{ChangeFlag, Notice, TrapNumber};
use crate::wire::vendor::MELLANOX;
use crate::wire::vendor::facts::{
    TRAP_VPORT_BAD_P_KEY, TRAP_VPORT_BAD_Q_KEY, TRAP_VPORT_CHANGES, TRAP_VPORT_STATE,
};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Traps of one kind and issuer that pass within a [`RATE_PERIOD`].
pub const MAX_TRAPS_PER_PERIOD: u32 = 8;
/// The period of the rate limit.
pub const RATE_PERIOD: Duration = Duration::from_secs(1);
/// Pause after which a transaction ID is taken for that of another trap. A device that TrapRepress
/// does not reach repeats its trap for ever, at shorter intervals.
const MAX_REPEAT_PAUSE: Duration = Duration::from_secs(8);
/// Pairs of issuer and kind that the filter remembers; when they exceed this number, all are
/// discarded.
const MAX_SOURCES: usize = 65_536;

/// Time without a trap after which a source counts its traps from 0 again. OpenSM's
/// OSM_DEFAULT_TRAP_SUPPRESSION_TIMEOUT.
pub const QUIET_TIME: Duration = Duration::from_secs(5);
/// [`QUIET_TIME`] of a source with more than [`UNHEALTHY_TRAPS`]. OpenSM's
/// OSM_DEFAULT_UNHEALTHY_TIMEOUT.
pub const UNHEALTHY_QUIET_TIME: Duration = Duration::from_secs(60);
/// Number of traps 129 to 131 about a port above which it is unhealthy, as in OpenSM.
pub const UNHEALTHY_TRAPS: u32 = 10;
/// Number of traps 129 to 131 about a port above which `babbling_port_policy` disables it, as in
/// OpenSM.
pub const BABBLING_TRAPS: u32 = 250;

/// The vendor-specific traps about vports.
const VPORT_TRAPS: [u16; 4] = [
    TRAP_VPORT_CHANGES.value,
    TRAP_VPORT_STATE.value,
    TRAP_VPORT_BAD_P_KEY.value,
    TRAP_VPORT_BAD_Q_KEY.value,
];

/// Attributes of a port or its node that a trap 144 or 145 reports as changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ChangedAttributes {
    pub node_description: bool,
    pub node_info: bool,
    pub port_info: bool,
    pub sm_info: bool,
    /// The capability mask after the change. If it differs from that of the snapshot, PortInfo has
    /// changed, too.
    pub capability_mask: Option<u32>,
}

impl ChangedAttributes {
    /// Adds the changes of a later trap.
    pub fn merge(&mut self, later: Self) {
        self.node_description |= later.node_description;
        self.node_info |= later.node_info;
        self.port_info |= later.port_info;
        self.sm_info |= later.sm_info;
        self.capability_mask = later.capability_mask.or(self.capability_mask);
    }

    /// The changes of a trap 144 (IBA vol. 1, 14.2.5.1).
    fn of_local_changes(notice: &Notice) -> Self {
        let flags = if notice.other_local_changes() { notice.change_flags() } else { 0 };
        let port_info = ChangeFlag::LINK_WIDTH_ENABLED
            | ChangeFlag::LINK_SPEED_ENABLED
            | ChangeFlag::CAPABILITY_MASK2;
        Self {
            node_description: flags & ChangeFlag::NODE_DESCRIPTION != 0,
            node_info: false,
            port_info: flags & port_info != 0 || flags == 0,
            sm_info: flags & ChangeFlag::SM_PRIORITY != 0,
            capability_mask: Some(notice.capability_mask()),
        }
    }
}

/// A trap that causes a sweep, a query of the changed attributes, or at least a log line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TrapEvent {
    /// LID of the issuer, from the notice.
    pub issuer: Lid,
    /// Trap number (generic traps), see [`TrapNumber`].
    pub number: u16,
    /// LID that the notice is about: the switch of trap 128, the port of 129..=131, 144 and 145.
    pub subject: Lid,
    /// Port of traps 129..=131; 0 for others.
    pub port: PortNum,
    /// Changes that traps 144 and 145 report.
    pub changed: ChangedAttributes,
    /// Number of such traps from this source without a pause, this one included.
    pub count: u32,
    /// Time at which the trap was delivered; `None` within the filter.
    pub arrived: Option<Instant>,
}

impl TrapEvent {
    /// The event that a notice reports.
    pub fn of(notice: &Notice) -> Self {
        let number = trap_number(notice);
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
        let changed = match number {
            TrapNumber::LOCAL_CHANGES => ChangedAttributes::of_local_changes(notice),
            TrapNumber::SYSTEM_GUID => ChangedAttributes { node_info: true, ..Default::default() },
            _ => ChangedAttributes::default(),
        };
        Self {
            issuer: notice.issuer_lid(),
            number,
            subject,
            port,
            changed,
            count: 0,
            arrived: None,
        }
    }

    /// True if a link changed state (128), so that the links of the snapshot may be out of date.
    pub fn calls_for_sweep(&self) -> bool {
        self.number == TrapNumber::LINK_STATE
    }

    /// True if attributes of a port or its node may have changed: 144, 145, and 256 with
    /// [`Self::changed`] set by its receiver.
    pub fn reports_changes(&self) -> bool {
        match self.number {
            TrapNumber::LOCAL_CHANGES | TrapNumber::SYSTEM_GUID => true,
            TrapNumber::BAD_M_KEY => self.changed.port_info,
            _ => false,
        }
    }

    /// True if vports may have changed.
    pub fn reports_vports(&self) -> bool {
        [TRAP_VPORT_CHANGES.value, TRAP_VPORT_STATE.value].contains(&self.number)
    }

    /// True if a port reports errors of its link (129 to 131).
    pub fn reports_errors(&self) -> bool {
        (TrapNumber::LINK_INTEGRITY..=TrapNumber::FLOW_CONTROL).contains(&self.number)
    }
}

#[derive(Debug)]
struct TrapSource {
    period_start: Instant,
    passed: u32,
    last_tid: u64,
    held: Option<TrapEvent>,
    last: Instant,
    count: u32,
}

impl TrapSource {
    /// A source before its first trap, with the transaction ID `tid`.
    fn new(now: Instant, tid: u64) -> Self {
        Self { period_start: now, passed: 0, last_tid: !tid, held: None, last: now, count: 0 }
    }

    /// Counts a trap of this source.
    fn count(&mut self, now: Instant) -> u32 {
        let quiet_time =
            if self.count > UNHEALTHY_TRAPS { UNHEALTHY_QUIET_TIME } else { QUIET_TIME };
        if now.duration_since(self.last) >= quiet_time {
            self.count = 0;
        }
        self.last = now;
        self.count = self.count.saturating_add(1);
        self.count
    }

    /// Holds a trap back. It takes over the changes of one that was held back before.
    fn hold(&mut self, mut news: TrapEvent) {
        let mut changed = self.held.map_or_else(Default::default, |held| held.changed);
        changed.merge(news.changed);
        news.changed = changed;
        self.held = Some(news);
    }
}

/// The decision on a trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrapVerdict {
    New(TrapEvent),
    /// The transaction was received before; the trap is only repressed again.
    Duplicate,
    /// The trap exceeds the rate limit; [`TrapFilter::due`] delivers such traps as one.
    RateLimited,
}

/// The filter, with a state for each issuer and kind.
#[derive(Debug, Default)]
pub struct TrapFilter {
    sources: HashMap<(Lid, u16, Lid, PortNum), TrapSource>,
}

impl TrapFilter {
    /// Decides on the trap `notice` with transaction ID `tid`.
    pub fn receive(&mut self, now: Instant, tid: u64, notice: &Notice) -> TrapVerdict {
        let mut news = TrapEvent::of(notice);
        if self.sources.len() >= MAX_SOURCES {
            self.sources.clear();
        }
        let key = (news.issuer, news.number, news.subject, news.port);
        let source = self.sources.entry(key).or_insert_with(|| TrapSource::new(now, tid));
        let pause = now.duration_since(source.last);
        // Some devices leave the transaction ID 0, so their duplicates cannot be detected.
        let is_repeated = tid != 0 && source.last_tid == tid;
        if is_repeated && pause < MAX_REPEAT_PAUSE {
            // Not counted: a port that gets no TrapRepress is not unhealthy for it.
            source.last = now;
            return TrapVerdict::Duplicate;
        }
        news.count = source.count(now);
        source.last_tid = tid;
        if now.duration_since(source.period_start) >= RATE_PERIOD && source.held.is_none() {
            source.period_start = now;
            source.passed = 0;
        }
        if source.passed >= MAX_TRAPS_PER_PERIOD {
            source.hold(news);
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

/// The number of a trap: of a vendor-specific one that of a vport, or 0.
fn trap_number(notice: &Notice) -> u16 {
    if notice.is_generic() {
        return notice.trap_number();
    }
    let number = notice.vendor_trap_number();
    let is_of_vport = notice.producer_type() == MELLANOX && VPORT_TRAPS.contains(&number);
    if is_of_vport { number } else { 0 }
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
        let mut filter = TrapFilter::default();
        let now = Instant::now();
        assert!(matches!(filter.receive(now, 1, &link_trap(5)), TrapVerdict::New(_)));
        assert_eq!(filter.receive(now, 1, &link_trap(5)), TrapVerdict::Duplicate);
        assert!(matches!(filter.receive(now, 1, &link_trap(6)), TrapVerdict::New(_)));
        assert!(matches!(filter.receive(now, 2, &link_trap(5)), TrapVerdict::New(_)));
    }

    #[test]
    fn a_trap_that_cannot_be_repressed_passes_once() {
        let mut filter = TrapFilter::default();
        let start = Instant::now();
        let verdicts = (0..100)
            .map(|at| filter.receive(start + Duration::from_millis(500) * at, 1, &link_trap(5)));
        let news = verdicts.filter(|verdict| matches!(verdict, TrapVerdict::New(_)));
        assert_eq!(news.count(), 1);
        let later = start + Duration::from_secs(60);
        assert!(matches!(filter.receive(later, 1, &link_trap(5)), TrapVerdict::New(_)));
    }

    #[test]
    fn repetitions_of_a_trap_do_not_count() {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_trap_number(TrapNumber::LINK_INTEGRITY);
        notice.set_subject_lid(Lid(5));
        let mut filter = TrapFilter::default();
        let start = Instant::now();
        for second in 0..u64::from(2 * UNHEALTHY_TRAPS) {
            filter.receive(start + Duration::from_secs(second), 1, &notice);
        }
        let later = start + Duration::from_secs(u64::from(2 * UNHEALTHY_TRAPS));
        let verdict = filter.receive(later, 2, &notice);
        assert!(matches!(verdict, TrapVerdict::New(news) if news.count == 2), "{verdict:?}");
    }

    #[test]
    fn a_storm_is_limited_and_its_last_trap_delivered() {
        let mut filter = TrapFilter::default();
        let start = Instant::now();
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
        let mut filter = TrapFilter::default();
        let start = Instant::now();
        for tid in 0..50 {
            let now = start + RATE_PERIOD * tid;
            assert!(matches!(filter.receive(now, tid.into(), &link_trap(5)), TrapVerdict::New(_)));
        }
    }

    fn local_change(lid: u16, flags: Option<u16>) -> Notice {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_trap_number(TrapNumber::LOCAL_CHANGES);
        notice.set_issuer_lid(Lid(lid));
        notice.set_subject_lid(Lid(lid));
        notice.set_capability_mask(7);
        if let Some(flags) = flags {
            notice.set_other_local_changes(true);
            notice.set_change_flags(flags);
        }
        notice
    }

    #[test]
    fn the_flags_of_trap_144_name_attributes() {
        let mask = ChangedAttributes { capability_mask: Some(7), ..Default::default() };
        assert_eq!(changed(Some(1)), ChangedAttributes { node_description: true, ..mask });
        assert_eq!(changed(Some(2)), ChangedAttributes { port_info: true, ..mask });
        assert_eq!(changed(Some(8)), ChangedAttributes { sm_info: true, ..mask });
        assert_eq!(changed(Some(0x10)), mask);
        assert_eq!(changed(None), ChangedAttributes { port_info: true, ..mask });
        let notice = local_change(5, Some(1));
        assert_eq!(notice.0[15..22], [1, 0, 0, 0, 7, 0, 1], "offsets of the data details");
    }

    fn changed(flags: Option<u16>) -> ChangedAttributes {
        TrapEvent::of(&local_change(5, flags)).changed
    }

    #[test]
    fn changes_above_the_rate_limit_are_merged() {
        let mut filter = TrapFilter::default();
        let now = Instant::now();
        for tid in 1..=8 {
            filter.receive(now, tid, &local_change(5, Some(0)));
        }
        for (tid, flag) in [(9, 1), (10, 8), (11, 0x10)] {
            let verdict = filter.receive(now, tid, &local_change(5, Some(flag)));
            assert_eq!(verdict, TrapVerdict::RateLimited);
        }
        let due = filter.due(now + RATE_PERIOD);
        assert!(due[0].changed.node_description && due[0].changed.sm_info);
    }

    #[test]
    fn traps_without_a_pause_are_counted() {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_trap_number(TrapNumber::LINK_INTEGRITY);
        notice.set_subject_lid(Lid(5));
        notice.set_port(PortNum(3));
        let mut filter = TrapFilter::default();
        let start = Instant::now();
        let mut count = |tid: u64, second: u64| match filter.receive(
            start + Duration::from_secs(second),
            tid,
            &notice,
        ) {
            TrapVerdict::New(news) => news.count,
            other => panic!("{other:?}"),
        };
        let counts: Vec<u32> = (1..=12).map(|tid| count(tid, tid)).collect();
        assert_eq!(counts, (1..=12).collect::<Vec<u32>>());
        // An unhealthy source is forgiven after a minute, others after five seconds.
        assert_eq!([count(13, 70), count(14, 131), count(15, 137)], [13, 1, 1]);
    }

    #[test]
    fn the_number_of_a_vendor_notice_is_no_trap_number() {
        let mut notice = Notice::default();
        notice.set_trap_number(TrapNumber::LINK_STATE);
        notice.set_link_state_lid(Lid(9));
        notice.set_issuer_lid(Lid(5));
        let seen = TrapEvent::of(&notice);
        assert!(!seen.calls_for_sweep() && !seen.reports_vports(), "{seen:?}");
        assert_eq!(seen.subject, Lid(5));
        notice.set_producer_type(MELLANOX);
        notice.set_vendor_trap_number(TRAP_VPORT_STATE.value);
        assert!(TrapEvent::of(&notice).reports_vports());
        notice.set_vendor_trap_number(TrapNumber::LINK_STATE);
        assert!(!TrapEvent::of(&notice).calls_for_sweep());
    }
}
