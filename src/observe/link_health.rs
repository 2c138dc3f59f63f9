//! Quarantine of links that flap, and of links whose ports report errors.
//!
//! A link that goes down [`MAX_DOWNS`] times within [`DOWN_WINDOW`] is *quarantined*: the planner
//! treats it as down until it has been calm for a time that doubles with each quarantine. A port
//! that sends many traps 129 to 131 is *unhealthy*, as in OpenSM: its link is treated as down until
//! the traps have paused for [`UNHEALTHY_QUIET_TIME`]. A link that an operator quarantined is
//! treated as down until an operator releases it.
//!
//! The structure has no clock and does no I/O: time and snapshots are arguments. It names links by
//! GUIDs and port numbers, so that it outlives snapshots.

use super::traps::UNHEALTHY_QUIET_TIME;
use crate::fabric::quarantined::{LinkDowns, QuarantineCause, QuarantinedLink};
use crate::fabric::{End, Fabric, Port, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::PortState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Number of times that a link goes down within [`DOWN_WINDOW`] before it is quarantined.
pub const MAX_DOWNS: usize = 5;
/// See [`MAX_DOWNS`]. A host that boots takes its link down two or three times.
pub const DOWN_WINDOW: Duration = Duration::from_secs(60);
/// Time without a change after which the first quarantine of a link ends; it doubles each time.
pub const MIN_CALM: Duration = Duration::from_secs(10);
/// Longest such time.
pub const MAX_CALM: Duration = Duration::from_secs(640);
/// Time after a quarantine during which another one is counted as a repetition.
const MEMORY: Duration = Duration::from_secs(600);

/// Both ends of a cable, ascending.
pub type Cable = [End; 2];

#[derive(Clone, PartialEq, Eq, Debug)]
struct HealthRecord {
    /// The cable joins two switches.
    joins_switches: bool,
    downs: VecDeque<Instant>,
    /// Number of quarantines in a row.
    quarantines: u32,
    /// The quarantine ends at this time if nothing changes before.
    until: Option<Instant>,
    /// End of the last quarantine.
    ended: Option<Instant>,
}

impl HealthRecord {
    fn new(joins_switches: bool) -> Self {
        Self { joins_switches, downs: VecDeque::new(), quarantines: 0, until: None, ended: None }
    }

    fn calm(&self) -> Duration {
        let doublings = self.quarantines.saturating_sub(1).min(16);
        MIN_CALM.saturating_mul(1 << doublings).min(MAX_CALM)
    }

    /// Records that the link went down. True if this begins a quarantine.
    fn went_down(&mut self, now: Instant) -> bool {
        if self.until.is_some() {
            self.until = Some(now + self.calm());
            return false;
        }
        self.downs.push_back(now);
        while self.downs.front().is_some_and(|&first| now.duration_since(first) > DOWN_WINDOW) {
            self.downs.pop_front();
        }
        if self.downs.len() < MAX_DOWNS {
            return false;
        }
        self.downs.clear();
        let repeats = self.ended.is_some_and(|ended| now.duration_since(ended) < MEMORY);
        self.quarantines = if repeats { self.quarantines + 1 } else { 1 };
        self.until = Some(now + self.calm());
        true
    }

    fn is_outdated(&self, now: Instant) -> bool {
        self.until.is_none()
            && self.ended.is_none_or(|time| now.duration_since(time) >= MEMORY)
            && self.downs.back().is_none_or(|&last| now.duration_since(last) > DOWN_WINDOW)
    }
}

/// A port that reports errors of its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unhealthy {
    cable: Cable,
    /// The port is healthy again at this time unless another trap arrives.
    until: Instant,
    /// The link is used all the same.
    is_needed: bool,
}

/// The health of the links.
#[derive(Clone, Debug, Default)]
pub struct LinkHealth {
    records: BTreeMap<Cable, HealthRecord>,
    unhealthy: BTreeMap<End, Unhealthy>,
    /// Links that operators quarantined.
    held: BTreeSet<Cable>,
    /// No link is quarantined of its own accord before this time.
    lifted_until: Option<Instant>,
}

