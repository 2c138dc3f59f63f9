//! The load of the channels of a repaired torus: how many paths between switches use each of them.
//!
//! The load of the torus without damage follows from its rings. Broken pairs and those with a dead switch are
//! subtracted, detours are added: the paths to one destination form a tree, down which numbers of paths
//! are summed up.

use super::broken::{Detour, INTACT, ReplacedHops, UNROUTED};
use super::healthy::HealthyRoutes;
use super::links::Links;
use crate::plan::routing::torus::grid::Grid;
use rustc_hash::FxHashMap;

/// Directions of a position.
const WAYS: usize = 6;

/// The routes of a torus without damage, and the load of its channels.
#[derive(Clone, Copy)]
pub(super) struct Undamaged<'a> {
    pub links: &'a Links,
    pub routes: &'a HealthyRoutes,
    pub loads: &'a ChannelLoads,
}

/// Numbers of paths by channel: by position and direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ChannelLoads(Vec<u32>);

impl ChannelLoads {
    pub(super) fn none(positions: usize) -> Self {
        Self(vec![0; WAYS * positions])
    }

    #[inline]
    pub(super) fn of(&self, at: u32, way: u8) -> u32 {
        self.0[at as usize * WAYS + usize::from(way)]
    }

    #[inline]
    pub(super) fn of_mut(&mut self, at: u32, way: u8) -> &mut u32 {
        &mut self.0[at as usize * WAYS + usize::from(way)]
    }

    pub(super) fn most(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// The channel with the most paths, the first of equals.
    pub(super) fn most_loaded(&self) -> LoadChannel {
        let most = self.most();
        let index = self.0.iter().position(|&paths| paths == most).unwrap_or(0);
        LoadChannel { at: (index / WAYS) as u32, way: (index % WAYS) as u8 }
    }

    /// Paths of all pairs that use detours.
    pub(super) fn of_detours(
        healthy: &HealthyRoutes,
        present: &Links,
        detours: &ReplacedHops,
        positions: usize,
    ) -> Self {
        let mut loads = Self::none(positions);
        for_each_detour_channel(healthy, present, detours, positions, |_, channel, paths| {
            *loads.of_mut(channel.at, channel.way) += paths;
        });
        loads
    }

    /// Paths of all pairs in the torus without damage that are broken, or that start or end at a missing
    /// switch.
    fn of_lost(grid: &Grid, undamaged: Undamaged<'_>, broken: &ReplacedHops) -> Self {
        let Undamaged { links, routes, .. } = undamaged;
        let positions = grid.lattice.len();
        let mut loads = Self::none(positions);
        let mut trees = Trees::new(positions);
        let dead: Vec<u32> = grid.missing().map(|at| at.0).collect();
        for (to, group) in broken.groups() {
            if grid.switches[to as usize].is_none() {
                let others = grid.lattice.positions().map(|at| at.0).filter(|&at| at != to);
                others.for_each(|at| trees.add_source(at, routes.hops(at, to)));
            } else {
                let sources =
                    group.iter().map(|detour: &Detour| detour.at).chain(dead.iter().copied());
                sources.for_each(|at| trees.add_source(at, routes.hops(at, to)));
            }
            trees.sum_up(
                |at| {
                    let way = routes.next(at, to);
                    Step { way, next: links.neighbor(at, way) }
                },
                |channel, paths| *loads.of_mut(channel.at, channel.way) += paths,
            );
        }
        loads
    }

    /// Paths of all pairs, where `detours` are those of the broken ones.
    pub(super) fn of_all(
        grid: &Grid,
        undamaged: Undamaged<'_>,
        broken: &ReplacedHops,
        detours: &Self,
    ) -> Self {
        let lost = Self::of_lost(grid, undamaged, broken);
        let whole = undamaged.loads.0.iter();
        let numbers = whole.zip(&lost.0).zip(&detours.0);
        Self(numbers.map(|((whole, lost), detours)| whole - lost + detours).collect())
    }
}

/// A channel: the cables from a switch in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct LoadChannel {
    pub at: u32,
    pub way: u8,
}

