//! The forwarding tables of a repaired torus.
//!
//! Over parallel cables, undamaged destinations take their turn before detours. A table without parallel
//! cables is copied from the previous pass, and changed where destinations or next hops changed.

use super::destinations::{DestinationChange, TorusDestination};
use super::grid::Grid;
use super::lattice::Position;
use super::repair::RepairedRoutes;
use super::ring_directions::NO_DIRECTION;
use super::unicast::{
    Comparison, LftInputs, OWN_SWITCH, PreviousLfts, all_tables, clear, directions, filled_table,
    set,
};
use crate::plan::LidTable;
use crate::plan::routing::Lft;
use crate::plan::routing::lft::BlockPool;
use crate::plan::routing::torus::destinations::Destinations;
use crate::wire::attr::tables::LFT_NO_PATH;
use std::sync::Arc;

/// Next hops are compared in groups of this many bytes.
const COMPARED_BYTES: usize = 64;

/// The tables of the previous successful pass.
pub(super) struct PreviousTables<'a> {
    pub lfts: PreviousLfts<'a>,
    /// `None` if torus-2QoS itself routed.
    pub repaired: Option<&'a RepairedRoutes>,
}

/// What all tables have in common.
struct Tables<'a> {
    grid: &'a Grid,
    inputs: &'a LftInputs,
    repaired: &'a RepairedRoutes,
    /// By position.
    destinations: Vec<&'a [TorusDestination]>,
    previous: Option<&'a PreviousTables<'a>>,
    /// The destinations that changed since the previous pass; `None` if these are too many.
    changes: Option<Vec<DestinationChange<'a>>>,
}

/// Next hops by position of the destination.
#[derive(Default)]
struct NextHops {
    now: Vec<u8>,
    before: Vec<u8>,
}

/// What the tables of successive switches are made with.
#[derive(Default)]
struct RepairedTableWork {
    hops: NextHops,
    pool: BlockPool,
}

/// The forwarding tables, by switch of the fabric, and their inputs. Switches outside the torus have empty
/// ones.
pub(super) fn repaired_tables(
    grid: &Grid,
    lids: &LidTable,
    port_order: &[u8],
    repaired: &RepairedRoutes,
    previous: Option<&PreviousTables<'_>>,
) -> (Vec<Arc<Lft>>, LftInputs) {
    let inputs = LftInputs::new(grid, lids, port_order);
    let mut destinations: Vec<&[TorusDestination]> = vec![&[]; grid.lattice.len()];
    inputs.destinations.groups().for_each(|(at, group)| destinations[at.index()] = group);
    let changes = previous.and_then(|tables| {
        let (comparison, changes) = tables.lfts.compare(grid, &inputs);
        (comparison != Comparison::Different).then_some(changes)
    });
    let tables = Tables { grid, inputs: &inputs, repaired, destinations, previous, changes };
    let lfts = all_tables(grid, |work: &mut RepairedTableWork, at, _| match *at {
        Some(at) => tables.table(at, work),
        None => Arc::new(Lft::empty(inputs.max)),
    });
    drop(tables);
    (lfts, inputs)
}

impl Tables<'_> {
    /// The table of a switch, which is that of the previous pass if it is equal.
    fn table(
        &self,
        at: Position,
        RepairedTableWork { hops, pool }: &mut RepairedTableWork,
    ) -> Arc<Lft> {
        if let Some(patched) = self.patched(at, hops) {
            return patched;
        }
        self.repaired.next_hops(at, OWN_SWITCH, NO_DIRECTION, &mut hops.now);
        let before = self.previous.and_then(|before| before.lfts.table(at));
        let table = pool.table(&self.entries(at, &hops.now), before.map(|before| &**before));
        match before {
            Some(old) if **old == table => old.clone(),
            _ => Arc::new(table),
        }
    }

    /// The entries of a table that is computed anew.
    fn entries(&self, at: Position, hops: &[u8]) -> Vec<u8> {
        let Self { grid, inputs, .. } = *self;
        if !grid.port_groups.are_parallel_at(at) {
            return filled_table(grid, inputs.max, at, hops, groups(&inputs.destinations)).0;
        }
        let mut is_detour = vec![false; grid.lattice.len()];
        self.repaired.detours_at(at).for_each(|to| is_detour[to.index()] = true);
        let intact = groups(&inputs.destinations).filter(|(to, _)| !is_detour[to.index()]);
        let in_turn =
            intact.chain(groups(&inputs.destinations).filter(|(to, _)| is_detour[to.index()]));
        filled_table(grid, inputs.max, at, hops, in_turn).0
    }

    /// The previous table of a switch without parallel cables, with its changes; `None` if it cannot be
    /// used.
    fn patched(&self, at: Position, hops: &mut NextHops) -> Option<Arc<Lft>> {
        let previous = self.previous?;
        let changes = self.changes.as_ref()?;
        let before = previous.lfts.grid;
        let is_usable = !self.grid.port_groups.are_parallel_at(at)
            && self.grid.port_groups.are_same_at(&before.port_groups, at);
        let old = previous.lfts.table(at).filter(|_| is_usable)?;
        let mut moved = match previous.repaired {
            Some(routes) if self.repaired.shares_torus(routes) => {
                self.repaired.changes_at(at, routes)
            }
            _ => self.differences(at, previous, hops),
        };
        moved.retain(|to| !self.destinations[to.index()].is_empty());
        if moved.is_empty() && changes.is_empty() {
            return Some(old.clone());
        }
        let mut lft = Lft::clone(old);
        lft.resize(self.inputs.max);
        for destination in changes.iter().flat_map(|change| change.before) {
            clear(&mut lft, destination);
        }
        for to in moved.into_iter().chain(changes.iter().map(|change| change.at)) {
            let way = self.repaired.next_hop(at, to);
            for destination in self.destinations[to.index()] {
                let port = match way {
                    Some(way) => *self.grid.port_group(at, way).first()?,
                    None if to == at => destination.port,
                    None => LFT_NO_PATH,
                };
                set(&mut lft, destination, port);
            }
        }
        Some(Arc::new(lft))
    }

    /// Destinations to which a switch has another next hop than in the previous pass, by its whole rows.
    fn differences(
        &self,
        at: Position,
        previous: &PreviousTables<'_>,
        hops: &mut NextHops,
    ) -> Vec<Position> {
        self.repaired.next_hops(at, OWN_SWITCH, NO_DIRECTION, &mut hops.now);
        match previous.repaired {
            Some(routes) => routes.next_hops(at, OWN_SWITCH, NO_DIRECTION, &mut hops.before),
            None => directions(&previous.lfts.inputs.directions, at, &mut hops.before),
        }
        differences(&hops.now, &hops.before).map(|to| Position(to as u32)).collect()
    }
}

fn groups(
    destinations: &Arc<Destinations>,
) -> impl Iterator<Item = (Position, &[TorusDestination])> {
    destinations.groups()
}

/// Indices at which two rows of next hops differ.
fn differences(now: &[u8], before: &[u8]) -> impl Iterator<Item = usize> {
    let groups = now.chunks(COMPARED_BYTES).zip(before.chunks(COMPARED_BYTES)).enumerate();
    let different = groups.filter(|(_, (now, before))| now != before);
    different.flat_map(|(group, (now, before))| {
        let pairs = now.iter().zip(before).enumerate();
        pairs
            .filter(|(_, (now, before))| now != before)
            .map(move |(index, _)| group * COMPARED_BYTES + index)
    })
}
