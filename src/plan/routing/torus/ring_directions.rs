//! Directions along rings: how each switch reaches each coordinate of a dimension.
//!
//! The direction in which a switch forwards packets along one dimension depends on its own
//! coordinate, on that of the destination, and on the switches and cables present in its ring.
//! Rings in the same state share one table; a torus without failures has one table for each
//! dimension.

use super::grid::Grid;
use super::lattice::{Direction, Lattice, Position};
use std::collections::{BTreeMap, BTreeSet};

/// Marks a coordinate that needs no step along the dimension, or that cannot be reached.
pub(super) const NO_DIRECTION: u8 = 0xFF;

/// Directions along all rings of a torus.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RingDirections {
    axes: [AxisDirections; 3],
}

/// Directions along the rings of one dimension.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct AxisDirections {
    /// By position: start of its row in `rows`.
    row: Vec<u32>,
    /// Rows of direction indices, or [`NO_DIRECTION`], by the coordinate of the destination.
    rows: Vec<u8>,
    radix: usize,
    /// By the state of a ring: start of the rows of its positions.
    tables: BTreeMap<Vec<u8>, u32>,
}

impl RingDirections {
    pub(super) fn new(grid: &Grid) -> Self {
        Self { axes: std::array::from_fn(|axis| AxisDirections::new(grid, axis)) }
    }

    /// The directions for `grid`, if its switches and cables differ from those of the torus of
    /// `self` at the positions `changed` only.
    pub(super) fn updated(&self, grid: &Grid, changed: &[Position]) -> Self {
        let mut directions = self.clone();
        for (ways, axis) in directions.axes.iter_mut().zip(0..) {
            let lines = changed.iter().map(|&at| grid.lattice.with(at, axis, 0));
            lines.collect::<BTreeSet<_>>().into_iter().for_each(|at| ways.add_ring(grid, at, axis));
        }
        directions
    }

    /// Index of the direction of the first hop from `at` to another position; [`NO_DIRECTION`] if
    /// there is no route.
    pub(super) fn first_hop(&self, lattice: &Lattice, at: Position, to: Position) -> u8 {
        (0..3)
            .map(|axis| self.along(at, axis)[lattice.coordinate(to, axis) as usize])
            .find(|&way| way != NO_DIRECTION)
            .unwrap_or(NO_DIRECTION)
    }

    /// Directions from `at` along `axis`, by the coordinate of the destination.
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

    /// Sets the rows of the ring that starts at `first`, and computes them if no ring in the same
    /// state has been seen.
    fn add_ring(&mut self, grid: &Grid, first: Position, axis: usize) {
        let state = state(grid, first, axis);
        let mut start = match self.tables.get(&state) {
            Some(&start) => start,
            None => {
                let start = self.rows.len() as u32;
                positions_of_line(&grid.lattice, first, axis)
                    .for_each(|at| self.add_row(grid, at, axis));
                self.tables.insert(state, start);
                start
            }
        };
        for at in positions_of_line(&grid.lattice, first, axis) {
            self.row[at.index()] = start;
            start += self.radix as u32;
        }
    }

    fn add_row(&mut self, grid: &Grid, at: Position, axis: usize) {
        let here = grid.lattice.coordinate(at, axis);
        self.rows.extend((0..grid.lattice.radix(axis)).map(|coordinate| {
            let direction =
                (coordinate != here).then(|| direction_towards(grid, at, axis, coordinate));
            direction.flatten().map_or(NO_DIRECTION, |direction| direction.index() as u8)
        }));
    }
}

fn positions_of_line(
    lattice: &Lattice,
    first: Position,
    axis: usize,
) -> impl Iterator<Item = Position> {
    lattice.line(first, axis)
}

/// The state of the ring that starts at `first`: for each position a bit each for the switch, the
/// cables down and the cables up.
fn state(grid: &Grid, first: Position, axis: usize) -> Vec<u8> {
    let down = Direction::minus(axis);
    let up = Direction::plus(axis);
    grid.lattice
        .line(first, axis)
        .map(|at| {
            let cables =
                u8::from(grid.has_cable(at, down)) << 1 | u8::from(grid.has_cable(at, up)) << 2;
            u8::from(grid.is_present(at)) | cables
        })
        .collect()
}

