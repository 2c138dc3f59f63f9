//! The flight recorder of a running daemon.

use super::digest::digests;
use super::entry::{EventKind, RecordedMad};
use super::incidents::{IncidentStep, RecordedIncident};
use super::mad_code::is_recorded;
use super::plans::{PlanInputs, PlanRecord, PlanResult};
use super::ring::{BlockRing, EntryBlock, RingLimits};
use crate::transport::recorded::{MadFate, MadRecorder};
use crate::transport::{Address, Agent};
use crate::wire::defined::defined_bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Maximum number of plans that are kept with their inputs.
const MAX_PLANS: usize = 4;

/// Maximum number of port slots in the snapshots of the plans that are kept; the last two are kept
/// in any case. A snapshot takes some 200 bytes a slot where it shares nothing with the others.
const MAX_SLOTS: usize = 100_000;

/// Keeps the MADs and events of the last minutes, and the last plans with their inputs. Its methods
/// take less than a microsecond.
pub struct FlightRecorder {
    start: Instant,
    /// False while the size is 0.
    is_on: AtomicBool,
    state: Mutex<RecorderState>,
}

struct RecorderState {
    ring: BlockRing,
    /// The recorder was off for some time.
    has_gap: bool,
    plans: VecDeque<PlanRecord>,
    /// Number of plans since the recorder was started.
    plan_count: u64,
    /// Open incidents by identifier.
    incidents: BTreeMap<String, RecordedIncident>,
}

/// The contents of a recorder at one time.
pub struct RecorderSnapshot {
    /// Time since the recorder was started, in microseconds.
    pub now: u64,
    /// The entries, oldest first.
    pub blocks: Vec<Arc<EntryBlock>>,
    /// True if entries since the start were dropped.
    pub is_truncated: bool,
    /// The last plans, oldest first.
    pub plans: Vec<PlanRecord>,
    /// The open incidents, as texts of [`RecordedIncident`].
    pub incidents: Vec<String>,
}

impl FlightRecorder {
    pub fn new(limits: RingLimits) -> Arc<Self> {
        let state = RecorderState {
            ring: BlockRing::new(limits),
            has_gap: limits.bytes == 0,
            plans: VecDeque::new(),
            plan_count: 0,
            incidents: BTreeMap::new(),
        };
        let is_on = AtomicBool::new(limits.bytes > 0);
        Arc::new(Self { start: Instant::now(), is_on, state: Mutex::new(state) })
    }

    pub fn set_limits(&self, limits: RingLimits) {
        self.is_on.store(limits.bytes > 0, Ordering::Relaxed);
        let mut state = self.lock();
        state.ring.set_limits(limits);
        if limits.bytes == 0 {
            state.has_gap = true;
            state.plans.clear();
        }
    }

    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Records an event. `text` is not called while the recorder is off.
    pub fn event<T: AsRef<str>>(&self, kind: EventKind, text: impl FnOnce() -> T) {
        if self.is_on() {
            let text = text();
            let now = self.now();
            self.lock().ring.push_event(now, kind, text.as_ref());
        }
    }

    /// Records that an incident is open, if it is new or different. Open ones are known while the recorder
    /// is off, too.
    pub fn incident_open(&self, incident: &RecordedIncident) {
        let before = self.lock().incidents.insert(incident.id.clone(), incident.clone());
        let step = match before {
            None => IncidentStep::Opened,
            Some(before) if before != *incident => IncidentStep::Changed,
            Some(_) => return,
        };
        self.event(EventKind::Incident, || incident.event_text(step));
    }

    /// Records that an incident has ended.
    pub fn incident_ended(&self, incident: &RecordedIncident) {
        self.lock().incidents.remove(&incident.id);
        self.event(EventKind::Incident, || incident.event_text(IncidentStep::Ended));
    }

