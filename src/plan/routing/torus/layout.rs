//! Layout of a discovered torus, routable or not, for reports and drawings.

use super::Lattice;
use super::cabling::Cabling;
use super::grid::Grid;
use super::lattice::{Coordinates, Direction, Position};
use super::routed::Torus;
use super::{checks, discovery};
use crate::fabric::SwitchId;
use crate::notes::Note;
use crate::plan::routing::RoutingInput;

/// Positions of switches, and cables between neighbours.
#[derive(Clone, Debug)]
pub struct TorusLayout {
    grid: Grid,
    /// Number of detours by channel: by position and direction. Empty unless the torus is routed around
    /// damage.
    detours: Vec<[u32; 6]>,
}

/// A ring, or a line in an open dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Its dimension, 0 to 2.
    pub axis: usize,
    /// Its first position: the coordinate along `axis` is 0.
    pub first: Coordinates,
    /// Its interruptions: the last position with a switch before each gap. The ends of an open
    /// dimension do not count.
    pub gaps: Vec<Coordinates>,
}

impl TorusLayout {
    /// The layout of a routed torus.
    pub fn of(torus: &Torus) -> Self {
        let grid = torus.grid().clone();
        let detours = torus.repaired().map_or_else(Vec::new, |repaired| {
            grid.lattice
                .positions()
                .map(|at| Direction::ALL.map(|way| repaired.detours_over(at, way)))
                .collect()
        });
        Self { grid, detours }
    }

    /// Discovers a torus without routing it, so that it can be shown even if it cannot be routed.
    ///
    /// # Errors
    /// Returns the errors of the configuration and of the discovery.
    pub fn place(input: &RoutingInput<'_>) -> Result<Self, Vec<Note>> {
        let config = input.torus_config.as_ref().map_err(Clone::clone)?;
        let cabling = Cabling::new(input.fabric);
        let lattice = checks::lattice(config).map_err(|note| vec![note])?;
        let fabric = input.fabric;
        let notes = &mut Vec::new();
        let seed = checks::usable_seed(fabric, &lattice, &config.seeds)
            .or_else(|note| checks::live_seed(fabric, &lattice, &config.seeds).ok_or(note))
            .map_err(|note| vec![note])?;
        let placed = discovery::discover(fabric, config, &lattice, &cabling, &seed, notes);
        placed.map(|discovered| Self { grid: discovered.grid, detours: Vec::new() })
    }

    pub fn radices(&self) -> [u32; 3] {
        self.grid.lattice.radices()
    }

    /// True for torus dimensions, false for mesh dimensions; `axis` is 0 to 2.
    pub fn is_looped(&self, axis: usize) -> bool {
        self.grid.lattice.is_looped(axis)
    }

    /// All coordinates, x running fastest.
    pub fn positions(&self) -> impl Iterator<Item = Coordinates> + '_ {
        self.grid.lattice.positions().map(|at| self.grid.lattice.coordinates(at))
    }

    /// The switch at these coordinates; `None` if it is missing.
    pub fn switch(&self, at: Coordinates) -> Option<SwitchId> {
        self.grid.switch(self.position(at))
    }

    /// Number of cables to the neighbour in a direction.
    pub fn cables(&self, at: Coordinates, direction: Direction) -> usize {
        self.ports(at, direction).len()
    }

    /// Ports of the cables to the neighbour in a direction.
    pub fn ports(&self, at: Coordinates, direction: Direction) -> &[u8] {
        self.grid.port_group(self.position(at), direction)
    }

    /// Number of ordered pairs of switches whose detours around damage use the cables in a direction.
    pub fn detours(&self, at: Coordinates, direction: Direction) -> u32 {
        self.detours.get(self.position(at).index()).map_or(0, |ways| ways[direction.index()])
    }

    /// The neighbouring coordinates, across the dateline where necessary; `None` at the edge of an
    /// open dimension, and in unused dimensions.
    pub fn neighbour(&self, at: Coordinates, direction: Direction) -> Option<Coordinates> {
        let lattice = &self.grid.lattice;
        let position = self.position(at);
        let leads_on = lattice.is_active(direction.axis()) && !lattice.is_edge(position, direction);
        leads_on.then(|| lattice.coordinates(lattice.step(position, direction)))
    }

    /// True if both switches are present and no cable joins them.
    pub fn lacks_cable(&self, at: Coordinates, direction: Direction) -> bool {
        self.switch(at).is_some()
            && self.neighbour(at, direction).is_some_and(|next| self.switch(next).is_some())
            && self.cables(at, direction) == 0
    }

    /// All rings and lines of the active dimensions.
    pub fn rings(&self) -> Vec<Ring> {
        let lattice = &self.grid.lattice;
        let axes = (0..3).filter(|&axis| lattice.is_active(axis));
        axes.flat_map(|axis| lattice.lines(axis).map(move |first| self.ring(first, axis))).collect()
    }

    fn ring(&self, first: Position, axis: usize) -> Ring {
        let lattice = &self.grid.lattice;
        let up = Direction::plus(axis);
        let line: Vec<Position> = lattice.line(first, axis).collect();
        let last = line.iter().rposition(|&at| self.grid.is_present(at));
        let ends = line.iter().enumerate().filter(|&(index, &at)| {
            self.grid.is_present(at)
                && !self.grid.has_cable(at, up)
                && !is_end(&last, lattice, index, axis)
        });
        let gaps = ends.map(|(_, &at)| lattice.coordinates(at)).collect();
        Ring { axis, first: lattice.coordinates(first), gaps }
    }

    fn position(&self, at: Coordinates) -> Position {
        self.grid.lattice.position(at.0.map(i64::from))
    }
}

fn is_end(last: &Option<usize>, lattice: &Lattice, index: usize, axis: usize) -> bool {
    Some(index) == *last && !lattice.is_looped(axis)
}
