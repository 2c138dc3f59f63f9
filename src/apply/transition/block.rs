//! The changes of one block of the linear forwarding tables, and their dependencies.
//!
//! LIDs are independent of each other, since each has its own routes. The dependencies of a LID are
//! derived from the few switches that change its entry ([`super::lid_change`]); all other switches
//! forward the LID as before.
//!
//! A new entry that leads over a link which is not ACTIVE yet, at a switch whose packets arrive
//! now, is deferred until the ports are ACTIVE.

use super::lid_change::{LidChange, PathFollower, TransitionEnd};
use super::link_table::LinkTable;
use super::switch_update::SwitchUpdate;
use crate::apply::delta::Delta;
use crate::apply::set_id::SetId;
use crate::fabric::PortId;
use crate::ids::Lid;
use crate::wire::attr::tables::LFT_BLOCK;

/// A LID must change at one switch before it changes at another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ChangeDependency {
    /// The update that waits: an index of [`Block::updates`].
    pub update: u32,
    /// The LID, as an offset in the block.
    pub lid: u8,
    /// The update that must come before.
    pub on: u32,
}

impl ChangeDependency {
    /// Index of the change that must come before, by update and LID.
    pub(super) fn place(&self) -> usize {
        self.on as usize * LFT_BLOCK + usize::from(self.lid)
    }
}

/// The changes of one block number. Sets of LIDs are bit masks over the block, one mask per update.
pub(super) struct Block<'a> {
    pub updates: Vec<SwitchUpdate<'a>>,
    /// LIDs whose entry changes.
    pub changed: Vec<u64>,
    /// LIDs that must wait until ports are ACTIVE.
    pub deferred: Vec<u64>,
    /// LIDs without a working path at present.
    pub urgent: Vec<u64>,
    /// LIDs beyond LinearFDBTop, whose entries take effect when it is raised.
    pub beyond_top: Vec<u64>,
    /// LIDs whose new entry is set after that of the next switch on the new path.
    pub committed: Vec<u64>,
    /// The links that deferred LIDs wait for: update, LID mask, port whose link must be ACTIVE.
    pub links: Vec<(u32, u64, PortId)>,
    /// The dependencies, sorted and without duplicates.
    pub dependencies: Vec<ChangeDependency>,
}

impl<'a> Block<'a> {
    /// Computes the dependencies of the blocks in `sets`, which have the same number.
    pub(super) fn new(delta: &Delta<'a>, links: &'a LinkTable<'a>, sets: &[SetId]) -> Self {
        let updates: Vec<SwitchUpdate<'a>> =
            sets.iter().filter_map(|&set| SwitchUpdate::new(delta, set)).collect();
        let none = vec![0; updates.len()];
        let mut block = Self {
            changed: none.clone(),
            deferred: none.clone(),
            urgent: none.clone(),
            beyond_top: updates.iter().map(SwitchUpdate::beyond_top).collect(),
            committed: none,
            links: Vec::new(),
            dependencies: Vec::new(),
            updates,
        };
        // If no switch forwards any of these LIDs yet, there is nothing to preserve.
        if block.updates.iter().all(SwitchUpdate::is_new) {
            block.changed.fill(u64::MAX);
            return block;
        }
        for (changed, update) in block.changed.iter_mut().zip(&block.updates) {
            *changed = update.changed();
        }
        let first = sets.first().map_or(0, |set| set.attr_mod as usize * LFT_BLOCK);
        let mut follower = PathFollower::new(delta, links);
        let mut lid_change = LidChange::default();
        for index in 0..LFT_BLOCK {
            let Ok(lid) = u16::try_from(first + index) else { break };
            block.add_lid(&mut follower, &mut lid_change, Lid(lid));
        }
        block.dependencies.sort_unstable();
        block.dependencies.dedup();
        block
    }

    fn add_lid(&mut self, follower: &mut PathFollower<'_>, lid_change: &mut LidChange, lid: Lid) {
        let bit = 1 << (lid.index() % LFT_BLOCK);
        let changed = self.changed.iter().zip(0..).filter(|(lids, _)| **lids & bit != 0);
        lid_change.nodes.clear();
        lid_change.nodes.extend(changed.map(|(_, update)| update));
        if lid_change.nodes.is_empty() {
            return;
        }
        lid_change.describe(follower, &self.updates, lid);
        for (node, &update) in lid_change.nodes.iter().enumerate() {
            if !lid_change.arrives_before[node] {
                self.urgent[update as usize] |= bit;
            } else if lid_change.waits_for_link[node] {
                self.deferred[update as usize] |= bit;
                let links = lid_change.inactive_links(node).into_iter();
                self.links.extend(links.map(|link| (update, bit, link)));
            }
        }
        let lid = (lid.index() % LFT_BLOCK) as u8;
        for &(node, on) in &lid_change.dependencies {
            let update = lid_change.nodes[node as usize];
            self.dependencies.push(ChangeDependency {
                update,
                lid,
                on: lid_change.nodes[on as usize],
            });
            if lid_change.new[node as usize].end == TransitionEnd::Node(on) {
                self.committed[update as usize] |= bit;
            }
        }
    }
}
