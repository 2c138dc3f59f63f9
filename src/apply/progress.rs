//! The state of an ordered transition, and the Sets that it could not apply.

use super::delta::{Delta, SetRequest};
use super::set_id::SetId;
use super::transition::Steps;
use super::transition::dispatch::Dispatch;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// The planned state that devices do not hold.
pub(super) struct Unapplied {
    /// Failed Sets, of which either version may be in effect.
    pub failed: Vec<SetId>,
    /// Linear forwarding table blocks that were withheld, with the entries that the devices hold.
    pub withheld_blocks: Vec<(SetId, Box<[u8; LFT_BLOCK]>)>,
}

/// The progress of the steps of a transition.
pub(super) struct Progress<'a> {
    pub steps: &'a Steps,
    pub dispatch: Dispatch<'a>,
    /// Time for which packets drain in a strict transition.
    drain_time: Duration,
    /// Time since when packets drain: of the last removal of entries, in this transition or an earlier
    /// one that was ended before they had drained.
    removed_at: Option<Instant>,
    /// Acknowledged intermediate versions of table blocks.
    intermediate: HashMap<SetId, Box<[u8; LFT_BLOCK]>>,
    /// Sets whose planned version was acknowledged.
    complete: HashSet<SetId>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(steps: &'a Steps) -> Self {
        let (intermediate, complete) = Default::default();
        let (drain_time, removed_at) = (Duration::ZERO, None);
        let dispatch = Dispatch::new(steps);
        Self { steps, dispatch, drain_time, removed_at, intermediate, complete }
    }

    /// Progress of a strict transition; entries were removed at `removed_at` by an earlier one.
    pub(super) fn strict(
        steps: &'a Steps,
        drain_time: Duration,
        removed_at: Option<Instant>,
    ) -> Self {
        Self { drain_time, removed_at, ..Self::new(steps) }
    }

    /// The time when packets have drained, if the next steps wait for it.
    pub(super) fn drain_end(&self) -> Option<Instant> {
        let waits = self.dispatch.awaits_drain();
        waits.then(|| self.removed_at.map_or_else(Instant::now, |at| at + self.drain_time))
    }

    /// The time of the last removal of entries, if packets may not have drained since.
    pub(super) fn undrained_since(&self) -> Option<Instant> {
        self.removed_at.filter(|_| !self.dispatch.is_drained())
    }

    /// The Set of a step, and the request for it; `None` for a barrier.
    pub(super) fn request(&self, step: u32, delta: Delta<'_>) -> Option<SetRequest> {
        let step = self.steps.get(step)?;
        let set = step.set?;
        let data = step.data.as_ref().map(|data| &data[..]);
        let data = data.unwrap_or_else(|| delta.lft_block(set));
        Some((set, delta.request(set, data)))
    }

    /// Records the result of a step.
    pub(super) fn done(&mut self, index: u32, acknowledged: bool) {
        if let Some((step, set)) = self.steps.get(index).and_then(|s| Some((s, s.set?)))
            && acknowledged
        {
            if self.steps.drain().is_some_and(|drain| index < drain) {
                self.removed_at = Some(Instant::now());
            }
            match &step.data {
                _ if step.is_last => drop(self.complete.insert(set)),
                Some(data) => drop(self.intermediate.insert(set, data.clone())),
                None => {}
            }
        }
        self.dispatch.done(index, acknowledged);
    }

    /// True if the planned version of a Set was acknowledged.
    pub(super) fn is_complete(&self, set: &SetId) -> bool {
        self.complete.contains(set)
    }

    /// Records the Sets that were withheld in `left`; with `has_unsent`, also those that were not
    /// sent, because programming ended early or links are not up. Returns the numbers of forced and
    /// of withheld Sets.
    pub(super) fn outcome(
        &self,
        delta: &Delta<'_>,
        has_unsent: bool,
        left: &mut Unapplied,
    ) -> (usize, usize) {
        let withheld = self.withheld(delta, left);
        if has_unsent {
            self.unsent(delta, left);
        }
        (self.dispatch.forced(), withheld)
    }

    /// Records the withheld Sets in `left`; returns their number.
    fn withheld(&self, delta: &Delta<'_>, left: &mut Unapplied) -> usize {
        let steps = self.dispatch.withheld().filter(|step| step.is_last);
        let sets: Vec<SetId> = steps.filter_map(|step| step.set).collect();
        sets.iter().for_each(|&set| self.stays_as_held(set, delta, left));
        sets.len()
    }

    /// Records in `left` the Sets that were not sent.
    fn unsent(&self, delta: &Delta<'_>, left: &mut Unapplied) {
        let known: HashSet<SetId> = left.failed.iter().copied().collect();
        let withheld: HashSet<SetId> = left.withheld_blocks.iter().map(|(set, _)| *set).collect();
        let steps = self.steps.iter().filter(|step| step.is_last);
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
