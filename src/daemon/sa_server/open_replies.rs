//! Replies in segments (RMPP) that are under way, and the limits of their memory: requesters that
//! acknowledge nothing must not fill it.
//!
//! The port reports when a reply begins and ends ([`TransferObserver`]). A requester whose replies
//! are within its quota gets further ones. Above the quota, its requests wait while it acknowledges
//! ([`Admission::Wait`]), however many there are; they get BUSY once it has acknowledged nothing for
//! [`MAX_STALL`]. A port may fill more memory the better it is known: [`NEW_PORT`], [`KNOWN_PORT`]
//! once it has acknowledged replies, and [`SILENT_PORT`] for a while after it has let some of them
//! time out.
//!
//! Kernels before 3.17 do not tell when a reply was acknowledged, but when it was not. Each reply
//! counts for [`OPEN_TIME`] there, and requests above the quota get BUSY at once. This module has no
//! clock: time is an argument.

use crate::ids::Lid;
use crate::transport::rmpp::{TransferEnd, TransferObserver, TransferSize};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Time for which old kernels wait for acknowledgements, 8 s with the retransmissions that
/// `transport::umad` asks for, and for their report that there was none.
const OPEN_TIME: Duration = Duration::from_secs(9);

/// Open replies of a port at which it gets no further one: both numbers are reached.
#[derive(Clone, Copy)]
struct Quota {
    bytes: usize,
    /// A port may have this number of open replies, however large they are.
    replies: usize,
}

/// For a port that has acknowledged replies within [`MEMORY`], and lets none time out.
const KNOWN_PORT: Quota = Quota { bytes: 48 << 20, replies: 16 };
/// For other ports.
const NEW_PORT: Quota = Quota { bytes: 16 << 20, replies: 8 };
/// For ports that let replies time out, and for all ports while [`MAX_OPEN`] is reached.
const SILENT_PORT: Quota = Quota { bytes: 256 << 10, replies: 1 };
/// Memory of the open replies of all ports in bytes; that of the same table counts once.
const MAX_OPEN: usize = 64 << 20;

/// Number of replies without acknowledgement after which a port is silent: a few are lost packets.
const MIN_UNACKNOWLEDGED: u32 = 4;
/// Time without such a reply after which a port is not silent any more.
const SILENCE: Duration = Duration::from_secs(10);
/// Time for which a port is known to have acknowledged replies.
const MEMORY: Duration = Duration::from_secs(60);
/// Time without any acknowledgement after which requests above the quota get BUSY: one lost
/// acknowledgement costs half a second.
const MAX_STALL: Duration = Duration::from_secs(2);

/// Decision about a request for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    Admit,
    /// The port acknowledges its replies; the request waits until some of them are complete.
    Wait,
    /// The request gets BUSY.
    Refuse,
}

/// The open replies of a requester, and how it dealt with earlier ones.
#[derive(Debug, Default)]
struct TableRequester {
    /// Bytes of its open replies.
    open: usize,
    /// Number of its open replies.
    replies: usize,
    /// The last time at which a reply was acknowledged, or was no longer open and not reported as
    /// unacknowledged.
    acknowledged: Option<Instant>,
    /// The last time at which a segment was acknowledged, or the first reply began.
    progressed: Option<Instant>,
    unacknowledged: u32,
    last_unacknowledged: Option<Instant>,
}

impl TableRequester {
    fn is_silent(&self, now: Instant) -> bool {
        self.unacknowledged >= MIN_UNACKNOWLEDGED
            && self
                .last_unacknowledged
                .is_some_and(|last| now.saturating_duration_since(last) < SILENCE)
    }

    fn quota(&self, now: Instant) -> Quota {
        match self.acknowledged {
            _ if self.is_silent(now) => SILENT_PORT,
            Some(last) if is_recent(last, now) => KNOWN_PORT,
            _ => NEW_PORT,
        }
    }

    fn add(&mut self, length: usize) {
        self.open += length;
        self.replies += 1;
    }

    fn remove(&mut self, length: usize) {
        self.open = self.open.saturating_sub(length);
        self.replies = self.replies.saturating_sub(1);
    }

    /// Counts a reply that was not acknowledged.
    fn count_unacknowledged(&mut self, now: Instant) {
        if self.last_unacknowledged.is_none_or(|last| is_over(last, now)) {
            self.unacknowledged = 0;
        }
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        self.last_unacknowledged = Some(now);
        if self.is_silent(now) {
            self.acknowledged = None;
        }
    }
}

fn is_over(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) >= SILENCE
}

fn is_recent(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) < MEMORY
}

#[derive(Debug, Default)]
struct OpenRepliesState {
    /// Time, requester and length of each reply that an old kernel sends, oldest first.
    handed_over: VecDeque<(Instant, Lid, usize)>,
    /// Memory of all open replies in bytes.
    open: usize,
    /// By LID, of which there are at most 49,151.
    requesters: HashMap<Lid, TableRequester>,
}

