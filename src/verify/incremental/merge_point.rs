//! Where the old and the new ways of a changed column meet again.
//!
//! After a cable was lost, the ways to a LID differ in a short part, and go on as before. Let all
//! changed switches have sent the LID to one and the same unchanged switch, the exit, by entries of
//! changed switches alone. Then no changed switch comes after the exit on the way to the LID, for the
//! old ways have no circles. A switch on this rest of the way, to which the new ways lead as well,
//! is where they meet: from there on packets go as they went before, and arrive as they did; the
//! triples of channels after it are those of the same packets before. So nothing behind it has
//! to be followed.

use super::changed_routes::ChangedRoutes;
use crate::ids::Lid;
use crate::verify::MAX_HOPS;
use crate::verify::endpoints::Destination;
use crate::verify::network::NONE;
use rustc_hash::FxHashMap;

/// Where the ways of a column meet.
#[derive(Clone, Copy)]
pub(super) struct MergePoint {
    /// The switch.
    pub at: u32,
    /// The exit.
    pub exit: u32,
    /// PackedNetwork there from the exit.
    pub steps: u32,
}

/// What is known of the old ways of a column.
pub(super) struct MergePointFinder {
    /// By switch: the column, and the steps to its exit.
    steps: Vec<(u32, u32)>,
    /// By exit and number of changed switches: where the ways of such a column met.
    met: FxHashMap<(u32, usize), u32>,
    path: Vec<u32>,
}

impl MergePointFinder {
    pub(super) fn new(switches: usize) -> Self {
        Self { steps: vec![(0, 0); switches], met: FxHashMap::default(), path: Vec::new() }
    }

    /// PackedNetwork from a changed switch of the column with this number to its exit.
    pub(super) fn steps(&self, switch: u32) -> u32 {
        self.steps[switch as usize].1
    }

    /// Finds where the ways to a LID meet; `is_changed` tells the changed switches of its column,
    /// which has the number `stamp`. `None` if they need not meet.
    pub(super) fn find(
        &mut self,
        routes: &ChangedRoutes<'_>,
        stamp: u32,
        to: &Destination,
        is_changed: impl Fn(u32) -> bool,
    ) -> Option<MergePoint> {
        let changed = routes.of(to.lid);
        let exit = self.exit(routes, stamp, to.lid, is_changed)?;
        let key = (exit, changed.len());
        // Most LIDs behind the same exit are reached by way of the same switch.
        let known = self.met.get(&key).copied();
        let steps = known.and_then(|at| Some((at, steps_to(routes, to, exit, at)?)));
        let (at, steps) = match steps {
            Some(known) => known,
            None => {
                let at = first_met(routes, to, exit, changed.first()?.1)?;
                self.met.insert(key, at);
                (at, steps_to(routes, to, exit, at)?)
            }
        };
        Some(MergePoint { at, exit, steps })
    }

    /// The one unchanged switch to which all changed switches sent the LID by way of changed ones.
    fn exit(
        &mut self,
        routes: &ChangedRoutes<'_>,
        stamp: u32,
        lid: Lid,
        is_changed: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut exit = NONE;
        for &(_, switch) in routes.of(lid) {
            self.path.clear();
            let mut here = switch;
            let mut steps = loop {
                let known = self.steps[here as usize];
                if known.0 == stamp {
                    break known.1;
                }
                if !is_changed(here) {
                    if exit != NONE && exit != here {
                        return None;
                    }
                    exit = here;
                    break 0;
                }
                self.path.push(here);
                here = next(routes, here, routes.old[here as usize][lid.index()])?;
                if self.path.len() as u32 > MAX_HOPS {
                    return None;
                }
            };
            for &passed in self.path.iter().rev() {
                steps += 1;
                self.steps[passed as usize] = (stamp, steps);
            }
        }
        Some(exit)
    }
}

/// The switch that a port of a switch leads to.
fn next(routes: &ChangedRoutes<'_>, switch: u32, port: u8) -> Option<u32> {
    let channel = routes.channel(switch, port);
    (channel != NONE).then(|| routes.proof.packed.of(channel).to)
}

/// PackedNetwork of the old way from a switch to another one; `None` if that is not on it.
fn steps_to(routes: &ChangedRoutes<'_>, to: &Destination, from: u32, goal: u32) -> Option<u32> {
    let (mut here, mut steps) = (from, 0);
    while here != goal {
        if here == to.switch || steps > MAX_HOPS {
            return None;
        }
        here = next(routes, here, routes.old[here as usize][to.lid.index()])?;
        steps += 1;
    }
    Some(steps)
}

/// The first switch that is both on the old way from the exit and on the new way from a changed
/// switch, both of which are followed at the same pace.
fn first_met(routes: &ChangedRoutes<'_>, to: &Destination, exit: u32, changed: u32) -> Option<u32> {
    let mut ways = [vec![exit], vec![changed]];
    for turn in 0..=2 * MAX_HOPS as usize {
        let (own, other) = (turn % 2, (turn + 1) % 2);
        let here = *ways[own].last()?;
        if ways[other].contains(&here) {
            return Some(here);
        }
        if here != to.switch {
            let tables = [&routes.old, &routes.new][own];
            ways[own].push(next(routes, here, tables[here as usize][to.lid.index()])?);
        }
    }
    None
}
