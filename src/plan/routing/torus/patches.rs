//! Destinations that came or went since the last success: where there are few of them, tables of
//! switches without parallel cables are those of then but for their entries.

use super::lattice::Position;
use super::unicast::{Target, Targets};

/// One of so many switches may have other destinations; beyond that tables are made anew.
const SHARE: usize = 16;

/// The destinations at a switch where they are not those of the last success.
pub(super) struct Patch<'a> {
    /// Position of the switch.
    pub at: Position,
    /// What there was.
    pub before: &'a [Target],
    /// What there is.
    pub now: &'a [Target],
}

/// How the destinations at `len` positions differ; `None` if they do in too many places.
pub(super) fn patches<'a>(
    len: usize,
    before: &'a Targets,
    now: &'a Targets,
) -> Option<Vec<Patch<'a>>> {
    let mut groups: Vec<[&[Target]; 2]> = vec![[&[]; 2]; len];
    for (at, group) in before.groups() {
        groups[at.index()][0] = group;
    }
    for (at, group) in now.groups() {
        groups[at.index()][1] = group;
    }
    let pairs = (0..).map(Position).zip(groups).filter(|(_, [before, now])| before != now);
    let patches = pairs.map(|(at, [before, now])| Patch { at, before, now }).collect::<Vec<_>>();
    (patches.len() <= len / SHARE).then_some(patches)
}
