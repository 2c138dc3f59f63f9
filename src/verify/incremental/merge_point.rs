//! The switch at which the new routes to a destination join the old one.
//!
//! After the loss of a cable, the routes to a LID differ on a short part and are the same from
//! there on. Let the old entries of all changed switches lead, through changed switches only, to
//! one and the same unchanged switch, the *exit*. The old route from the exit to the destination
//! passes no changed switch, because old routes have no loops. A switch on this rest of the route
//! that the new routes reach as well is the *merge point*: packets from there take the old route
//! and arrive as before, with the same triples behind it. Nothing behind the merge point needs
//! tracing.

use super::changed_routes::ChangedRoutes;
use crate::ids::Lid;
use crate::verify::MAX_PATH_SWITCHES;
use crate::verify::endpoints::Endpoint;
use crate::verify::network::NONE;
use rustc_hash::FxHashMap;

/// The merge point of the routes to a destination.
#[derive(Clone, Copy)]
pub(super) struct MergePoint {
    /// Number of the switch.
    pub at: u32,
    pub exit: u32,
    /// Hops from the exit to the merge point.
    pub steps: u32,
}

/// Finds merge points, reusing what earlier destinations of the same task had in common.
pub(super) struct MergePointFinder {
    /// By switch: the stamp of a destination, and the hops from the switch to its exit.
    steps: Vec<(u32, u32)>,
    /// Merge points by exit and number of changed switches.
    met: FxHashMap<(u32, usize), u32>,
    path: Vec<u32>,
}

impl MergePointFinder {
    pub(super) fn new(switches: usize) -> Self {
        Self { steps: vec![(0, 0); switches], met: FxHashMap::default(), path: Vec::new() }
    }

    /// Hops from a changed switch to the exit, for the destination of the last [`Self::find`].
    pub(super) fn steps(&self, switch: u32) -> u32 {
        self.steps[switch as usize].1
    }

    /// Finds the merge point of a destination; `stamp` is its unique number, and `is_changed` holds
    /// for its changed switches. `None` if there may be none.
    pub(super) fn find(
        &mut self,
        routes: &ChangedRoutes<'_>,
        stamp: u32,
        to: &Endpoint,
        is_changed: impl Fn(u32) -> bool,
    ) -> Option<MergePoint> {
        let changed = routes.of(to.lid);
        let exit = self.exit(routes, stamp, to.lid, is_changed)?;
        let key = (exit, changed.len());
        // Most LIDs with the same exit have the same merge point.
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

    /// The exit: the one unchanged switch to which all changed switches sent the LID.
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
                here = next(routes, here, routes.old_entry(here, lid))?;
                if self.path.len() as u32 > MAX_PATH_SWITCHES {
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

/// The switch behind a port of a switch.
fn next(routes: &ChangedRoutes<'_>, switch: u32, port: u8) -> Option<u32> {
    let channel = routes.channel(switch, port);
    (channel != NONE).then(|| routes.proof.packed.of(channel).to)
}

/// Hops on the old route from a switch to `goal`; `None` if the route does not pass it.
fn steps_to(routes: &ChangedRoutes<'_>, to: &Endpoint, from: u32, goal: u32) -> Option<u32> {
    let mut here = from;
    let mut steps = 0;
    while here != goal {
        if here == to.switch || steps > MAX_PATH_SWITCHES {
            return None;
        }
        here = next(routes, here, routes.old_entry(here, to.lid))?;
        steps += 1;
    }
    Some(steps)
}

/// The first switch that is both on the old route from the exit and on the new route from a changed
/// switch. Both are followed at the same pace.
fn first_met(routes: &ChangedRoutes<'_>, to: &Endpoint, exit: u32, changed: u32) -> Option<u32> {
    let mut routes_to = [vec![exit], vec![changed]];
    for turn in 0..=2 * MAX_PATH_SWITCHES as usize {
        let own = turn % 2;
        let other = (turn + 1) % 2;
        let here = *routes_to[own].last()?;
        if routes_to[other].contains(&here) {
            return Some(here);
        }
        if here != to.switch {
            let entry = match own {
                0 => routes.old_entry(here, to.lid),
                _ => routes.new_entry(here, to.lid),
            };
            routes_to[own].push(next(routes, here, entry)?);
        }
    }
    None
}
