//! Converts the dependencies of single LIDs to an order of Sets of whole blocks.
//!
//! Input: the dependencies (update, LID) → update of a [`Block`]. Result: the Sets in an order that
//! satisfies them. Invariant: when a Set is emitted, every LID that it changes has no unsatisfied
//! dependency, unless the block cannot be mixed.
//!
//! A Set writes all 64 LIDs of a block at once. If switches depend on each other for different
//! LIDs, no order of whole blocks is valid. Then a switch gets an intermediate version first, with
//! the new entries of those LIDs that have no unsatisfied dependency; the switch on which most
//! others wait is chosen. Because the dependencies of a single LID have no cycle, some LID can
//! always change, and the algorithm terminates.

use super::block::{Block, ChangeDependency};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const LIDS: usize = crate::wire::attr::tables::LFT_BLOCK;

/// One Set of a block: its planned version, or an intermediate version before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BlockWrite {
    /// The update: an index of [`Block::updates`].
    pub update: u32,
    /// The LIDs with new entries in this version.
    pub lids: u64,
    /// True for the planned version of the block, false for intermediate versions.
    pub is_last: bool,
    /// Writes, by index, that must come before.
    pub after: Vec<u32>,
    /// Updates whose LinearFDBTop must be raised before.
    pub after_top: Vec<u32>,
    /// True if the write must wait until ports are ACTIVE.
    pub is_deferred: bool,
}

/// Orders the writes of a block.
pub(super) fn schedule(block: &Block<'_>) -> Vec<BlockWrite> {
    let deferred = deferred(block);
    let mut scheduler = Scheduler::new(block);
    let early =
        block.changed.iter().zip(&deferred).map(|(all, deferred)| all & !deferred).collect();
    scheduler.run(early, false);
    scheduler.run(deferred, true);
    // Blocks without a changed entry are sent as well.
    for update in 0..block.updates.len() as u32 {
        if scheduler.sent_by[update as usize].is_empty() {
            scheduler.send(update, 0, false);
        }
    }
    scheduler.writes
}

/// LIDs that must wait until ports are ACTIVE, directly or through a dependency. If nothing in a
/// block is urgent, the whole block is deferred, so that it is sent once.
fn deferred(block: &Block<'_>) -> Vec<u64> {
    let mut deferred = vec![0; block.updates.len()];
    if block.deferred.iter().all(|&lids| lids == 0) {
        return deferred;
    }
    let dependents = Dependents::new(block);
    let mut found: Vec<(u32, u64)> = (0..).zip(block.deferred.iter().copied()).collect();
    while let Some((update, lids)) = found.pop() {
        let at = update as usize;
        let whole = if block.urgent[at] == 0 { block.changed[at] } else { lids };
        let more = if lids == 0 { 0 } else { whole & !deferred[at] };
        deferred[at] |= more;
        for lid in bits(more) {
            found.extend(
                dependents.of(update, lid).iter().map(|dependency| (dependency.update, 1 << lid)),
            );
        }
    }
    deferred
}

/// Dependencies by the update and LID waited for.
struct Dependents {
    dependencies: Vec<ChangeDependency>,
    /// The first dependency by (update waited for, LID); one more entry at the end.
    first: Vec<u32>,
}

impl Dependents {
    fn new(block: &Block<'_>) -> Self {
        let mut dependencies = block.dependencies.clone();
        dependencies.sort_unstable_by_key(|dependency| (dependency.place(), dependency.update));
        let mut first = vec![0; block.updates.len() * LIDS + 1];
        dependencies.iter().for_each(|dependency| first[dependency.place() + 1] += 1);
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        Self { dependencies, first }
    }

    fn of(&self, on: u32, lid: usize) -> &[ChangeDependency] {
        let place = on as usize * LIDS + lid;
        &self.dependencies[self.first[place] as usize..self.first[place + 1] as usize]
    }
}

struct Scheduler<'a> {
    block: &'a Block<'a>,
    dependents: Dependents,
    /// The number of unsatisfied dependencies, by update and LID.
    waiting: Vec<u16>,
    /// LIDs with an unsatisfied dependency, by update.
    blocked: Vec<u64>,
    /// LIDs that are still to change in this run, by update.
    left: Vec<u64>,
    /// LIDs that have changed, by update.
    done: Vec<u64>,
    /// The writes with the LIDs that they change, by update.
    sent_by: Vec<Vec<(u64, u32)>>,
    writes: Vec<BlockWrite>,
    /// Updates that can change all remaining LIDs.
    free: VecDeque<u32>,
    /// Updates by the number of dependencies that an intermediate version would satisfy, largest
    /// first. Entries may be outdated.
    by_dependents: BinaryHeap<(u32, Reverse<u32>)>,
    /// The current number of such dependencies, by update.
    dependent_count: Vec<u32>,
}

