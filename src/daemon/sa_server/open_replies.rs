//! Replies in segments (RMPP) that are under way. The kernel keeps each until all its segments are
//! acknowledged, or for 2 s after each of four transmissions: requesters that acknowledge nothing
//! must not fill its memory.
//!
//! The port does not tell when a reply was acknowledged, but when it was not. So each reply counts
//! for [`OPEN_TIME`] towards the quota of its requester. A port may fill more memory the better it
//! is known: [`NEW_PORT`], [`KNOWN_PORT`] once it has acknowledged replies, and [`SILENT_PORT`] for a
//! while after it has let some of them time out. A request above the quota gets BUSY. This module has
//! no clock: time is an argument.

use crate::ids::Lid;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which Linux waits for acknowledgements, 8 s with the retransmissions that
/// `transport::umad` asks for, and for its report that there was none.
const OPEN_TIME: Duration = Duration::from_secs(9);

/// Open replies of a port at which it gets no further one: both numbers are reached.
#[derive(Clone, Copy)]
struct Quota {
    bytes: usize,
    /// A port may have this number of open replies, however large they are.
    replies: usize,
}

/// For a port that has acknowledged replies within [`MEMORY`], and lets none time out. A client that
/// asks for one table after the other gets 5 MiB/s.
const KNOWN_PORT: Quota = Quota { bytes: 48 << 20, replies: 16 };
/// For other ports.
const NEW_PORT: Quota = Quota { bytes: 16 << 20, replies: 8 };
/// For ports that let replies time out, and for all ports while [`MAX_OPEN`] is reached.
const SILENT_PORT: Quota = Quota { bytes: 256 << 10, replies: 1 };
/// Bytes of the open replies of all ports.
const MAX_OPEN: usize = 64 << 20;

/// Number of replies without acknowledgement after which a port is silent: a few are lost packets.
const MIN_UNACKNOWLEDGED: u32 = 4;
/// Time without such a reply after which a port is not silent any more.
const SILENCE: Duration = Duration::from_secs(10);
/// Time for which a port is known to have acknowledged replies.
const MEMORY: Duration = Duration::from_secs(60);

/// The open replies of a requester, and how it dealt with earlier ones.
#[derive(Debug, Default)]
struct Requester {
    /// Bytes of its open replies.
    open: usize,
    /// Number of its open replies.
    replies: usize,
    /// The last time at which a reply was no longer open, and not reported as unacknowledged.
    acknowledged: Option<Instant>,
    unacknowledged: u32,
    last_unacknowledged: Option<Instant>,
}

impl Requester {
    fn is_silent(&self, now: Instant) -> bool {
        let is_recent = |last: Instant| now.saturating_duration_since(last) < SILENCE;
        self.unacknowledged >= MIN_UNACKNOWLEDGED && self.last_unacknowledged.is_some_and(is_recent)
    }

