//! What to repair so that a refused torus can be routed again, the most useful repair first.
//!
//! The torus is reduced to which switches are there and which neighbours are joined. Each step
//! tries every missing switch (with all of its cables) and every missing bundle, and takes the one
//! that leaves the least to be repaired; of equals a cable, for that is the smaller work.

use super::gaps::Names;
use super::grid::Grid;
use super::lattice::{Direction, Lattice, Position};
use super::rings;
use super::view::Torus;
use crate::fabric::Fabric;
use crate::ids::PortNum;
use crate::notes::Note;

/// With more missing parts than this the damage, or the configuration, is beyond such advice.
const MOST_PARTS: usize = 48;
/// Repairs that are listed.
const LISTED: usize = 12;

/// A missing part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The cables from a position one step up a dimension.
    Cable(Position, usize),
    /// A switch.
    Switch(Position),
}

/// A torus as far as rings are concerned.
#[derive(Clone)]
pub struct Sketch<'a> {
    lattice: &'a Lattice,
    present: Vec<bool>,
    /// By position and dimension: cables lead up to the next position.
    joined: Vec<[bool; 3]>,
}

impl<'a> Sketch<'a> {
    /// The sketch of a torus.
    pub fn of(grid: &'a Grid) -> Self {
        let joined = |at| std::array::from_fn(|axis| grid.is_open(at, Direction::plus(axis)));
        Self {
            lattice: &grid.lattice,
            present: grid.switches.iter().map(Option::is_some).collect(),
            joined: grid.lattice.positions().map(joined).collect(),
        }
    }

    /// The sketch of what is left of an earlier torus of the same shape: switches that could not
    /// be placed for want of cables count as there.
    fn remembered(grid: &'a Grid, before: &Torus, fabric: &Fabric) -> Self {
        let guid = |at: Position| before.census().guid(at);
        let node = |at: Position| fabric.node_by_guid(guid(at)?);
        let joined = |at: Position, axis: usize| {
            let up = Direction::plus(axis);
            let next = grid.lattice.step(at, up);
            let back = before.grid().bundle(next, up.opposite());
            let mut cables = before.grid().bundle(at, up).iter().zip(back);
            let port = |at, &num: &u8| fabric.port_of(node(at)?, PortNum(num));
            let is_there = |(here, there)| {
                let peer = port(at, here).and_then(|port| fabric.port(port).peer);
                peer.is_some() && peer == port(next, there)
            };
            cables.any(is_there)
        };
        Self {
            lattice: &grid.lattice,
            present: grid.lattice.positions().map(|at| node(at).is_some()).collect(),
            joined: grid
                .lattice
                .positions()
                .map(|at| std::array::from_fn(|axis| joined(at, axis)))
                .collect(),
        }
    }

    fn is_present(&self, at: Position) -> bool {
        self.present[at.index()]
    }

    /// All that is missing, cables first.
    pub fn missing(&self) -> Vec<Part> {
        let lattice = self.lattice;
        let lacks_cable = |&(at, axis): &(Position, usize)| {
            let up = Direction::plus(axis);
            let ends = [at, lattice.step(at, up)];
            lattice.is_active(axis)
                && !lattice.is_edge(at, up)
                && ends.iter().all(|&end| self.is_present(end))
                && !self.joined[at.index()][axis]
        };
        let edges = lattice.positions().flat_map(|at| (0..3).map(move |axis| (at, axis)));
        let cables = edges.filter(lacks_cable).map(|(at, axis)| Part::Cable(at, axis));
        let switches = lattice.positions().filter(|&at| !self.is_present(at)).map(Part::Switch);
        cables.chain(switches).collect()
    }

    fn repair(&mut self, part: Part) {
        match part {
            Part::Cable(at, axis) => self.joined[at.index()][axis] = true,
            Part::Switch(at) => {
                self.present[at.index()] = true;
                for axis in 0..3 {
                    let below = self.lattice.step(at, Direction::minus(axis));
                    let above = self.lattice.step(at, Direction::plus(axis));
                    self.joined[at.index()][axis] = self.is_present(above);
                    self.joined[below.index()][axis] = self.is_present(below);
                }
            }
        }
    }

    /// How many parts have to be repaired at least, ring by ring; 0 if none.
    fn damage(&self) -> usize {
        let lines = (0..3).filter(|&axis| self.lattice.is_active(axis)).flat_map(|axis| {
            self.lattice.lines(axis).map(move |first| self.ring_damage(first, axis))
        });
        lines.sum::<usize>() + self.surplus_holes()
    }