/// The direction in which `at` forwards packets whose coordinate along `axis` must become
/// `coordinate`; `None` if they cannot go along this dimension at this switch.
fn direction_towards(grid: &Grid, at: Position, axis: usize, coordinate: u32) -> Option<Direction> {
    let here = grid.lattice.coordinate(at, axis);
    let preferred = grid.lattice.shorter(axis, here, coordinate);
    let turn = grid.lattice.with(at, axis, coordinate);
    if grid.is_present(turn) {
        let mut ways = [preferred, preferred.opposite()].into_iter();
        return ways.find(|&way| reaches(grid, at, way, turn));
    }
    // The switch of the turn is missing: packets go towards it on the preferred side as far as they
    // can, then turn early into a later dimension. Along z this cannot happen, because that switch
    // is the destination itself.
    (axis < 2 && grid.has_cable(at, preferred)).then_some(preferred)
}

/// True if an uninterrupted sequence of cables in `direction` leads from `at` to `goal`.
fn reaches(grid: &Grid, mut at: Position, direction: Direction, goal: Position) -> bool {
    // The loop terminates, because `goal` is on the same ring.
    while at != goal {
        if !grid.has_cable(at, direction) {
            return false;
        }
        at = grid.lattice.step(at, direction);
    }
    true
}

/// Writes to `hops` the next hops from a switch by position of the destination. `along` are its ways by
/// coordinate of the destination for each dimension; at those with the value `none`, packets go along a later
/// dimension.
pub(super) fn next_hops_along(along: [&[u8]; 3], none: u8, hops: &mut Vec<u8>) {
    let [x, y, z] = along;
    hops.clear();
    hops.reserve(x.len() * y.len() * z.len());
    let turns: Vec<usize> = (0..x.len()).filter(|&coordinate| x[coordinate] == none).collect();
    for &along_z in z {
        for &along_y in y {
            let later = if along_y == none { along_z } else { along_y };
            let start = hops.len();
            hops.extend_from_slice(x);
            // Usually these are only those of the switch's own coordinate.
            turns.iter().for_each(|&coordinate| hops[start + coordinate] = later);
        }
    }
}

/// The direction of the next hop from one placed switch to another.
pub(super) fn next_hop(grid: &Grid, from: Position, to: Position) -> Option<Direction> {
    let here = grid.lattice.coordinates(from);
    let there = grid.lattice.coordinates(to);
    (0..3)
        .filter(|&axis| here.0[axis] != there.0[axis])
        .find_map(|axis| direction_towards(grid, from, axis, there.0[axis]))
}

#[cfg(test)]
mod tests {
    use super::super::grid::{LocalGroups, PortGroups, TorusCable};
    use super::super::lattice::Lattice;
    use super::*;
    use crate::config::torus::TorusSize;
    use crate::fabric::SwitchId;
    use proptest::prelude::*;

    /// A torus without the switches and cables with these numbers.
    fn grid(lattice: &Lattice, holes: &[u32], cuts: &[u32]) -> Grid {
        let mut cables = Vec::new();
        for (at, axis) in lattice.positions().flat_map(|at| (0..3).map(move |axis| (at, axis))) {
            let up = Direction::plus(axis);
            let ends = [at, lattice.step(at, up)];
            let is_cut = cuts.contains(&(3 * at.0 + axis as u32)) || lattice.is_edge(at, up);
            if lattice.is_active(axis) && !is_cut && ends.into_iter().all(|at| is_there(holes, at))
            {
                cables.push(TorusCable { ends, axis: axis as u8, ports: [1, 2] });
            }
        }
        Grid {
            switches: lattice
                .positions()
                .map(|at| is_there(holes, at).then_some(SwitchId(at.0)))
                .collect(),
            positions: Vec::new(),
            order: lattice.positions().filter(|&at| is_there(holes, at)).collect(),
            port_groups: PortGroups::new(lattice.len(), &cables),
            local: LocalGroups::default(),
            lattice: lattice.clone(),
        }
    }

    fn is_there(holes: &[u32], at: Position) -> bool {
        !holes.contains(&at.0)
    }

    proptest! {
        #[test]
        fn updated_directions_equal_new_ones(
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