impl LinkHealth {
    /// Compares two snapshots and counts the links that went down between them: those that carried
    /// data in `old` and are down or in INIT in `new`. `changed` are the switches that reported
    /// a changed port: their quarantined links are not calm.
    pub fn observe(&mut self, now: Instant, old: &Fabric, new: &Fabric, changed: &[Guid]) {
        for port in downs(old, new) {
            let Some(cable) = cable_of(old, port) else { continue };
            let joins_switches =
                is_switch(old, port) && old.port(port).peer.is_some_and(|id| is_switch(old, id));
            let record =
                self.records.entry(cable).or_insert_with(|| HealthRecord::new(joins_switches));
            record.went_down(now);
        }
        for (cable, record) in &mut self.records {
            let has_changed = cable.iter().any(|(guid, _)| changed.contains(guid));
            if record.until.is_some() && has_changed {
                record.until = Some(now + record.calm());
            }
        }
        self.records.retain(|_, record| !record.is_outdated(now));
    }

    /// The links that went down lately, or are quarantined because they flap.
    pub fn downs(&self) -> Vec<LinkDowns> {
        let links = self.records.iter().map(|(&ends, record)| LinkDowns {
            ends,
            downs: record.downs.len(),
            is_quarantined: record.until.is_some(),
        });
        links.filter(|link| link.is_quarantined || link.downs > 0).collect()
    }

    /// Records that a port reports errors of its link. True if it was healthy before.
    pub fn errors(&mut self, now: Instant, end: End, cable: Cable) -> bool {
        let until = now + UNHEALTHY_QUIET_TIME;
        let is_new = !self.unhealthy.contains_key(&end);
        let fresh = Unhealthy { cable, until, is_needed: false };
        self.unhealthy.entry(end).or_insert(fresh).until = until;
        is_new
    }

    /// Quarantines a link by request. False if an operator did so before.
    pub fn hold(&mut self, cable: Cable) -> bool {
        self.held.insert(cable)
    }

    /// Both ends of the quarantined links that a sweep which updates `last` need not cross. The
    /// switch behind a link that went down may be cut off, which the sweep must find out.
    pub fn avoidable(&self, now: Instant, last: &Fabric) -> Vec<End> {
        let quarantined = self.quarantined(now).into_iter().map(|link| link.ends);
        let avoidable = quarantined.filter(|cable| {
            is_host_link(&self.records, cable)
                || cable.iter().all(|end| last.node_by_guid(end.0).is_some())
        });
        avoidable.flatten().collect()
    }

    /// Ends the quarantine of a link that is needed: counts from 0 again how often it goes down,
    /// and uses it although a port reports errors.
    pub fn keep(&mut self, cable: &Cable) {
        self.records.remove(cable);
        self.held.remove(cable);
        let ends = self.unhealthy.values_mut().filter(|port| port.cable == *cable);
        ends.for_each(|port| port.is_needed = true);
    }

    /// Ends the quarantine of the link at a port by request: counts from 0 again how often it goes
    /// down, and takes its ports as healthy. Returns the link; `None` if it is not quarantined.
    pub fn forget(&mut self, end: End) -> Option<Cable> {
        let unhealthy = self.unhealthy.values().map(|port| port.cable);
        let mut others = self.held.iter().copied().chain(unhealthy);
        let flapping = self.records.iter().find_map(|(cable, record)| {
            (record.until.is_some() && cable.contains(&end)).then_some(*cable)
        });
        let cable = flapping.or_else(|| others.find(|cable| cable.contains(&end)))?;
        self.records.remove(&cable);
        self.held.remove(&cable);
        self.unhealthy.retain(|_, port| port.cable != cable);
        Some(cable)
    }

    /// Ends the quarantines whose time is over, and returns their links.
    pub fn release(&mut self, now: Instant) -> Vec<Cable> {
        let mut released = Vec::new();
        for (cable, record) in &mut self.records {
            if record.until.take_if(|until| *until <= now).is_some() {
                record.ended = Some(now);
                released.push(*cable);
            }
        }
        self.unhealthy.retain(|_, port| {
            let is_over = port.until <= now;
            released.extend((is_over && !port.is_needed).then_some(port.cable));
            !is_over
        });
        released
    }

