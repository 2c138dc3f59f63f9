//! ChangedRoutes that are like one that was followed already.
//!
//! What following a column finds depends on some entries of the forwarding tables near the changed
//! switches, on the channels behind the merge_point and on the SLs that changed switches send with. Most
//! routes agree in all of these with an earlier one, for many LIDs are reached by way of the
//! same few switches; then nothing new can be found.

use super::changed_routes::ChangedRoutes;
use crate::verify::endpoints::Destination;
use crate::verify::network::NONE;
use rustc_hash::FxHashMap;

/// An entry that was looked at: the switch, the port before and now.
pub(super) type EntryRead = (u32, u8, u8);

/// ChangedRoutes that were followed up to their merge_point, and found to be without fault.
#[derive(Default)]
pub(super) struct MemoisedRoutes {
    /// By the first of the changed switches, and their number.
    classes: FxHashMap<(u32, usize), Vec<RouteClass>>,
    /// Room for a key of [`RouteClass::followed`].
    key: Vec<u32>,
}

/// ChangedRoutes with the same ways up to the merge_point.
struct RouteClass {
    /// All entries that were looked at; those of the changed switches first.
    reads: Vec<EntryRead>,
    merge_point: u32,
    /// By the channels behind the merge_point and the SLs of the changed switches: by how many switches
    /// new ways may be longer than the longest old one.
    followed: FxHashMap<Vec<u32>, i32>,
}

impl MemoisedRoutes {
    /// By how many switches the new ways of this column may be longer than the longest old one, if
    /// it is like an earlier one.
    pub(super) fn lookup(&mut self, routes: &ChangedRoutes<'_>, to: &Destination) -> Option<i32> {
        let changed = routes.of(to.lid);
        let Self { classes, key } = self;
        let classes = classes.get(&(changed.first()?.1, changed.len()))?;
        let lid = to.lid.index();
        let is_same = |&(switch, old, new): &EntryRead| {
            let switch = switch as usize;
            routes.old[switch][lid] == old && routes.new[switch][lid] == new
        };
        let has_same_switches = |class: &RouteClass| {
            changed.iter().zip(&class.reads).all(|(&(_, switch), read)| switch == read.0)
        };
        let is_alike =
            |class: &&RouteClass| has_same_switches(class) && class.reads.iter().all(is_same);
        let class = classes.iter().find(is_alike)?;
        fill(key, routes, to, class.merge_point);
        class.followed.get(&key[..]).copied()
    }

    /// Notes a column that was followed by way of the entries `reads`, those of its changed switches
    /// first.
    pub(super) fn insert(
        &mut self,
        routes: &ChangedRoutes<'_>,
        to: &Destination,
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
            classes.push(RouteClass { reads, merge_point, followed: FxHashMap::default() });
            classes.len() - 1
        });
        classes[known].followed.insert(self.key.clone(), excess);
    }
}

/// Fills in the two channels behind the merge_point, and the SLs of the changed switches.
fn fill(key: &mut Vec<u32>, routes: &ChangedRoutes<'_>, to: &Destination, merge_point: u32) {
    let proof = routes.proof;
    key.clear();
    let mut here = merge_point;
    for _ in 0..2 {
        let port = routes.old[here as usize][to.lid.index()];
        let channel = if here == to.switch { NONE } else { routes.channel(here, port) };
        key.push(channel);
        if channel == NONE {
            break;
        }
        here = proof.packed.of(channel).to;
    }
    let policy = &*routes.plan.routing.policy;
    for &(_, switch) in routes.of(to.lid) {
        let sls = proof.sources[switch as usize].sls(policy, to.port, proof.checks.hints());
        key.push(sls.into());
    }
}