    /// Records that planning begins.
    pub fn plan_begins(&self, inputs: impl FnOnce() -> PlanInputs) {
        if !self.is_on() {
            return;
        }
        let inputs = inputs();
        let text = inputs.summary();
        let now = self.now();
        let mut state = self.lock();
        let position = state.ring.count();
        state.ring.push_event(now, EventKind::PlanBegan, &text);
        state.plan_count += 1;
        let number = state.plan_count;
        let result = PlanResult::Unfinished;
        state.plans.push_back(PlanRecord { number, position, inputs, result });
        while state.plans.len() > kept(state.plans.iter().rev().map(slot_count)) {
            state.plans.pop_front();
        }
    }

    /// Records the result of the plan that began last.
    pub fn plan_ended(&self, result: PlanResult) {
        if !self.is_on() {
            return;
        }
        let (kind, text) = result.summary();
        let now = self.now();
        let mut state = self.lock();
        state.ring.push_event(now, kind, &text);
        if let Some(plan) = state.plans.back_mut() {
            plan.result = result;
        }
    }

    /// Replaces the plans that passed by their digests. Takes some milliseconds in a large fabric.
    pub fn digest_plans(&self) {
        let plans: Vec<_> = self
            .lock()
            .plans
            .iter()
            .filter_map(|record| match &record.result {
                PlanResult::Accepted(plan) => {
                    Some((record.number, record.inputs.fabric.clone(), plan.clone()))
                }
                _ => None,
            })
            .collect();
        for (number, fabric, plan) in plans {
            let digests = Arc::new(digests(&fabric, Some(&plan)));
            let mut state = self.lock();
            if let Some(record) = state.plans.iter_mut().find(|record| record.number == number) {
                record.result = PlanResult::Digested(plan.routing.engine, digests);
            }
        }
    }

    /// Compresses the oldest full block of entries that is not compressed, which leaves about a fifth
    /// of it, unless its last entry is less than a second old. Takes half a millisecond, without the
    /// lock. False if there is none.
    pub fn compress_block(&self) -> bool {
        let now = self.now();
        let Some(block) = self.lock().ring.to_compress(now) else { return false };
        let Some(compressed) = block.compressed() else { return false };
        self.lock().ring.replace(&block, compressed);
        true
    }

    /// The present contents. The entries are shared, not copied.
    pub fn snapshot(&self) -> RecorderSnapshot {
        let now = self.now();
        let mut state = self.lock();
        let blocks = state.ring.blocks(now);
        let is_truncated = state.has_gap || state.ring.first() > 0;
        let plans = state.plans.iter().cloned().collect();
        let incidents = state.incidents.values().map(ToString::to_string).collect();
        RecorderSnapshot { now, blocks, is_truncated, plans, incidents }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Locks the state. It stays usable after a panic: entries are written as a whole or, at worst,
    /// the block that is being written has a damaged end.
    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn slot_count(plan: &PlanRecord) -> usize {
    plan.inputs.fabric.ports().len()
}

impl MadRecorder for FlightRecorder {
    fn record(&self, fate: MadFate, agent: Agent, peer: &Address, mad: &[u8]) {
        if !self.is_on() || !is_recorded(agent, mad) {
            return;
        }
        let mad = defined_bytes(mad);
        let mad = RecordedMad { fate, agent, lid: peer.lid, qpn: peer.qpn, mad };
        let now = self.now();
        self.lock().ring.push_mad(now, &mad);
    }
}

/// The number of plans to keep, of those whose snapshots have so many port slots, the last one first.
fn kept(slots: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fitting = slots.take(MAX_PLANS).take_while(|slots| {
        sum += slots;
        sum <= MAX_SLOTS
    });
    fitting.count().max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_fabrics_leave_room_for_fewer_plans() {
        assert_eq!(kept([100; 9].into_iter()), MAX_PLANS);
        assert_eq!(kept([MAX_SLOTS / 3; 9].into_iter()), 3);
        assert_eq!(kept([MAX_SLOTS; 9].into_iter()), 2);
        assert_eq!(kept([MAX_SLOTS + 1].into_iter()), 2);
    }
}
