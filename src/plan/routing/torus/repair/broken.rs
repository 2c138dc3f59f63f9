//! The pairs of switches whose healthy path meets damage, and the next hops that replace those of the
//! healthy torus.

use super::healthy::HealthyRoutes;
use super::links::{Links, NONE};
use crate::plan::routing::torus::grid::Grid;

/// Next hop of a switch without a route to a destination; other values are indices of directions.
pub(super) const UNROUTED: u8 = 6;
/// Next hop of a switch whose healthy path is intact, in tables by position.
pub(super) const INTACT: u8 = 7;

/// The replaced next hop of a switch for a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Detour {
    /// Position of the switch.
    pub at: u32,
    /// Index of a direction, or [`UNROUTED`].
    pub way: u8,
    /// Number of channels of the path.
    pub hops: u8,
    /// Mask of the dimensions along which packets go.
    pub axes: u8,
}

/// Replaced next hops by destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReplacedHops {
    /// By position of the destination: start of its entries in `list`, with one more entry at the end.
    first: Vec<u32>,
    list: Vec<Detour>,
}

/// More pairs of switches are broken than the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooManyBroken;

impl ReplacedHops {
    /// All pairs whose healthy path meets damage, still without a route. The switches of a destination
    /// are in the order of a walk up its tree of healthy paths.
    pub(super) fn find(
        grid: &Grid,
        complete: &Links,
        healthy: &HealthyRoutes,
        present: &Links,
        limit: usize,
    ) -> Result<Self, TooManyBroken> {
        let damage = BrokenChannels::new(grid, complete, present);
        let mut found = Self { first: vec![0], list: Vec::new() };
        let mut seen = vec![NONE; grid.lattice.len()];
        let mut queue = Vec::new();
        for to in grid.lattice.positions() {
            queue.clear();
            if grid.is_present(to) {
                damage.add_ends(healthy, to.0, &mut queue);
                queue.iter().for_each(|&at| seen[at as usize] = to.0);
            }
            let mut next = 0;
            while let Some(&here) = queue.get(next) {
                next += 1;
                if grid.switches[here as usize].is_some() {
                    found.list.push(Detour { at: here, way: UNROUTED, hops: 0, axes: 0 });
                }
                for direction in 0..6u8 {
                    let from = complete.neighbor(here, direction);
                    let leads_here = from != NONE && healthy.next(from, to.0) == direction ^ 1;
                    if leads_here && seen[from as usize] != to.0 {
                        seen[from as usize] = to.0;
                        queue.push(from);
                    }
                }
            }
            if found.list.len() > limit {
                return Err(TooManyBroken);
            }
            found.first.push(found.list.len() as u32);
        }
        Ok(found)
    }

    fn range(&self, to: u32) -> std::ops::Range<usize> {
        self.first[to as usize] as usize..self.first[to as usize + 1] as usize
    }

    pub(super) fn of(&self, to: u32) -> &[Detour] {
        &self.list[self.range(to)]
    }

    pub(super) fn of_mut(&mut self, to: u32) -> &mut [Detour] {
        let range = self.range(to);
        &mut self.list[range]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Destinations with their entries.
    pub(super) fn groups(&self) -> impl Iterator<Item = (u32, &[Detour])> {
        (0..self.first.len() as u32 - 1).map(|to| (to, self.of(to)))
    }

    pub(super) fn clear(&mut self) {
        self.list.iter_mut().for_each(|detour| detour.way = UNROUTED);
    }

    /// Number of pairs without a route.
    pub(super) fn unrouted(&self) -> usize {
        self.list.iter().filter(|detour| detour.way == UNROUTED).count()
    }
}

/// Missing switches, and channels without a cable between present ones.
struct BrokenChannels {
    switches: Vec<u32>,
    channels: Vec<(u32, u8)>,
}

impl BrokenChannels {
    fn new(grid: &Grid, complete: &Links, present: &Links) -> Self {
        let switches = grid.missing().map(|at| at.0).collect();
        let placed = grid.placed().map(|(at, _)| at.0);
        let channels = placed.flat_map(|at| (0..6).map(move |direction| (at, direction)));
        Self {
            switches,
            channels: channels
                .filter(|&(at, direction)| {
                    let next = complete.neighbor(at, direction);
                    next != NONE
                        && !present.has(at, direction)
                        && grid.switches[next as usize].is_some()
                })
                .collect(),
        }
    }

    /// Adds the switches at which paths to `to` meet damage first.
    fn add_ends(&self, healthy: &HealthyRoutes, to: u32, queue: &mut Vec<u32>) {
        queue.extend(self.switches.iter().filter(|&&at| at != to));
        let ends = self.channels.iter().filter(|&&(at, way)| healthy.next(at, to) == way);
        for &(at, _) in ends {
            if !queue.contains(&at) {
                queue.push(at);
            }
        }
    }
}
