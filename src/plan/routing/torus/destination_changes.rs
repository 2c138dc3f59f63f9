//! Destinations that were added or removed since the previous pass. If they are few, forwarding
//! tables of switches without parallel cables are copied from the previous pass and changed at
//! their LIDs.

use super::lattice::Position;
use super::unicast::{Destination, Destinations};

/// Tables are copied if the destinations changed at no more than one in 16 positions.
const MIN_POSITIONS_PER_CHANGE: usize = 16;

/// A switch whose destinations changed.
pub(super) struct DestinationChange<'a> {
    pub at: Position,
    /// Its destinations in the previous pass.
    pub before: &'a [Destination],
    /// Its destinations now.
    pub now: &'a [Destination],
}

/// The changes at `len` positions; `None` if there are too many.
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
    (changes.len() <= len / MIN_POSITIONS_PER_CHANGE).then_some(changes)
}