/// Destinations whose detours use a channel, by channel, for channels of interest.
pub(super) struct ChannelUsers(FxHashMap<LoadChannel, Vec<u32>>);

impl ChannelUsers {
    /// The users of channels with more than `limit` paths in `loads`.
    pub(super) fn above(
        limit: u32,
        loads: &ChannelLoads,
        healthy: &HealthyRoutes,
        present: &Links,
        detours: &ReplacedHops,
    ) -> Self {
        let mut users: FxHashMap<LoadChannel, Vec<u32>> = FxHashMap::default();
        if loads.most() > limit {
            let positions = loads.0.len() / WAYS;
            for_each_detour_channel(healthy, present, detours, positions, |to, channel, _| {
                if loads.of(channel.at, channel.way) > limit {
                    users.entry(channel).or_default().push(to);
                }
            });
        }
        Self(users)
    }

    /// The destinations whose detours use a channel, ascending.
    pub(super) fn of(&self, channel: LoadChannel) -> &[u32] {
        self.0.get(&channel).map_or(&[], Vec::as_slice)
    }
}

/// Tells `visit` for each destination, ascending, the channels that its detours use, and the number of detours
/// over each.
fn for_each_detour_channel(
    healthy: &HealthyRoutes,
    present: &Links,
    detours: &ReplacedHops,
    positions: usize,
    mut visit: impl FnMut(u32, LoadChannel, u32),
) {
    let mut trees = Trees::new(positions);
    let mut ways = vec![INTACT; positions];
    for (to, group) in detours.groups().filter(|(_, group)| !group.is_empty()) {
        for detour in group {
            ways[detour.at as usize] = detour.way;
        }
        let routed = group.iter().filter(|detour| detour.way != UNROUTED);
        routed.for_each(|detour| trees.add_source(detour.at, detour.hops.into()));
        trees.sum_up(
            |at| {
                let way = match ways[at as usize] {
                    INTACT => healthy.next(at, to),
                    way => way,
                };
                Step { way, next: present.neighbor(at, way) }
            },
            |channel, paths| visit(to, channel, paths),
        );
        group.iter().for_each(|detour| ways[detour.at as usize] = INTACT);
    }
}

struct Step {
    way: u8,
    next: u32,
}

/// Sums up the sources of paths to one destination, down the tree of these paths.
struct Trees {
    /// By position: number of paths through it so far.
    paths: Vec<u32>,
    /// By number of channels to the destination: positions with paths.
    by_length: Vec<Vec<u32>>,
}

impl Trees {
    fn new(positions: usize) -> Self {
        Self { paths: vec![0; positions], by_length: Vec::new() }
    }

    /// Adds a path from a switch, which has `hops` channels.
    fn add_source(&mut self, at: u32, hops: u16) {
        self.add(at, hops.into(), 1);
    }

    fn add(&mut self, at: u32, hops: usize, paths: u32) {
        if self.by_length.len() <= hops {
            self.by_length.resize(hops + 1, Vec::new());
        }
        let known = &mut self.paths[at as usize];
        if *known == 0 {
            self.by_length[hops].push(at);
        }
        *known += paths;
    }

    /// Tells `visit` the number of paths over each channel, and forgets them.
    fn sum_up(&mut self, step: impl Fn(u32) -> Step, mut visit: impl FnMut(LoadChannel, u32)) {
        for hops in (1..self.by_length.len()).rev() {
            let mut list = std::mem::take(&mut self.by_length[hops]);
            for &at in &list {
                let paths = std::mem::take(&mut self.paths[at as usize]);
                let Step { way, next } = step(at);
                visit(LoadChannel { at, way }, paths);
                self.add(next, hops - 1, paths);
            }
            list.clear();
            self.by_length[hops] = list;
        }
        if let Some(arrived) = self.by_length.first_mut() {
            arrived.drain(..).for_each(|at| self.paths[at as usize] = 0);
        }
    }
}
