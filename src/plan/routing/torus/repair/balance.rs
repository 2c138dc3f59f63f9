//! Relieves channels that carry too many detours: some of these take another way, if the channel dependency
//! graph allows it.
//!
//! The paths to one destination form a tree. With a switch, all switches move whose paths lead through it;
//! their paths up to it stay. A move must not overload a channel, nor make a path too long.

use super::broken::{Detour, ReplacedHops};
use super::complete::CompleteTorus;
use super::graph::ChannelGraph;
use super::load::{ChannelLoads, ChannelUsers, LoadChannel, Undamaged};
use super::router::Router;
use super::subtrees::{Subtree, Subtrees};
use crate::plan::routing::torus::grid::Grid;

/// Load above which a channel is relieved, in percent of the most loaded one without damage.
const MAX_LOAD_PERCENT: u64 = 150;
/// Length up to which paths may grow, in percent of the longest one without damage.
const MAX_LENGTH_PERCENT: u32 = 150;
/// Number of channels that are relieved, which bounds the work.
const MAX_RELIEVED_CHANNELS: usize = 16;

/// The routes to be relieved.
pub(super) struct Balance<'a, 'r> {
    pub router: &'a mut Router<'r>,
    pub graph: &'a mut ChannelGraph,
    pub detours: &'a mut ReplacedHops,
}

/// Loads that follow the moves.
struct Loads {
    /// Of all paths.
    all: ChannelLoads,
    /// Of detours.
    detours: ChannelLoads,
    /// Load that is not exceeded, if possible.
    limit: u32,
    /// Number of channels up to which a path may grow.
    max_hops: usize,
}

/// A switch whose paths are to take another way: its present path, and what leads through it.
struct Mover {
    at: u32,
    before: Vec<LoadChannel>,
    subtree: Subtree,
}

/// Another way for a switch.
struct OtherWay {
    way: u8,
    path: Vec<LoadChannel>,
    /// The highest load along it, once it is taken.
    most: u32,
}

impl Balance<'_, '_> {
    /// Relieves the most loaded channels, and returns the loads of detours.
    pub(super) fn relieve(&mut self, grid: &Grid, torus: &CompleteTorus) -> ChannelLoads {
        let routes = &torus.routes;
        let present = self.router.present();
        let detours = ChannelLoads::of_detours(routes, present, self.detours, grid.lattice.len());
        let undamaged = Undamaged { links: &torus.links, routes, loads: &torus.loads };
        let all = ChannelLoads::of_all(grid, undamaged, self.detours, &detours);
        let limit = u64::from(torus.loads.most()) * MAX_LOAD_PERCENT / 100;
        let diameter: u32 = (0..3).map(|axis| routes.longest_along(axis)).sum();
        let max_hops = (diameter * MAX_LENGTH_PERCENT / 100) as usize;
        let mut loads = Loads { all, detours, limit: limit as u32, max_hops };
        // Detours move to channels only whose load stays within the limit.
        let users = ChannelUsers::above(loads.limit, &loads.all, routes, present, self.detours);
        let mut subtrees = Subtrees::none(grid.lattice.len());
        for _ in 0..MAX_RELIEVED_CHANNELS {
            let channel = loads.all.most_loaded();
            let destinations = users.of(channel);
            if !loads.is_over(channel)
                || !self.relieve_channel(&mut loads, &mut subtrees, channel, destinations)
            {
                break;
            }
        }
        loads.detours
    }

    /// Moves detours to these destinations away from a channel; false if its load is still too high.
    fn relieve_channel(
        &mut self,
        loads: &mut Loads,
        subtrees: &mut Subtrees,
        channel: LoadChannel,
        destinations: &[u32],
    ) -> bool {
        for &to in destinations {
            self.router.load(self.detours.of(to));
            self.relieve_of(loads, subtrees, channel, to);
            self.router.store(self.detours.of_mut(to));
            if !loads.is_over(channel) {
                return true;
            }
        }
        false
    }

