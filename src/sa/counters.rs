//! What was asked and what became of it, for the status report.

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
}

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    answered: BTreeMap<(u16, Method, u16), u64>,
    dropped: BTreeMap<Drop, u64>,
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

    pub(super) fn dropped(&mut self, why: Drop) {
        *self.dropped.entry(why).or_default() += 1;
    }

    pub(super) fn seen(&mut self, now: Instant) {
        self.last_request = Some(now);
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
        replies.chain(self.drops().map(|(why, count)| format!("{count} x no reply: {why:?}")))
    }

    /// When the last MAD came.
    pub fn last_request(&self) -> Option<Instant> {
        self.last_request
    }
}
