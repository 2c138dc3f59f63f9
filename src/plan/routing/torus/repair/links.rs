//! Neighbours on the lattice, over the cables of the complete torus or over those that exist.

use crate::plan::routing::torus::grid::Grid;
use crate::plan::routing::torus::lattice::{Direction, Lattice, Position};

/// Stands for no neighbour.
pub(super) const NONE: u32 = u32::MAX;

/// The neighbours of all positions.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// By position and direction: the neighbour, or [`NONE`].
    neighbors: Vec<u32>,
}

impl Links {
    /// The neighbours to which cables lead.
    pub(super) fn present(grid: &Grid) -> Self {
        Self::new(&grid.lattice, |at, direction| grid.has_cable(at, direction))
    }

    /// The neighbours in the complete torus.
    pub(super) fn complete(lattice: &Lattice) -> Self {
        Self::new(lattice, |at, direction| {
            lattice.is_active(direction.axis()) && !lattice.is_edge(at, direction)
        })
    }

    fn new(lattice: &Lattice, leads_on: impl Fn(Position, Direction) -> bool) -> Self {
        let mut neighbors = Vec::with_capacity(6 * lattice.len());
        for at in lattice.positions() {
            neighbors.extend(Direction::ALL.map(|direction| {
                if leads_on(at, direction) { lattice.step(at, direction).0 } else { NONE }
            }));
        }
        Self { neighbors }
    }

    /// The neighbour in a direction, or [`NONE`].
    #[inline]
    pub(super) fn neighbor(&self, at: u32, direction: u8) -> u32 {
        self.neighbors[at as usize * 6 + usize::from(direction)]
    }

    pub(super) fn has(&self, at: u32, direction: u8) -> bool {
        self.neighbor(at, direction) != NONE
    }
}
