//! Which way along a dimension: what next hops depend on, ring by ring.
//!
//! How a switch sends packets on along one dimension depends on its own coordinate, on that of the
//! destination, and on which switches and cables of its ring are there; so rings in the same
//! state share one table, and in a healthy torus there are three in all.

use super::grid::Grid;
use super::lattice::{Direction, Lattice, Position};
use std::collections::{BTreeMap, BTreeSet};

/// The way to a coordinate that needs no step along the dimension, or to which there is none.
pub(super) const NO_DIRECTION: u8 = 0xFF;

/// The ways along all rings of a torus.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RingDirections {
    axes: [AxisDirections; 3],
}

/// The ways along the rings of one dimension.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct AxisDirections {
    /// By position: where its row begins in `rows`.
    row: Vec<u32>,
    /// Rows of one direction's index, or [`NO_DIRECTION`], by the destination's coordinate.
    rows: Vec<u8>,
    radix: usize,
    /// By the state of a ring: where the rows of its positions begin.
    tables: BTreeMap<Vec<u8>, u32>,
}

impl RingDirections {
    /// The ways of a placed torus.
    pub(super) fn new(grid: &Grid) -> Self {
        Self { axes: std::array::from_fn(|axis| AxisDirections::new(grid, axis)) }
    }

    /// The ways of a placed torus that has other switches or cables at the positions `changed` only
    /// than the one that `self` was made for.
    pub(super) fn updated(&self, grid: &Grid, changed: &[Position]) -> Self {
        let mut directions = self.clone();
        for (ways, axis) in directions.axes.iter_mut().zip(0..) {
            let lines = changed.iter().map(|&at| grid.lattice.with(at, axis, 0));
            lines.collect::<BTreeSet<_>>().into_iter().for_each(|at| ways.add_ring(grid, at, axis));
        }
        directions
    }

    /// The index of the direction from `at` to another position; [`NO_DIRECTION`] if there is no route.
    pub(super) fn first_hop(&self, lattice: &Lattice, at: Position, to: Position) -> u8 {
        let way = |axis| self.along(at, axis)[lattice.coordinate(to, axis) as usize];
        (0..3).map(way).find(|&way| way != NO_DIRECTION).unwrap_or(NO_DIRECTION)
    }

    /// The ways from `at` along `axis`, by the destination's coordinate.
    pub(super) fn along(&self, at: Position, axis: usize) -> &[u8] {
        let AxisDirections { row, rows, radix, .. } = &self.axes[axis];
        let start = row[at.index()] as usize;
        &rows[start..start + radix]
    }
}

impl AxisDirections {
    fn new(grid: &Grid, axis: usize) -> Self {
        let lattice = &grid.lattice;
        let radix = lattice.radix(axis) as usize;
        let mut ways = Self { row: vec![0; lattice.len()], radix, ..Self::default() };
        lattice.lines(axis).for_each(|first| ways.add_ring(grid, first, axis));
        ways
    }

    /// Finds the rows of the ring that starts at `first`.
    fn add_ring(&mut self, grid: &Grid, first: Position, axis: usize) {
        let line = || grid.lattice.line(first, axis);
        let state = state(grid, first, axis);
        let mut start = match self.tables.get(&state) {
            Some(&start) => start,
            None => {
                let start = self.rows.len() as u32;
                line().for_each(|at| self.add_row(grid, at, axis));
                self.tables.insert(state, start);
                start
            }
        };
        for at in line() {
            self.row[at.index()] = start;
            start += self.radix as u32;
        }
    }

    fn add_row(&mut self, grid: &Grid, at: Position, axis: usize) {
        let here = grid.lattice.coordinate(at, axis);
        let way = |coordinate| {
            let direction =
                (coordinate != here).then(|| direction_towards(grid, at, axis, coordinate));
            direction.flatten().map_or(NO_DIRECTION, |direction| direction.index() as u8)
        };
        self.rows.extend((0..grid.lattice.radix(axis)).map(way));
    }
}

/// What is there of the ring that starts at `first`: switches, and cables both ways.
fn state(grid: &Grid, first: Position, axis: usize) -> Vec<u8> {
    let (down, up) = (Direction::minus(axis), Direction::plus(axis));
    let bits = |at: Position| {
        let cables =
            u8::from(grid.has_cable(at, down)) << 1 | u8::from(grid.has_cable(at, up)) << 2;
        u8::from(grid.is_present(at)) | cables
    };
    grid.lattice.line(first, axis).map(bits).collect()
}

