//! A torus reduced to present switches and joined neighbours: the obstacles to routing it, and
//! sufficient repairs.

use super::grid::{Grid, LocalGroups, PortGroups, TorusCable};
use super::lattice::{Direction, Lattice, Position};
use super::ring_directions::RingDirections;
use super::snapshot::PreviousTorus;
use super::{multicast, rings, unicast};
use crate::fabric::{Fabric, NodeId, SwitchId};
use crate::ids::PortNum;

/// A missing switch, or missing cables between neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MissingPart {
    /// The cables from a position one step up a dimension.
    Cable(Position, usize),
    /// The switch at a position.
    Switch(Position),
}

/// Obstacles to routing. The lesser of two values is closer to a routable torus.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Damage {
    /// Number of parts that must be repaired so that no ring is in pieces and no missing switches
    /// could cause a deadlock.
    rings: usize,
    /// If `rings` is 0: number of switches that are present but cannot be placed, because they are
    /// not on a face of four switches with all its cables.
    unplaceable: usize,
    /// If `rings` is 0: number of ordered pairs of switches without a route.
    unrouted: usize,
    /// If `rings` is 0: number of switches that the multicast tree does not reach.
    unreached: usize,
}

impl Damage {
    /// The damage of a routable torus.
    pub(super) const NONE: Self = Self { rings: 0, unplaceable: 0, unrouted: 0, unreached: 0 };
}

/// Present switches and joined neighbours of a torus.
#[derive(Clone)]
pub(super) struct FailureModel<'a> {
    lattice: &'a Lattice,
    /// By position: true if the discovery placed the switch.
    placed: Vec<bool>,
    present: Vec<bool>,
    /// By position and dimension: true if cables lead up to the next position.
    joined: Vec<[bool; 3]>,
}

impl<'a> FailureModel<'a> {
    /// The model of a discovered torus.
    pub(super) fn of(grid: &'a Grid) -> Self {
        Self {
            lattice: &grid.lattice,
            placed: placed(grid),
            present: placed(grid),
            joined: grid
                .lattice
                .positions()
                .map(|at| std::array::from_fn(|axis| grid.has_cable(at, Direction::plus(axis))))
                .collect(),
        }
    }

    /// The model of what is left of the previous torus, which has the same lattice: switches that
    /// could not be placed for lack of cables count as present.
    pub(super) fn with_previous(
        grid: &'a Grid,
        before: PreviousTorus<'a>,
        fabric: &Fabric,
    ) -> Self {
        let lattice = &grid.lattice;
        Self {
            lattice,
            placed: placed(grid),
            present: lattice.positions().map(|at| node_at(before, fabric, at).is_some()).collect(),
            joined: lattice
                .positions()
                .map(|at| {
                    std::array::from_fn(|axis| is_still_joined(lattice, before, fabric, at, axis))
                })
                .collect(),
        }
    }

    pub(super) fn is_present(&self, at: Position) -> bool {
        self.present[at.index()]
    }

    /// Missing parts, cables first.
    pub(super) fn missing(&self) -> Vec<MissingPart> {
        let lattice = self.lattice;
        let edges = lattice.positions().flat_map(|at| (0..3).map(move |axis| (at, axis)));
        let cables = edges
            .filter(|&(at, axis)| {
                let up = Direction::plus(axis);
                let ends = [at, lattice.step(at, up)];
                lattice.is_active(axis)
                    && !lattice.is_edge(at, up)
                    && ends.iter().all(|&end| self.is_present(end))
                    && !self.joined[at.index()][axis]
            })
            .map(|(at, axis)| MissingPart::Cable(at, axis));
        let switches =
            lattice.positions().filter(|&at| !self.is_present(at)).map(MissingPart::Switch);
        cables.chain(switches).collect()
    }