    /// Parts to be repaired in a ring: all gaps but the largest; in an open dimension all gaps.
    fn ring_damage(&self, first: Position, axis: usize) -> usize {
        let line: Vec<Position> = self.lattice.line(first, axis).collect();
        let present: Vec<usize> = (0..line.len()).filter(|&i| self.is_present(line[i])).collect();
        let gap = |from: usize, to: usize| match (to + line.len() - from) % line.len() {
            1 => usize::from(!self.joined[line[from].index()][axis]),
            steps => (steps + line.len() - 1) % line.len(),
        };
        let inner = || present.windows(2).map(|pair| gap(pair[0], pair[1]));
        match (present.first(), present.last()) {
            (Some(&first), Some(&last)) if self.lattice.is_looped(axis) => {
                let gaps = inner().chain([gap(last, first)]);
                let (sum, most) = gaps.fold((0, 0), |(sum, most), gap| (sum + gap, gap.max(most)));
                sum - most
            }
            _ => inner().sum(),
        }
    }

    /// Missing switches beyond the longest run along z, if they cannot be routed around.
    fn surplus_holes(&self) -> usize {
        let holes: Vec<Position> =
            self.lattice.positions().filter(|&at| !self.is_present(at)).collect();
        let is_present = |at| self.is_present(at);
        if !rings::holes_could_deadlock(self.lattice, &holes, is_present) {
            return 0;
        }
        let run = |start: Position| {
            let radix = self.lattice.radix(2) as usize;
            let steps = std::iter::successors(Some(start), |&at| {
                Some(self.lattice.step(at, Direction::plus(2)))
            });
            steps.take(radix).take_while(|&at| !self.is_present(at)).count()
        };
        holes.len() - holes.iter().map(|&at| run(at)).max().unwrap_or(0)
    }

    /// Repairs after which rings and missing switches are no obstacle; empty if they are none.
    fn plan(mut self) -> Vec<Part> {
        let mut plan = Vec::new();
        while self.damage() > 0 {
            let damage_after = |&part: &Part| {
                let mut repaired = self.clone();
                repaired.repair(part);
                repaired.damage()
            };
            // Of equals the first.
            let Some(best) = self.missing().into_iter().min_by_key(damage_after) else { break };
            self.repair(best);
            plan.push(best);
        }
        plan
    }
}

/// How the rings of a torus are.
fn ring_census(grid: &Grid) -> String {
    let (mut whole, mut bypassed, mut broken) = (0, 0, 0);
    for axis in (0..3).filter(|&axis| grid.lattice.is_active(axis)) {
        for first in grid.lattice.lines(axis) {
            let present = || grid.lattice.line(first, axis).filter(|&at| grid.is_present(at));
            let ends = present().filter(|&at| !grid.is_open(at, Direction::plus(axis))).count();
            let is_full = present().count() == grid.lattice.radix(axis) as usize;
            let edges = usize::from(!grid.lattice.is_looped(axis));
            match ends {
                ends if ends == edges && is_full => whole += 1,
                0 | 1 => bypassed += 1,
                _ => broken += 1,
            }
        }
    }
    format!(
        "{whole} rings are whole, {bypassed} have a gap that can be routed around, {broken} are \
         broken"
    )
}

/// What the operator is told beside the reasons of a refusal: what is still whole, and what to
/// repair first.
pub fn advice(grid: &Grid, names: &Names<'_>) -> Vec<Note> {
    let placed = grid.order.len();
    let mut census = format!("{placed} of {} switches are in their places", grid.lattice.len());
    let strangers = names.fabric().switches().len().saturating_sub(placed);
    if strangers > 0 {
        census += &format!(", {strangers} switches of the fabric found no place");
    }
    let census = Note::warning(format!("{census}; {}", ring_census(grid)));
    let sketch = match names.known() {
        Some(before) => Sketch::remembered(grid, before, names.fabric()),
        None => Sketch::of(grid),
    };
    let missing = sketch.missing();
    let name = |part: &Part| match *part {
        Part::Cable(at, axis) => names.cable(at, Direction::plus(axis)),
        Part::Switch(at) => names.switch(at),
    };
    let numbered = |parts: &[Part]| {
        let shown = parts.iter().take(LISTED).enumerate();
        let mut list: Vec<String> =
            shown.map(|(index, part)| format!("({}) {}", index + 1, name(part))).collect();
        if parts.len() > LISTED {
            list.push(format!("and {} more", parts.len() - LISTED));
        }
        list.join(", ")
    };
    let text = if missing.is_empty() {
        "nothing is missing: torus-2QoS.conf does not describe this fabric".to_owned()
    } else if missing.len() > MOST_PARTS {
        format!(
            "{} switches or cables are missing: if that is more than really failed, radices, seeds \
             and datelines of torus-2QoS.conf do not describe this fabric",
            missing.len()
        )
    } else {
        match sketch.plan() {
            plan if plan.is_empty() => format!("repair any of these: {}", numbered(&missing)),
            plan => format!("repair first, in this order: {}", numbered(&plan)),
        }
    };
    vec![census, Note::warning(text)]
}

