//! From what LIDs wait for to an order of blocks.
//!
//! A Set writes all LIDs of a block at once. Where switches wait for each other, each for other
//! LIDs, no order of whole blocks is right: then a switch is sent a mixed block first, with the
//! new entries of those LIDs that wait for nobody any more. The switch for which most others
//! wait is taken; since no LID waits in a circle, this always ends.

use super::blocks::{Block, Wait};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const LIDS: usize = crate::wire::attr::tables::LFT_BLOCK;

/// A block as it is sent to a switch: the last version, or a mixed one before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Whose: an index of [`Block::turns`].
    pub turn: u32,
    /// The LIDs that have their new entries with it.
    pub lids: u64,
    /// Nothing is left to be changed after it.
    pub is_last: bool,
    /// Parts, by index, that come before it.
    pub after: Vec<u32>,
    /// Turns whose LinearFDBTop must be raised before it.
    pub after_top: Vec<u32>,
    /// It must wait until ports are ACTIVE.
    pub is_late: bool,
}

/// The parts in an order that may be kept.
pub(super) fn schedule(block: &Block<'_>) -> Vec<Part> {
    let late = late(block);
    let mut work = Work::new(block);
    let early = block.changed.iter().zip(&late).map(|(all, late)| all & !late).collect();
    work.run(early, false);
    work.run(late, true);
    // A block that is sent again although nothing is to be changed in it.
    for turn in 0..block.turns.len() as u32 {
        if work.sent_by[turn as usize].is_empty() {
            work.send(turn, 0, false);
        }
    }
    work.parts
}

/// LIDs that cannot be changed before ports are ACTIVE, since they wait for links or for others
/// that do. Where nothing of a block is urgent all of it waits along, to be sent once.
fn late(block: &Block<'_>) -> Vec<u64> {
    let mut late = vec![0; block.turns.len()];
    if block.late.iter().all(|&lids| lids == 0) {
        return late;
    }
    let dependents = Dependents::new(block);
    let mut found: Vec<(u32, u64)> = (0..).zip(block.late.iter().copied()).collect();
    while let Some((turn, lids)) = found.pop() {
        let at = turn as usize;
        let whole = if block.urgent[at] == 0 { block.changed[at] } else { lids };
        let more = if lids == 0 { 0 } else { whole & !late[at] };
        late[at] |= more;
        for lid in bits(more) {
            found.extend(dependents.of(turn, lid).iter().map(|wait| (wait.turn, 1 << lid)));
        }
    }
    late
}

/// Waits, by whom they wait for.
struct Dependents {
    /// Sorted by turn and LID waited for.
    waits: Vec<Wait>,
    /// By turn waited for and LID; one more at the end.
    first: Vec<u32>,
}

impl Dependents {
    fn new(block: &Block<'_>) -> Self {
        let place = |wait: &Wait| wait.on as usize * LIDS + usize::from(wait.lid);
        let mut waits = block.waits.clone();
        waits.sort_unstable_by_key(|wait| (place(wait), wait.turn));
        let mut first = vec![0; block.turns.len() * LIDS + 1];
        waits.iter().for_each(|wait| first[place(wait) + 1] += 1);
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        Self { waits, first }
    }

    fn of(&self, on: u32, lid: usize) -> &[Wait] {
        let place = on as usize * LIDS + lid;
        &self.waits[self.first[place] as usize..self.first[place + 1] as usize]
    }
}

struct Work<'a> {
    block: &'a Block<'a>,
    dependents: Dependents,
    /// By turn and LID: how many it waits for.
    waiting: Vec<u16>,
    /// By turn: LIDs that wait.
    blocked: Vec<u64>,
    /// By turn: LIDs that are to be changed in this run and are not yet.
    left: Vec<u64>,
    /// By turn: LIDs that are changed.
    done: Vec<u64>,
    /// By turn: its parts with the LIDs that they change.
    sent_by: Vec<Vec<(u64, u32)>>,
    parts: Vec<Part>,
    /// Turns of which nothing waits.
    free: VecDeque<u32>,
    /// How many wait for what a turn might send at once, most first; may hold outdated figures.
    crowds: BinaryHeap<(u32, Reverse<u32>)>,
    /// By turn: that figure.
    crowd: Vec<u32>,
}

impl<'a> Work<'a> {
    fn new(block: &'a Block<'a>) -> Self {
        let count = block.turns.len();
        let (mut waiting, mut blocked) = (vec![0; count * LIDS], vec![0; count]);
        for wait in &block.waits {
            waiting[wait.turn as usize * LIDS + usize::from(wait.lid)] += 1;
            blocked[wait.turn as usize] |= 1 << wait.lid;
        }
        Self {
            block,
            dependents: Dependents::new(block),
            waiting,
            blocked,
            left: vec![0; count],
            done: vec![0; count],
            sent_by: vec![Vec::new(); count],
            parts: Vec::with_capacity(count),
            free: VecDeque::new(),
            crowds: BinaryHeap::new(),
            crowd: vec![0; count],
        }
    }

