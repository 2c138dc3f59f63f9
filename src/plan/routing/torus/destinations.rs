//! Destinations of forwarding tables, and their changes since the previous pass. If few
//! destinations changed, forwarding tables of switches without parallel cables are copied from the
//! previous pass and changed at their LIDs.

use super::grid::Grid;
use super::lattice::Position;
use crate::plan::LidTable;

/// Tables are copied if the destinations changed at no more than one in 16 positions.
const MIN_POSITIONS_PER_CHANGE: usize = 16;

/// An end port or management port, to which all forwarding tables lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TorusDestination {
    /// Base LID; 0 if the port has none.
    pub lid: u16,
    /// Number of LIDs, 2^LMC.
    pub lids: u16,
    /// Port number on its own switch.
    pub port: u8,
    /// True for port 0 of a switch, which has round robin counters of its own.
    pub is_management: bool,
}

/// All destinations in the order of routing: by order of placement of their switches, then by port
/// order.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Destinations {
    list: Vec<TorusDestination>,
    /// Position of each switch and end of its destinations in `list`.
    switches: Vec<(Position, usize)>,
}

impl Destinations {
    pub(super) fn new(grid: &Grid, lids: &LidTable, port_order: &[u8]) -> Self {
        let mut rank = [usize::MAX; 256];
        for (index, &port) in port_order.iter().enumerate() {
            rank[usize::from(port)] = index;
        }
        let mut destinations = Self { list: Vec::new(), switches: Vec::new() };
        for &at in &grid.order {
            let first = destinations.list.len();
            destinations.list.extend(grid.local.of(at).iter().map(|local| TorusDestination {
                lid: lids.base(local.end).map_or(0, |lid| lid.0),
                lids: 1 << lids.lmc(local.end),
                port: local.port,
                is_management: local.port == 0,
            }));
            destinations.list[first..]
                .sort_by_key(|destination| rank[usize::from(destination.port)]);
            destinations.switches.push((at, destinations.list.len()));
        }
        destinations
    }

    /// Destinations by switch.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Position, &[TorusDestination])> {
        let mut first = 0;
        self.switches.iter().map(move |&(at, end)| {
            let group = &self.list[first..end];
            first = end;
            (at, group)
        })
    }

    /// True if `other` has the same destinations, in whatever order of the switches.
    pub(super) fn are_same_set(&self, other: &Self) -> bool {
        let positions = self.switches.iter().map(|&(at, _)| at.index() + 1).max().unwrap_or(0);
        let mut groups = vec![None; positions];
        let found = self.groups().all(|(at, group)| groups[at.index()].replace(group).is_none());
        let mut others = other.groups();
        found
            && self.switches.len() == other.switches.len()
            && others.all(|(at, group)| groups.get(at.index()) == Some(&Some(group)))
    }
}

/// A switch whose destinations changed.
pub(super) struct DestinationChange<'a> {
    pub at: Position,
    /// Its destinations in the previous pass.
    pub before: &'a [TorusDestination],
    /// Its destinations now.
    pub now: &'a [TorusDestination],
}

/// The changes at `len` positions; `None` if there are too many.
pub(super) fn changes<'a>(
    len: usize,
    before: &'a Destinations,
    now: &'a Destinations,
) -> Option<Vec<DestinationChange<'a>>> {
    let mut groups: Vec<[&[TorusDestination]; 2]> = vec![[&[]; 2]; len];
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