    /// Ends all quarantines, because the fabric cannot be routed without these links. No link is
    /// quarantined of its own accord for the longest time that one of them would have been.
    pub fn lift(&mut self, now: Instant) -> Vec<Cable> {
        let lifted: Vec<Cable> = self.quarantined(now).into_iter().map(|link| link.ends).collect();
        let times = self.records.values().filter_map(|record| record.until);
        let until = times.chain(self.unhealthy.values().map(|port| port.until)).max();
        self.lifted_until = until;
        for record in self.records.values_mut().filter(|record| record.until.is_some()) {
            record.until = None;
            record.ended = Some(now);
        }
        self.unhealthy.clear();
        self.held.clear();
        lifted
    }

    /// Time at which [`Self::release`] has something to do.
    pub fn next_release(&self) -> Option<Instant> {
        let times = self.records.values().filter_map(|record| record.until);
        times.chain(self.unhealthy.values().map(|port| port.until)).min()
    }

    /// The links that are treated as down.
    pub fn quarantined(&self, now: Instant) -> Vec<QuarantinedLink> {
        let cause = QuarantineCause::Operator;
        let held = self.held.iter().map(|&ends| QuarantinedLink { ends, cause, calm: None });
        if self.lifted_until.is_some_and(|until| now < until) {
            return held.collect();
        }
        let flapping = self.records.iter().filter(|(_, record)| record.until.is_some());
        let flapping = flapping.map(|(&ends, record)| {
            let cause = QuarantineCause::Flaps;
            let calm = Some(record.calm());
            QuarantinedLink { ends, cause, calm }
        });
        let unhealthy = self.unhealthy.iter().filter(|(_, port)| !port.is_needed);
        let unhealthy = unhealthy.map(|(&end, port)| {
            let cause = QuarantineCause::Errors(end);
            let calm = Some(UNHEALTHY_QUIET_TIME);
            QuarantinedLink { ends: port.cable, cause, calm }
        });
        let others = flapping.chain(unhealthy).filter(|link| !self.held.contains(&link.ends));
        held.chain(others).collect()
    }
}

fn is_host_link(records: &BTreeMap<[(Guid, PortNum); 2], HealthRecord>, cable: &Cable) -> bool {
    records.get(cable).is_some_and(|link| !link.joins_switches)
}

fn is_switch(old: &Fabric, id: PortId) -> bool {
    old.node_of(id).is_switch()
}

/// The cable of a port; `None` without one.
pub fn cable_of(fabric: &Fabric, port: PortId) -> Option<Cable> {
    let peer = fabric.port(port).peer?;
    let mut cable = [fabric.end_of(port), fabric.end_of(peer)];
    cable.sort_unstable();
    Some(cable)
}

/// One port of each cable that carried data in `old` and is down or in INIT in `new`.
fn downs(old: &Fabric, new: &Fabric) -> Vec<PortId> {
    let same_ids = old.has_same_ids(new);
    // The state first: nearly all ports carry data as before, and their peers are far away in
    // memory.
    let mut lost: Vec<PortId> = Vec::new();
    for (id, port) in old.port_ids().zip(old.ports()) {
        let Some(peer) = port.peer.filter(|_| port.num != PortNum::ZERO && carries_data(port))
        else {
            continue;
        };
        if is_down_in(new, old, same_ids, id) && carries_data(old.port(peer)) {
            lost.push(id.min(peer));
        }
    }
    lost.sort_unstable();
    lost.dedup();
    lost
}

/// True if a port of `old` answers in `new` and carries no data there. Ports that cannot be reached or
/// do not answer do not count: a link before them may be down.
fn is_down_in(new: &Fabric, old: &Fabric, has_same_ids: bool, id: PortId) -> bool {
    let id_now = if has_same_ids {
        Some(id)
    } else {
        let node = new.node_by_guid(old.node_of(id).guid());
        node.and_then(|node| new.port_of(node, old.port(id).num))
    };
    id_now.map(|id| new.port(id)).is_some_and(|port| port.info().is_some() && !carries_data(port))
}

