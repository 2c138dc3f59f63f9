//! How far an ordered application is, and what it leaves undone.

use super::delta::Delta;
use super::item::Item;
use super::transition::Steps;
use super::transition::dispatch::Dispatch;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use std::collections::{HashMap, HashSet};

/// What devices do not hold although it is planned.
pub(super) struct Left {
    /// Sets that failed: either version may be there.
    pub failed: Vec<Item>,
    /// Blocks of linear forwarding tables that were not sent, as they are.
    pub kept: Vec<(Item, Box<[u8; LFT_BLOCK]>)>,
}

/// How far the steps of an order are.
pub(super) struct Progress<'a> {
    pub steps: &'a Steps,
    pub dispatch: Dispatch<'a>,
    /// Blocks of linear forwarding tables that were acknowledged, but not in their last version.
    between: HashMap<Item, Box<[u8; LFT_BLOCK]>>,
    /// Sets that arrived in their last version.
    complete: HashSet<Item>,
}

impl<'a> Progress<'a> {
    /// Nothing was sent.
    pub(super) fn new(steps: &'a Steps) -> Self {
        let (between, complete) = Default::default();
        Self { steps, dispatch: Dispatch::new(steps), between, complete }
    }

    /// A step was acknowledged, or it failed.
    pub(super) fn done(&mut self, index: u32, acknowledged: bool) {
        if let Some((step, item)) = self.steps.get(index).and_then(|s| Some((s, s.item?)))
            && acknowledged
        {
            match &step.data {
                _ if step.is_last => drop(self.complete.insert(item)),
                Some(data) => drop(self.between.insert(item, data.clone())),
                None => {}
            }
        }
        self.dispatch.done(index, acknowledged);
    }

    /// True if the last version of a Set arrived.
    pub(super) fn is_complete(&self, item: &Item) -> bool {
        self.complete.contains(item)
    }

    /// Takes down what was not sent; the number of Sets.
    pub(super) fn stayed_back(&self, delta: &Delta<'_>, left: &mut Left) -> usize {
        let steps = self.dispatch.staying_back().filter(|step| step.is_last);
        let items: Vec<Item> = steps.filter_map(|step| step.item).collect();
        let is_sure = |item: Item| {
            item.attr_id == AttrId::LINEAR_FT
                && !delta.is_pending(item.node, item.attr_id, item.attr_mod)
        };
        for &item in &items {
            let held = match self.between.get(&item) {
                Some(data) => Some(&data[..]),
                None => delta.held_lft_block(item).filter(|_| is_sure(item)),
            };
            match held {
                Some(held) => {
                    let mut data = Box::new([LFT_NO_PATH; LFT_BLOCK]);
                    data[..held.len()].copy_from_slice(held);
                    left.kept.push((item, data));
                }
                None => left.failed.push(item),
            }
        }
        items.len()
    }
}
