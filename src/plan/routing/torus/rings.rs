//! Conditions for routing without credit loops.
//!
//! Each ring may be interrupted at most once; an open dimension is already interrupted at its edge.
//! Missing switches must form one contiguous run along z, with the same x and y: only then can
//! packets turn early around them, and turn back behind them, without a cycle of channel
//! dependencies.

use super::grid::Grid;
use super::lattice::{AXIS_NAMES, Direction, Lattice, Position};
use super::part_names::PartNames;
use crate::config::torus::TorusSize;
use crate::notes::{Note, counted};
use std::collections::BTreeSet;

/// Maximum number of missing switches listed in one message.
const MAX_LISTED_SWITCHES: usize = 16;

/// Returns the errors because of which this torus cannot be routed. With `changed`, only rings
/// through these positions are checked: the others are known to be free of faults.
pub(super) fn faults(
    grid: &Grid,
    names: &PartNames<'_>,
    changed: Option<&[Position]>,
) -> Vec<Note> {
    let mut notes = Vec::new();
    for axis in 0..3 {
        let lines: BTreeSet<Position> = match changed {
            Some(changed) => changed.iter().map(|&at| grid.lattice.with(at, axis, 0)).collect(),
            None => grid.lattice.lines(axis).collect(),
        };
        for first in lines {
            notes.extend(ring_fault(grid, names, first, axis));
        }
    }
    notes.extend(deadlock(grid, names, notes.is_empty()));
    notes
}

fn ring_fault(grid: &Grid, names: &PartNames<'_>, first: Position, axis: usize) -> Option<Note> {
    if !grid.lattice.is_active(axis) {
        return None;
    }
    let line = grid.lattice.line(first, axis);
    let present: Vec<Position> = line.filter(|&at| grid.is_present(at)).collect();
    let down = Direction::minus(axis);
    let up = Direction::plus(axis);
    let below = present.iter().filter(|&&at| !grid.has_cable(at, down)).count();
    let broken: Vec<Position> = present.into_iter().filter(|&at| !grid.has_cable(at, up)).collect();
    let above = broken.len();
    if below == above && below <= 1 {
        return None;
    }
    let name = ring_name(grid, first, axis);
    if below != above {
        let text = format!(
            "{name}: {} no lower neighbour, and {} no upper neighbour",
            counted(below, "switch has", "switches have"),
            counted(above, "switch has", "switches have")
        );
        return Some(Note::error(["4E32", "4E34", "4E36"][axis], text));
    }
    let gaps: Vec<String> = broken
        .iter()
        .filter(|&&at| !runs_off_edge(grid, at, up))
        .map(|&at| interruption(grid, names, at, up))
        .collect();
    let cure = if gaps.len() < broken.len() { "all of these" } else { "all but one of these" };
    let pieces = counted(below, "piece", "pieces");
    let text = format!("{name} is in {pieces}, interrupted {}; repair {cure}", gaps.join("; "));
    Some(Note::error(["4E33", "4E35", "4E37"][axis], text))
}

/// True if no further switch follows in `direction` before the edge of an open dimension.
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

/// Names the interruption of a ring between `at` and the next switch in a direction.
fn interruption(grid: &Grid, names: &PartNames<'_>, at: Position, direction: Direction) -> String {
    let mut next = grid.lattice.step(at, direction);
    let mut holes = Vec::new();
    while !grid.is_present(next) && next != at {
        holes.push(names.switch(next));
        next = grid.lattice.step(next, direction);
    }
    if holes.is_empty() {
        return format!("where {} is missing", names.cable(at, direction));
    }
    format!("between {} and {} by {}", names.switch(at), names.switch(next), holes.join(" and "))
}

/// The error for missing switches that cannot be routed around without a credit loop.
fn deadlock(grid: &Grid, names: &PartNames<'_>, are_rings_whole: bool) -> Option<Note> {
    let missing: Vec<Position> = grid.missing().collect();
    if !missing_switches_could_deadlock(&grid.lattice, &missing, |at| grid.is_present(at)) {
        return None;
    }
    let places: Vec<String> =
        missing.iter().take(MAX_LISTED_SWITCHES).map(|&at| names.switch(at)).collect();
    let more = if missing.len() > MAX_LISTED_SWITCHES { ", …" } else { "" };
    let remedy = if are_rings_whole { other_axes(&grid.lattice, &missing) } else { String::new() };
    let text = format!(
        "{} switches are missing: {}{more}. Routing around them could deadlock: only missing \
         switches with the same x and y that follow each other along z can be routed \
         around{remedy}",
        missing.len(),
        places.join(", ")
    );
    Some(Note::error("4E38", text))
}

/// The remedy for missing switches that follow each other along x or y: another order of the axes,
/// by which they follow each other along z. An unused axis becomes x. Empty if no order helps.
fn other_axes(lattice: &Lattice, missing: &[Position]) -> String {
    let Some(along) = (0..2).find(|&axis| form_one_run(lattice, missing, axis)) else {
        return String::new();
    };
    let mut order = [0, 1, 2];
    order.swap(along, 2);
    order[..2].sort_by_key(|&axis| lattice.is_active(axis));
    let size = TorusSize {
        radix: order.map(|axis| lattice.radix(axis)),
        looped: order.map(|axis| lattice.is_looped(axis)),
    };
    let renamed: Vec<String> = order
        .iter()
        .zip(AXIS_NAMES)
        .filter(|&(&old, new)| lattice.is_active(old) && AXIS_NAMES[old] != new)
        .map(|(&old, new)| format!("{} to {new}", AXIS_NAMES[old]))
        .collect();
    format!(
        ". These follow each other along {}: with `{size}` in torus-2QoS.conf, and links and \
         datelines renamed ({}), torus-2QoS can route around them; the SLs of established \
         connections change by this",
        AXIS_NAMES[along],
        renamed.join(", ")
    )
}

/// True if these positions are consecutive along an axis and otherwise equal, and not its whole ring.
fn form_one_run(lattice: &Lattice, positions: &[Position], axis: usize) -> bool {
    let Some(&one) = positions.first() else { return false };
    let first = lattice.with(one, axis, 0);
    positions.iter().all(|&at| lattice.with(at, axis, 0) == first)
        && positions
            .iter()
            .filter(|&&at| !positions.contains(&lattice.step(at, Direction::minus(axis))))
            .count()
            == 1
}

/// True if at least two switches are missing, and they differ in x or y, or one of them has no
/// missing neighbour along z. Separate runs along z are not detected here: they break their ring.
pub(super) fn missing_switches_could_deadlock(
    lattice: &Lattice,
    holes: &[Position],
    is_present: impl Fn(Position) -> bool,
) -> bool {
    if holes.len() < 2 {
        return false;
    }
    let columns: BTreeSet<[u32; 2]> =
        holes.iter().map(|&at| [0, 1].map(|axis| lattice.coordinate(at, axis))).collect();
    // Neighbours wrap around in an open z dimension, too, as in OpenSM.
    columns.len() > 1
        || holes.iter().any(|&at| {
            let ways = [Direction::minus(2), Direction::plus(2)];
            ways.iter().all(|&direction| is_present(lattice.step(at, direction)))
        })
}