#[cfg(test)]
mod tests {
    use super::super::grid::{Bundles, Joined, Locals};
    use super::*;
    use crate::config::torus::TorusSize;
    use crate::fabric::SwitchId;
    use crate::fabric::picture::View;
    use crate::sim::generate::Shape;
    use proptest::prelude::*;

    /// A fabric with the switches of a torus, to call them by, and the torus without the parts that
    /// `is_lost` takes away: a switch (axis 3) or a cable.
    fn damaged(shape: &Shape, mut is_lost: impl FnMut(Position, usize) -> bool) -> (Fabric, Grid) {
        let topology = shape.build().expect("it fits");
        let fabric = Fabric::from_topology(&topology, 0, &View::default()).expect("a node");
        let radix = shape.radix.map(u32::from);
        let lattice = Lattice::new(TorusSize { radix, looped: shape.looped }).expect("it fits");
        let switch = |at: Position| Some(SwitchId(at.0));
        let switches: Vec<_> =
            lattice.positions().map(|at| switch(at).filter(|_| !is_lost(at, 3))).collect();
        let mut cables = Vec::new();
        for at in lattice.positions() {
            for axis in (0..3).filter(|&axis| lattice.is_active(axis)) {
                let (up, is_cable_lost) = (Direction::plus(axis), is_lost(at, axis));
                let next = lattice.step(at, up);
                let is_there = |at: Position| switches[at.index()].is_some();
                if !is_cable_lost && !lattice.is_edge(at, up) && is_there(at) && is_there(next) {
                    cables.push(Joined { ends: [at, next], axis: axis as u8, ports: [1, 2] });
                }
            }
        }
        let order = lattice.positions().filter(|at| switches[at.index()].is_some()).collect();
        let bundles = Bundles::new(lattice.len(), &cables);
        let (positions, local) = (Vec::new(), Locals::default());
        (fabric, Grid { lattice, switches, positions, order, bundles, local })
    }

    proptest! {
        #[test]
        fn repairs_are_called_for_when_rings_refuse_and_suffice(
            radix in (2..=5u16, 1..=5u16, 1..=4u16),
            looped in any::<[bool; 3]>(),
            seed in any::<u64>(),
            holes in 0..=2usize,
            rate in 2..=20u64,
        ) {
            let radix = [radix.0, radix.1, radix.2];
            let looped = std::array::from_fn(|axis| looped[axis] && radix[axis] > 2);
            let shape = Shape { looped, ..Shape::torus(radix) };
            let mut state = seed | 1;
            let mut holes = holes;
            let (fabric, grid) = damaged(&shape, |_, axis| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let is_hit = state >> 11 & 0x3F < if axis == 3 { 2 } else { rate };
                if axis == 3 && is_hit && holes > 0 { holes -= 1; true } else { is_hit && axis < 3 }
            });
            let names = Names::new(&fabric, &grid, None);
            let faults = rings::faults(&grid, &names, None);
            let mut sketch = Sketch::of(&grid);
            let missing = sketch.missing();
            let plan = sketch.clone().plan();
            prop_assert_eq!(faults.is_empty(), plan.is_empty(), "{:?} {:?}", faults, plan);
            prop_assert!(plan.iter().all(|part| missing.contains(part)), "{:?}", plan);
            plan.into_iter().for_each(|part| sketch.repair(part));
            prop_assert_eq!(sketch.damage(), 0);
            prop_assert_eq!(advice(&grid, &names).len(), 2);
        }
    }
}