impl OpenRepliesState {
    /// Removes the replies that an old kernel no longer has.
    fn close_old(&mut self, now: Instant) {
        while let Some(&(sent, lid, length)) = self.handed_over.front()
            && now.saturating_duration_since(sent) >= OPEN_TIME
        {
            self.handed_over.pop_front();
            self.open -= length;
            let Some(requester) = self.requesters.get_mut(&lid) else { continue };
            requester.remove(length);
            if requester.last_unacknowledged.is_none_or(|last| last < sent) {
                requester.acknowledged = Some(now);
            }
        }
        if self.handed_over.is_empty() {
            self.handed_over.shrink_to_fit();
        }
    }
}

/// The open replies of all ports.
#[derive(Debug, Default)]
pub struct OpenReplies {
    state: Mutex<OpenRepliesState>,
    /// Notified when a reply ends while requests wait.
    freed: Notify,
    /// True if requests wait.
    is_awaited: AtomicBool,
}

impl OpenReplies {
    fn lock(&self) -> MutexGuard<'_, OpenRepliesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a request of the port for a table.
    pub fn admission(&self, lid: Lid, now: Instant) -> Admission {
        let mut state = self.lock();
        state.close_old(now);
        let is_full = state.open >= MAX_OPEN;
        let Some(requester) = state.requesters.get(&lid) else { return Admission::Admit };
        let quota = if is_full { SILENT_PORT } else { requester.quota(now) };
        if requester.open < quota.bytes || requester.replies < quota.replies {
            return Admission::Admit;
        }
        let has_stalled = requester
            .progressed
            .is_none_or(|last| now.saturating_duration_since(last) >= MAX_STALL);
        if requester.is_silent(now) || has_stalled {
            return Admission::Refuse;
        }
        self.is_awaited.store(true, Ordering::Relaxed);
        Admission::Wait
    }

    /// Waits until replies have ended since a decision to wait.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Records that a reply to the port was not acknowledged, as an old kernel reports.
    pub fn unacknowledged(&self, lid: Lid, now: Instant) {
        // A reply that was not in segments cannot be acknowledged.
        if let Some(requester) = self.lock().requesters.get_mut(&lid) {
            requester.count_unacknowledged(now);
        }
    }
}

impl TransferObserver for OpenReplies {
    fn began(&self, to: Lid, size: TransferSize, now: Instant) {
        let mut state = self.lock();
        state.open += size.memory;
        let requester = state.requesters.entry(to).or_default();
        if requester.replies == 0 {
            requester.progressed = Some(now);
        }
        requester.add(size.message);
    }

    fn progressed(&self, to: Lid, now: Instant) {
        if let Some(requester) = self.lock().requesters.get_mut(&to) {
            requester.progressed = Some(now);
        }
    }

    fn ended(&self, to: Lid, size: TransferSize, end: TransferEnd, now: Instant) {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(size.memory);
        if let Some(requester) = state.requesters.get_mut(&to) {
            requester.remove(size.message);
            match end {
                TransferEnd::Acknowledged => {
                    requester.acknowledged = Some(now);
                    requester.progressed = Some(now);
                    requester.unacknowledged = 0;
                }
                TransferEnd::Unacknowledged => requester.count_unacknowledged(now),
                TransferEnd::Aborted => {}
            }
        }
        drop(state);
        if self.is_awaited.swap(false, Ordering::Relaxed) {
            self.freed.notify_one();
        }
    }

