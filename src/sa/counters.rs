//! Counters of SA requests and replies, for the status report.

use crate::histogram::{Histogram, ResponseTimes};
use crate::ids::Lid;
use crate::wire::mad::Method;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Reason why a MAD got no reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// Shorter than a MAD, 256 bytes.
    Truncated,
    /// Not of the class SubnAdm.
    WrongClass,
    /// A response, or a method without a response.
    NotARequest,
    /// The SM_Key is neither 0 nor `sa_key` (IBA vol. 1, C15-0.1.5).
    WrongKey,
    /// The sender's LID belongs to no port of this subnet.
    UnknownRequester,
    /// The source GID in the global route header belongs to another port than the source LID.
    ForgedGid,
    /// The request waited longer than `max_msg_fifo_timeout`.
    Stale,
    /// The request queue was full, and too many BUSY replies were being sent already.
    QueueFull,
}

impl DropReason {
    /// The reason, for the log.
    fn text(self) -> &'static str {
        match self {
            Self::Truncated => "shorter than a MAD",
            Self::WrongClass => "wrong management class",
            Self::NotARequest => "not a request",
            Self::WrongKey => "wrong SM_Key",
            Self::UnknownRequester => "unknown requester",
            Self::ForgedGid => "source GID of another port",
            Self::Stale => "waited too long",
            Self::QueueFull => "queue full",
        }
    }
}

/// Maximum number of LIDs that [`SaCounters::lines`] lists with their BUSY replies, and with their
/// rejected changes.
const MAX_LIDS_LISTED: usize = 8;

/// Counters since the start of the daemon.
#[derive(Clone, Debug, Default)]
pub struct SaCounters {
    /// By attribute ID, method of the request and status.
    answered: BTreeMap<(u16, Method, u16), u64>,
    dropped: BTreeMap<DropReason, u64>,
    /// Replies by LID of the requester, BUSY excluded.
    replies_by_lid: FxHashMap<Lid, u64>,
    /// BUSY replies by LID of the requester.
    busy: BTreeMap<Lid, u64>,
    /// Changes that were denied or exceeded a limit, by LID of the requester.
    rejected: BTreeMap<Lid, u64>,
    /// Requests with a forged GID or a wrong SM_Key, by source LID.
    forged: BTreeMap<(Lid, DropReason), u64>,
    records: u64,
    last_request: Option<Instant>,
    /// Of a sample of the requests that reader threads answered.
    inline_times: ResponseTimes,
    /// Of requests that went through the queue, from their arrival.
    queued_times: ResponseTimes,
}

impl SaCounters {
    pub(super) fn count_reply(
        &mut self,
        requester: Lid,
        attribute: u16,
        method: Method,
        status: u16,
        records: usize,
    ) {
        // Clients choose the attribute ID: unknown ones share a row, which bounds the table.
        let known = crate::wire::sa::SaAttr::name(attribute) != "unknown attribute";
        let attribute = if known { attribute } else { 0 };
        *self.answered.entry((attribute, method, status)).or_default() += 1;
        *self.replies_by_lid.entry(requester).or_default() += 1;
        self.records += records as u64;
    }

    /// Counts a BUSY reply to `lid`, which had more requests in the full queue than any other port.
    /// Returns the number of BUSY replies to it.
    pub fn count_busy(&mut self, lid: Lid) -> u64 {
        let count = self.busy.entry(lid).or_default();
        *count += 1;
        *count
    }

    /// Counts a change requested by `lid` that was denied or exceeded a limit. Returns their
    /// number.
    pub fn count_rejected(&mut self, lid: Lid) -> u64 {
        let count = self.rejected.entry(lid).or_default();
        *count += 1;
        *count
    }

    /// The LIDs that got BUSY replies with their number, in descending order.
    pub fn busy_by_lid(&self) -> Vec<(Lid, u64)> {
        most_first(self.busy.iter())
    }

    /// The LIDs that got BUSY replies or whose changes were rejected, with both numbers, in
    /// descending order of their sum.
    pub fn refused_by_lid(&self) -> Vec<(Lid, [u64; 2])> {
        let mut counts: BTreeMap<Lid, [u64; 2]> = BTreeMap::new();
        for (index, table) in [&self.busy, &self.rejected].into_iter().enumerate() {
            for (&lid, &count) in table {
                counts.entry(lid).or_default()[index] = count;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|&(lid, [busy, rejected])| (std::cmp::Reverse(busy + rejected), lid));
        counts
    }

    /// Counts a request that gets no reply, and its sender if it is forged.
    pub(super) fn count_drop_of(&mut self, lid: Lid, reason: DropReason) {
        self.count_drop(reason);
        if [DropReason::ForgedGid, DropReason::WrongKey].contains(&reason) {
            *self.forged.entry((lid, reason)).or_default() += 1;
        }
    }

    /// Number of requests with a forged GID or a wrong SM_Key, by source LID.
    pub fn forged_by_lid(&self) -> impl Iterator<Item = ((Lid, DropReason), u64)> + '_ {
        self.forged.iter().map(|(&key, &count)| (key, count))
    }

