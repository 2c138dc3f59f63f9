//! What was asked and what became of it, for the status report.

use crate::ids::Lid;
use crate::wire::mad::Method;
use std::collections::BTreeMap;
use std::time::Instant;

/// Why a MAD got no reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Drop {
    /// Shorter than a MAD.
    Truncated,
    /// Not of the class of subnet administration.
    ForeignClass,
    /// A response, or a method that has none.
    NotARequest,
    /// The SM_Key is neither 0 nor ours (IBA vol. 1, C15-0.1.5).
    WrongKey,
    /// The sender is no port of this subnet.
    UnknownRequester,
    /// It waited longer than `max_msg_fifo_timeout`.
    Stale,
    /// There was no room for it, and too many others had to be told.
    Crowded,
}

/// Ports that [`Counters::lines`] names for the BUSY they were answered.
const FLOODING_TOLD: usize = 8;

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    answered: BTreeMap<(u16, Method, u16), u64>,
    dropped: BTreeMap<Drop, u64>,
    /// By LID.
    busy: BTreeMap<Lid, u64>,
    records: u64,
    last_request: Option<Instant>,
}

impl Counters {
    pub(super) fn answered(&mut self, attribute: u16, method: Method, status: u16, records: usize) {
        // Attributes come from the wire: what nobody has heard of shares one row, so that a
        // client cannot make the table grow.
        let known = crate::wire::sa::SaAttr::name(attribute) != "unknown attribute";
        let attribute = if known { attribute } else { 0 };
        *self.answered.entry((attribute, method, status)).or_default() += 1;
        self.records += records as u64;
    }

    /// Counts a request that was answered with BUSY: the port at `lid` had more of them waiting
    /// than any other when there was no room left. Returns how many it is by now.
    pub fn busy(&mut self, lid: Lid) -> u64 {
        let count = self.busy.entry(lid).or_default();
        *count += 1;
        *count
    }

    /// The ports that had BUSY for an answer, and how often: the one with the most first.
    pub fn flooding(&self) -> Vec<(Lid, u64)> {
        let mut ports: Vec<_> = self.busy.iter().map(|(&lid, &count)| (lid, count)).collect();
        ports.sort_by_key(|&(lid, count)| (std::cmp::Reverse(count), lid));
        ports
    }

    /// Counts a MAD that got no reply.
    pub fn dropped(&mut self, why: Drop) {
        *self.dropped.entry(why).or_default() += 1;
    }

    pub(super) fn seen(&mut self, now: Instant) {
        self.last_request = Some(now);
    }

    /// Adds what was counted elsewhere.
    pub fn absorb(&mut self, other: Self) {
        let Self { answered, dropped, busy, records, last_request } = other;
        for (key, count) in answered {
            *self.answered.entry(key).or_default() += count;
        }
        for (why, count) in dropped {
            *self.dropped.entry(why).or_default() += count;
        }
        for (lid, count) in busy {
            *self.busy.entry(lid).or_default() += count;
        }
        self.records += records;
        self.last_request = self.last_request.max(last_request);
    }

    /// Replies by attribute (0 for unknown ones), method of the request and status.
    pub fn replies(&self) -> impl Iterator<Item = ((u16, Method, u16), u64)> + '_ {
        self.answered.iter().map(|(&key, &count)| (key, count))
    }

    /// MADs without a reply, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (Drop, u64)> + '_ {
        self.dropped.iter().map(|(&why, &count)| (why, count))
    }

    /// All replies.
    pub fn total(&self) -> u64 {
        self.answered.values().sum()
    }

    /// Records in all replies.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The counts as text, one line for each kind of reply and of drop.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let replies = self.replies().map(|((attribute, method, status), count)| {
            let name = crate::wire::sa::SaAttr::name(attribute);
            format!("{count} x {name}, method {:#04x}, status {status:#06x}", method.0)
        });
        let drops = self.drops().map(|(why, count)| format!("{count} x no reply: {why:?}"));
        let busy = self.flooding().into_iter().take(FLOODING_TOLD);
        let busy = busy.map(|(lid, count)| format!("{count} x BUSY to LID {lid}"));
        replies.chain(drops).chain(busy)
    }

    /// When the last MAD came.
    pub fn last_request(&self) -> Option<Instant> {
        self.last_request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_that_floods_is_named_first() {
        let mut counters = Counters::default();
        for (lid, times) in [(5, 1), (7, 3), (2, 1)] {
            for _ in 0..times {
                counters.busy(Lid(lid));
            }
        }
        assert_eq!(counters.flooding(), [(Lid(7), 3), (Lid(2), 1), (Lid(5), 1)]);
        assert_eq!(counters.lines().next().as_deref(), Some("3 x BUSY to LID 7"));
        assert_eq!(counters.total(), 0, "no answer to a question");
    }
}
