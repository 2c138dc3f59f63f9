//! Is the placed torus routable without credit loops?
//!
//! Every ring may be interrupted at most once; an open dimension is interrupted at its edge
//! already. Missing switches must be one column's contiguous run: only then can packets turn
//! early around them and come back without closing a cycle of dependencies.

use super::grid::Grid;
use super::lattice::{AXIS_NAMES, Direction, Position};
use crate::fabric::Fabric;
use crate::notes::Note;
use std::collections::BTreeSet;

/// The errors that refuse this torus; none if it may be routed. `previous` is the torus of the
/// last success, which knows where cables were that are gone.
pub fn faults(fabric: &Fabric, grid: &Grid, previous: Option<&Grid>) -> Vec<Note> {
    let mut notes = Vec::new();
    for axis in 0..3 {
        for first in grid.lattice.lines(axis) {
            notes.extend(ring_fault(fabric, grid, previous, first, axis));
        }
    }
    notes.extend(deadlock(grid));
    notes
}

fn ring_fault(
    fabric: &Fabric,
    grid: &Grid,
    previous: Option<&Grid>,
    first: Position,
    axis: usize,
) -> Option<Note> {
    if !grid.lattice.is_active(axis) {
        return None;
    }
    let present = || grid.lattice.line(first, axis).filter(|&at| grid.is_present(at));
    let ends = |direction| present().filter(|&at| !grid.is_open(at, direction)).count();
    let (below, above) = (ends(Direction::minus(axis)), ends(Direction::plus(axis)));
    if below == above && below <= 1 {
        return None;
    }
    let name = ring_name(grid, first, axis);
    if below != above {
        let text = format!("{name}: {below} switches lack a lower and {above} an upper neighbour");
        return Some(Note::error(["4E32", "4E34", "4E36"][axis], text));
    }
    let up = Direction::plus(axis);
    let broken: Vec<Position> = present().filter(|&at| !grid.is_open(at, up)).collect();
    let gaps: Vec<String> = broken
        .iter()
        .filter(|&&at| !runs_off_edge(grid, at, up))
        .map(|&at| gap(fabric, grid, previous, at, up))
        .collect();
    let cure = if gaps.len() < broken.len() { "all of these" } else { "all but one of these" };
    let text =
        format!("{name} is in {below} pieces, interrupted {}; repair {cure}", gaps.join("; "));
    Some(Note::error(["4E33", "4E35", "4E37"][axis], text))
}

/// True if there is no further switch from `at` on before the edge of an open dimension.
fn runs_off_edge(grid: &Grid, mut at: Position, direction: Direction) -> bool {
    loop {
        if grid.lattice.is_edge(at, direction) {
            return true;
        }
        at = grid.lattice.step(at, direction);
        if grid.is_present(at) {
            return false;
        }
    }
}

fn ring_name(grid: &Grid, first: Position, axis: usize) -> String {
    let others = (0..3).filter(|&other| other != axis);
    let fixed: Vec<String> = others
        .map(|other| format!("{}={}", AXIS_NAMES[other], grid.lattice.coordinate(first, other)))
        .collect();
    let kind = if grid.lattice.is_looped(axis) { "ring" } else { "line" };
    format!("the {} {kind} at {}", AXIS_NAMES[axis], fixed.join(", "))
}

/// "between switch A and switch B", with the ports a cable had when it was last seen.
fn gap(
    fabric: &Fabric,
    grid: &Grid,
    previous: Option<&Grid>,
    at: Position,
    direction: Direction,
) -> String {
    let mut next = grid.lattice.step(at, direction);
    let mut holes = Vec::new();
    while !grid.is_present(next) && next != at {
        holes.push(grid.lattice.coordinates(next).to_string());
        next = grid.lattice.step(next, direction);
    }
    let ends = format!(
        "between switch {} and switch {}",
        grid.describe(fabric, at),
        grid.describe(fabric, next)
    );
    if !holes.is_empty() {
        return format!("{ends} where no switch is at {}", holes.join(" "));
    }
    let known = previous.filter(|previous| previous.lattice == grid.lattice);
    let ports = |at, direction| known.map(|known| port_list(known.bundle(at, direction)));
    match (ports(at, direction), ports(next, direction.opposite())) {
        (Some(here), Some(there)) if !here.is_empty() => {
            format!("{ends} (cables were at ports {here} and {there})")
        }
        _ => ends,
    }
}

fn port_list(ports: &[u8]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Missing switches that leave no order of turns free of cycles.
fn deadlock(grid: &Grid) -> Option<Note> {
    let missing: Vec<Position> = grid.missing().collect();
    if missing.len() < 2 {
        return None;
    }
    let column = |&at: &Position| (0..2).map(|axis| grid.lattice.coordinate(at, axis)).collect();
    let columns: BTreeSet<Vec<u32>> = missing.iter().map(column).collect();
    // Neighbours are taken modulo the radix in an open dimension, too.
    let is_alone = |&at: &Position| {
        [Direction::minus(2), Direction::plus(2)]
            .iter()
            .all(|&direction| grid.is_present(grid.lattice.step(at, direction)))
    };
    if columns.len() == 1 && !missing.iter().any(is_alone) {
        return None;
    }
    const SHOWN: usize = 16;
    let places: Vec<String> =
        missing.iter().take(SHOWN).map(|&at| grid.lattice.coordinates(at).to_string()).collect();
    let more = if missing.len() > SHOWN { " …" } else { "" };
    let text = format!(
        "{} switches are missing, at {}{more}: routing around them could deadlock. Only missing \
         switches that follow each other along z, with the same x and y, can be routed around",
        missing.len(),
        places.join(" ")
    );
    Some(Note::error("4E38", text))
}
