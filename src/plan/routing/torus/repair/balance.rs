//! Relieves channels that carry too many detours: some of these take another way, if the channel dependency
//! graph allows it.
//!
//! The paths to one destination form a tree. With a switch, all switches move whose paths lead through it;
//! their paths up to it stay. A move must not overload a channel, nor make a path too long.

use super::broken::{Detours, UNROUTED};
use super::complete::CompleteTorus;
use super::graph::ChannelGraph;
use super::load::{Channel, ChannelLoads, Undamaged};
use super::router::Router;
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
    pub detours: &'a mut Detours,
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

/// Another way for a switch.
struct OtherWay {
    way: u8,
    path: Vec<Channel>,
    /// The highest load along it, once it is taken.
    most: u32,
}

impl Balance<'_, '_> {
    /// Relieves the most loaded channels, and returns the loads of detours.
    pub(super) fn relieve(&mut self, grid: &Grid, torus: &CompleteTorus) -> ChannelLoads {
        let (routes, present) = (&torus.routes, self.router.present());
        let detours = ChannelLoads::of_detours(routes, present, self.detours, grid.lattice.len());
        let undamaged = Undamaged { links: &torus.links, routes, loads: &torus.loads };
        let all = ChannelLoads::of_all(grid, undamaged, self.detours, &detours);
        let limit = u64::from(torus.loads.most()) * MAX_LOAD_PERCENT / 100;
        let diameter: u32 = (0..3).map(|axis| routes.longest_along(axis)).sum();
        let max_hops = (diameter * MAX_LENGTH_PERCENT / 100) as usize;
        let mut loads = Loads { all, detours, limit: limit as u32, max_hops };
        for _ in 0..MAX_RELIEVED_CHANNELS {
            let channel = loads.all.most_loaded();
            if !loads.is_over(channel) || !self.relieve_channel(&mut loads, channel) {
                break;
            }
        }
        loads.detours
    }

    /// Moves detours away from a channel; false if its load is still too high.
    fn relieve_channel(&mut self, loads: &mut Loads, channel: Channel) -> bool {
        let destinations: Vec<u32> = self.detours.groups().map(|(to, _)| to).collect();
        for to in destinations {
            self.router.load(self.detours.of(to));
            let group = self.detours.of(to).iter().filter(|detour| detour.way != UNROUTED);
            let mut users: Vec<(u8, u32)> = group
                .filter(|detour| self.router.channels(detour.at, to).contains(&channel))
                .map(|detour| (detour.hops, detour.at))
                .collect();
            users.sort_unstable();
            for (_, at) in users {
                if !loads.is_over(channel) {
                    break;
                }
                // It may have moved with another one.
                if self.router.channels(at, to).contains(&channel) {
                    self.move_away(loads, channel, at, to);
                }
            }
            self.router.store(self.detours.of_mut(to));
            if !loads.is_over(channel) {
                return true;
            }
        }
        false
    }

    /// Moves a switch and those behind it to the least loaded way without the channel. The destination must be
    /// loaded.
    fn move_away(&mut self, loads: &mut Loads, channel: Channel, at: u32, to: u32) {
        let behind = self.router.behind(self.detours.of(to), at, to);
        let before = self.router.channels(at, to);
        let depth = behind.iter().map(|moved| usize::from(moved.hops)).max();
        let depth = depth.map_or(0, |deepest| deepest - before.len());
        let paths = behind.len() as u32;
        let mut options = Vec::new();
        for way in 0..6u8 {
            let next = self.router.neighbor(at, way);
            let Some(next) = next.filter(|next| behind.iter().all(|moved| moved.at != *next))
            else {
                continue;
            };
            let mut path = vec![Channel { at, way }];
            path.extend(self.router.channels(next, to));
            let is_short = path.len() + depth <= loads.max_hops.max(before.len() + depth);
            if !is_short || path.contains(&channel) {
                continue;
            }
            let load = |used: &Channel| {
                let load = loads.all.of(used.at, used.way);
                if before.contains(used) { load } else { load + paths }
            };
            let most = path.iter().map(load).max().unwrap_or(0);
            options.push(OtherWay { way, path, most });
        }
        options.retain(|option| option.most <= loads.limit);
        options.sort_by_key(|option| (option.most, option.way));
        for OtherWay { way, path, .. } in options {
            if self.router.divert(self.graph, &behind, to, way) {
                loads.move_paths(&before, &path, paths);
                return;
            }
        }
    }
}

impl Loads {
    fn is_over(&self, channel: Channel) -> bool {
        self.all.of(channel.at, channel.way) > self.limit
    }

    fn move_paths(&mut self, before: &[Channel], after: &[Channel], paths: u32) {
        for loads in [&mut self.all, &mut self.detours] {
            before.iter().for_each(|channel| *loads.of_mut(channel.at, channel.way) -= paths);
            after.iter().for_each(|channel| *loads.of_mut(channel.at, channel.way) += paths);
        }
    }
}
