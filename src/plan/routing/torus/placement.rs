//! Placement: finds the positions of the switches, starting from a seed.
//!
//! Placement relies on 4-loops: two switches diagonal in a face of the lattice have exactly two
//! common neighbours, the other corners of that face. The discovery goes over all cubes of
//! neighbouring positions repeatedly. In each cube the cables between placed corners join the
//! torus, and the rules of [`super::cube`] give the searches for further corners. The discovery
//! ends when a round adds no cable. The order of placement is part of the result: it is the order
//! of destinations when they are distributed over parallel cables.

mod completion;

pub(super) use completion::NamedSwitch;

use super::cabling::{Cabling, LocalMember};
use super::cube::{Candidate, CubeRules};
use super::grid::{Grid, LocalGroups, PortGroups, TorusCable};
use super::lattice::{Direction, Lattice, Position};
use super::port_group_limit::PortGroupLimit;
use super::search::FreeCables;
use crate::config::torus::Seed;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Guid;
use crate::notes::Note;
use std::collections::BTreeSet;

/// Failure of the placement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PlacementError {
    /// A switch named by a seed is not in the fabric.
    SeedSwitchMissing(Guid),
    /// A switch was found at two positions, or a local port group is too large.
    Contradiction(Vec<Note>),
}

/// A discovered torus.
#[derive(Clone, Debug)]
pub(super) struct DiscoveredTorus {
    pub grid: Grid,
    /// The cables outside the torus, as indices into [`Cabling::cables`].
    pub leftover: Vec<usize>,
    /// Port groups with more cables than fit.
    pub exceeded: Option<PortGroupLimit>,
}

impl DiscoveredTorus {
    /// The message about port groups with more cables than fit.
    pub(super) fn port_group_note(&self, fabric: &Fabric, is_unroutable: bool) -> Option<Note> {
        self.exceeded.as_ref().map(|found| found.note(fabric, &self.grid, is_unroutable))
    }
}

/// A torus under construction.
pub(super) struct Placement<'a> {
    lattice: &'a Lattice,
    cabling: &'a Cabling,
    /// `portgroup_max_ports`: maximum size of a port group, the local one included.
    max_ports: usize,
    switches: Vec<Option<SwitchId>>,
    order: Vec<Position>,
    free: FreeCables<'a>,
    /// Cables of the torus in the order of adoption.
    joined: Vec<TorusCable>,
    /// By lower position, a bit for each dimension: set if all cables up are adopted.
    done: Vec<u8>,
    /// By base position: true if nothing more can be found in this cube.
    settled: Vec<bool>,
    /// Full port groups with cables left over: lower position and dimension.
    overfull_groups: BTreeSet<(Position, usize)>,
}

/// Position of the origin of a seed.
pub(super) fn origin(lattice: &Lattice, seed: &Seed) -> Position {
    lattice.position(seed.dateline.map(|distance| -distance))
}

impl<'a> Placement<'a> {
    /// Creates an empty torus.
    pub(super) fn new(
        lattice: &'a Lattice,
        cabling: &'a Cabling,
        portgroup_max_ports: u32,
    ) -> Self {
        Self {
            lattice,
            cabling,
            max_ports: portgroup_max_ports as usize,
            switches: vec![None; lattice.len()],
            order: Vec::new(),
            free: FreeCables::new(cabling),
            joined: Vec::with_capacity(cabling.cables.len()),
            done: vec![0; lattice.len()],
            settled: vec![false; lattice.len()],
            overfull_groups: BTreeSet::new(),
        }
    }

    /// Places the switches of a seed.
    ///
    /// # Errors
    /// Returns [`PlacementError::SeedSwitchMissing`] if a switch is not in the fabric.
    pub(super) fn place_seed(
        &mut self,
        fabric: &Fabric,
        seed: &Seed,
    ) -> Result<(), PlacementError> {
        let origin = origin(self.lattice, seed);
        for (slot, link) in seed.links.iter().enumerate() {
            let Some(link) = link else { continue };
            let axis = slot / 2;
            let direction =
                if slot % 2 == 0 { Direction::plus(axis) } else { Direction::minus(axis) };
            let ends =
                [(origin, link.origin), (self.lattice.step(origin, direction), link.neighbor)];
            for (at, guid) in ends {
                if self.switches[at.index()].is_some() {
                    continue;
                }
                let node = fabric.node_by_guid(guid).map(|id| fabric.node(id));
                let switch = node.and_then(|node| node.switch);
                self.place(at, switch.ok_or(PlacementError::SeedSwitchMissing(guid))?);
            }
        }
        Ok(())
    }

