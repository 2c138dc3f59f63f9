//! The changed entries of the linear forwarding tables, grouped by destination LID.

use super::changes::Changes;
use crate::ids::Lid;
use crate::plan::Plan;
use crate::plan::routing::Lft;
use crate::verify::endpoints::DestinationTree;
use crate::verify::network::NONE;
use crate::verify::proof::Proof;
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use std::sync::LazyLock;

/// The forwarding tables of a plan and of the proven one, and where they differ.
pub(super) struct ChangedRoutes<'a> {
    pub proof: &'a Proof,
    pub plan: &'a Plan,
    /// Tables of the proven plan, by switch.
    old: Vec<&'a Lft>,
    /// Tables of the new plan, by switch.
    new: Vec<&'a Lft>,
    /// Changed entries as (LID, switch), ascending.
    changes: Vec<(u16, u32)>,
    /// By LID: offset of its entries in `changes`; one more offset at the end.
    first: Vec<u32>,
    /// Channels of lost cables.
    pub dead: &'a [u32],
    /// Switches that the proven plan has and the new one lacks.
    pub removed: &'a [u32],
}

/// The new table of a removed switch.
static NO_ENTRIES: LazyLock<Lft> = LazyLock::new(|| Lft::empty(Lid(u16::MAX)));

impl<'a> ChangedRoutes<'a> {
    pub(super) fn new(proof: &'a Proof, plan: &'a Plan, changes: &'a Changes) -> Self {
        let Changes { switches, channels: dead, removed, .. } = changes;
        let old: Vec<&Lft> = proof.routes.tables.iter().map(|table| &**table).collect();
        let mut new = old.clone();
        removed.iter().for_each(|&switch| new[switch as usize] = &NO_ENTRIES);
        for &switch in switches {
            new[switch as usize] = &*plan.routing.lfts[switch as usize];
        }
        let lids = proof.routes.destinations.len();
        let by_switch: Vec<Vec<u16>> = switches
            .par_iter()
            .map(|&switch| {
                let differing = old[switch as usize].differences(new[switch as usize]);
                let differing = differing.take_while(|&(lid, ..)| lid < lids);
                differing
                    .map(|(lid, ..)| lid as u16)
                    .filter(|&lid| proof.routes.destinations[usize::from(lid)].is_some())
                    .collect()
            })
            .collect();
        let mut first = vec![0u32; lids + 1];
        by_switch.iter().flatten().for_each(|&lid| first[usize::from(lid) + 1] += 1);
        for lid in 0..lids {
            first[lid + 1] += first[lid];
        }
        let mut next = first.clone();
        let mut changes = vec![(0, 0); first[lids] as usize];
        for (lids, &switch) in by_switch.iter().zip(switches) {
            for &lid in lids {
                let place = &mut next[usize::from(lid)];
                changes[*place as usize] = (lid, switch);
                *place += 1;
            }
        }
        Self { proof, plan, old, new, changes, first, dead, removed }
    }

    /// The entry of a LID in the proven plan.
    #[inline]
    pub(super) fn old_entry(&self, switch: u32, lid: Lid) -> u8 {
        self.old[switch as usize].entry(lid)
    }

    /// The entry of a LID in the new plan.
    #[inline]
    pub(super) fn new_entry(&self, switch: u32, lid: Lid) -> u8 {
        self.new[switch as usize].entry(lid)
    }

    /// The changed entries of a LID as (LID, switch).
    pub(super) fn of(&self, lid: Lid) -> &[(u16, u32)] {
        let first = self.first[lid.index()];
        let end = self.first[lid.index() + 1];
        &self.changes[first as usize..end as usize]
    }

    /// True if a switch loses its entry for a LID.
    pub(super) fn lose_entries(&self) -> bool {
        self.changes.iter().any(|&(lid, switch)| self.new_entry(switch, Lid(lid)) == LFT_NO_PATH)
    }

    /// LIDs with changed entries, ascending.
    pub(super) fn lids(&self) -> Vec<u16> {
        let all = 0..self.first.len() as u16 - 1;
        all.filter(|&lid| !self.of(Lid(lid)).is_empty()).collect()
    }

    /// The channel of table entry `port`; [`NONE`] if no switch is behind that port.
    #[inline]
    pub(super) fn channel(&self, switch: u32, port: u8) -> u32 {
        if port == LFT_NO_PATH { NONE } else { self.proof.packed.channel(switch, port) }
    }

    /// True if a LID shares its old tree with another LID, and the entries of both changed alike:
    /// then they share the new tree.
    pub(super) fn follows_leader(&self, tree: DestinationTree) -> bool {
        let own = self.of(tree.lid);
        let leaders = self.of(tree.leader);
        tree.lid != tree.leader
            && own.len() == leaders.len()
            && own.iter().zip(leaders).all(|(a, b)| a.1 == b.1 && self.entry(a) == self.entry(b))
    }

    fn entry(&self, &(lid, switch): &(u16, u32)) -> u8 {
        self.new_entry(switch, Lid(lid))
    }
}