fn carries_data(port: &Port) -> bool {
    matches!(port.state(), PortState::Armed | PortState::Active)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Goes down and up again `times` times, every second. Returns the times of the quarantines.
    fn flap(record: &mut HealthRecord, start: Instant, times: u64) -> Vec<u64> {
        (0..times).filter(|&at| record.went_down(start + SECOND * at as u32)).collect()
    }

    #[test]
    fn a_link_that_goes_down_five_times_in_a_minute_is_quarantined() {
        let mut record = HealthRecord::new(true);
        let start = Instant::now();
        assert_eq!(flap(&mut record, start, 10), [4]);
        // Each further change prolongs the quarantine and begins no other.
        assert_eq!(record.until, Some(start + 9 * SECOND + MIN_CALM));
        let mut slow = HealthRecord::new(true);
        assert!((0..20).all(|at| !slow.went_down(start + 16 * SECOND * at)));
    }

    #[test]
    fn repeated_quarantines_last_longer() {
        let mut record = HealthRecord::new(true);
        let mut now = Instant::now();
        let mut calms = Vec::new();
        for _ in 0..9 {
            assert_eq!(flap(&mut record, now, 5), [4]);
            calms.push(record.calm().as_secs());
            now = record.until.take().expect("it is quarantined");
            record.ended = Some(now);
        }
        assert_eq!(calms, [10, 20, 40, 80, 160, 320, 640, 640, 640]);
        now += MEMORY;
        assert!(record.is_outdated(now));
        assert_eq!(flap(&mut record, now, 5), [4]);
        assert_eq!(record.calm(), MIN_CALM);
    }

    #[test]
    fn a_forgotten_link_counts_from_0_again() {
        let start = Instant::now();
        let cable: Cable = [(Guid(1), PortNum(1)), (Guid(2), PortNum(3))];
        let mut health = LinkHealth::default();
        let mut record = HealthRecord::new(true);
        assert_eq!(flap(&mut record, start, 5), [4]);
        health.records.insert(cable, record);
        assert!(health.errors(start, cable[0], cable));
        assert_eq!(health.quarantined(start).len(), 2);
        assert_eq!(health.forget((Guid(2), PortNum(1))), None, "another port of the node");
        assert_eq!(health.forget(cable[1]), Some(cable));
        assert_eq!(health.quarantined(start), []);
        assert_eq!((health.next_release(), health.forget(cable[1])), (None, None));
        assert!(health.errors(start, cable[0], cable), "it may be unhealthy again");
    }

    #[test]
    fn a_link_that_an_operator_quarantined_stays_so_until_it_is_released() {
        let start = Instant::now();
        let cable: Cable = [(Guid(1), PortNum(1)), (Guid(2), PortNum(3))];
        let mut health = LinkHealth::default();
        assert!(health.hold(cable) && !health.hold(cable));
        assert!(health.errors(start, cable[0], cable));
        let late = start + 2 * UNHEALTHY_QUIET_TIME;
        // Its traps end, and it stays.
        health.release(late);
        let link = QuarantinedLink { ends: cable, cause: QuarantineCause::Operator, calm: None };
        assert_eq!(health.quarantined(late), std::slice::from_ref(&link));
        assert_eq!(health.next_release(), None);
        assert_eq!((health.forget(cable[1]), health.quarantined(late)), (Some(cable), vec![]));
        // All are lifted, and an operator may quarantine it again at once.
        assert!(health.errors(late, cable[0], cable) && health.hold(cable));
        assert_eq!((health.lift(late), health.quarantined(late)), (vec![cable], vec![]));
        assert!(health.hold(cable));
        assert_eq!(health.quarantined(late), [link]);
        health.keep(&cable);
        assert_eq!(health.quarantined(late), [], "it is needed");
    }
}