    fn quota(&self, now: Instant) -> Quota {
        let is_recent = |last: Instant| now.saturating_duration_since(last) < MEMORY;
        match self.acknowledged {
            _ if self.is_silent(now) => SILENT_PORT,
            Some(last) if is_recent(last) => KNOWN_PORT,
            _ => NEW_PORT,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Time, requester and length of each open reply, oldest first.
    replies: VecDeque<(Instant, Lid, usize)>,
    open: usize,
    /// By LID, of which there are at most 49,151.
    requesters: HashMap<Lid, Requester>,
}

impl State {
    /// Removes the replies that are no longer open.
    fn close_old(&mut self, now: Instant) {
        while let Some(&(sent, lid, length)) = self.replies.front()
            && now.saturating_duration_since(sent) >= OPEN_TIME
        {
            self.replies.pop_front();
            self.open -= length;
            let Some(requester) = self.requesters.get_mut(&lid) else { continue };
            requester.open = requester.open.saturating_sub(length);
            requester.replies = requester.replies.saturating_sub(1);
            if requester.last_unacknowledged.is_none_or(|last| last < sent) {
                requester.acknowledged = Some(now);
            }
        }
        if self.replies.is_empty() {
            self.replies.shrink_to_fit();
        }
    }
}

/// The open replies of all ports, for the threads that answer requests.
#[derive(Debug, Default)]
pub struct OpenReplies(Mutex<State>);

impl OpenReplies {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a request of the port for a table may be answered.
    pub fn admits(&self, lid: Lid, now: Instant) -> bool {
        let mut state = self.lock();
        state.close_old(now);
        let is_full = state.open >= MAX_OPEN;
        let Some(requester) = state.requesters.get(&lid) else { return true };
        let quota = if is_full { SILENT_PORT } else { requester.quota(now) };
        requester.open < quota.bytes || requester.replies < quota.replies
    }

    /// Records a reply in segments, of `length` bytes.
    pub fn sent(&self, lid: Lid, length: usize, now: Instant) {
        let mut state = self.lock();
        state.replies.push_back((now, lid, length));
        state.open += length;
        let requester = state.requesters.entry(lid).or_default();
        requester.open += length;
        requester.replies += 1;
    }

    /// Records that a reply to the port was not acknowledged.
    pub fn unacknowledged(&self, lid: Lid, now: Instant) {
        let mut state = self.lock();
        // A reply that was not in segments cannot be acknowledged.
        let Some(requester) = state.requesters.get_mut(&lid) else { return };
        let is_over = |last: Instant| now.saturating_duration_since(last) >= SILENCE;
        if requester.last_unacknowledged.is_none_or(is_over) {
            requester.unacknowledged = 0;
        }
        requester.unacknowledged = requester.unacknowledged.saturating_add(1);
        requester.last_unacknowledged = Some(now);
        if requester.is_silent(now) {
            requester.acknowledged = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: usize = 64 << 10;

    /// Bytes that a port gets within a second.
    fn fill(open: &OpenReplies, lid: Lid, start: Instant) -> usize {
        let mut bytes = 0;
        for number in 0..10_000 {
            let now = start + Duration::from_micros(100) * number;
            if open.admits(lid, now) {
                open.sent(lid, TABLE, now);
                bytes += TABLE;
            }
        }
        bytes
    }

    #[test]
    fn a_port_that_acknowledges_nothing_gets_little() {
        let (open, start) = (OpenReplies::default(), tokio::time::Instant::now().into_std());
        assert_eq!(fill(&open, Lid(1), start), NEW_PORT.bytes);
        assert!(open.admits(Lid(2), start), "others are not affected");
        let mut later = start + OPEN_TIME;
        // The kernel reports timeouts 8 s after the replies.
        let timeout = Duration::from_secs(8);
        (0..MIN_UNACKNOWLEDGED).for_each(|_| open.unacknowledged(Lid(1), later + timeout));
        for _ in 0..10 {
            later += OPEN_TIME;
            assert_eq!(fill(&open, Lid(1), later), SILENT_PORT.bytes);
            open.unacknowledged(Lid(1), later + timeout);
        }
        let calm = later + timeout + SILENCE;
        assert_eq!(fill(&open, Lid(1), calm), NEW_PORT.bytes, "it may try again");
    }

    #[test]
    fn a_port_that_acknowledges_its_replies_gets_more() {
        let (open, start) = (OpenReplies::default(), tokio::time::Instant::now().into_std());
        open.sent(Lid(1), TABLE, start);
        let later = start + OPEN_TIME;
        assert!(open.admits(Lid(1), later));
        assert_eq!(fill(&open, Lid(1), later), KNOWN_PORT.bytes);
        // Lost packets change nothing.
        (1..MIN_UNACKNOWLEDGED).for_each(|_| open.unacknowledged(Lid(1), later));
        assert_eq!(fill(&open, Lid(1), later + 2 * OPEN_TIME), KNOWN_PORT.bytes);
    }

    #[test]
    fn the_tables_of_a_large_fabric_are_sent_and_the_total_is_limited() {
        let (open, start) = (OpenReplies::default(), tokio::time::Instant::now().into_std());
        let length = MAX_OPEN / 32;
        for number in 0..NEW_PORT.replies {
            assert!(open.admits(Lid(1), start), "{number}");
            open.sent(Lid(1), length, start);
        }
        assert!(!open.admits(Lid(1), start));
        (NEW_PORT.replies..32).for_each(|_| open.sent(Lid(2), length, start));
        for number in 0..4 {
            assert_eq!(open.admits(Lid(3), start), number < SILENT_PORT.replies, "{number}");
            open.sent(Lid(3), length, start);
        }
        assert!(open.admits(Lid(1), start + OPEN_TIME));
        assert_eq!(open.lock().open, 0);
    }
}
