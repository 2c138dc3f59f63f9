//! Suggested repairs of a torus that cannot be routed, the most useful first.
//!
//! Each step tries each missing switch (with all its cables) and each missing cable on a
//! [`FailureModel`] and takes the one that leaves the fewest obstacles: broken rings count
//! first, then switches that cannot be placed, then pairs of switches without a route, then
//! switches that the multicast tree does not reach. Among equals a cable is preferred, because it
//! is easier to replace. Repairs that turn out to be unnecessary are dropped.

use super::Lattice;
use super::failure_model::{FailureModel, MissingPart};
use super::grid::Grid;
use super::lattice::{Direction, Position};
use super::part_names::PartNames;
use crate::notes::{Note, counted};

/// Maximum number of missing parts for which repairs are suggested; above it the configuration is
/// probably wrong.
const MAX_PARTS: usize = 48;
/// Maximum number of repairs listed.
const MAX_LISTED_REPAIRS: usize = 12;

/// Summary of the rings: whole, routed around, broken.
fn ring_summary(grid: &Grid) -> String {
    let mut whole = 0;
    let mut bypassed = 0;
    let mut broken = 0;
    for axis in (0..3).filter(|&axis| grid.lattice.is_active(axis)) {
        for first in grid.lattice.lines(axis) {
            let line = grid.lattice.line(first, axis);
            let present: Vec<Position> = line.filter(|&at| grid.is_present(at)).collect();
            let up = Direction::plus(axis);
            let ends = present.iter().filter(|&&at| !grid.has_cable(at, up)).count();
            let is_full = present.len() == grid.lattice.radix(axis) as usize;
            let edges = usize::from(!grid.lattice.is_looped(axis));
            match ends {
                ends if ends == edges && is_full => whole += 1,
                0 | 1 => bypassed += 1,
                _ => broken += 1,
            }
        }
    }
    format!(
        "{}, {}, {}",
        counted(whole, "ring is whole", "rings are whole"),
        counted(
            bypassed,
            "ring has a gap that is routed around",
            "rings have a gap that is routed around"
        ),
        counted(broken, "ring is broken", "rings are broken")
    )
}

/// A warning that says how much of the torus is whole.
pub(super) fn summary(grid: &Grid, names: &PartNames<'_>) -> Note {
    let placed = grid.order.len();
    let mut snapshot =
        format!("{placed} of {} switches of the torus are placed", grid.lattice.len());
    let unplaced = names.fabric().switches().len().saturating_sub(placed);
    if unplaced > 0 {
        snapshot += &format!(
            ", {} could not be placed",
            counted(unplaced, "switch of the fabric", "switches of the fabric")
        );
    }
    Note::warning(format!("{snapshot}; {}", ring_summary(grid)))
}

/// A warning that says what to repair first.
pub(super) fn advice(grid: &Grid, names: &PartNames<'_>) -> Note {
    let model = match names.previous() {
        Some(before) => FailureModel::with_previous(grid, before, names.fabric()),
        None => FailureModel::of(grid),
    };
    let missing = model.missing();
    let text = if missing.is_empty() {
        "no switch or cable is missing: torus-2QoS.conf does not describe this fabric".to_owned()
    } else if missing.len() > MAX_PARTS {
        format!(
            "{} switches or cables are missing: if fewer have really failed, the radices, seeds or \
             datelines of torus-2QoS.conf do not describe this fabric",
            missing.len()
        )
    } else {
        match model.repairs() {
            plan if plan.is_empty() => {
                let near = nearest_first(grid, &model, missing);
                format!(
                    "the present switches and cables would suffice, but not all switches can be \
                     placed: repair first the parts next to unplaced switches, such as {}",
                    numbered(names, &near)
                )
            }
            plan => format!("repair first, in this order: {}", numbered(names, &plan)),
        }
    };
    Note::warning(text)
}

fn numbered(names: &PartNames<'_>, parts: &[MissingPart]) -> String {
    let shown = parts.iter().take(MAX_LISTED_REPAIRS).enumerate();
    let mut list: Vec<String> =
        shown.map(|(index, part)| format!("({}) {}", index + 1, part_name(names, part))).collect();
    if parts.len() > MAX_LISTED_REPAIRS {
        list.push(format!("and {} more", parts.len() - MAX_LISTED_REPAIRS));
    }
    list.join(", ")
}

fn part_name(names: &PartNames<'_>, part: &MissingPart) -> String {
    match *part {
        MissingPart::Cable(at, axis) => names.cable(at, Direction::plus(axis)),
        MissingPart::Switch(at) => names.switch(at),
    }
}

/// Missing parts, sorted by distance from switches that are present but not placed.
fn nearest_first(
    grid: &Grid,
    model: &FailureModel<'_>,
    mut parts: Vec<MissingPart>,
) -> Vec<MissingPart> {
    let lattice = &grid.lattice;
    let unplaced: Vec<Position> = grid.missing().filter(|&at| model.is_present(at)).collect();
    parts.sort_by_cached_key(|part| {
        let ends = match *part {
            MissingPart::Cable(at, axis) => [at, lattice.step(at, Direction::plus(axis))],
            MissingPart::Switch(at) => [at; 2],
        };
        let distances =
            unplaced.iter().flat_map(|&at| ends.map(|end| distance_between(lattice, at, end)));
        distances.min()
    });
    parts
}