    fn handed_over(&self, to: Lid, bytes: usize, now: Instant) {
        let mut state = self.lock();
        state.handed_over.push_back((now, to, bytes));
        state.open += bytes;
        state.requesters.entry(to).or_default().add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: usize = 64 << 10;

    fn admits(open: &OpenReplies, lid: Lid, now: Instant) -> bool {
        open.admission(lid, now) == Admission::Admit
    }

    /// Bytes that a port gets within a second from an old kernel.
    fn fill(open: &OpenReplies, lid: Lid, start: Instant) -> usize {
        let mut bytes = 0;
        for number in 0..10_000 {
            let now = start + Duration::from_micros(100) * number;
            if admits(open, lid, now) {
                open.handed_over(lid, TABLE, now);
                bytes += TABLE;
            }
        }
        bytes
    }

    fn size(bytes: usize) -> TransferSize {
        TransferSize { message: bytes, memory: bytes }
    }

    #[test]
    fn a_port_that_acknowledges_waits_and_is_never_refused() {
        let open = OpenReplies::default();
        let mut now = tokio::time::Instant::now().into_std();
        let mut pending = VecDeque::new();
        let mut waits = 0;
        for _ in 0..10_000 {
            match open.admission(Lid(1), now) {
                Admission::Admit => {
                    open.began(Lid(1), size(TABLE), now);
                    pending.push_back(TABLE);
                }
                Admission::Wait => {
                    waits += 1;
                    now += Duration::from_millis(10);
                    let bytes = pending.pop_front().expect("open replies");
                    open.ended(Lid(1), size(bytes), TransferEnd::Acknowledged, now);
                }
                Admission::Refuse => panic!("{} replies are open", pending.len()),
            }
            assert!(pending.len() * TABLE <= KNOWN_PORT.bytes);
        }
        assert!(waits > 4000, "{waits}");
        for bytes in pending {
            open.ended(Lid(1), size(bytes), TransferEnd::Acknowledged, now);
        }
        let state = open.lock();
        assert_eq!((state.open, state.requesters[&Lid(1)].replies), (0, 0));
    }

    #[test]
    fn a_port_is_refused_once_it_acknowledges_nothing() {
        let open = OpenReplies::default();
        let start = tokio::time::Instant::now().into_std();
        let fill = |now: Instant| {
            while open.admission(Lid(1), now) == Admission::Admit {
                open.began(Lid(1), size(TABLE), now);
            }
            open.lock().requesters[&Lid(1)].open
        };
        assert_eq!(fill(start), NEW_PORT.bytes);
        assert_eq!(open.admission(Lid(1), start), Admission::Wait, "it may be slow");
        open.progressed(Lid(1), start + MAX_STALL);
        assert_eq!(open.admission(Lid(1), start + MAX_STALL), Admission::Wait);
        let stalled = start + 2 * MAX_STALL;
        assert_eq!(open.admission(Lid(1), stalled), Admission::Refuse);
        for _ in 0..NEW_PORT.bytes / TABLE {
            open.ended(Lid(1), size(TABLE), TransferEnd::Unacknowledged, stalled);
        }
        assert_eq!(fill(stalled), SILENT_PORT.bytes);
        assert_eq!(open.admission(Lid(1), stalled), Admission::Refuse, "it does not wait");
        open.ended(Lid(1), size(TABLE), TransferEnd::Acknowledged, stalled);
        assert_eq!(fill(stalled), KNOWN_PORT.bytes, "it acknowledges again");
        // A lost port is no fault of the requester, nor is a transfer that it aborts.
        open.ended(Lid(1), size(TABLE), TransferEnd::Aborted, stalled);
        assert_eq!(fill(stalled), KNOWN_PORT.bytes);
    }

    #[test]
    fn the_memory_of_all_ports_is_limited_and_that_of_a_shared_table_counts_once() {
        let open = OpenReplies::default();
        let start = tokio::time::Instant::now().into_std();
        open.began(Lid(1), size(MAX_OPEN / 2), start);
        for lid in 2..1000 {
            open.began(Lid(lid), TransferSize { message: MAX_OPEN / 2, memory: 0 }, start);
            assert!(admits(&open, Lid(lid), start), "it has one reply");
        }
        open.began(Lid(1), size(MAX_OPEN / 2), start);
        assert_eq!(open.admission(Lid(2), start), Admission::Wait);
        assert!(admits(&open, Lid(1000), start), "each port gets one");
        open.ended(Lid(1), size(MAX_OPEN / 2), TransferEnd::Aborted, start);
        assert!(admits(&open, Lid(2), start));
    }

    #[test]
    fn a_port_that_acknowledges_nothing_gets_little() {
        let open = OpenReplies::default();
        let start = tokio::time::Instant::now().into_std();
        assert_eq!(fill(&open, Lid(1), start), NEW_PORT.bytes);
        assert!(admits(&open, Lid(2), start), "others are not affected");
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
        let open = OpenReplies::default();
        let start = tokio::time::Instant::now().into_std();
        open.handed_over(Lid(1), TABLE, start);
        let later = start + OPEN_TIME;
        assert!(admits(&open, Lid(1), later));
        assert_eq!(fill(&open, Lid(1), later), KNOWN_PORT.bytes);
        // Lost packets change nothing.
        (1..MIN_UNACKNOWLEDGED).for_each(|_| open.unacknowledged(Lid(1), later));
        assert_eq!(fill(&open, Lid(1), later + 2 * OPEN_TIME), KNOWN_PORT.bytes);
    }

    #[test]
    fn the_tables_of_a_large_fabric_are_sent_and_the_total_is_limited() {
        let open = OpenReplies::default();
        let start = tokio::time::Instant::now().into_std();
        let length = MAX_OPEN / 32;
        for number in 0..NEW_PORT.replies {
            assert!(admits(&open, Lid(1), start), "{number}");
            open.handed_over(Lid(1), length, start);
        }
        assert!(!admits(&open, Lid(1), start));
        (NEW_PORT.replies..32).for_each(|_| open.handed_over(Lid(2), length, start));
        for number in 0..4 {
            assert_eq!(admits(&open, Lid(3), start), number < SILENT_PORT.replies, "{number}");
            open.handed_over(Lid(3), length, start);
        }
        assert!(admits(&open, Lid(1), start + OPEN_TIME));
        assert_eq!(open.lock().open, 0);
    }
}
