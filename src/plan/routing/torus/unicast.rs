//! Unicast forwarding tables.
//!
//! Packets go along x, then y, then z, each the shorter way round unless that is interrupted. A
//! packet turns early only if the switch where it would turn is missing. The direction along one
//! dimension depends on the switch and on one coordinate of the destination; three short rows of
//! [`RingDirections`] give the direction from a switch to all others.
//!
//! Over parallel cables destinations are distributed round robin, in the order of placement of
//! their switches and, on each switch, in the order of `port_order`. Host ports and management
//! ports have counters of their own. The LIDs of a port with LMC > 0 all use the same cable.
//!
//! A forwarding table is a function of these rows, of the switch's port groups and of the list of
//! destinations. If they equal those of the previous pass, the previous table is shared instead of
//! computed again, which also makes comparisons of tables cheap. If few destinations changed, the
//! table is a copy with changed entries ([`destinations`](super::destinations)).

use super::destinations::{DestinationChange, Destinations, TorusDestination, changes};
use super::grid::Grid;
use super::lattice::{Direction, Position};
use super::ring_directions::{NO_DIRECTION, RingDirections, next_hops_along};
use crate::fabric::Fabric;
use crate::ids::Lid;
use crate::notes::{Note, counted};
use crate::plan::LidTable;
use crate::plan::routing::Lft;
use crate::plan::routing::lft::{BlockPool, SHARING_TABLES};
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use std::sync::Arc;

/// Marks the switch itself in tables of directions by position.
pub(super) const OWN_SWITCH: u8 = 6;
/// Maximum number of unroutable pairs of switches listed one by one.
const MAX_LISTED_PAIRS: usize = 32;

/// The inputs of all forwarding tables of a torus, except its port groups.
#[derive(Debug)]
pub(super) struct LftInputs {
    pub max: Lid,
    port_order: Vec<u8>,
    pub destinations: Arc<Destinations>,
    pub directions: RingDirections,
}

/// Forwarding tables of the previous successful pass.
pub(super) struct PreviousLfts<'a> {
    /// By switch of the fabric that was routed.
    pub lfts: &'a [Arc<Lft>],
    pub grid: &'a Grid,
    pub inputs: &'a LftInputs,
    /// Positions with other switches or cables; `None` unless nodes, their numbers and LIDs are
    /// those of the previous pass.
    pub changed: Option<&'a [Position]>,
}

impl LftInputs {
    pub(super) fn new(grid: &Grid, lids: &LidTable, port_order: &[u8]) -> Self {
        Self {
            max: lids.max(),
            port_order: port_order.to_vec(),
            destinations: Arc::new(Destinations::new(grid, lids, port_order)),
            directions: RingDirections::new(grid),
        }
    }
}

/// Comparison of the destinations with those of the previous pass.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The lattice or too many destinations changed.
    Different,
    /// Few destinations changed; the order may differ, too.
    FewChanged,
    /// The same destinations in another order.
    Reordered,
    /// The same destinations in the same order.
    Same,
}