    /// Moves detours to one destination, which must be loaded, away from a channel while its load is too high.
    fn relieve_of(
        &mut self,
        loads: &mut Loads,
        subtrees: &mut Subtrees,
        channel: LoadChannel,
        to: u32,
    ) {
        let present = self.router.present();
        let mut users = users_of(self.router, channel, self.detours.of(to), to);
        let mut index = 0;
        subtrees.measure(&users, present);
        while loads.is_over(channel)
            && let Some(&Detour { at, .. }) = users.get(index)
        {
            let mover =
                Mover { at, before: self.router.channels(at, to), subtree: subtrees.of(at) };
            let options = self.other_ways(loads, channel, &mover, to);
            if !options.is_empty() {
                let behind = subtrees.members(&users, index, present);
                if self.take_one(loads, options, &mover, &behind, to) {
                    subtrees.forget(&users);
                    users.retain(|user| !subtrees.is_member(user.at));
                    subtrees.measure(&users, present);
                    continue;
                }
            }
            index += 1;
        }
        subtrees.forget(&users);
    }

    /// The ways of a switch without a channel and without overload, the least loaded first. The destination
    /// must be loaded.
    fn other_ways(
        &self,
        loads: &Loads,
        channel: LoadChannel,
        mover: &Mover,
        to: u32,
    ) -> Vec<OtherWay> {
        let ways = 0..6u8;
        let mut options: Vec<OtherWay> =
            ways.filter_map(|way| self.other_way(loads, channel, mover, way, to)).collect();
        options.sort_by_key(|option| (option.most, option.way));
        options
    }

    fn other_way(
        &self,
        loads: &Loads,
        channel: LoadChannel,
        mover: &Mover,
        way: u8,
        to: u32,
    ) -> Option<OtherWay> {
        let depth = usize::from(mover.subtree.deepest) - mover.before.len();
        let max_hops = loads.max_hops.max(mover.before.len() + depth);
        let mut option = OtherWay { way, path: Vec::with_capacity(max_hops), most: 0 };
        let mut next = LoadChannel { at: mover.at, way };
        // Paths to one destination that have met do not part again.
        let mut is_new = true;
        loop {
            is_new = is_new && !mover.before.contains(&next);
            let paths = if is_new { mover.subtree.paths } else { 0 };
            let load = loads.all.of(next.at, next.way) + paths;
            if next == channel || load > loads.limit {
                return None;
            }
            option.most = option.most.max(load);
            option.path.push(next);
            let at = self.router.neighbor(next.at, next.way)?;
            // The paths of the switches that would move lead back.
            if at == mover.at {
                return None;
            }
            if at == to {
                break;
            }
            next = LoadChannel { at, way: self.router.next(at, to)? };
        }
        (option.path.len() + depth <= max_hops).then_some(option)
    }

    /// Moves a switch with those `behind` it, itself the first of them, to the first way that closes no cycle;
    /// false if there is none.
    fn take_one(
        &mut self,
        loads: &mut Loads,
        options: Vec<OtherWay>,
        mover: &Mover,
        behind: &[Detour],
        to: u32,
    ) -> bool {
        for OtherWay { way, path, .. } in options {
            if self.router.divert(self.graph, behind, to, way) {
                loads.move_paths(&mover.before, &path, mover.subtree.paths);
                return true;
            }
        }
        false
    }
}

/// The detours to a destination over a channel. The destination must be loaded.
fn users_of(
    router: &mut Router<'_>,
    channel: LoadChannel,
    group: &[Detour],
    to: u32,
) -> Vec<Detour> {
    if router.next(channel.at, to) != Some(channel.way) {
        return Vec::new();
    }
    router.behind(group, channel.at, to)
}

impl Loads {
    fn is_over(&self, channel: LoadChannel) -> bool {
        self.all.of(channel.at, channel.way) > self.limit
    }

    fn move_paths(&mut self, before: &[LoadChannel], after: &[LoadChannel], paths: u32) {
        for loads in [&mut self.all, &mut self.detours] {
            before.iter().for_each(|channel| *loads.of_mut(channel.at, channel.way) -= paths);
            after.iter().for_each(|channel| *loads.of_mut(channel.at, channel.way) += paths);
        }
    }
}