    pub fn count_drop(&mut self, reason: DropReason) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    pub(super) fn count_request(&mut self, now: Instant) {
        self.last_request = Some(now);
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: Self) {
        let Self {
            answered,
            dropped,
            replies_by_lid,
            busy,
            rejected,
            forged,
            records,
            last_request,
            inline_times,
            queued_times,
        } = other;
        self.inline_times.merge(&inline_times);
        self.queued_times.merge(&queued_times);
        for (key, count) in forged {
            *self.forged.entry(key).or_default() += count;
        }
        for (key, count) in answered {
            *self.answered.entry(key).or_default() += count;
        }
        for (reason, count) in dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
        for (lid, count) in replies_by_lid {
            *self.replies_by_lid.entry(lid).or_default() += count;
        }
        for (lid, count) in busy {
            *self.busy.entry(lid).or_default() += count;
        }
        for (lid, count) in rejected {
            *self.rejected.entry(lid).or_default() += count;
        }
        self.records += records;
        self.last_request = self.last_request.max(last_request);
    }

    /// Counts the time in which a reader thread answered a request.
    pub fn observe_inline(&mut self, time: Duration) {
        self.inline_times.observe(time);
    }

    /// Counts the time from the arrival of a request, which was queued, to its reply.
    pub fn observe_queued(&mut self, time: Duration) {
        self.queued_times.observe(time);
    }

    /// Times of a sample of the requests that reader threads answered.
    pub fn inline_times(&self) -> Histogram {
        self.inline_times.histogram()
    }

    /// Times from the arrival of queued requests to their replies, without those that waited for
    /// multicast routes.
    pub fn queued_times(&self) -> Histogram {
        self.queued_times.histogram()
    }

    /// Number of replies by attribute ID (0 for unknown ones), method of the request and status.
    pub fn replies(&self) -> impl Iterator<Item = ((u16, Method, u16), u64)> + '_ {
        self.answered.iter().map(|(&key, &count)| (key, count))
    }

    /// The LIDs that got replies with their number, in descending order.
    pub fn replies_by_lid(&self) -> Vec<(Lid, u64)> {
        most_first(self.replies_by_lid.iter())
    }

    /// Number of MADs without a reply, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        self.dropped.iter().map(|(&reason, &count)| (reason, count))
    }

    /// Number of replies, BUSY replies excluded.
    pub fn total(&self) -> u64 {
        self.answered.values().sum()
    }

    /// Number of MADs that got a reply, a BUSY reply or none.
    pub fn received(&self) -> u64 {
        self.sent() + self.dropped.values().sum::<u64>()
    }

    /// Number of replies, BUSY replies included.
    pub fn sent(&self) -> u64 {
        self.total() + self.busy.values().sum::<u64>()
    }

    /// Number of requests for attributes that are not known.
    pub fn unknown(&self) -> u64 {
        self.replies().filter(|((attribute, ..), _)| *attribute == 0).map(|(_, count)| count).sum()
    }

    /// Number of records in all replies.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Lines of text, one for each kind of reply and each reason of a drop.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let replies = self.replies().map(|((attribute, method, status), count)| {
            let name = crate::wire::sa::SaAttr::name(attribute);
            format!("{count} x {name}, method {:#04x}, status {status:#06x}", method.0)
        });
        let drops =
            self.drops().map(|(reason, count)| format!("{count} x no reply: {}", reason.text()));
        let busy = self.busy_by_lid().into_iter().take(MAX_LIDS_LISTED);
        let busy = busy.map(|(lid, count)| format!("{count} x BUSY to LID {lid}"));
        let rejected = most_first(self.rejected.iter()).into_iter().take(MAX_LIDS_LISTED);
        let rejected =
            rejected.map(|(lid, count)| format!("{count} x rejected change by LID {lid}"));
        replies.chain(drops).chain(busy).chain(rejected)
    }

    /// Arrival of the last MAD.
    pub fn last_request(&self) -> Option<Instant> {
        self.last_request
    }
}

/// Counts by LID in descending order.
fn most_first<'a>(counts: impl Iterator<Item = (&'a Lid, &'a u64)>) -> Vec<(Lid, u64)> {
    let mut ports: Vec<_> = counts.map(|(&lid, &count)| (lid, count)).collect();
    ports.sort_by_key(|&(lid, count)| (std::cmp::Reverse(count), lid));
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lid_with_the_most_busy_replies_is_listed_first() {
        let mut counters = SaCounters::default();
        for (lid, times) in [(5, 1), (7, 3), (2, 1)] {
            for _ in 0..times {
                counters.count_busy(Lid(lid));
            }
        }
        assert_eq!(counters.busy_by_lid(), [(Lid(7), 3), (Lid(2), 1), (Lid(5), 1)]);
        assert_eq!(counters.lines().next().as_deref(), Some("3 x BUSY to LID 7"));
        assert_eq!([counters.count_rejected(Lid(4)), counters.count_rejected(Lid(4))], [1, 2]);
        assert_eq!(counters.lines().last().as_deref(), Some("2 x rejected change by LID 4"));
        let refused = counters.refused_by_lid();
        assert_eq!(refused[..2], [(Lid(7), [3, 0]), (Lid(4), [0, 2])]);
        assert_eq!(counters.total(), 0, "BUSY is not counted as a reply");
        assert_eq!(counters.replies_by_lid(), []);
        let mut sum = SaCounters::default();
        for (lid, replies) in [(5, 1), (9, 3), (5, 1)] {
            let mut counters = SaCounters::default();
            (0..replies).for_each(|_| counters.count_reply(Lid(lid), 0x35, Method::GET, 0, 1));
            sum.merge(counters);
        }
        assert_eq!(sum.replies_by_lid(), [(Lid(9), 3), (Lid(5), 2)]);
    }
}