impl PreviousLfts<'_> {
    /// The table of the switch at a position.
    pub(super) fn table(&self, at: Position) -> Option<&Arc<Lft>> {
        self.lfts.get(self.grid.switches.get(at.index())?.as_ref()?.index())
    }

    /// The inputs of the new tables.
    fn inputs(&self, grid: &Grid, lids: &LidTable, port_order: &[u8]) -> LftInputs {
        let Some(changed) = self.changed else { return LftInputs::new(grid, lids, port_order) };
        let old = self.inputs;
        let is_same = grid.order == self.grid.order
            && grid.switches == self.grid.switches
            && grid.local == self.grid.local
            && old.port_order == port_order;
        let destinations = if is_same {
            old.destinations.clone()
        } else {
            Arc::new(Destinations::new(grid, lids, port_order))
        };
        let directions = old.directions.updated(grid, changed);
        LftInputs { max: lids.max(), port_order: port_order.to_vec(), destinations, directions }
    }

    /// By position: true if the table may differ, because an input changed. `None` if this is
    /// unknown.
    fn may_differ(&self, comparison: Comparison, grid: &Grid) -> Option<Vec<bool>> {
        let is_whole = matches!(comparison, Comparison::Same | Comparison::Reordered);
        let changed = self.changed.filter(|_| is_whole)?;
        let mut may_differ = vec![false; grid.lattice.len()];
        for &at in changed {
            for axis in 0..3 {
                let line = grid.lattice.line(grid.lattice.with(at, axis, 0), axis);
                line.for_each(|at| may_differ[at.index()] = true);
            }
        }
        if comparison == Comparison::Reordered {
            let parallel =
                grid.lattice.positions().filter(|&at| grid.port_groups.are_parallel_at(at));
            parallel.for_each(|at| may_differ[at.index()] = true);
        }
        Some(may_differ)
    }

    /// Compares the destinations. Also returns the changed ones for [`Comparison::FewChanged`].
    pub(super) fn compare<'a>(
        &'a self,
        grid: &Grid,
        inputs: &'a LftInputs,
    ) -> (Comparison, Vec<DestinationChange<'a>>) {
        let comparison = self.compare_all(grid, inputs);
        if comparison == Comparison::Different && self.grid.lattice == grid.lattice {
            let found =
                changes(grid.lattice.len(), &self.inputs.destinations, &inputs.destinations);
            return found
                .map_or((comparison, Vec::new()), |changes| (Comparison::FewChanged, changes));
        }
        (comparison, Vec::new())
    }

    fn compare_all(&self, grid: &Grid, inputs: &LftInputs) -> Comparison {
        let old = self.inputs;
        if old.max != inputs.max || self.grid.lattice != grid.lattice {
            Comparison::Different
        } else if Arc::ptr_eq(&old.destinations, &inputs.destinations)
            || old.destinations == inputs.destinations
        {
            Comparison::Same
        } else if old.destinations.are_same_set(&inputs.destinations) {
            Comparison::Reordered
        } else {
            Comparison::Different
        }
    }

    /// The previous table of the switch at `at`, with changed destinations if need be; `None` if it
    /// must be computed.
    fn lft(
        &self,
        comparison: Comparison,
        changes: &[DestinationChange<'_>],
        grid: &Grid,
        inputs: &LftInputs,
        at: Position,
    ) -> Option<Arc<Lft>> {
        match comparison {
            Comparison::Different => return None,
            Comparison::FewChanged | Comparison::Reordered
                if grid.port_groups.are_parallel_at(at) =>
            {
                return None;
            }
            _ => {}
        }
        let old = &self.inputs.directions;
        let new = &inputs.directions;
        let holds = grid.port_groups.are_same_at(&self.grid.port_groups, at)
            && (0..3).all(|axis| old.along(at, axis) == new.along(at, axis));
        let switch = self.grid.switch(at).filter(|_| holds)?;
        let lft = self.lfts.get(switch.index())?;
        match comparison {
            Comparison::FewChanged => with_changes(lft, grid, inputs, at, changes),
            _ => Some(lft.clone()),
        }
    }
}

