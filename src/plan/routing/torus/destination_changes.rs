//! Destinations that came or went since the last success: where there are few of them, tables of
//! switches without parallel cables are those of then but for their entries.

use super::lattice::Position;
use super::unicast::{Destination, Destinations};

/// One of so many switches may have other destinations; beyond that tables are made anew.
const SHARE: usize = 16;

/// The destinations at a switch where they are not those of the last success.
pub(super) struct DestinationChange<'a> {
    /// Position of the switch.
    pub at: Position,
    /// What there was.
    pub before: &'a [Destination],
    /// What there is.
    pub now: &'a [Destination],
}

/// How the destinations at `len` positions differ; `None` if they do in too many places.
pub(super) fn changes<'a>(
    len: usize,
    before: &'a Destinations,
    now: &'a Destinations,
) -> Option<Vec<DestinationChange<'a>>> {
    let mut groups: Vec<[&[Destination]; 2]> = vec![[&[]; 2]; len];
    for (at, group) in before.groups() {
        groups[at.index()][0] = group;
    }
    for (at, group) in now.groups() {
        groups[at.index()][1] = group;
    }
    let pairs = (0..).map(Position).zip(groups).filter(|(_, [before, now])| before != now);
    let changes =
        pairs.map(|(at, [before, now])| DestinationChange { at, before, now }).collect::<Vec<_>>();
    (changes.len() <= len / SHARE).then_some(changes)
}
