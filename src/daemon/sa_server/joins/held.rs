//! Answers to joins that wait until the tree has a place for the port: whoever hears that it is a
//! member may send at once, and is to be heard.
//!
//! All joins that come while a pass runs are in the next one (`gathering`). A pass that takes long, or that finds no plan, does not hold
//! clients up beyond [`LONGEST`]: they would take the silence for a lost answer.

use crate::daemon::sa_server::request_key::{DedupKey, RequestKey};
use crate::sa::Reply;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// How long an answer is held back at most.
pub(super) const LONGEST: Duration = Duration::from_millis(800);

/// Answers held back at most; with more, the oldest go out.
const MOST: usize = 65_536;

/// Answers that wait.
#[derive(Debug, Default)]
pub(super) struct HeldJoins {
    /// In the order in which they came, each with the time when it goes out in any case.
    held: VecDeque<(Instant, DedupKey)>,
    /// Those that may go out now.
    free: VecDeque<DedupKey>,
    /// All of them, with the requests that they answer. A question has one: who asks again under
    /// another transaction is answered under that, in the turn of the first.
    answers: HashMap<DedupKey, (RequestKey, Reply)>,
    /// The generation of the groups that the pass under way was given.
    asked: u64,
    /// The generation of the groups that is planned and programmed.
    planned: u64,
}

impl HeldJoins {
    /// The groups of this generation are being planned.
    pub(super) fn asked(&mut self, generation: u64) {
        self.asked = generation;
    }

    /// What was asked for is in the tables: some answers may go out now.
    pub(super) fn planned(&mut self) {
        self.planned = self.asked;
        let (answers, planned) = (&self.answers, self.planned);
        let is_due = |(_, question): &(Instant, DedupKey)| {
            answers.get(question).is_none_or(|(_, reply)| reply.required_generation <= planned)
        };
        let held = std::mem::take(&mut self.held).into_iter();
        let (free, held): (Vec<_>, Vec<_>) = held.partition(is_due);
        self.held = held.into();
        self.free.extend(free.into_iter().map(|(_, question)| question));
    }

    /// True if answers may go out.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// At most `limit` answers that may go out.
    pub(super) fn free(&mut self, limit: usize) -> Vec<Reply> {
        let free = self.free.drain(..limit.min(self.free.len()));
        free.filter_map(|question| self.answers.remove(&question)).map(|(_, reply)| reply).collect()
    }

    /// True if the answer to this request waits: if it comes again, one answer will do for both.
    pub(super) fn holds(&self, name: &RequestKey) -> bool {
        self.answers.get(&name.question()).is_some_and(|(held, _)| held == name)
    }

    /// Takes an answer: gives it back if it may go out now.
    pub(super) fn take(&mut self, now: Instant, name: RequestKey, reply: Reply) -> Option<Reply> {
        let question = name.question();
        if let Some(answer) = self.answers.get_mut(&question) {
            *answer = (name, reply);
            return None;
        }
        if reply.required_generation <= self.planned {
            return Some(reply);
        }
        self.answers.insert(question, (name, reply));
        self.held.push_back((now + LONGEST, question));
        if self.held.len() > MOST {
            self.free.extend(self.held.pop_front().map(|(_, question)| question));
        }
        None
    }

    /// When [`Self::overdue`] will have something.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.held.front().map(|&(deadline, _)| deadline)
    }

    /// Lets answers go that were held back for too long.
    pub(super) fn overdue(&mut self, now: Instant) {
        let count = self.held.partition_point(|&(deadline, _)| deadline <= now);
        self.free.extend(self.held.drain(..count).map(|(_, question)| question));
    }

    /// Forgets what waits: the subnet is another's.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.free.clear();
        self.answers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lid, Sl};
    use crate::transport::demux::Inbound;
    use crate::transport::{Address, Agent};

    fn reply(lid: u16, due: u64) -> Reply {
        Reply { to: Address::gsi(Lid(lid), Sl(0)), mad: vec![0; 256], required_generation: due }
    }

    fn name(lid: u16) -> RequestKey {
        asked(lid, 0)
    }

    fn asked(lid: u16, tid: u8) -> RequestKey {
        let from = Address::gsi(Lid(lid), Sl(0));
        let mut mad = vec![0; 256];
        (mad[3], mad[15], mad[17], mad[56]) = (2, tid, 0x38, 0xFF);
        let request = Inbound { agent: Agent::Sa, from, mad, arrived: Instant::now() };
        RequestKey::of(&request)
    }

    fn lids(replies: Vec<Reply>) -> Vec<u16> {
        replies.iter().map(|reply| reply.to.lid.0).collect()
    }

    #[test]
    fn answers_wait_for_their_plan() {
        let (mut joins, now) = (HeldJoins::default(), Instant::now());
        assert!(joins.take(now, name(1), reply(1, 0)).is_some(), "nothing to wait for");
        for (lid, due) in [(2, 5), (3, 6), (4, 9)] {
            assert!(!joins.holds(&name(lid)));
            assert_eq!(joins.take(now, name(lid), reply(lid, due)), None);
            assert!(joins.holds(&name(lid)), "a repetition");
        }
        joins.asked(6);
        joins.planned();
        assert_eq!(lids(joins.free(1)), [2]);
        assert_eq!([2, 3, 4].map(|lid| joins.holds(&name(lid))), [false, true, true]);
        assert_eq!(lids(joins.free(9)), [3]);
        assert!(!joins.has_free());
        assert_eq!([2, 3, 4].map(|lid| joins.holds(&name(lid))), [false, false, true]);
        assert!(joins.take(now, name(5), reply(5, 6)).is_some());
        let deadline = joins.next_deadline().expect("one waits");
        joins.overdue(deadline - Duration::from_millis(1));
        assert!(!joins.has_free());
        joins.overdue(deadline);
        assert!(joins.has_free() && joins.holds(&name(4)));
        assert_eq!(lids(joins.free(9)), [4]);
        assert!(!joins.holds(&name(4)));
        assert_eq!(joins.next_deadline(), None);
    }

    #[test]
    fn who_asks_anew_is_answered_under_the_new_transaction_only() {
        let (mut joins, now) = (HeldJoins::default(), Instant::now());
        assert_eq!(joins.take(now, asked(1, 1), reply(1, 5)), None);
        assert_eq!(joins.take(now, asked(2, 1), reply(2, 5)), None);
        joins.asked(5);
        joins.planned();
        assert!(!joins.holds(&asked(1, 2)));
        assert_eq!(joins.take(now, asked(1, 2), reply(7, 5)), None, "in the turn of the first");
        assert_eq!([1, 2].map(|tid| joins.holds(&asked(1, tid))), [false, true]);
        assert_eq!(lids(joins.free(9)), [7, 2]);
        assert!(!joins.holds(&asked(1, 2)) && joins.take(now, asked(1, 3), reply(1, 5)).is_some());
    }
}
