//! Quarantine of links that flap, and of links whose ports report errors.
//!
//! A link that goes down [`MAX_DOWNS`] times within [`DOWN_WINDOW`] is *quarantined*: the planner treats it
//! as down until it has been calm for a time that doubles with each quarantine. A port that sends many
//! traps 129 to 131 is *unhealthy*, as in OpenSM: its link is treated as down until the traps have
//! paused for [`UNHEALTHY_QUIET_TIME`].
//!
//! The structure has no clock and does no I/O: time and snapshots are arguments. It names links by
//! GUIDs and port numbers, so that it outlives snapshots.

use super::traps::UNHEALTHY_QUIET_TIME;
use crate::fabric::{End, Fabric, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::PortState;
use std::collections::{BTreeMap, VecDeque};
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

/// A link that is treated as down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quarantined {
    pub cable: Cable,
    pub cause: Cause,
    /// Time without a change, or without a trap, after which the quarantine ends.
    pub calm: Duration,
}

/// The cause of a quarantine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The link went down [`MAX_DOWNS`] times within [`DOWN_WINDOW`].
    Flaps,
    /// This end is unhealthy: it reports errors of the link.
    Errors(End),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    downs: VecDeque<Instant>,
    /// Number of quarantines in a row.
    quarantines: u32,
    /// The quarantine ends at this time if nothing changes before.
    until: Option<Instant>,
    /// End of the last quarantine.
    ended: Option<Instant>,
}

impl Record {
    fn new() -> Self {
        Self { downs: VecDeque::new(), quarantines: 0, until: None, ended: None }
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
        let is_old = |time: Instant| now.duration_since(time) >= MEMORY;
        self.until.is_none()
            && self.ended.is_none_or(is_old)
            && self.downs.back().is_none_or(|&last| now.duration_since(last) > DOWN_WINDOW)
    }
}

/// The health of the links.
#[derive(Clone, Debug, Default)]
pub struct LinkHealth {
    records: BTreeMap<Cable, Record>,
    /// Unhealthy ports, with the time at which they are healthy again unless another trap arrives.
    unhealthy: BTreeMap<End, (Cable, Instant)>,
    /// No link is quarantined before this time.
    lifted_until: Option<Instant>,
}

impl LinkHealth {
    /// Compares two snapshots and counts the links that went down between them: those that carried
    /// data in `old` and are absent, down or in INIT in `new`. `changed` are the switches that reported
    /// a changed port: their quarantined links are not calm.
    ///
    /// Returns the links that are quarantined from now on.
    pub fn observe(
        &mut self,
        now: Instant,
        old: &Fabric,
        new: &Fabric,
        changed: &[Guid],
    ) -> Vec<Cable> {
        let mut quarantined = Vec::new();
        for cable in downs(old, new) {
            let record = self.records.entry(cable).or_insert_with(Record::new);
            if record.went_down(now) {
                quarantined.push(cable);
            }
        }
        for (cable, record) in &mut self.records {
            let has_changed = cable.iter().any(|(guid, _)| changed.contains(guid));
            if record.until.is_some() && has_changed && !quarantined.contains(cable) {
                record.until = Some(now + record.calm());
            }
        }
        self.records.retain(|_, record| !record.is_outdated(now));
        quarantined
    }

    /// Records that a port reports errors of its link. True if it was healthy before.
    pub fn errors(&mut self, now: Instant, end: End, cable: Cable) -> bool {
        self.unhealthy.insert(end, (cable, now + UNHEALTHY_QUIET_TIME)).is_none()
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
        self.unhealthy.retain(|_, &mut (cable, until)| {
            let is_over = until <= now;
            released.extend(is_over.then_some(cable));
            !is_over
        });
        released
    }