fn distance_between(lattice: &Lattice, a: Position, b: Position) -> u32 {
    (0..3)
        .map(|axis| {
            let direct = lattice.coordinate(a, axis).abs_diff(lattice.coordinate(b, axis));
            let around = lattice.radix(axis) - direct;
            if lattice.is_looped(axis) { direct.min(around) } else { direct }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::failure_model::Damage;
    use super::super::grid::{LocalGroups, PortGroups, TorusCable};
    use super::super::lattice::Lattice;
    use super::super::multicast::MasterTree;
    use super::super::{ring_directions, rings};
    use super::*;
    use crate::config::torus::TorusSize;
    use crate::fabric::synthetic::SyntheticView;
    use crate::fabric::{Fabric, SwitchId};
    use crate::notes::Severity;
    use crate::sim::generate::Shape;
    use proptest::prelude::*;

    /// A fabric with the switches of a torus, for their names, and the torus without the parts for
    /// which `is_lost` returns true: a switch (axis 3) or a cable.
    fn damaged(shape: &Shape, mut is_lost: impl FnMut(Position, usize) -> bool) -> (Fabric, Grid) {
        let topology = shape.build().expect("it fits");
        let fabric =
            Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a node");
        let radix = shape.radix.map(u32::from);
        let lattice = Lattice::new(TorusSize { radix, looped: shape.looped }).expect("it fits");
        let switches: Vec<_> =
            lattice.positions().map(|at| switch(at).filter(|_| !is_lost(at, 3))).collect();
        let mut cables = Vec::new();
        for at in lattice.positions() {
            for axis in (0..3).filter(|&axis| lattice.is_active(axis)) {
                let up = Direction::plus(axis);
                let is_cable_lost = is_lost(at, axis);
                let next = lattice.step(at, up);
                if !is_cable_lost
                    && !lattice.is_edge(at, up)
                    && is_there(&switches, at)
                    && is_there(&switches, next)
                {
                    cables.push(TorusCable { ends: [at, next], axis: axis as u8, ports: [1, 2] });
                }
            }
        }
        let order = lattice.positions().filter(|at| switches[at.index()].is_some()).collect();
        let port_groups = PortGroups::new(lattice.len(), &cables);
        let positions = Vec::new();
        let local = LocalGroups::default();
        (fabric, Grid { lattice, switches, positions, order, port_groups, local })
    }

    fn is_there(switches: &[Option<SwitchId>], at: Position) -> bool {
        switches[at.index()].is_some()
    }

    fn switch(at: Position) -> Option<SwitchId> {
        Some(SwitchId(at.0))
    }

    proptest! {
        #[test]
        fn repairs_are_called_for_when_there_is_no_routing_and_suffice(
            radix in (2..=5u16, 1..=5u16, 1..=4u16),
            looped in any::<[bool; 3]>(),
            seed in any::<u64>(),
            holes in 0..=5usize,
            in_a_column in any::<bool>(),
            rate in 0..=20u64,
        ) {
            let radix = [radix.0, radix.1, radix.2];
            let looped = std::array::from_fn(|axis| looped[axis] && radix[axis] > 2);
            let shape = Shape { looped, ..Shape::torus(radix) };
            let mut state = seed | 1;
            let mut holes = holes;
            let (fabric, grid) = damaged(&shape, |at, axis| {
                if in_a_column && axis == 3 {
                    let column = u32::from(radix[0]) * u32::from(radix[1]);
                    return at.0 % column == 1 % column && (at.0 / column) < holes as u32;
                }
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let is_hit = state >> 11 & 0x3F < if axis == 3 { 2 } else { rate };
                if axis == 3 && is_hit && holes > 0 { holes -= 1; true } else { is_hit && axis < 3 }
            });
            let names = PartNames::new(&fabric, &grid, None);
            let faults = rings::faults(&grid, &names, None);
            let pairs = grid.placed().flat_map(|(from, _)| grid.placed().map(move |(to, _)| (from, to)));
            let unrouted = pairs
                .filter(|&(from, to)| from != to && ring_directions::next_hop(&grid, from, to).is_none());
            let is_routed = faults.is_empty()
                && unrouted.count() == 0
                && MasterTree::build(&fabric, &grid, &names).is_ok();
            let model = FailureModel::of(&grid);
            let missing = model.missing();
            let plan = model.repairs();
            prop_assert_eq!(is_routed, plan.is_empty(), "{:?} {:?}", faults, plan);
            prop_assert!(plan.iter().all(|part| missing.contains(part)), "{:?}", plan);
            let damage_without = |spared: Option<usize>| {
                let mut repaired = model.clone();
                let parts = plan.iter().enumerate().filter(|&(index, _)| Some(index) != spared);
                parts.for_each(|(_, &part)| repaired.repair(part));
                repaired.damage()
            };
            prop_assert_eq!(damage_without(None), Damage::NONE);
            prop_assert!((0..plan.len()).all(|part| damage_without(Some(part)) > Damage::NONE));
            prop_assert_eq!(advice(&grid, &names).severity, Severity::Warning);
            prop_assert_eq!(summary(&grid, &names).severity, Severity::Warning);
        }
    }
}