    /// Repairs a part; a switch comes with all its cables to present neighbours.
    pub(super) fn repair(&mut self, part: MissingPart) {
        match part {
            MissingPart::Cable(at, axis) => self.joined[at.index()][axis] = true,
            MissingPart::Switch(at) => {
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

    /// The obstacles to routing.
    pub(super) fn damage(&self) -> Damage {
        let lines = (0..3).filter(|&axis| self.lattice.is_active(axis)).flat_map(|axis| {
            self.lattice.lines(axis).map(move |first| self.ring_damage(first, axis))
        });
        let rings = lines.sum::<usize>() + self.surplus_missing_switches();
        if rings > 0 {
            return Damage { rings, ..Damage::NONE };
        }
        let grid = self.grid();
        let unrouted = unicast::unrouted_pairs(&grid, &RingDirections::new(&grid));
        Damage {
            rings,
            unplaceable: self.unplaceable_switches(),
            unrouted,
            unreached: multicast::unreached(&grid),
        }
    }

    /// Number of present switches that the discovery did not place and could not place now either.
    fn unplaceable_switches(&self) -> usize {
        let axes: Vec<usize> = (0..3).filter(|&axis| self.lattice.is_active(axis)).collect();
        if axes.len() < 2 {
            return 0;
        }
        let planes: Vec<[usize; 2]> = [[0, 1], [0, 2], [1, 2]]
            .into_iter()
            .filter(|plane| plane.iter().all(|axis| axes.contains(axis)))
            .collect();
        let added =
            self.lattice.positions().filter(|&at| self.is_present(at) && !self.placed[at.index()]);
        added.filter(|&at| !planes.iter().any(|&plane| self.is_on_face(at, plane))).count()
    }

    /// True if the switch is a corner of a face with all its cables.
    fn is_on_face(&self, at: Position, [a, b]: [usize; 2]) -> bool {
        [
            at,
            neighbor_below(self.lattice, at, a),
            neighbor_below(self.lattice, at, b),
            neighbor_below(self.lattice, neighbor_below(self.lattice, at, a), b),
        ]
        .into_iter()
        .any(|base| {
            let [next_a, next_b] = [a, b].map(|n| self.lattice.step(base, Direction::plus(n)));
            let edges = [(base, a), (base, b), (next_b, a), (next_a, b)];
            edges.into_iter().all(|(at, axis)| self.is_joined(at, axis))
        })
    }

    /// True if cables join a switch and the next one up a dimension.
    fn is_joined(&self, at: Position, axis: usize) -> bool {
        let up = Direction::plus(axis);
        let ends = [at, self.lattice.step(at, up)];
        let is_there = ends.into_iter().all(|end| self.is_present(end));
        is_there && !self.lattice.is_edge(at, up) && self.joined[at.index()][axis]
    }

    /// The torus with these switches, and one cable between each two joined neighbours.
    fn grid(&self) -> Grid {
        let mut cables = Vec::new();
        for (at, axis) in self.lattice.positions().flat_map(|at| (0..3).map(move |n| (at, n))) {
            if self.is_joined(at, axis) {
                let ends = [at, self.lattice.step(at, Direction::plus(axis))];
                cables.push(TorusCable { ends, axis: axis as u8, ports: [1, 2] });
            }
        }
        Grid {
            lattice: self.lattice.clone(),
            switches: self
                .lattice
                .positions()
                .map(|at| self.is_present(at).then_some(SwitchId(at.0)))
                .collect(),
            positions: Vec::new(),
            order: self.lattice.positions().filter(|&at| self.is_present(at)).collect(),
            port_groups: PortGroups::new(self.lattice.len(), &cables),
            local: LocalGroups::default(),
        }
    }

    /// Number of parts to repair in a ring: all gaps but the largest; in an open dimension all
    /// gaps.
    fn ring_damage(&self, first: Position, axis: usize) -> usize {
        let line: Vec<Position> = self.lattice.line(first, axis).collect();
        let present: Vec<usize> = (0..line.len()).filter(|&i| self.is_present(line[i])).collect();
        let inner = present.windows(2).map(|pair| self.gap(&line, axis, pair[0], pair[1]));
        match (present.first(), present.last()) {
            (Some(&first), Some(&last)) if self.lattice.is_looped(axis) => {
                let gaps = inner.chain([self.gap(&line, axis, last, first)]);
                let (sum, most) = gaps.fold((0, 0), |(sum, most), gap| (sum + gap, gap.max(most)));
                sum - most
            }
            _ => inner.sum(),
        }
    }

    /// Number of parts that are missing between two places of a line.
    fn gap(&self, line: &[Position], axis: usize, from: usize, to: usize) -> usize {
        match (to + line.len() - from) % line.len() {
            1 => usize::from(!self.joined[line[from].index()][axis]),
            steps => (steps + line.len() - 1) % line.len(),
        }
    }

    /// Number of missing switches outside the longest run along z, if they cannot be routed around.
    fn surplus_missing_switches(&self) -> usize {
        let holes: Vec<Position> =
            self.lattice.positions().filter(|&at| !self.is_present(at)).collect();
        if !rings::missing_switches_could_deadlock(self.lattice, &holes, |at| self.is_present(at)) {
            return 0;
        }
        holes.len() - holes.iter().map(|&at| self.run_length(at)).max().unwrap_or(0)
    }

    /// Repairs that suffice to route the torus, in order of usefulness; none of them can be
    /// omitted. Empty if the torus is routable already.
    pub(super) fn repairs(&self) -> Vec<MissingPart> {
        let mut plan = Vec::new();
        let mut model = self.clone();
        while model.damage() > Damage::NONE {
            let Some(best) = model.best_repair() else { break };
            model.repair(best);
            plan.push(best);
        }
        for index in (0..plan.len()).rev() {
            let part = plan.remove(index);
            if self.with_parts(&plan).damage() > Damage::NONE {
                plan.insert(index, part);
            }
        }
        plan
    }

    /// The missing part whose repair leaves the least damage; the first of equals.
    fn best_repair(&self) -> Option<MissingPart> {
        let mut best = None;
        for part in self.missing() {
            let mut repaired = self.clone();
            repaired.repair(part);
            let damage = repaired.damage();
            if best.is_none_or(|(least, _)| damage < least) {
                best = Some((damage, part));
            }
            if damage == Damage::NONE {
                break;
            }
        }
        best.map(|(_, part)| part)
    }

    fn run_length(&self, start: Position) -> usize {
        let radix = self.lattice.radix(2) as usize;
        let steps = std::iter::successors(Some(start), |&at| {
            Some(self.lattice.step(at, Direction::plus(2)))
        });
        steps.take(radix).take_while(|&at| !self.is_present(at)).count()
    }

    fn with_parts(&self, parts: &[MissingPart]) -> FailureModel<'_> {
        let mut model = self.clone();
        parts.iter().for_each(|&part| model.repair(part));
        model
    }
}

fn node_at(before: PreviousTorus<'_>, fabric: &Fabric, at: Position) -> Option<NodeId> {
    fabric.node_by_guid(before.snapshot.guid(at)?)
}

/// True if a cable that joined a position to the next one is still there.
fn is_still_joined(
    lattice: &Lattice,
    before: PreviousTorus<'_>,
    fabric: &Fabric,
    at: Position,
    axis: usize,
) -> bool {
    let up = Direction::plus(axis);
    let next = lattice.step(at, up);
    let Some(node) = node_at(before, fabric, at) else { return false };
    let Some(next_node) = node_at(before, fabric, next) else { return false };
    let back = before.grid.port_group(next, up.opposite());
    let mut cables = before.grid.port_group(at, up).iter().zip(back);
    cables.any(|(&here, &there)| {
        let port = fabric.port_of(node, PortNum(here));
        let peer = port.and_then(|port| fabric.port(port).peer);
        peer.is_some() && peer == fabric.port_of(next_node, PortNum(there))
    })
}

fn neighbor_below(lattice: &Lattice, at: Position, axis: usize) -> Position {
    lattice.step(at, Direction::minus(axis))
}

/// By position: true if a switch is present.
fn placed(grid: &Grid) -> Vec<bool> {
    grid.switches.iter().map(Option::is_some).collect()
}