    fn run(&mut self, lids: Vec<u64>, is_late: bool) {
        self.left = lids;
        self.crowds.clear();
        for turn in 0..self.left.len() as u32 {
            let (left, blocked) = (self.left[turn as usize], self.blocked[turn as usize]);
            if left != 0 && left & blocked == 0 {
                self.free.push_back(turn);
            }
            self.crowd[turn as usize] = 0;
            self.count(turn, left & !blocked);
        }
        loop {
            while let Some(turn) = self.free.pop_front() {
                self.send(turn, self.left[turn as usize], is_late);
            }
            let Some((turn, lids)) = self.first_to_mix().or_else(|| self.anyone()) else { break };
            self.send(turn, lids, is_late);
        }
    }

    /// LIDs that a turn could change now: those who wait for them are its crowd.
    fn count(&mut self, turn: u32, lids: u64) {
        let more = bits(lids).map(|lid| self.dependents.of(turn, lid).len() as u32).sum::<u32>();
        if more > 0 {
            self.crowd[turn as usize] += more;
            self.crowds.push((self.crowd[turn as usize], Reverse(turn)));
        }
    }

    /// The turn with the largest crowd, and what it can change.
    fn first_to_mix(&mut self) -> Option<(u32, u64)> {
        while let Some((crowd, Reverse(turn))) = self.crowds.pop() {
            let at = turn as usize;
            let lids = self.left[at] & !self.blocked[at];
            let is_current = self.crowd[at] == crowd && lids != 0;
            if is_current && self.block.turns[at].can_be_mixed() {
                return Some((turn, lids));
            }
        }
        None
    }

    /// The last resort where blocks must not be mixed: the first that is left, as a whole.
    fn anyone(&self) -> Option<(u32, u64)> {
        (0..).zip(&self.left).find(|(_, lids)| **lids != 0).map(|(turn, &lids)| (turn, lids))
    }

    fn send(&mut self, turn: u32, lids: u64, is_late: bool) {
        let at = turn as usize;
        let index = self.parts.len() as u32;
        self.left[at] &= !lids;
        self.done[at] |= lids;
        self.crowd[at] = 0;
        let (after, after_top) = self.predecessors(turn, lids);
        let is_last = self.done[at] == self.block.changed[at];
        self.parts.push(Part { turn, lids: self.done[at], is_last, after, after_top, is_late });
        self.sent_by[at].push((lids, index));
        for lid in bits(lids) {
            self.release(turn, lid);
        }
    }

    /// Parts, and raised tops, that these LIDs of a turn wait for.
    fn predecessors(&self, turn: u32, lids: u64) -> (Vec<u32>, Vec<u32>) {
        let waits = &self.block.waits;
        let first = waits.partition_point(|wait| wait.turn < turn);
        let own = waits[first..].iter().take_while(|wait| wait.turn == turn);
        let before = self.sent_by[turn as usize].last().map(|&(_, part)| part);
        let (mut after, mut after_top): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        after.extend(before);
        for wait in own.filter(|wait| lids >> wait.lid & 1 == 1) {
            let on = wait.on as usize;
            let by = self.sent_by[on].iter().find(|(sent, _)| sent >> wait.lid & 1 == 1);
            after.extend(by.map(|&(_, part)| part));
            if self.block.beyond_top[on] >> wait.lid & 1 == 1 {
                after_top.push(wait.on);
            }
        }
        for list in [&mut after, &mut after_top] {
            list.sort_unstable();
            list.dedup();
        }
        (after, after_top)
    }

    fn release(&mut self, turn: u32, lid: usize) {
        for index in 0..self.dependents.of(turn, lid).len() {
            let waiter = self.dependents.of(turn, lid)[index].turn;
            let at = waiter as usize;
            let count = &mut self.waiting[at * LIDS + lid];
            *count -= 1;
            if *count > 0 {
                continue;
            }
            self.blocked[at] &= !(1 << lid);
            if self.left[at] >> lid & 1 == 1 {
                self.count(waiter, 1 << lid);
                if self.left[at] & self.blocked[at] == 0 {
                    self.free.push_back(waiter);
                }
            }
        }
    }
}

/// The LIDs of a set.
fn bits(mut lids: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lid = (lids != 0).then(|| lids.trailing_zeros() as usize)?;
        lids &= lids - 1;
        Some(lid)
    })
}