    fn place(&mut self, at: Position, switch: SwitchId) {
        self.switches[at.index()] = Some(switch);
        self.order.push(at);
    }

    /// Goes over all cubes until no cable is added.
    pub(super) fn discover(&mut self) {
        let rules = CubeRules::new([0, 1, 2].map(|axis| self.lattice.is_active(axis)));
        loop {
            let before = self.joined.len();
            for base in self.lattice.positions() {
                if self.settled[base.index()] {
                    continue;
                }
                // No cube crosses the edge of an open dimension.
                self.settled[base.index()] = match self.lattice.cube(base) {
                    Some(cube) => self.search_cube(&rules, &cube),
                    None => true,
                };
            }
            if self.joined.len() == before {
                return;
            }
        }
    }

    /// Searches one cube until no candidate is found. Returns true if nothing more can be found in
    /// it.
    fn search_cube(&mut self, rules: &CubeRules, cube: &[Position; 8]) -> bool {
        loop {
            let (placed, is_done) = self.adopt_edges(rules, cube);
            let found = rules
                .candidates(placed)
                .iter()
                .find_map(|candidate| self.find_switch(cube, candidate));
            match found {
                Some((at, switch)) => self.place(at, switch),
                None => return is_done && placed == rules.corners,
            }
        }
    }

    /// Adopts the cables along the edges between placed corners. Returns the mask of these corners,
    /// and true if all cables fitted into their port groups.
    fn adopt_edges(&mut self, rules: &CubeRules, cube: &[Position; 8]) -> (u8, bool) {
        let placed: u8 = (0..8)
            .filter(|corner| {
                rules.corners >> corner & 1 == 1 && self.switches[cube[*corner].index()].is_some()
            })
            .map(|corner| 1 << corner)
            .sum();
        let mut is_done = true;
        for (corner, &at) in cube.iter().enumerate() {
            for axis in 0..3 {
                let upper = corner | 1 << axis;
                let pair = 1u8 << corner | 1 << upper;
                if corner >> axis & 1 == 0 && placed & pair == pair {
                    is_done &= self.adopt([at, cube[upper]], axis);
                }
            }
        }
        (placed, is_done)
    }

    /// Moves the free cables between the switches at two positions into their port groups, if both
    /// are placed. The second position must be one step up `axis` from the first. Returns false if
    /// a port group is full.
    fn adopt(&mut self, ends: [Position; 2], axis: usize) -> bool {
        let [lower, upper] = ends;
        if self.done[lower.index()] >> axis & 1 == 1 {
            return true;
        }
        let [here, there] = ends.map(|at| self.switches[at.index()]);
        let (Some(here), Some(there)) = (here, there) else { return true };
        // A port group with cables left over was filled by an earlier call.
        let is_full = self.overfull_groups.contains(&(lower, axis));
        let mut room = if is_full { 0 } else { self.max_ports };
        for link in self.cabling.links(here) {
            if link.peer != there || !self.free.is_free(link.cable) {
                continue;
            }
            if room == 0 {
                self.overfull_groups.insert((lower, axis));
                return false;
            }
            room -= 1;
            let ports = [link.port, link.peer_port];
            self.joined.push(TorusCable { ends: [lower, upper], axis: axis as u8, ports });
            self.free.take(link.cable);
        }
        // No further cables appear during the discovery.
        self.done[lower.index()] |= 1 << axis;
        true
    }

    /// Searches for a candidate. Returns its position and the switch.
    fn find_switch(
        &mut self,
        cube: &[Position; 8],
        candidate: &Candidate,
    ) -> Option<(Position, SwitchId)> {
        match *candidate {
            Candidate::Face { target, from, middle, to } => {
                let [from, middle, to] = [from, middle, to]
                    .map(|corner| self.switches[corner_position(cube, corner).index()]);
                let switch = self.free.fourth_corner(from?, middle?, to?)?;
                Some((corner_position(cube, target), switch))
            }
            Candidate::Perpendicular { target, base, axis, arms } => {
                let at = corner_position(cube, base);
                let axis = usize::from(axis);
                if !self.radix_4_rings_are_known(at, axis) {
                    return None;
                }
                let target_is_up = base >> axis & 1 == 0;
                let away =
                    if target_is_up { Direction::minus(axis) } else { Direction::plus(axis) };
                let opposite = self.switches[self.lattice.step(at, away).index()]?;
                let arms = (0..8).filter(|corner| arms >> corner & 1 == 1);
                let arms: Option<Vec<SwitchId>> = arms
                    .map(|corner| self.switches[corner_position(cube, corner).index()])
                    .collect();
                let base = self.switches[at.index()]?;
                Some((
                    corner_position(cube, target),
                    self.free.perpendicular(base, opposite, &arms?)?,
                ))
            }
        }
    }

