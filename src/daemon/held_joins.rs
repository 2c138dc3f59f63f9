//! Answers to joins that wait until the tree has a place for the port: whoever hears that it is a
//! member may send at once, and is to be heard.
//!
//! All joins that come while a pass runs are in the next one, so that many joins cost few
//! updates of forwarding tables. A pass that takes long, or that finds no plan, does not hold
//! clients up beyond [`LONGEST`]: they would take the silence for a lost answer.

use crate::sa::Reply;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// How long an answer is held back at most.
pub const LONGEST: Duration = Duration::from_millis(800);

/// Answers held back at most; with more, the oldest go out.
const MOST: usize = 65_536;

/// Answers that wait.
#[derive(Debug, Default)]
pub struct HeldJoins {
    /// In the order in which they came.
    held: VecDeque<(Instant, Reply)>,
    /// The generation of the groups that the pass under way was given.
    asked: u64,
    /// The generation of the groups that is planned and programmed.
    planned: u64,
}

impl HeldJoins {
    /// The groups of this generation are being planned.
    pub fn asked(&mut self, generation: u64) {
        self.asked = generation;
    }

    /// What was asked for is in the tables: the answers that may go out now.
    pub fn planned(&mut self) -> Vec<Reply> {
        self.planned = self.asked;
        let held = std::mem::take(&mut self.held);
        let (free, held) = held.into_iter().partition(|(_, reply)| reply.due <= self.planned);
        self.held = held;
        let free: VecDeque<(Instant, Reply)> = free;
        free.into_iter().map(|(_, reply)| reply).collect()
    }

    /// Takes an answer: gives back what may go out now. Repetitions of a request are answered
    /// with the first.
    pub fn take(&mut self, now: Instant, reply: Reply) -> Option<Reply> {
        if reply.due <= self.planned {
            return Some(reply);
        }
        let same = |other: &Reply| other.to == reply.to && other.mad == reply.mad;
        if self.held.iter().rev().take(64).any(|(_, other)| same(other)) {
            return None;
        }
        self.held.push_back((now + LONGEST, reply));
        (self.held.len() > MOST).then(|| self.held.pop_front()).flatten().map(|(_, oldest)| oldest)
    }

    /// When [`Self::overdue`] will have something.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.held.front().map(|&(deadline, _)| deadline)
    }

    /// The answers that were held back for too long.
    pub fn overdue(&mut self, now: Instant) -> Vec<Reply> {
        let count = self.held.partition_point(|&(deadline, _)| deadline <= now);
        self.held.drain(..count).map(|(_, reply)| reply).collect()
    }

    /// Forgets what waits: the subnet is another's.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lid, Sl};
    use crate::transport::Address;

    fn reply(lid: u16, due: u64) -> Reply {
        Reply { to: Address::gsi(Lid(lid), Sl(0)), mad: vec![0; 256], due }
    }

    fn lids(replies: Vec<Reply>) -> Vec<u16> {
        replies.iter().map(|reply| reply.to.lid.0).collect()
    }

    #[test]
    fn answers_wait_for_their_plan() {
        let (mut joins, now) = (HeldJoins::default(), Instant::now());
        assert!(joins.take(now, reply(1, 0)).is_some(), "nothing to wait for");
        for (lid, due) in [(2, 5), (3, 6), (4, 9)] {
            assert_eq!(joins.take(now, reply(lid, due)), None);
        }
        assert_eq!(joins.take(now, reply(3, 6)), None, "a repetition");
        joins.asked(6);
        assert_eq!(lids(joins.planned()), [2, 3]);
        assert!(joins.take(now, reply(5, 6)).is_some());
        let deadline = joins.next_deadline().expect("one waits");
        assert_eq!(lids(joins.overdue(deadline - Duration::from_millis(1))), [0; 0]);
        assert_eq!(lids(joins.overdue(deadline)), [4]);
        assert_eq!(joins.next_deadline(), None);
    }
}
