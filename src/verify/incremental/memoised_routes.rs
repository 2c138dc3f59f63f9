//! Memoised results of traced routes.
//!
//! The result of tracing the routes to a LID depends on some forwarding table entries near the
//! changed switches, on the channels behind the merge point, and on the SLs with which the changed
//! switches send. Most LIDs agree in all of these with a LID that was traced before, since many are
//! reached through the same few switches. Tracing them again would find nothing new.

use super::changed_routes::ChangedRoutes;
use crate::ids::Lid;
use crate::verify::endpoints::Endpoint;
use crate::verify::network::NONE;
use rustc_hash::FxHashMap;

/// An entry that tracing read: switch, old port, new port.
pub(super) type EntryRead = (u32, u8, u8);

/// Results for routes that were traced up to their merge point without a fault.
#[derive(Default)]
pub(super) struct MemoisedRoutes {
    /// Classes by first changed switch and number of changed switches.
    classes: FxHashMap<(u32, usize), Vec<RouteClass>>,
    /// Buffer for a key of [`RouteClass::traced`].
    key: Vec<u32>,
}

/// LIDs with the same routes up to the merge point.
struct RouteClass {
    /// The entries that tracing read, those of the changed switches first.
    reads: Vec<EntryRead>,
    merge_point: u32,
    /// By the channels behind the merge point and the SLs of the changed switches: upper bound of
    /// the switches by which a new route exceeds the longest old one.
    traced: FxHashMap<Vec<u32>, i32>,
}

impl MemoisedRoutes {
    /// Upper bound of the switches by which a new route to this destination exceeds the longest old
    /// one; `None` if no equal route was traced.
    pub(super) fn lookup(&mut self, routes: &ChangedRoutes<'_>, to: &Endpoint) -> Option<i32> {
        let changed = routes.of(to.lid);
        let Self { classes, key } = self;
        let classes = classes.get(&(changed.first()?.1, changed.len()))?;
        let class = classes.iter().find(|class| {
            has_same_switches(changed, class)
                && class.reads.iter().all(|a| is_same_entry(routes, &to.lid, a))
        })?;
        fill(key, routes, to, class.merge_point);
        class.traced.get(&key[..]).copied()
    }

    /// Adds the result for a destination; `reads` are the entries that were read, those of its
    /// changed switches first.
    pub(super) fn insert(
        &mut self,
        routes: &ChangedRoutes<'_>,
        to: &Endpoint,
        merge_point: u32,
        reads: Vec<EntryRead>,
        excess: i32,
    ) {
        let changed = routes.of(to.lid);
        let Some(&(_, first)) = changed.first() else { return };
        fill(&mut self.key, routes, to, merge_point);
        let classes = self.classes.entry((first, changed.len())).or_default();
        let known = classes
            .iter()
            .position(|class| class.merge_point == merge_point && class.reads == reads);
        let known = known.unwrap_or_else(|| {
            classes.push(RouteClass { reads, merge_point, traced: FxHashMap::default() });
            classes.len() - 1
        });
        classes[known].traced.insert(self.key.clone(), excess);
    }
}

fn has_same_switches(changed: &[(u16, u32)], class: &RouteClass) -> bool {
    changed.iter().zip(&class.reads).all(|(&(_, switch), read)| switch == read.0)
}

fn is_same_entry(routes: &ChangedRoutes<'_>, lid: &Lid, &(switch, old, new): &EntryRead) -> bool {
    routes.old_entry(switch, *lid) == old && routes.new_entry(switch, *lid) == new
}

/// Fills `key` with the two channels behind the merge point and the SLs of the changed switches.
fn fill(key: &mut Vec<u32>, routes: &ChangedRoutes<'_>, to: &Endpoint, merge_point: u32) {
    let proof = routes.proof;
    key.clear();
    let mut here = merge_point;
    for _ in 0..2 {
        let port = routes.old_entry(here, to.lid);
        let channel = if here == to.switch { NONE } else { routes.channel(here, port) };
        key.push(channel);
        if channel == NONE {
            break;
        }
        here = proof.packed.of(channel).to;
    }
    let policy = &*routes.plan.routing.policy;
    for &(_, switch) in routes.of(to.lid) {
        let sls = proof.routes.sources[switch as usize].sls(policy, to, proof.checks.hints());
        key.push(sls.into());
    }
}