/// A copy of the table of the switch at `at`, which must have at most one cable in each direction,
/// with changed destinations; `None` if one of them has no route.
fn with_changes(
    lft: &Lft,
    grid: &Grid,
    inputs: &LftInputs,
    at: Position,
    changes: &[DestinationChange<'_>],
) -> Option<Arc<Lft>> {
    let mut lft = lft.clone();
    lft.resize(inputs.max);
    for destination in changes.iter().flat_map(|patch| patch.before) {
        clear(&mut lft, destination);
    }
    for &DestinationChange { at: destination, now, .. } in changes {
        if destination == at {
            now.iter().for_each(|destination| set(&mut lft, destination, destination.port));
        } else if !now.is_empty() {
            let way = inputs.directions.first_hop(&grid.lattice, at, destination);
            let direction = Direction::ALL.get(usize::from(way))?;
            let &only = grid.port_group(at, *direction).first()?;
            now.iter().for_each(|destination| set(&mut lft, destination, only));
        }
    }
    Some(Arc::new(lft))
}

/// Writes to `out` the directions from `at` by position of the destination: a direction's index,
/// [`OWN_SWITCH`], or [`NO_DIRECTION`] if there is no route (or no switch).
pub(super) fn directions(directions: &RingDirections, at: Position, out: &mut Vec<u8>) {
    let along = [0, 1, 2].map(|axis| directions.along(at, axis));
    next_hops_along(along, NO_DIRECTION, out);
    out[at.index()] = OWN_SWITCH;
}

/// Computes the forwarding tables of all switches of the fabric; switches outside the torus have
/// empty ones. Tables of `previous` that do not change are shared. Also returns the inputs, for the
/// next pass.
///
/// # Errors
/// Returns an error for each pair of switches without a route.
pub(super) fn forwarding_tables(
    fabric: &Fabric,
    grid: &Grid,
    lids: &LidTable,
    port_order: &[u8],
    previous: Option<&PreviousLfts<'_>>,
) -> Result<(Vec<Arc<Lft>>, LftInputs), Vec<Note>> {
    let known = previous;
    let inputs = match known {
        Some(known) => known.inputs(grid, lids, port_order),
        None => LftInputs::new(grid, lids, port_order),
    };
    let comparison = known.map(|known| known.compare(grid, &inputs));
    let known = known.zip(comparison.as_ref());
    let may_differ = known.and_then(|(known, comparison)| known.may_differ(comparison.0, grid));
    let rows: Vec<TableResult> = all_tables(grid, |work: &mut TableWork, at, switch| {
        let Some(at) = *at else { return (Arc::new(Lft::empty(inputs.max)), Vec::new()) };
        let held = known.and_then(|(known, comparison)| match &may_differ {
            Some(may_differ) if !may_differ[at.index()] => known.lfts.get(switch).cloned(),
            _ => known.lft(comparison.0, &comparison.1, grid, &inputs, at),
        });
        // Tables of a successful pass reach all destinations.
        if let Some(lft) = held {
            return (lft, Vec::new());
        }
        let (entries, unreachable) = forwarding_table(grid, &inputs, at, &mut work.by_position);
        let before = previous.and_then(|known| known.lfts.get(switch));
        (Arc::new(work.pool.table(&entries, before.map(|before| &**before))), unreachable)
    });
    let notes = unrouted(fabric, grid, &rows);
    drop(comparison);
    if notes.is_empty() {
        Ok((rows.into_iter().map(|(lft, _)| lft).collect(), inputs))
    } else {
        Err(notes)
    }
}

/// A forwarding table, and the positions to which it has no route.
pub(super) type TableResult = (Arc<Lft>, Vec<Position>);

/// What the tables of successive switches are made with.
#[derive(Default)]
struct TableWork {
    /// The direction by position of the destination.
    by_position: Vec<u8>,
    pool: BlockPool,
}

/// Calls `table` for each switch, with its position and number. Successive switches have the work space `W` in
/// common.
pub(super) fn all_tables<W: Default, T: Send>(
    grid: &Grid,
    table: impl Fn(&mut W, &Option<Position>, usize) -> T + Sync,
) -> Vec<T> {
    let chunks = grid.positions.par_chunks(SHARING_TABLES).enumerate();
    let tables = chunks.flat_map_iter(|(chunk, positions)| {
        let mut work = W::default();
        let table = &table;
        let numbers = chunk * SHARING_TABLES..;
        positions.iter().zip(numbers).map(move |(at, switch)| table(&mut work, at, switch))
    });
    tables.collect()
}

/// Computes the forwarding table of the switch at `at`.
fn forwarding_table(
    grid: &Grid,
    inputs: &LftInputs,
    at: Position,
    by_position: &mut Vec<u8>,
) -> (Vec<u8>, Vec<Position>) {
    directions(&inputs.directions, at, by_position);
    filled_table(grid, inputs.max, at, by_position, inputs.destinations.groups())
}

/// Fills the forwarding table of the switch at `at` by the directions in `by_position`.
pub(super) fn filled_table<'a>(
    grid: &Grid,
    max: Lid,
    at: Position,
    by_position: &[u8],
    groups: impl Iterator<Item = (Position, &'a [TorusDestination])>,
) -> (Vec<u8>, Vec<Position>) {
    let mut entries = Lft::unused_entries(max);
    let mut unreachable = Vec::new();
    let port_groups = Direction::ALL.map(|direction| grid.port_group(at, direction));
    // Next cable of each port group, for host ports and for management ports.
    let mut turns = [[0usize; 2]; 6];
    for (destination, ports) in groups {
        match by_position[destination.index()] {
            OWN_SWITCH => ports
                .iter()
                .for_each(|destination| fill(&mut entries, destination, destination.port)),
            NO_DIRECTION => unreachable.push(destination),
            direction => {
                let direction = usize::from(direction);
                let group_ports = port_groups[direction];
                let turns = &mut turns[direction];
                if let &[only] = group_ports {
                    ports.iter().for_each(|destination| fill(&mut entries, destination, only));
                    continue;
                }
                for destination in ports {
                    let turn = &mut turns[usize::from(destination.is_management)];
                    fill(&mut entries, destination, group_ports[*turn]);
                    *turn = if *turn + 1 == group_ports.len() { 0 } else { *turn + 1 };
                }
            }
        }
    }
    (entries, unreachable)
}

/// Number of ordered pairs of switches without a route; `directions` are those of `grid`.
pub(super) fn unrouted_pairs(grid: &Grid, directions: &RingDirections) -> usize {
    let lattice = &grid.lattice;
    let mut count = 0;
    for (at, _) in grid.placed() {
        for z in blocked(directions, at, 2).map(|z| lattice.with(at, 2, z)) {
            for y in blocked(directions, at, 1).map(|y| lattice.with(z, 1, y)) {
                let goals = blocked(directions, at, 0).map(|x| lattice.with(y, 0, x));
                count += goals.filter(|&to| to != at && grid.is_present(to)).count();
            }
        }
    }
    count
}

/// The coordinates along a dimension to which no direction leads from a position.
fn blocked(
    directions: &RingDirections,
    at: Position,
    axis: usize,
) -> impl Iterator<Item = u32> + '_ {
    let ways = directions.along(at, axis).iter().zip(0u32..);
    ways.filter(|&(&way, _)| way == NO_DIRECTION).map(|(_, coordinate)| coordinate)
}

