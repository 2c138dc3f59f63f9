//! The state of an ordered transition, and the Sets that it could not apply.

use super::dispatch::Dispatch;
use super::{CommittedRoutes, Steps};
use crate::apply::delta::{Delta, SetRequest};
use crate::apply::set_id::SetId;
use crate::fabric::PortId;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// The planned state that devices do not hold.
pub(in crate::apply) struct Unapplied {
    /// Failed Sets, of which either version may be in effect.
    pub failed: Vec<SetId>,
    /// Linear forwarding table blocks that were withheld, with the entries that the devices hold.
    pub withheld_blocks: Vec<(SetId, Box<[u8; LFT_BLOCK]>)>,
}

/// The draining of packets between removals and new entries in a strict transition.
pub(in crate::apply) struct Drain {
    /// Time for which packets drain.
    time: Duration,
    /// Time of the last removal of entries, in this transition or in an earlier one that was ended
    /// before packets had drained.
    removed_at: Option<Instant>,
    /// The barrier, while the steps behind it wait.
    barrier: Option<u32>,
    is_over: bool,
}

impl Drain {
    /// Packets drain for `time`; an earlier transition removed entries at `removed_at`.
    pub(in crate::apply) fn new(time: Duration, removed_at: Option<Instant>) -> Self {
        Self { time, removed_at, barrier: None, is_over: false }
    }
}

/// The progress of the steps of a transition.
pub(in crate::apply) struct TransitionProgress {
    dispatch: Dispatch,
    /// `None` unless the transition is strict.
    drain: Option<Drain>,
    /// Acknowledged intermediate versions of table blocks.
    intermediate: HashMap<SetId, Box<[u8; LFT_BLOCK]>>,
    /// Sets whose planned version was acknowledged.
    complete: HashSet<SetId>,
}

impl TransitionProgress {
    pub(in crate::apply) fn new(steps: Steps, drain: Option<Drain>) -> Self {
        debug_assert_eq!(steps.drain().is_some(), drain.is_some(), "only strict orders drain");
        Self {
            dispatch: Dispatch::new(steps),
            drain,
            intermediate: HashMap::new(),
            complete: HashSet::new(),
        }
    }

    /// The next step that may be sent, with its Set; a secondary one only `with_secondary`.
    pub(in crate::apply) fn take(
        &mut self,
        with_secondary: bool,
        delta: Delta<'_>,
    ) -> Option<(u32, SetRequest)> {
        loop {
            let index = self.dispatch.take(with_secondary)?;
            let step = self.dispatch.steps().get(index)?;
            if let Some(set) = step.set {
                let data = match &step.data {
                    Some(data) => &data[..],
                    None => delta.lft_block(set),
                };
                return Some((index, (set, delta.request(set, data))));
            }
            // Only the barrier at which packets drain is handed out without a Set.
            if let Some(drain) = &mut self.drain {
                drain.barrier = Some(index);
            }
        }
    }

    /// Records the result of a step.
    pub(in crate::apply) fn done(&mut self, index: u32, acknowledged: bool) {
        let steps = self.dispatch.steps();
        if let Some(step) = steps.get(index)
            && let Some(set) = step.set
            && acknowledged
        {
            if let Some(drain) = &mut self.drain
                && steps.drain().is_some_and(|barrier| index < barrier)
            {
                drain.removed_at = Some(Instant::now());
            }
            if step.is_last {
                self.complete.insert(set);
            } else if let Some(data) = &step.data {
                self.intermediate.insert(set, data.clone());
            }
        }
        self.dispatch.done(index, acknowledged);
    }

    /// Records that the ports of the plan have been activated, see [`Dispatch::ports_active`].
    pub(in crate::apply) fn ports_active(&mut self, is_active: impl Fn(PortId) -> bool) {
        self.dispatch.ports_active(is_active);
    }

    /// The time when packets have drained, if the next steps wait for it.
    pub(in crate::apply) fn drain_end(&self) -> Option<Instant> {
        let drain = self.drain.as_ref().filter(|drain| drain.barrier.is_some())?;
        Some(drain.removed_at.map_or_else(Instant::now, |at| at + drain.time))
    }

    /// Records that packets have drained.
    pub(in crate::apply) fn drained(&mut self) {
        if let Some(drain) = &mut self.drain
            && let Some(barrier) = drain.barrier.take()
        {
            drain.is_over = true;
            self.dispatch.barrier_passed(barrier);
        }
    }

    /// The time of the last removal of entries, if packets may not have drained since.
    pub(in crate::apply) fn undrained_since(&self) -> Option<Instant> {
        self.drain.as_ref().filter(|drain| !drain.is_over)?.removed_at
    }

    /// See [`Dispatch::break_cycle`].
    pub(in crate::apply) fn break_cycle(&mut self) -> bool {
        self.dispatch.break_cycle()
    }

    /// True if the planned version of a Set was acknowledged.
    pub(in crate::apply) fn is_complete(&self, set: &SetId) -> bool {
        self.complete.contains(set)
    }

    /// The Sets whose planned version was acknowledged.
    pub(in crate::apply) fn complete_sets(&self) -> impl Iterator<Item = SetId> + '_ {
        self.complete.iter().copied()
    }

    /// Number of Sets that were sent although a predecessor failed.
    pub(in crate::apply) fn forced(&self) -> usize {
        self.dispatch.forced()
    }

    pub(in crate::apply) fn into_committed_routes(self) -> CommittedRoutes {
        self.dispatch.into_steps().into_committed_routes()
    }

    /// Records in `left` the Sets that were withheld; with `has_unsent`, also those that were not
    /// sent, because programming ended early or links are not up. Returns the number of withheld
    /// Sets.
    pub(in crate::apply) fn record_outcome(
        &self,
        delta: &Delta<'_>,
        has_unsent: bool,
        left: &mut Unapplied,
    ) -> usize {
        let steps = self.dispatch.withheld().filter(|step| step.is_last);
        let withheld: Vec<SetId> = steps.filter_map(|step| step.set).collect();
        for &set in &withheld {
            self.stays_as_held(set, delta, left);
        }
        if has_unsent {
            self.record_unsent(delta, left);
        }
        withheld.len()
    }

    /// Records in `left` the Sets that were not sent.
    fn record_unsent(&self, delta: &Delta<'_>, left: &mut Unapplied) {
        let known: HashSet<SetId> = left.failed.iter().copied().collect();
        let withheld: HashSet<SetId> = left.withheld_blocks.iter().map(|(set, _)| *set).collect();
        let steps = self.dispatch.steps().iter().filter(|step| step.is_last);
        for set in steps.filter_map(|step| step.set) {
            if !self.is_complete(&set) && !known.contains(&set) && !withheld.contains(&set) {
                self.stays_as_held(set, delta, left);
            }
        }
    }

    /// Records that a device keeps a table as it holds it.
    fn stays_as_held(&self, set: SetId, delta: &Delta<'_>, left: &mut Unapplied) {
        let is_lft = set.attr_id == AttrId::LINEAR_FT;
        let is_sure = is_lft && !delta.is_pending(set.node, set.attr_id, set.attr_mod);
        let held = match self.intermediate.get(&set).filter(|_| is_lft) {
            Some(data) => Some(&data[..]),
            None => delta.held_lft_block(set).filter(|_| is_sure),
        };
        match held {
            Some(held) => {
                let mut data = Box::new([LFT_NO_PATH; LFT_BLOCK]);
                data[..held.len()].copy_from_slice(held);
                left.withheld_blocks.push((set, data));
            }
            None => left.failed.push(set),
        }
    }
}
