//! Holds replies to joins until the multicast tree includes the port: a client that gets the reply
//! may send at once, and its packets must reach the group.
//!
//! Joins that arrive while groups are planned are part of the next plan (`batching`). A reply is
//! held for [`MAX_HOLD_TIME`] at most, even if planning takes longer or fails, because clients
//! would otherwise assume that it was lost and retransmit.

use crate::daemon::sa_server::request_key::{DedupKey, RequestKey};
use crate::ids::Lid;
use crate::sa::Reply;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum time a reply is held; clients retransmit after 1 s.
pub(super) const MAX_HOLD_TIME: Duration = Duration::from_millis(800);

/// Maximum number of held replies: one per LID. If exceeded, the oldest is released.
const MAX_HELD_REPLIES: usize = 65_536;

/// Maximum number of held replies to one port, as many as it may have memberships by default
/// (`sa_max_memberships_per_port`). Further ones are sent at once.
const MAX_HELD_PER_PORT: usize = 4096;

/// Held and released replies.
#[derive(Debug, Default)]
pub(super) struct HeldJoins {
    /// Held replies, oldest first, each with the time at which it is released in any case.
    held: VecDeque<(Instant, DedupKey)>,
    /// Replies that may be sent now.
    released: VecDeque<DedupKey>,
    /// All replies, with the requests they answer. A request repeated with a new transaction ID
    /// replaces the reply, which keeps its position.
    replies: HashMap<DedupKey, (RequestKey, Reply)>,
    /// Number of replies by the LID of their requesters.
    by_port: HashMap<Lid, usize>,
    /// The generation of the groups being planned.
    planning: u64,
    /// The generation of the groups that are programmed.
    programmed: u64,
}

impl HeldJoins {
    /// Records that the SM loop plans the groups of this generation.
    pub(super) fn planning_started(&mut self, generation: u64) {
        self.planning = generation;
    }

    /// Releases the replies of the groups of the last [`Self::planning_started`], which are
    /// programmed now.
    pub(super) fn planning_finished(&mut self) {
        self.programmed = self.planning;
        let replies = &self.replies;
        let programmed = self.programmed;
        let held = std::mem::take(&mut self.held).into_iter();
        let (released, held): (Vec<_>, Vec<_>) = held.partition(|(_, key)| {
            replies.get(key).is_none_or(|(_, reply)| reply.required_generation <= programmed)
        });
        self.held = held.into();
        self.released.extend(released.into_iter().map(|(_, key)| key));
    }

    /// True if released replies await sending.
    pub(super) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Removes at most `limit` released replies.
    pub(super) fn take_released(&mut self, limit: usize) -> Vec<Reply> {
        let keys = self.released.drain(..limit.min(self.released.len()));
        let mut taken = Vec::with_capacity(keys.len());
        for key in keys {
            let Some((key, reply)) = self.replies.remove(&key) else { continue };
            taken.push(reply);
            if let Entry::Occupied(mut count) = self.by_port.entry(key.port()) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        taken
    }

    /// True if the reply to this request is held: one reply serves its retransmissions too.
    pub(super) fn holds(&self, key: &RequestKey) -> bool {
        self.replies.get(&key.dedup_key()).is_some_and(|(held, _)| held == key)
    }

    /// Holds a reply, or returns it if its groups are programmed already.
    pub(super) fn hold(&mut self, now: Instant, key: RequestKey, reply: Reply) -> Option<Reply> {
        let dedup_key = key.dedup_key();
        if let Some(held) = self.replies.get_mut(&dedup_key) {
            *held = (key, reply);
            return None;
        }
        if reply.required_generation <= self.programmed {
            return Some(reply);
        }
        let own = self.by_port.entry(key.port()).or_default();
        if *own >= MAX_HELD_PER_PORT {
            return Some(reply);
        }
        *own += 1;
        self.replies.insert(dedup_key, (key, reply));
        self.held.push_back((now + MAX_HOLD_TIME, dedup_key));
        if self.held.len() > MAX_HELD_REPLIES {
            self.released.extend(self.held.pop_front().map(|(_, key)| key));
        }
        None
    }

    /// Time at which [`Self::overdue`] has an effect.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.held.front().map(|&(deadline, _)| deadline)
    }

    /// Releases replies that were held for [`MAX_HOLD_TIME`].
    pub(super) fn overdue(&mut self, now: Instant) {
        let count = self.held.partition_point(|&(deadline, _)| deadline <= now);
        self.released.extend(self.held.drain(..count).map(|(_, key)| key));
    }