/// Sets the output port for all LIDs of a destination.
#[inline]
fn fill(entries: &mut [u8], destination: &TorusDestination, port: u8) {
    let first = usize::from(destination.lid);
    match destination.lids {
        _ if first == 0 => {}
        // The most frequent case: a call of memset for one byte would double the time.
        1 => entries[first] = port,
        lids => entries[first..first + usize::from(lids)].fill(port),
    }
}

/// Sets the output port of a finished table for all LIDs of a destination. LIDs beyond its end are left
/// out.
pub(super) fn set(lft: &mut Lft, destination: &TorusDestination, port: u8) {
    if destination.lid != 0 {
        let lids = destination.lid..destination.lid.saturating_add(destination.lids);
        lids.for_each(|lid| lft.set(Lid(lid), port));
    }
}

/// Removes the entries of a destination of the previous table. The table may have been shortened
/// below its LIDs, if these were the highest ones.
pub(super) fn clear(lft: &mut Lft, destination: &TorusDestination) {
    set(lft, destination, LFT_NO_PATH);
}

fn unrouted(fabric: &Fabric, grid: &Grid, rows: &[TableResult]) -> Vec<Note> {
    let pairs = grid
        .placed()
        .flat_map(|(from, switch)| rows[switch.index()].1.iter().map(move |&to| (from, to)));
    let mut notes: Vec<Note> = pairs
        .clone()
        .take(MAX_LISTED_PAIRS)
        .map(|(from, to)| {
            let from = grid.describe(fabric, from);
            let to = grid.describe(fabric, to);
            Note::error("4E39", format!("no route from switch {from} to switch {to}"))
        })
        .collect();
    let more = pairs.skip(MAX_LISTED_PAIRS).count();
    if more > 0 {
        notes.push(Note::error(
            "4E39",
            format!(
                "no route between {}",
                counted(more, "more pair of switches", "more pairs of switches")
            ),
        ));
    }
    notes
}