/// The direction in which `at` sends packets whose coordinate along `axis` is to become
/// `coordinate`; `None` if they cannot go along this dimension now.
fn direction_towards(grid: &Grid, at: Position, axis: usize, coordinate: u32) -> Option<Direction> {
    let here = grid.lattice.coordinate(at, axis);
    let preferred = grid.lattice.shorter(axis, here, coordinate);
    let turn = grid.lattice.with(at, axis, coordinate);
    if grid.is_present(turn) {
        let mut ways = [preferred, preferred.opposite()].into_iter();
        return ways.find(|&way| reaches(grid, at, way, turn));
    }
    // Towards a missing switch: as far as possible. Along z this cannot be, since x and y come
    // first and missing switches share them.
    (axis < 2 && grid.has_cable(at, preferred)).then_some(preferred)
}

/// True if the cables in `direction` lead from `at` to `goal`.
fn reaches(grid: &Grid, mut at: Position, direction: Direction, goal: Position) -> bool {
    // A goal on the same ring is met before the start is met again.
    while at != goal {
        if !grid.has_cable(at, direction) {
            return false;
        }
        at = grid.lattice.step(at, direction);
    }
    true
}

/// The direction of the next hop from one placed switch to another.
pub(super) fn next_hop(grid: &Grid, from: Position, to: Position) -> Option<Direction> {
    let (here, there) = (grid.lattice.coordinates(from), grid.lattice.coordinates(to));
    (0..3)
        .filter(|&axis| here.0[axis] != there.0[axis])
        .find_map(|axis| direction_towards(grid, from, axis, there.0[axis]))
}

#[cfg(test)]
mod tests {
    use super::super::grid::{LocalPorts, PortGroups, TorusCable};
    use super::super::lattice::Lattice;
    use super::*;
    use crate::config::torus::TorusSize;
    use crate::fabric::SwitchId;
    use proptest::prelude::*;

    /// A torus without the switches and cables whose numbers these are.
    fn grid(lattice: &Lattice, holes: &[u32], cuts: &[u32]) -> Grid {
        let is_there = |at: Position| !holes.contains(&at.0);
        let mut cables = Vec::new();
        for (at, axis) in lattice.positions().flat_map(|at| (0..3).map(move |axis| (at, axis))) {
            let up = Direction::plus(axis);
            let ends = [at, lattice.step(at, up)];
            let is_cut = cuts.contains(&(3 * at.0 + axis as u32)) || lattice.is_edge(at, up);
            if lattice.is_active(axis) && !is_cut && ends.into_iter().all(is_there) {
                cables.push(TorusCable { ends, axis: axis as u8, ports: [1, 2] });
            }
        }
        Grid {
            switches: lattice
                .positions()
                .map(|at| is_there(at).then_some(SwitchId(at.0)))
                .collect(),
            positions: Vec::new(),
            order: lattice.positions().filter(|&at| is_there(at)).collect(),
            port_groups: PortGroups::new(lattice.len(), &cables),
            local: LocalPorts::default(),
            lattice: lattice.clone(),
        }
    }

    proptest! {
        #[test]
        fn changes_lead_to_the_ways_of_the_new_torus(
            looped in any::<[bool; 3]>(),
            holes in prop::array::uniform3(prop::collection::vec(0..48u32, 0..2)),
            cuts in prop::array::uniform3(prop::collection::vec(0..144u32, 0..4)),
        ) {
            let lattice = Lattice::new(TorusSize { radix: [4, 4, 3], looped }).expect("it fits");
            let mut old = grid(&lattice, &holes[0], &cuts[0]);
            let mut directions = RingDirections::new(&old);
            for (holes, cuts) in holes.iter().zip(&cuts) {
                let new = grid(&lattice, holes, cuts);
                let changed = new.differences(&old).expect("the same shape");
                directions = directions.updated(&new, &changed);
                let scratch = RingDirections::new(&new);
                for (at, axis) in lattice.positions().flat_map(|at| (0..3).map(move |n| (at, n))) {
                    prop_assert_eq!(directions.along(at, axis), scratch.along(at, axis));
                }
                old = new;
            }
        }
    }
}