impl<'a> Scheduler<'a> {
    fn new(block: &'a Block<'a>) -> Self {
        let count = block.updates.len();
        let mut waiting = vec![0; count * LIDS];
        let mut blocked = vec![0; count];
        for dependency in &block.dependencies {
            waiting[dependency.update as usize * LIDS + usize::from(dependency.lid)] += 1;
            blocked[dependency.update as usize] |= 1 << dependency.lid;
        }
        Self {
            block,
            dependents: Dependents::new(block),
            waiting,
            blocked,
            left: vec![0; count],
            done: vec![0; count],
            sent_by: vec![Vec::new(); count],
            writes: Vec::with_capacity(count),
            free: VecDeque::new(),
            by_dependents: BinaryHeap::new(),
            dependent_count: vec![0; count],
        }
    }

    fn run(&mut self, lids: Vec<u64>, is_deferred: bool) {
        self.left = lids;
        self.by_dependents.clear();
        for update in 0..self.left.len() as u32 {
            let left = self.left[update as usize];
            let blocked = self.blocked[update as usize];
            if left != 0 && left & blocked == 0 {
                self.free.push_back(update);
            }
            self.dependent_count[update as usize] = 0;
            self.count_dependents(update, left & !blocked);
        }
        loop {
            while let Some(update) = self.free.pop_front() {
                self.send(update, self.left[update as usize], is_deferred);
            }
            let Some((update, lids)) = self.first_to_mix().or_else(|| self.first_left()) else {
                break;
            };
            self.send(update, lids, is_deferred);
        }
    }

    /// Adds the dependencies on `lids`, which the update could change now.
    fn count_dependents(&mut self, update: u32, lids: u64) {
        let more = bits(lids).map(|lid| self.dependents.of(update, lid).len() as u32).sum::<u32>();
        if more > 0 {
            self.dependent_count[update as usize] += more;
            self.by_dependents.push((self.dependent_count[update as usize], Reverse(update)));
        }
    }

    /// The update with the most dependents, and the LIDs it can change.
    fn first_to_mix(&mut self) -> Option<(u32, u64)> {
        while let Some((dependent_count, Reverse(update))) = self.by_dependents.pop() {
            let at = update as usize;
            let lids = self.left[at] & !self.blocked[at];
            let is_current = self.dependent_count[at] == dependent_count && lids != 0;
            if is_current && self.block.updates[at].can_be_mixed() {
                return Some((update, lids));
            }
        }
        None
    }

    /// The first remaining update as a whole: the last resort if blocks cannot be mixed.
    fn first_left(&self) -> Option<(u32, u64)> {
        (0..).zip(&self.left).find(|(_, lids)| **lids != 0).map(|(update, &lids)| (update, lids))
    }

    fn send(&mut self, update: u32, lids: u64, is_deferred: bool) {
        let at = update as usize;
        let index = self.writes.len() as u32;
        debug_assert_eq!(lids & !self.left[at], 0, "a LID is written once");
        self.left[at] &= !lids;
        self.done[at] |= lids;
        self.dependent_count[at] = 0;
        let (after, after_top) = self.predecessors(update, lids);
        let is_last = self.done[at] == self.block.changed[at];
        self.writes.push(BlockWrite {
            update,
            lids: self.done[at],
            is_last,
            after,
            after_top,
            is_deferred,
        });
        self.sent_by[at].push((lids, index));
        for lid in bits(lids) {
            self.release(update, lid);
        }
    }

    /// The writes, and the updates whose LinearFDBTop must be raised, before these LIDs change.
    fn predecessors(&self, update: u32, lids: u64) -> (Vec<u32>, Vec<u32>) {
        let dependencies = &self.block.dependencies;
        let first = dependencies.partition_point(|dependency| dependency.update < update);
        let own = dependencies[first..].iter().take_while(|dependency| dependency.update == update);
        let before = self.sent_by[update as usize].last().map(|&(_, write)| write);
        let mut after: Vec<u32> = Vec::new();
        let mut after_top: Vec<u32> = Vec::new();
        after.extend(before);
        for dependency in own.filter(|dependency| lids >> dependency.lid & 1 == 1) {
            let on = dependency.on as usize;
            let by = self.sent_by[on].iter().find(|(sent, _)| sent >> dependency.lid & 1 == 1);
            after.extend(by.map(|&(_, write)| write));
            if self.block.beyond_top[on] >> dependency.lid & 1 == 1 {
                after_top.push(dependency.on);
            }
        }
        for list in [&mut after, &mut after_top] {
            list.sort_unstable();
            list.dedup();
        }
        (after, after_top)
    }

    fn release(&mut self, update: u32, lid: usize) {
        for index in 0..self.dependents.of(update, lid).len() {
            let waiter = self.dependents.of(update, lid)[index].update;
            let at = waiter as usize;
            let count = &mut self.waiting[at * LIDS + lid];
            debug_assert!(*count > 0, "an update waits for fewer writes than depend on it");
            *count -= 1;
            if *count > 0 {
                continue;
            }
            self.blocked[at] &= !(1 << lid);
            if self.left[at] >> lid & 1 == 1 {
                self.count_dependents(waiter, 1 << lid);
                if self.left[at] & self.blocked[at] == 0 {
                    self.free.push_back(waiter);
                }
            }
        }
    }
}

/// The elements of a bit set.
fn bits(mut lids: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lid = (lids != 0).then(|| lids.trailing_zeros() as usize)?;
        lids &= lids - 1;
        Some(lid)
    })
}