    /// Ends all quarantines, because the fabric cannot be routed without these links. No link is
    /// quarantined for the longest time that one of them would have been.
    pub fn lift(&mut self, now: Instant) -> Vec<Cable> {
        let lifted: Vec<Cable> = self.quarantined().into_iter().map(|link| link.cable).collect();
        let times = self.records.values().filter_map(|record| record.until);
        let until = times.chain(self.unhealthy.values().map(|&(_, until)| until)).max();
        self.lifted_until = until;
        for record in self.records.values_mut().filter(|record| record.until.is_some()) {
            record.until = None;
            record.ended = Some(now);
        }
        self.unhealthy.clear();
        lifted
    }

    /// Time at which [`Self::release`] has something to do.
    pub fn next_release(&self) -> Option<Instant> {
        let times = self.records.values().filter_map(|record| record.until);
        times.chain(self.unhealthy.values().map(|&(_, until)| until)).min()
    }

    /// The links that are treated as down.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        let flapping = self.records.iter().filter(|(_, record)| record.until.is_some());
        let flapping = flapping.map(|(&cable, record)| Quarantined {
            cable,
            cause: Cause::Flaps,
            calm: record.calm(),
        });
        let unhealthy = self.unhealthy.iter().map(|(&end, &(cable, _))| Quarantined {
            cable,
            cause: Cause::Errors(end),
            calm: UNHEALTHY_QUIET_TIME,
        });
        flapping.chain(unhealthy).collect()
    }

    /// True while [`Self::lift`] is in effect.
    pub fn is_lifted(&self, now: Instant) -> bool {
        self.lifted_until.is_some_and(|until| now < until)
    }
}

/// The cable of a port; `None` without one.
pub fn cable_of(fabric: &Fabric, port: PortId) -> Option<Cable> {
    let peer = fabric.port(port).peer?;
    let end = |id: PortId| (fabric.node_of(id).guid(), fabric.port(id).num);
    let mut cable = [end(port), end(peer)];
    cable.sort_unstable();
    Some(cable)
}

/// The cables that carried data in `old` and do not in `new`.
fn downs(old: &Fabric, new: &Fabric) -> Vec<Cable> {
    let carries = |fabric: &Fabric, id: PortId| {
        matches!(fabric.port(id).state(), PortState::Armed | PortState::Active)
    };
    let same_ids = old.nodes().len() == new.nodes().len() && old.ports().len() == new.ports().len();
    let now = |id: PortId| {
        let (port, guid) = (old.port(id), old.node_of(id).guid());
        if same_ids && new.node_of(id).guid() == guid {
            return Some(id);
        }
        new.port_of(new.node_by_guid(guid)?, port.num)
    };
    let is_down =
        |id: PortId| now(id).is_none_or(|id| new.port(id).peer.is_none() || !carries(new, id));
    let linked = old.port_ids().filter(|&id| {
        old.port(id).num != PortNum::ZERO && old.port(id).peer.is_some_and(|peer| id < peer)
    });
    let lost = linked.filter(|&id| {
        let peer = old.port(id).peer.unwrap_or(id);
        carries(old, id) && carries(old, peer) && (is_down(id) || is_down(peer))
    });
    lost.filter_map(|id| cable_of(old, id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Goes down and up again `times` times, every second. Returns the times of the quarantines.
    fn flap(record: &mut Record, start: Instant, times: u64) -> Vec<u64> {
        (0..times).filter(|&at| record.went_down(start + SECOND * at as u32)).collect()
    }

    #[test]
    fn a_link_that_goes_down_five_times_in_a_minute_is_quarantined() {
        let mut record = Record::new();
        let start = Instant::now();
        assert_eq!(flap(&mut record, start, 10), [4]);
        // Each further change prolongs the quarantine and begins no other.
        assert_eq!(record.until, Some(start + 9 * SECOND + MIN_CALM));
        let mut slow = Record::new();
        assert!((0..20).all(|at| !slow.went_down(start + 16 * SECOND * at)));
    }

    #[test]
    fn repeated_quarantines_last_longer() {
        let mut record = Record::new();
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
}
