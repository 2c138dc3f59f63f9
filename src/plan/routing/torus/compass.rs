//! Which way along a dimension: what next hops depend on, ring by ring.
//!
//! How a switch sends packets on along one dimension depends on its own coordinate, on that of the
//! destination, and on which switches and cables of its ring are there; so rings in the same
//! condition share one table, and in a healthy torus there are three in all.

use super::grid::Grid;
use super::lattice::{Direction, Position};
use std::collections::BTreeMap;

/// The way to a coordinate that needs no step along the dimension, or to which there is none.
pub const NONE: u8 = 0xFF;

/// The ways along all rings of a torus.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compass {
    axes: [Ways; 3],
}

/// The ways along the rings of one dimension.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Ways {
    /// By position: where its row begins in `rows`.
    row: Vec<u32>,
    /// Rows of one direction's index, or [`NONE`], by the destination's coordinate.
    rows: Vec<u8>,
    radix: usize,
}

impl Compass {
    /// The ways of a placed torus.
    pub fn new(grid: &Grid) -> Self {
        Self { axes: std::array::from_fn(|axis| Ways::new(grid, axis)) }
    }

    /// The ways from `at` along `axis`, by the destination's coordinate.
    pub fn ways(&self, at: Position, axis: usize) -> &[u8] {
        let Ways { row, rows, radix } = &self.axes[axis];
        let start = row[at.index()] as usize;
        &rows[start..start + radix]
    }
}

impl Ways {
    fn new(grid: &Grid, axis: usize) -> Self {
        let lattice = &grid.lattice;
        let radix = lattice.radix(axis) as usize;
        let mut ways = Self { row: vec![0; lattice.len()], rows: Vec::new(), radix };
        let mut tables: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for first in lattice.lines(axis) {
            let condition = condition(grid, first, axis);
            let mut start = *tables.entry(condition).or_insert_with(|| {
                let start = ways.rows.len() as u32;
                lattice.line(first, axis).for_each(|at| ways.add_row(grid, at, axis));
                start
            });
            for at in lattice.line(first, axis) {
                ways.row[at.index()] = start;
                start += radix as u32;
            }
        }
        ways
    }

    fn add_row(&mut self, grid: &Grid, at: Position, axis: usize) {
        let here = grid.lattice.coordinate(at, axis);
        let way = |coordinate| {
            let direction = (coordinate != here).then(|| step(grid, at, axis, coordinate));
            direction.flatten().map_or(NONE, |direction| direction.index() as u8)
        };
        self.rows.extend((0..grid.lattice.radix(axis)).map(way));
    }
}

/// What is there of the ring that starts at `first`: switches, and cables both ways.
fn condition(grid: &Grid, first: Position, axis: usize) -> Vec<u8> {
    let (down, up) = (Direction::minus(axis), Direction::plus(axis));
    let bits = |at: Position| {
        let cables = u8::from(grid.is_open(at, down)) << 1 | u8::from(grid.is_open(at, up)) << 2;
        u8::from(grid.is_present(at)) | cables
    };
    grid.lattice.line(first, axis).map(bits).collect()
}

/// The direction in which `at` sends packets whose coordinate along `axis` is to become
/// `coordinate`; `None` if they cannot go along this dimension now.
fn step(grid: &Grid, at: Position, axis: usize, coordinate: u32) -> Option<Direction> {
    let here = grid.lattice.coordinate(at, axis);
    let preferred = grid.lattice.shorter(axis, here, coordinate);
    let turn = grid.lattice.with(at, axis, coordinate);
    if grid.is_present(turn) {
        let mut ways = [preferred, preferred.opposite()].into_iter();
        return ways.find(|&way| leads_to(grid, at, way, turn));
    }
    // Towards a missing switch: as far as possible. Along z this cannot be, since x and y come
    // first and missing switches share them.
    (axis < 2 && grid.is_open(at, preferred)).then_some(preferred)
}

/// True if the cables in `direction` lead from `at` to `goal`.
fn leads_to(grid: &Grid, mut at: Position, direction: Direction, goal: Position) -> bool {
    // A goal on the same ring is met before the start is met again.
    while at != goal {
        if !grid.is_open(at, direction) {
            return false;
        }
        at = grid.lattice.step(at, direction);
    }
    true
}

/// The direction of the next hop from one placed switch to another.
pub fn next_hop(grid: &Grid, from: Position, to: Position) -> Option<Direction> {
    let (here, there) = (grid.lattice.coordinates(from), grid.lattice.coordinates(to));
    (0..3)
        .filter(|&axis| here.0[axis] != there.0[axis])
        .find_map(|axis| step(grid, from, axis, there.0[axis]))
}
