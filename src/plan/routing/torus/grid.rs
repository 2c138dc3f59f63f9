//! A torus as it was placed: which switch is where, which cables join neighbours, which end
//! ports are at home there.

use super::lattice::{Direction, Lattice, Position};
use super::wiring::Host;
use crate::fabric::{Fabric, SwitchId};

/// Ports of the up to six bundles of a switch, by [`Direction`]. The bundle towards a
/// neighbour and the neighbour's bundle back hold the two ends of the same cables, index by
/// index, ascending by the port numbers of the side for which the direction is plus.
pub type Bundles = [Vec<u8>; 6];

/// The placed torus.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Its shape.
    pub lattice: Lattice,
    /// The switch at each position.
    pub switches: Vec<Option<SwitchId>>,
    /// The position of each switch of the fabric.
    pub positions: Vec<Option<Position>>,
    /// Positions in the order in which they were filled.
    pub order: Vec<Position>,
    /// Ports of parallel cables, by position.
    pub bundles: Vec<Bundles>,
    /// Port 0 and the end ports of the switch at each position, ascending by port number.
    pub local: Vec<Vec<Host>>,
}

impl Grid {
    /// The switch at a position.
    pub fn switch(&self, at: Position) -> Option<SwitchId> {
        self.switches[at.index()]
    }

    /// True if there is a switch at the position.
    pub fn is_present(&self, at: Position) -> bool {
        self.switches[at.index()].is_some()
    }

    /// The ports of the switch at `at` whose cables lead one step in `direction`.
    pub fn bundle(&self, at: Position, direction: Direction) -> &[u8] {
        &self.bundles[at.index()][direction.index()]
    }

    /// True if at least one cable leads from `at` in `direction`.
    pub fn is_open(&self, at: Position, direction: Direction) -> bool {
        !self.bundle(at, direction).is_empty()
    }

    /// All positions with their switches, ascending.
    pub fn placed(&self) -> impl Iterator<Item = (Position, SwitchId)> + Clone + '_ {
        self.lattice.positions().filter_map(|at| Some((at, self.switch(at)?)))
    }

    /// Positions without a switch, ascending.
    pub fn missing(&self) -> impl Iterator<Item = Position> + '_ {
        self.lattice.positions().filter(|&at| !self.is_present(at))
    }

    /// Coordinates, GUID and description of what is at a position, for messages.
    pub fn describe(&self, fabric: &Fabric, at: Position) -> String {
        let coordinates = self.lattice.coordinates(at);
        match self.switch(at) {
            Some(switch) => {
                let node = fabric.switch(switch);
                format!("{coordinates} (GUID {} \"{}\")", node.guid(), node.description)
            }
            None => format!("{coordinates} (no switch)"),
        }
    }

    /// Number of cables between neighbours.
    pub fn cable_count(&self) -> usize {
        let plus = |bundles: &Bundles| bundles[1].len() + bundles[3].len() + bundles[5].len();
        self.bundles.iter().map(plus).sum()
    }

    /// Number of end ports of channel adapters and routers.
    pub fn host_count(&self) -> usize {
        self.local.iter().map(|ports| ports.len().saturating_sub(1)).sum()
    }
}
