//! Columns of forwarding tables that changed since the last proof: which they are, and the work of
//! following them, which is shared out among threads; `reroute` follows one.

use super::proof::{Places, Proof};
use super::reroute::{Scratch, Walk};
use super::triples::Added;
use super::unicast::TreeOf;
use super::wiring::NONE;
use crate::ids::Lid;
use crate::plan::Plan;
use crate::plan::routing::Lft;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use rayon::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// LIDs that are worth a thread's while.
const CHUNK: usize = 64;
/// Parts of the work for each thread.
const PARTS: usize = 8;

/// The changed entries, and all tables.
pub(super) struct Columns<'a> {
    pub proof: &'a Proof,
    pub plan: &'a Plan,
    /// Tables by switch, before and now.
    pub old: Vec<&'a [u8]>,
    pub new: Vec<&'a [u8]>,
    /// Changed entries by LID, ascending: LID and switch.
    changes: Vec<(u16, u32)>,
    /// By LID: where its changes begin; one more at the end.
    first: Vec<u32>,
    /// Channels that are gone.
    pub dead: &'a [u32],
    /// Switches that are gone.
    pub lost: &'a [u32],
}

/// The new table of a switch that is gone.
static NO_ENTRIES: [u8; 0x1_0000] = [LFT_NO_PATH; 0x1_0000];

/// Switches of which some entry changed, ascending; those that only one has tables of are not looked at.
pub(super) fn changed_switches(old: &[Arc<Lft>], new: &[Arc<Lft>]) -> Vec<u32> {
    let pairs = old.iter().zip(new).zip(0..);
    let changed = pairs.filter(|((old, new), _)| !Arc::ptr_eq(old, new) && old.0 != new.0);
    changed.map(|(_, switch)| switch).collect()
}

/// What following the changed columns found.
pub(super) struct Found {
    pub added: Added,
    /// No path is longer, in switches passed.
    pub longest: u32,
}

impl<'a> Columns<'a> {
    pub(super) fn new(proof: &'a Proof, plan: &'a Plan, places: &'a Places) -> Self {
        let Places { switches, channels: dead, lost, .. } = places;
        let old: Vec<&[u8]> = proof.tables.iter().map(|table| &table.0[..]).collect();
        let mut new = old.clone();
        lost.iter().for_each(|&switch| new[switch as usize] = &NO_ENTRIES);
        for &switch in switches {
            new[switch as usize] = &plan.routing.lfts[switch as usize].0;
        }
        let lids = proof.destinations.len();
        let is_used = |&lid: &u16| proof.destinations[usize::from(lid)].is_some();
        let changed = |&switch: &u32| -> Vec<u16> {
            let (old, new) = (old[switch as usize], new[switch as usize]);
            let mut changed = Vec::new();
            // Most blocks are the same, and quickly seen to be.
            let blocks = old.chunks(LFT_BLOCK).zip(new.chunks(LFT_BLOCK)).enumerate();
            for (number, (old, new)) in blocks.filter(|(_, (old, new))| old != new) {
                let pairs = old.iter().zip(new).zip(number * LFT_BLOCK..lids);
                let unequal = pairs.filter(|((old, new), _)| old != new);
                changed.extend(unequal.map(|(_, lid)| lid as u16).filter(is_used));
            }
            changed
        };
        let by_switch: Vec<Vec<u16>> = switches.par_iter().map(changed).collect();
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
        Self { proof, plan, old, new, changes, first, dead, lost }
    }

    pub(super) fn of(&self, lid: Lid) -> &[(u16, u32)] {
        let (first, end) = (self.first[lid.index()], self.first[lid.index() + 1]);
        &self.changes[first as usize..end as usize]
    }

    /// Follows all changed columns; `None` if not all is well, or nobody can tell.
    pub(super) fn follow(&self) -> Option<Found> {
        let lids: Vec<u16> =
            (0..self.first.len() as u16 - 1).filter(|&lid| !self.of(Lid(lid)).is_empty()).collect();
        let size = lids.len().div_ceil(PARTS * rayon::current_num_threads()).max(CHUNK);
        // Room that nobody uses at the moment: there is hardly more of it than there are threads.
        let rooms = Mutex::new(Vec::new());
        let free = || rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let follow_part = |part: &[u16]| {
            let known = free().pop();
            let mut scratch = known.unwrap_or_else(|| Scratch::new(self));
            let mut walk = Walk::new(self, &mut scratch);
            part.iter().try_for_each(|&lid| walk.column(Lid(lid)))?;
            free().push(scratch);
            Some(())
        };
        lids.par_chunks(size).try_for_each(follow_part)?;
        let mut all = Found { added: Added::new(), longest: 0 };
        for part in rooms.into_inner().unwrap_or_else(PoisonError::into_inner) {
            all.longest = all.longest.max(part.longest);
            for (triple, sls) in part.added.into_values() {
                *all.added.entry(triple).or_default() |= sls;
            }
        }
        Some(all)
    }

    /// The channel that entry `port` of a switch leads to; [`NONE`] if it leads to no switch.
    #[inline]
    pub(super) fn channel(&self, switch: u32, port: u8) -> u32 {
        if port == LFT_NO_PATH { NONE } else { self.proof.steps.channel(switch, port) }
    }

    /// True if a column has the changes of that with the same tree, so that it has the same tree
    /// again.
    pub(super) fn follows_leader(&self, tree: TreeOf) -> bool {
        let (own, leaders) = (self.of(tree.lid), self.of(tree.leader));
        let entry = |&(lid, switch): &(u16, u32)| self.new[switch as usize][usize::from(lid)];
        tree.lid != tree.leader
            && own.len() == leaders.len()
            && own.iter().zip(leaders).all(|(a, b)| a.1 == b.1 && entry(a) == entry(b))
    }
}