    /// Drops all held replies, when this SM is no longer master.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.released.clear();
        self.replies.clear();
        self.by_port.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Sl;
    use crate::transport::demux::Inbound;
    use crate::transport::{Address, Agent};

    fn reply(lid: u16, due: u64) -> Reply {
        Reply { to: Address::gsi(Lid(lid), Sl(0)), mad: vec![0; 256], required_generation: due }
    }

    fn key(lid: u16) -> RequestKey {
        key_with_tid(lid, 0)
    }

    fn key_with_tid(lid: u16, tid: u8) -> RequestKey {
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
    fn replies_are_held_until_their_groups_are_programmed() {
        let mut joins = HeldJoins::default();
        let now = Instant::now();
        assert!(joins.hold(now, key(1), reply(1, 0)).is_some(), "programmed already");
        for (lid, due) in [(2, 5), (3, 6), (4, 9)] {
            assert!(!joins.holds(&key(lid)));
            assert_eq!(joins.hold(now, key(lid), reply(lid, due)), None);
            assert!(joins.holds(&key(lid)), "a retransmission");
        }
        joins.planning_started(6);
        joins.planning_finished();
        assert_eq!(lids(joins.take_released(1)), [2]);
        assert_eq!([2, 3, 4].map(|lid| joins.holds(&key(lid))), [false, true, true]);
        assert_eq!(lids(joins.take_released(9)), [3]);
        assert!(!joins.has_released());
        assert_eq!([2, 3, 4].map(|lid| joins.holds(&key(lid))), [false, false, true]);
        assert!(joins.hold(now, key(5), reply(5, 6)).is_some());
        let deadline = joins.next_deadline().expect("one is held");
        joins.overdue(deadline - Duration::from_millis(1));
        assert!(!joins.has_released());
        joins.overdue(deadline);
        assert!(joins.has_released() && joins.holds(&key(4)));
        assert_eq!(lids(joins.take_released(9)), [4]);
        assert!(!joins.holds(&key(4)));
        assert_eq!(joins.next_deadline(), None);
    }

    #[test]
    fn a_port_displaces_no_replies_of_others() {
        let mut joins = HeldJoins::default();
        let now = Instant::now();
        assert_eq!(joins.hold(now, key(1), reply(1, 5)), None);
        assert_eq!(held(&mut joins, now), MAX_HELD_PER_PORT);
        assert!(joins.holds(&key(1)) && !joins.has_released());
        joins.planning_started(5);
        joins.planning_finished();
        assert_eq!(joins.take_released(usize::MAX).len(), 1 + MAX_HELD_PER_PORT);
        assert!(joins.by_port.is_empty() && joins.replies.is_empty());
    }

    fn held(joins: &mut HeldJoins, now: Instant) -> usize {
        let numbers = 0..2 * MAX_HELD_REPLIES as u32;
        numbers
            .filter(|&number| joins.hold(now, key_of(number, now), reply(2, 5)).is_none())
            .count()
    }

    fn key_of(number: u32, now: Instant) -> RequestKey {
        let from = Address { qpn: number, ..Address::gsi(Lid(2), Sl(0)) };
        let mut mad = vec![0; 256];
        (mad[3], mad[17], mad[56]) = (2, 0x38, 0xFF);
        RequestKey::of(&Inbound { agent: Agent::Sa, from, mad, arrived: now })
    }

    #[test]
    fn a_repeated_join_gets_one_reply_with_the_latest_transaction_id() {
        let mut joins = HeldJoins::default();
        let now = Instant::now();
        assert_eq!(joins.hold(now, key_with_tid(1, 1), reply(1, 5)), None);
        assert_eq!(joins.hold(now, key_with_tid(2, 1), reply(2, 5)), None);
        joins.planning_started(5);
        joins.planning_finished();
        assert!(!joins.holds(&key_with_tid(1, 2)));
        assert_eq!(
            joins.hold(now, key_with_tid(1, 2), reply(7, 5)),
            None,
            "in the position of the first"
        );
        assert_eq!([1, 2].map(|tid| joins.holds(&key_with_tid(1, tid))), [false, true]);
        assert_eq!(lids(joins.take_released(9)), [7, 2]);
        assert!(
            !joins.holds(&key_with_tid(1, 2))
                && joins.hold(now, key_with_tid(1, 3), reply(1, 5)).is_some()
        );
    }
}
