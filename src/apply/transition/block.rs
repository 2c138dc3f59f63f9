//! The changes of one block of forwarding tables, and which of them must wait for which.
//!
//! LIDs have nothing to do with each other: each has its own tree. What must be obeyed is found
//! LID by LID, on the few switches that send it elsewhere than before ([`super::lid_change`]); the
//! others do as they always did and only join them.
//!
//! The entry of a switch that sends packets over a link which is not ACTIVE yet, and now sends them
//! over one that is, is late: it dependencies until the ports are up.

use super::lid_change::{LidChange, PathEnd, PathFollower};
use super::switch_update::SwitchUpdate;
use crate::apply::delta::Delta;
use crate::apply::set_id::SetId;
use crate::fabric::PortId;
use crate::ids::Lid;
use crate::wire::attr::tables::LFT_BLOCK;

/// The LID that is changed at a switch, after it was changed at another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Dependency {
    /// Who dependencies: an index of [`Block::updates`].
    pub update: u32,
    /// Which LID of the block.
    pub lid: u8,
    /// For whom.
    pub on: u32,
}

/// Everything about the changes of one block number; sets are bit masks by LID of the block, one
/// for each update.
pub(super) struct Block<'a> {
    /// The switches whose block changes.
    pub updates: Vec<SwitchUpdate<'a>>,
    /// LIDs that change.
    pub changed: Vec<u64>,
    /// LIDs that must wait until ports are ACTIVE.
    pub deferred: Vec<u64>,
    /// LIDs without a path at present.
    pub urgent: Vec<u64>,
    /// LIDs beyond LinearFDBTop: entries are in use only after it was raised.
    pub beyond_top: Vec<u64>,
    /// LIDs whose new entry comes after that of the next switch on the new path.
    pub committed: Vec<u64>,
    /// What late LIDs wait for: update, LID (as a mask), and a port whose link must be ACTIVE.
    pub links: Vec<(u32, u64, PortId)>,
    /// The order, sorted.
    pub dependencies: Vec<Dependency>,
}

impl<'a> Block<'a> {
    /// What has to be obeyed when these blocks, all with the same number, change.
    pub(super) fn new(delta: &Delta<'a>, sets: &[SetId]) -> Self {
        let updates: Vec<SwitchUpdate<'a>> =
            sets.iter().filter_map(|&set| SwitchUpdate::new(delta, set)).collect();
        let none = vec![0; updates.len()];
        let mut block = Self {
            changed: none.clone(),
            deferred: none.clone(),
            urgent: none.clone(),
            beyond_top: none.clone(),
            committed: none,
            links: Vec::new(),
            dependencies: Vec::new(),
            updates,
        };
        // Nobody forwards anything yet: there is nothing to be careful about.
        let is_live = block.updates.iter().any(|update| !update.is_new());
        let first = sets.first().map_or(0, |set| set.attr_mod as usize * LFT_BLOCK);
        let mut follower = is_live.then(|| PathFollower::new(delta, &block.updates));
        for index in 0..LFT_BLOCK {
            let Ok(lid) = u16::try_from(first + index) else { break };
            match &mut follower {
                Some(follower) => block.add_lid(follower, Lid(lid)),
                None => block.changed.iter_mut().for_each(|lids| *lids |= 1 << index),
            }
        }
        block.dependencies.sort_unstable();
        block.dependencies.dedup();
        block
    }

    fn add_lid(&mut self, follower: &mut PathFollower<'_>, lid: Lid) {
        let bit = 1 << (lid.index() % LFT_BLOCK);
        let mut nodes = Vec::new();
        for (update, index) in self.updates.iter().zip(0u32..) {
            if update.changes(lid) {
                nodes.push(index);
                self.changed[index as usize] |= bit;
            }
            if lid > update.top {
                self.beyond_top[index as usize] |= bit;
            }
        }
        if nodes.is_empty() {
            return;
        }
        let lid_change = LidChange::new(follower, &self.updates, nodes, lid);
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
        for (node, on) in lid_change.dependencies() {
            let update = lid_change.nodes[node as usize];
            self.dependencies.push(Dependency { update, lid, on: lid_change.nodes[on as usize] });
            if lid_change.new[node as usize].end == PathEnd::Node(on) {
                self.committed[update as usize] |= bit;
            }
        }
    }
}
