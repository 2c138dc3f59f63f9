//! Switches of the fabric that have no cable along one dimension, and therefore no position: a switch
//! is placed by a square of cables with three others.

use super::cabling::Cabling;
use super::grid::Grid;
use super::lattice::{AXIS_NAMES, Direction, Position};
use crate::fabric::{Fabric, SwitchId};
use crate::notes::{Note, counted};
use std::cmp::Reverse;

/// Maximum number of switches that are named.
const MAX_LISTED_SWITCHES: usize = 8;

/// A warning for each switch outside the torus that its cables assign to a missing position, and that
/// lacks all cables along a dimension.
pub(super) fn warnings(fabric: &Fabric, grid: &Grid, cabling: &Cabling) -> Vec<Note> {
    if grid.order.len() == fabric.switches().len() {
        return Vec::new();
    }
    let outside = fabric.switch_ids().filter(|switch| grid.positions[switch.index()].is_none());
    let mut notes: Vec<Note> =
        outside.filter_map(|switch| warning(fabric, grid, cabling, switch)).collect();
    let more = notes.len().saturating_sub(MAX_LISTED_SWITCHES);
    if more > 0 {
        notes.truncate(MAX_LISTED_SWITCHES);
        let others = counted(more, "more switch is", "more switches are");
        notes.push(Note::warning(format!("{others} cut off along a dimension")));
    }
    notes
}

fn warning(fabric: &Fabric, grid: &Grid, cabling: &Cabling, switch: SwitchId) -> Option<Note> {
    let lattice = &grid.lattice;
    // Two cables along one dimension tell the position.
    let positions =
        grid.missing().map(|at| (neighbor_count(grid, cabling, switch, at), Reverse(at)));
    let (count, Reverse(at)) = positions.max()?;
    if count < 2 {
        return None;
    }
    let axis = (0..3).find(|axis| {
        let ways = [Direction::minus(*axis), Direction::plus(*axis)];
        lattice.is_active(*axis)
            && ways.iter().all(|&way| !is_neighbor(grid, cabling, switch, at, way))
    })?;
    let ends: Vec<String> = [Direction::minus(axis), Direction::plus(axis)]
        .into_iter()
        .filter(|&way| !lattice.is_edge(at, way))
        .map(|way| lattice.step(at, way))
        .filter(|&next| grid.is_present(next))
        .map(|next| format!("switch {}", grid.describe(fabric, next)))
        .collect();
    let node = fabric.switch(switch);
    let name = AXIS_NAMES[axis];
    Some(Note::warning(format!(
        "switch {} \"{}\" belongs at {} by its cables, but all its cables along {name} are missing, so \
         that it cannot be placed: it and {} behind it cannot be reached; repair a cable to {}",
        node.guid(),
        node.name(),
        lattice.coordinates(at),
        counted(cabling.hosts(switch).len(), "end port", "end ports"),
        ends.join(" or ")
    )))
}

/// Number of directions of a position in which a cable of `switch` leads to a neighbour.
fn neighbor_count(grid: &Grid, cabling: &Cabling, switch: SwitchId, at: Position) -> usize {
    let ways = Direction::ALL.into_iter();
    ways.filter(|&way| is_neighbor(grid, cabling, switch, at, way)).count()
}

/// True if a cable of `switch` leads to the switch that lies in `direction` of a position.
fn is_neighbor(
    grid: &Grid,
    cabling: &Cabling,
    switch: SwitchId,
    at: Position,
    direction: Direction,
) -> bool {
    let lattice = &grid.lattice;
    let peer = grid.switch(lattice.step(at, direction));
    let leads_on = lattice.is_active(direction.axis()) && !lattice.is_edge(at, direction);
    leads_on && peer.is_some_and(|peer| cabling.links(switch).iter().any(|l| l.peer == peer))
}
