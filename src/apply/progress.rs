//! How far an ordered application is, and what it leaves undone.

use super::delta::Delta;
use super::set_id::SetId;
use super::transition::Steps;
use super::transition::dispatch::Dispatch;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use std::collections::{HashMap, HashSet};

/// What devices do not hold although it is planned.
pub(super) struct Unapplied {
    /// Sets that failed: either version may be there.
    pub failed: Vec<SetId>,
    /// Blocks of linear forwarding tables that were not sent, as they are.
    pub kept: Vec<(SetId, Box<[u8; LFT_BLOCK]>)>,
}

/// How far the steps of an order are.
pub(super) struct Progress<'a> {
    pub steps: &'a Steps,
    pub dispatch: Dispatch<'a>,
    /// Blocks of linear forwarding tables that were acknowledged, but not in their last version.
    between: HashMap<SetId, Box<[u8; LFT_BLOCK]>>,
    /// Sets that arrived in their last version.
    complete: HashSet<SetId>,
}

impl<'a> Progress<'a> {
    /// Nothing was sent.
    pub(super) fn new(steps: &'a Steps) -> Self {
        let (between, complete) = Default::default();
        Self { steps, dispatch: Dispatch::new(steps), between, complete }
    }

    /// A step was acknowledged, or it failed.
    pub(super) fn done(&mut self, index: u32, acknowledged: bool) {
        if let Some((step, set)) = self.steps.get(index).and_then(|s| Some((s, s.set?)))
            && acknowledged
        {
            match &step.data {
                _ if step.is_last => drop(self.complete.insert(set)),
                Some(data) => drop(self.between.insert(set, data.clone())),
                None => {}
            }
        }
        self.dispatch.done(index, acknowledged);
    }

    /// True if the last version of a Set arrived.
    pub(super) fn is_complete(&self, set: &SetId) -> bool {
        self.complete.contains(set)
    }

    /// Takes down what was not sent; the number of Sets.
    pub(super) fn withheld(&self, delta: &Delta<'_>, left: &mut Unapplied) -> usize {
        let steps = self.dispatch.withheld().filter(|step| step.is_last);
        let sets: Vec<SetId> = steps.filter_map(|step| step.set).collect();
        let is_sure = |set: SetId| {
            set.attr_id == AttrId::LINEAR_FT
                && !delta.is_pending(set.node, set.attr_id, set.attr_mod)
        };
        for &set in &sets {
            let held = match self.between.get(&set) {
                Some(data) => Some(&data[..]),
                None => delta.held_lft_block(set).filter(|_| is_sure(set)),
            };
            match held {
                Some(held) => {
                    let mut data = Box::new([LFT_NO_PATH; LFT_BLOCK]);
                    data[..held.len()].copy_from_slice(held);
                    left.kept.push((set, data));
                }
                None => left.failed.push(set),
            }
        }
        sets.len()
    }
}