    /// In a looped dimension of radix 4 a ring is itself a 4-loop and could be mistaken for a face.
    /// Before a perpendicular is searched for at `at` along `axis`, at least two other switches of
    /// each such ring through `at` must be placed; their cables then join the torus first.
    fn radix_4_rings_are_known(&mut self, at: Position, axis: usize) -> bool {
        (0..3).filter(|&other| other != axis).all(|other| {
            if !self.lattice.is_looped(other) || self.lattice.radix(other) != 4 {
                return true;
            }
            let one = next_position(self.lattice, at, other);
            let two = next_position(self.lattice, next_position(self.lattice, at, other), other);
            let three = next_position(self.lattice, two, other);
            let others = [one, two, three];
            if others.iter().filter(|at| self.switches[at.index()].is_some()).count() < 2 {
                return false;
            }
            let pairs = [[two, three], [three, at], [at, one], [one, two]];
            let results = pairs.map(|ends| self.adopt(ends, other));
            results.iter().all(|&settled| settled)
        })
    }

    /// Adds the local port groups, and returns the discovered torus.
    ///
    /// # Errors
    /// Returns [`PlacementError::Contradiction`] if a switch has two positions or a local port
    /// group is too large.
    pub(super) fn finish(self, fabric: &Fabric) -> Result<DiscoveredTorus, PlacementError> {
        let mut grid = Grid {
            lattice: self.lattice.clone(),
            switches: self.switches,
            positions: vec![None; self.cabling.switch_count()],
            order: self.order,
            port_groups: PortGroups::new(self.lattice.len(), &self.joined),
            local: LocalGroups::default(),
        };
        let mut contradictions = Vec::new();
        for at in grid.lattice.positions() {
            let Some(switch) = grid.switch(at) else {
                grid.local.push([]);
                continue;
            };
            if let Some(other) = grid.positions[switch.index()].replace(at) {
                contradictions.push(placed_twice(&grid, fabric, other, at));
                grid.local.push([]);
                continue;
            }
            let management = LocalMember { port: 0, end: fabric.switch(switch).first_port };
            let hosts = self.cabling.hosts(switch);
            grid.local.push(std::iter::once(management).chain(hosts.iter().copied()));
        }
        let overfull = self.overfull_groups.iter().filter_map(|&(lower, axis)| {
            let upper = self.lattice.step(lower, Direction::plus(axis));
            Some([grid.switch(lower)?, grid.switch(upper)?])
        });
        let exceeded = PortGroupLimit::exceeded(&grid, self.cabling, self.max_ports, overfull);
        let has_local = exceeded.as_ref().is_some_and(PortGroupLimit::has_local);
        if contradictions.is_empty() && !has_local {
            let leftover = self.free.leftover().collect();
            return Ok(DiscoveredTorus { grid, leftover, exceeded });
        }
        if exceeded.as_ref().is_some_and(PortGroupLimit::has_bundles) {
            // The discovery followed cables that belong to full port groups.
            contradictions.clear();
        }
        let limit = exceeded.map(|exceeded| exceeded.note(fabric, &grid, true));
        Err(PlacementError::Contradiction(limit.into_iter().chain(contradictions).collect()))
    }
}

fn next_position(lattice: &Lattice, at: Position, other: usize) -> Position {
    lattice.step(at, Direction::plus(other))
}

fn corner_position(cube: &[Position; 8], corner: u8) -> Position {
    cube[usize::from(corner)]
}

fn placed_twice(grid: &Grid, fabric: &Fabric, first: Position, second: Position) -> Note {
    let text = format!(
        "by its cables one switch is both at {} and at {}: check radices and seeds of \
         the torus configuration against the fabric",
        grid.lattice.coordinates(first),
        grid.describe(fabric, second)
    );
    Note::error("4E1C", text)
}
