//! The discovered torus: the switch at each position, the cables between neighbours, and the end
//! ports.

use super::cabling::LocalMember;
use super::lattice::{Direction, Lattice, Position};
use crate::fabric::{Fabric, SwitchId};
use std::ops::Range;

/// A cable between switches at neighbouring positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TorusCable {
    /// Positions of its ends, the second one step up the dimension from the first.
    pub ends: [Position; 2],
    /// Its dimension, 0 to 2.
    pub axis: u8,
    pub ports: [u8; 2],
}

/// The port groups of each switch: for each [`Direction`] the ports whose cables lead to the
/// neighbour. The port group towards a neighbour and the neighbour's port group back hold the two
/// ends of the same cables, index by index, in ascending order of the port numbers on the side for
/// which the direction is plus.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PortGroups {
    /// By position and direction: start of the port group in `ports`, with one more entry at the
    /// end.
    first: Vec<u32>,
    ports: Vec<u8>,
}

impl PortGroups {
    /// The port groups of `len` positions that consist of `cables` in this order.
    pub(super) fn new(len: usize, cables: &[TorusCable]) -> Self {
        let mut first = vec![0u32; 6 * len + 1];
        cables.iter().flat_map(end_indices).for_each(|slot| first[slot + 1] += 1);
        for slot in 0..6 * len {
            first[slot + 1] += first[slot];
        }
        let mut next = first.clone();
        let mut ports = vec![0; 2 * cables.len()];
        for cable in cables {
            for (slot, port) in end_indices(cable).into_iter().zip(cable.ports) {
                ports[next[slot] as usize] = port;
                next[slot] += 1;
            }
        }
        Self { first, ports }
    }

    /// Ports at a position whose cables lead one step in a direction.
    #[inline]
    pub(super) fn of(&self, at: Position, direction: Direction) -> &[u8] {
        let slot = 6 * at.index() + direction.index();
        &self.ports[self.first[slot] as usize..self.first[slot + 1] as usize]
    }

    /// True if the port groups at a position equal those of `other`, which belongs to a lattice of
    /// the same shape.
    pub(super) fn are_same_at(&self, other: &Self, at: Position) -> bool {
        let range = 6 * at.index()..6 * at.index() + 7;
        let one = &self.first[range.clone()];
        let two = &other.first[range];
        group_lengths(one) == group_lengths(two)
            && self.ports[port_range(one)] == other.ports[port_range(two)]
    }

    /// True if a port group at a position has more than one cable.
    pub(super) fn are_parallel_at(&self, at: Position) -> bool {
        self.first[6 * at.index()..6 * at.index() + 7].windows(2).any(|ends| ends[1] - ends[0] > 1)
    }

    pub(super) fn cables(&self) -> usize {
        self.ports.len() / 2
    }
}

fn port_range(ends: &[u32]) -> Range<usize> {
    ends[0] as usize..ends[6] as usize
}

fn group_lengths(ends: &[u32]) -> [u32; 6] {
    std::array::from_fn(|i| ends[i + 1] - ends[i])
}

fn end_indices(cable: &TorusCable) -> [usize; 2] {
    let axis = usize::from(cable.axis);
    let [lower, upper] = cable.ends;
    [slot_of(lower, Direction::plus(axis)), slot_of(upper, Direction::minus(axis))]
}

fn slot_of(at: Position, direction: Direction) -> usize {
    6 * at.index() + direction.index()
}

/// Local port groups by position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct LocalGroups {
    /// By position: end of its ports in `hosts`.
    ends: Vec<u32>,
    hosts: Vec<LocalMember>,
}

impl LocalGroups {
    /// Appends the ports of the next position.
    pub(super) fn push(&mut self, hosts: impl IntoIterator<Item = LocalMember>) {
        self.hosts.extend(hosts);
        self.ends.push(self.hosts.len() as u32);
    }

    pub(super) fn of(&self, at: Position) -> &[LocalMember] {
        let first = at.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.hosts[first as usize..self.ends[at.index()] as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }
}

/// A discovered torus.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub lattice: Lattice,
    /// By position.
    pub switches: Vec<Option<SwitchId>>,
    /// By switch of the fabric; `None` for switches outside the torus.
    pub positions: Vec<Option<Position>>,
    /// Positions in the order of placement.
    pub order: Vec<Position>,
    pub port_groups: PortGroups,
    /// Local port groups: port 0 and the host ports of each switch, by ascending port number.
    pub local: LocalGroups,
}

impl Grid {
    /// The position of a switch of the fabric; `None` outside the torus.
    pub(super) fn position_of(&self, switch: SwitchId) -> Option<Position> {
        self.positions.get(switch.index()).copied().flatten()
    }

    pub(super) fn switch(&self, at: Position) -> Option<SwitchId> {
        self.switches[at.index()]
    }

    pub(super) fn is_present(&self, at: Position) -> bool {
        self.switches[at.index()].is_some()
    }

    /// Ports of the switch at `at` whose cables lead one step in `direction`.
    pub(super) fn port_group(&self, at: Position, direction: Direction) -> &[u8] {
        self.port_groups.of(at, direction)
    }

    /// True if at least one cable leads from `at` in `direction`.
    pub(super) fn has_cable(&self, at: Position, direction: Direction) -> bool {
        !self.port_group(at, direction).is_empty()
    }

    /// Placed switches by ascending position.
    pub(super) fn placed(&self) -> impl Iterator<Item = (Position, SwitchId)> + Clone + '_ {
        self.lattice.positions().filter_map(|at| Some((at, self.switch(at)?)))
    }

    /// Positions without a switch, in ascending order.
    pub(super) fn missing(&self) -> impl Iterator<Item = Position> + '_ {
        self.lattice.positions().filter(|&at| !self.is_present(at))
    }

    /// Coordinates, GUID and node description for messages.
    pub(super) fn describe(&self, fabric: &Fabric, at: Position) -> String {
        let coordinates = self.lattice.coordinates(at);
        match self.switch(at) {
            Some(switch) => {
                let node = fabric.switch(switch);
                format!("{coordinates} (GUID {} \"{}\")", node.guid(), node.name())
            }
            None => format!("{coordinates} (no switch)"),
        }
    }

    /// Like [`Self::describe`], in the form of OpenSM's log lines, followed by the description.
    pub(super) fn describe_as_opensm(&self, fabric: &Fabric, at: Position) -> String {
        let coordinates = self.lattice.coordinates(at);
        match self.switch(at).map(|switch| fabric.switch(switch)) {
            Some(node) => {
                format!("{coordinates} GUID 0x{:04x} (\"{}\")", node.guid().0, node.name())
            }
            None => coordinates.to_string(),
        }
    }

    pub(super) fn cable_count(&self) -> usize {
        self.port_groups.cables()
    }

    /// Number of CA and router ports at placed switches.
    pub(super) fn host_count(&self) -> usize {
        self.local.len().saturating_sub(self.order.len())
    }

    /// Positions with another switch or other cables than in `other`, in ascending order; `None` if
    /// the shapes differ.
    pub(super) fn differences(&self, other: &Self) -> Option<Vec<Position>> {
        (self.lattice == other.lattice).then(|| {
            positions(&self.lattice).filter(|at| !self.has_same_switch(other, at)).collect()
        })
    }

    fn has_same_switch(&self, other: &Grid, &at: &Position) -> bool {
        self.switch(at) == other.switch(at) && self.port_groups.are_same_at(&other.port_groups, at)
    }
}

fn positions(lattice: &Lattice) -> impl ExactSizeIterator<Item = Position> + Clone {
    lattice.positions()
}
