//! The paths that are on no VL yet when the cycles are broken: those from ports that do not map SLs,
//! switches included, and those to hosts and switches that do not.

use super::dependencies::Dependencies;
use super::paths::PathStates;
use super::{Bundles, LaneTarget, PathLanes, TooFewLanes, VlSupply};
use crate::ids::Sl;

/// A path that closes a cycle in every VL, as row and column.
type UnfitPath = (u32, u32);

impl Bundles<'_> {
    /// Adds the paths of hosts, each to the first VL in which it closes no cycle.
    ///
    /// # Errors
    /// Returns [`TooFewLanes`] if that needs more VLs than there are.
    pub(super) fn add_other_hosts(
        &self,
        lanes: &mut PathLanes,
        dependencies: &mut Vec<Dependencies>,
        vls: u8,
    ) -> Result<(), TooFewLanes> {
        let unfit = self.add_others(lanes, dependencies, |target, row| {
            !target.is_switch && self.has_hosts(row)
        });
        self.add_lanes_for(&unfit, lanes, dependencies, vls)
    }

    /// Adds the paths from and to switches, each to the first VL in which it closes no cycle. Returns
    /// those without such a VL, or gives them VLs of their own if that is required.
    ///
    /// # Errors
    /// Returns [`TooFewLanes`] if that needs more VLs than there are.
    pub(super) fn add_switches(
        &self,
        lanes: &mut PathLanes,
        dependencies: &mut Vec<Dependencies>,
        supply: VlSupply,
    ) -> Result<Vec<UnfitPath>, TooFewLanes> {
        let unfit = self.add_others(lanes, dependencies, |target, row| {
            target.is_switch || !self.has_hosts(row)
        });
        if !supply.is_strict {
            return Ok(unfit);
        }
        lanes.takes_vl_from_hosts = !unfit.is_empty();
        self.add_lanes_for(&unfit, lanes, dependencies, supply.vls)?;
        Ok(Vec::new())
    }

    /// Puts unfit paths on VLs whose lane is split, or that no host uses: on some share of a lane
    /// they may close no cycle. The others stay on the first lane, as all of them do in OpenSM.
    pub(super) fn use_shares(&self, lanes: &mut PathLanes, mut unfit: Vec<UnfitPath>, vls: u8) {
        let width = self.columns.len() as u32;
        for vl in (0..vls).filter(|&vl| !is_first(lanes, vl)).collect::<Vec<_>>() {
            if unfit.is_empty() {
                return;
            }
            let mut share = self.dependencies_on(vl, lanes, &unfit);
            let mut at = None;
            let mut paths = None;
            let mut states = PathStates::default();
            unfit.retain(|&(row, column)| {
                if at.replace(column) != Some(column) {
                    (paths, states) = (Some(self.paths_to(column)), PathStates::default());
                }
                let switch = self.sources[row as usize].0;
                let states = states.of_lane(0, self.network.len());
                let is_added =
                    paths.as_ref().is_some_and(|paths| share.try_add(paths, switch, states));
                if is_added {
                    lanes.bases[(row * width + column) as usize] = vl;
                }
                !is_added
            });
        }
    }

    /// The dependencies of all paths on a VL after lanes were split, without the unfit ones.
    fn dependencies_on(&self, vl: u8, lanes: &PathLanes, unfit: &[UnfitPath]) -> Dependencies {
        let mut all = Dependencies::new(self.ranks());
        let width = self.columns.len();
        let is_unfit: rustc_hash::FxHashSet<UnfitPath> = unfit.iter().copied().collect();
        for (column, &(lid, _)) in self.columns.iter().enumerate() {
            let mut paths = None;
            let mut states = PathStates::default();
            for (row, &(switch, _)) in self.sources.iter().enumerate() {
                let base = lanes.bases[row * width + column];
                let is_here = lanes.share(Sl(base), row as u32, lid) == Sl(vl);
                if !is_here || is_unfit.contains(&(row as u32, column as u32)) {
                    continue;
                }
                let paths = paths.get_or_insert_with(|| self.paths_to(column as u32));
                // A part of a lane without cycles has none.
                all.try_add(paths, switch, states.of_lane(0, self.network.len()));
            }
        }
        all
    }

    /// Adds the paths that are `wanted`, and returns those that close a cycle in every VL, by column.
    fn add_others(
        &self,
        lanes: &mut PathLanes,
        dependencies: &mut [Dependencies],
        wanted: impl Fn(&LaneTarget, u32) -> bool,
    ) -> Vec<UnfitPath> {
        let width = self.columns.len() as u32;
        let switches = self.network.len();
        let mut unfit = Vec::new();
        for target in &self.targets {
            let first = if target.is_counted { self.host_rows } else { 0 };
            let rows = (first..self.sources.len() as u32).filter(|&row| wanted(target, row));
            let rows: Vec<u32> = rows.collect();
            for column in target.columns.clone().filter(|_| !rows.is_empty()) {
                let paths = self.paths_to(column);
                let mut states = PathStates::default();
                for &row in &rows {
                    let switch = self.sources[row as usize].0;
                    let mut all = dependencies.iter_mut().enumerate();
                    let lane = all.position(|(number, lane)| {
                        lane.try_add(&paths, switch, states.of_lane(number, switches))
                    });
                    match lane {
                        Some(lane) => lanes.bases[(row * width + column) as usize] = lane as u8,
                        None => unfit.push((row, column)),
                    }
                }
            }
        }
        unfit
    }

    /// Adds unfit paths, each to the first additional VL in which it closes no cycle.
    fn add_lanes_for(
        &self,
        unfit: &[UnfitPath],
        lanes: &mut PathLanes,
        dependencies: &mut Vec<Dependencies>,
        vls: u8,
    ) -> Result<(), TooFewLanes> {
        let width = self.columns.len() as u32;
        let switches = self.network.len();
        let known = dependencies.len();
        let mut at = None;
        let mut states = PathStates::default();
        for &(row, column) in unfit {
            if at.replace(column) != Some(column) {
                states = PathStates::default();
            }
            let paths = self.paths_to(column);
            let switch = self.sources[row as usize].0;
            let mut number = known;
            loop {
                if number == usize::from(vls) {
                    return Err(TooFewLanes);
                }
                if number == dependencies.len() {
                    dependencies.push(Dependencies::new(self.ranks()));
                    lanes.paths.push(0);
                }
                if dependencies[number].try_add(&paths, switch, states.of_lane(number, switches)) {
                    break;
                }
                number += 1;
            }
            lanes.bases[(row * width + column) as usize] = number as u8;
        }
        Ok(())
    }

    /// True if a row is the source of hosts' paths.
    fn has_hosts(&self, row: u32) -> bool {
        row < self.host_rows || self.has_other_hosts[(row - self.host_rows) as usize]
    }
}

fn is_first(lanes: &PathLanes, vl: u8) -> bool {
    lanes.firsts.contains(&vl)
}
