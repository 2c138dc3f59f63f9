//! Next hops and forwarding tables.
//!
//! A packet goes along x, then y, then z, each the shorter way round unless that is interrupted.
//! Only if the switch where it would turn is missing may it turn early. The decision per
//! dimension depends on the switch and on one coordinate of the destination, so each switch has
//! three short rows of a [`RingDirections`], from which the direction to every other switch is read off.
//!
//! A forwarding table is a function of these rows, of the switch's port_groups of cables and of the
//! list of destinations. Where they are those of the last success, so is the table: it is handed
//! on instead of being made again, and whoever compares tables need not look inside. Where only a few
//! destinations are others, the table is a copy in which they are ([`destination_changes`](super::changes)).

use super::destination_changes::{DestinationChange, changes};
use super::grid::Grid;
use super::lattice::{Direction, Position};
use super::ring_directions::{NO_DIRECTION, RingDirections};
use crate::fabric::Fabric;
use crate::ids::Lid;
use crate::notes::Note;
use crate::plan::LidTable;
use crate::plan::routing::Lft;
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;
use std::sync::Arc;

/// In tables of directions by position: the switch itself.
const OWN_SWITCH: u8 = 6;
/// How many pairs without a route are listed.
const LISTED_PAIRS: usize = 32;

/// A port that gets an entry in every forwarding table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Destination {
    /// First of its LIDs; 0 if it has none.
    lid: u16,
    /// Number of its LIDs.
    lids: u16,
    /// Its port number on its own switch.
    pub port: u8,
    /// True for a switch's port 0, which is balanced on its own.
    is_management: bool,
}

/// All targets in the order in which they are routed: by placement order of their switches,
/// then by port order.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Destinations {
    list: Vec<Destination>,
    /// Position of the switch, end of its targets in the list.
    switches: Vec<(Position, usize)>,
}

impl Destinations {
    fn new(grid: &Grid, lids: &LidTable, port_order: &[u8]) -> Self {
        let mut rank = [usize::MAX; 256];
        for (index, &port) in port_order.iter().enumerate() {
            rank[usize::from(port)] = index;
        }
        let mut targets = Self { list: Vec::new(), switches: Vec::new() };
        for &at in &grid.order {
            let first = targets.list.len();
            targets.list.extend(grid.local.of(at).iter().map(|local| Destination {
                lid: lids.base(local.end).map_or(0, |lid| lid.0),
                lids: 1 << lids.lmc(local.end),
                port: local.port,
                is_management: local.port == 0,
            }));
            targets.list[first..].sort_by_key(|target| rank[usize::from(target.port)]);
            targets.switches.push((at, targets.list.len()));
        }
        targets
    }

    /// The targets of each switch.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Position, &[Destination])> {
        let mut first = 0;
        self.switches.iter().map(move |&(at, end)| {
            let group = &self.list[first..end];
            first = end;
            (at, group)
        })
    }

    /// True if these are the same targets, whatever the order of the switches.
    fn are_those_of(&self, other: &Self) -> bool {
        let positions = self.switches.iter().map(|&(at, _)| at.index() + 1).max().unwrap_or(0);
        let mut groups = vec![None; positions];
        let found = self.groups().all(|(at, group)| groups[at.index()].replace(group).is_none());
        let mut others = other.groups();
        found
            && self.switches.len() == other.switches.len()
            && others.all(|(at, group)| groups.get(at.index()) == Some(&Some(group)))
    }
}

/// What all forwarding tables of a torus were made from, beside its port_groups of cables.
#[derive(Debug)]
pub(super) struct LftInputs {
    max: Lid,
    port_order: Vec<u8>,
    targets: Arc<Destinations>,
    directions: RingDirections,
}

/// Forwarding tables of the last success, to be handed on where nothing changed.
pub(super) struct PreviousLfts<'a> {
    /// The tables, by switch of the fabric that was routed.
    pub lfts: &'a [Arc<Lft>],
    /// The torus.
    pub grid: &'a Grid,
    /// What the tables were made from.
    pub inputs: &'a LftInputs,
    /// If nodes, their numbers and LIDs are the same as then: the positions at which there are
    /// other switches or cables.
    pub changed: Option<&'a [Position]>,
}

impl LftInputs {
    fn new(grid: &Grid, lids: &LidTable, port_order: &[u8]) -> Self {
        Self {
            max: lids.max(),
            port_order: port_order.to_vec(),
            targets: Arc::new(Destinations::new(grid, lids, port_order)),
            directions: RingDirections::new(grid),
        }
    }
}

/// How the destinations compare to those of the last success.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Others, or in other places.
    Different,
    /// The same but for a few, for which there are changes; they may take turns in another order.
    Patched,
    /// The same, but they take turns in another order.
    Reordered,
    /// The same.
    Same,
}

impl PreviousLfts<'_> {
    /// What tables are to be made from now.
    fn inputs(&self, grid: &Grid, lids: &LidTable, port_order: &[u8]) -> LftInputs {
        let Some(changed) = self.changed else { return LftInputs::new(grid, lids, port_order) };
        let old = self.inputs;
        let is_same = grid.order == self.grid.order
            && grid.switches == self.grid.switches
            && grid.local == self.grid.local
            && old.port_order == port_order;
        let targets = match is_same {
            true => old.targets.clone(),
            false => Arc::new(Destinations::new(grid, lids, port_order)),
        };
        let directions = old.directions.updated(grid, changed);
        LftInputs { max: lids.max(), port_order: port_order.to_vec(), targets, directions }
    }

    /// By position: its table may differ, for what it was made from does; `None` if nobody knows.
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

    /// Also tells the changes.
    fn comparison<'a>(
        &'a self,
        grid: &Grid,
        inputs: &'a LftInputs,
    ) -> (Comparison, Vec<DestinationChange<'a>>) {
        let alike = self.likeness_of_all(grid, inputs);
        if alike == Comparison::Different && self.grid.lattice == grid.lattice {
            let found = changes(grid.lattice.len(), &self.inputs.targets, &inputs.targets);
            return found.map_or((alike, Vec::new()), |changes| (Comparison::Patched, changes));
        }
        (alike, Vec::new())
    }

    fn likeness_of_all(&self, grid: &Grid, inputs: &LftInputs) -> Comparison {
        let old = self.inputs;
        if old.max != inputs.max || self.grid.lattice != grid.lattice {
            Comparison::Different
        } else if Arc::ptr_eq(&old.targets, &inputs.targets) || old.targets == inputs.targets {
            Comparison::Same
        } else if old.targets.are_those_of(&inputs.targets) {
            Comparison::Reordered
        } else {
            Comparison::Different
        }
    }

    /// The table of the switch at `at`, if it still holds.
    fn lft(
        &self,
        (comparison, changes): (Comparison, &[DestinationChange<'_>]),
        grid: &Grid,
        inputs: &LftInputs,
        at: Position,
    ) -> Option<Arc<Lft>> {
        let balances_cables = || grid.port_groups.are_parallel_at(at);
        match comparison {
            Comparison::Different => return None,
            Comparison::Patched | Comparison::Reordered if balances_cables() => return None,
            _ => {}
        }
        let (old, new) = (&self.inputs.directions, &inputs.directions);
        let holds = grid.port_groups.are_same_at(&self.grid.port_groups, at)
            && (0..3).all(|axis| old.along(at, axis) == new.along(at, axis));
        let switch = self.grid.switch(at).filter(|_| holds)?;
        let lft = self.lfts.get(switch.index())?;
        match comparison {
            Comparison::Patched => with_changes(lft, grid, inputs, at, changes),
            _ => Some(lft.clone()),
        }
    }
}

/// A copy of the table of the switch at `at`, which has one cable at most in every direction, with other
/// destinations; `None` if one has no route.
fn with_changes(
    lft: &Lft,
    grid: &Grid,
    inputs: &LftInputs,
    at: Position,
    changes: &[DestinationChange<'_>],
) -> Option<Arc<Lft>> {
    let mut lft = lft.clone();
    lft.0.resize(Lft::empty(inputs.max).0.len(), LFT_NO_PATH);
    for target in changes.iter().flat_map(|patch| patch.before) {
        clear(&mut lft, target);
    }
    for &DestinationChange { at: destination, now, .. } in changes {
        if destination == at {
            now.iter().for_each(|target| fill(&mut lft, target, target.port));
        } else if !now.is_empty() {
            let way = inputs.directions.first_hop(&grid.lattice, at, destination);
            let direction = Direction::ALL.get(usize::from(way))?;
            let &only = grid.port_group(at, *direction).first()?;
            now.iter().for_each(|target| fill(&mut lft, target, only));
        }
    }
    Some(Arc::new(lft))
}

/// The directions from `at` by position of the destination: a direction's index, [`OWN_SWITCH`], or
/// [`NO_DIRECTION`] where there is no route (or no switch).
fn directions(directions: &RingDirections, at: Position, out: &mut Vec<u8>) {
    let [x, y, z] = [0, 1, 2].map(|axis| directions.along(at, axis));
    out.clear();
    for &along_z in z {
        for &along_y in y {
            let later = if along_y == NO_DIRECTION { along_z } else { along_y };
            out.extend(
                x.iter().map(|&along_x| if along_x == NO_DIRECTION { later } else { along_x }),
            );
        }
    }
    out[at.index()] = OWN_SWITCH;
}

/// Forwarding tables of all switches of the fabric, and what they were made from; switches that
/// were not placed have empty ones. Tables of `known` that still hold are shared with it.
///
/// # Errors
/// The pairs of switches without a route.
pub(super) fn forwarding_tables(
    fabric: &Fabric,
    grid: &Grid,
    lids: &LidTable,
    port_order: &[u8],
    known: Option<&PreviousLfts<'_>>,
) -> Result<(Vec<Arc<Lft>>, LftInputs), Vec<Note>> {
    let inputs = match known {
        Some(known) => known.inputs(grid, lids, port_order),
        None => LftInputs::new(grid, lids, port_order),
    };
    let comparison = known.map(|known| known.comparison(grid, &inputs));
    let known = known.zip(comparison.as_ref());
    let may_differ = known.and_then(|(known, comparison)| known.may_differ(comparison.0, grid));
    let row =
        |by_position: &mut Vec<u8>, (at, switch): (&Option<Position>, usize)| -> TableResult {
            let Some(at) = *at else { return (Arc::new(Lft::empty(inputs.max)), Vec::new()) };
            let held = known.and_then(|(known, comparison)| match &may_differ {
                Some(may_differ) if !may_differ[at.index()] => known.lfts.get(switch).cloned(),
                _ => known.lft((comparison.0, &comparison.1), grid, &inputs, at),
            });
            // Tables of a success lead everywhere.
            held.map_or_else(
                || forwarding_table(grid, &inputs, at, by_position),
                |lft| (lft, Vec::new()),
            )
        };
    let switches = grid.positions.par_iter().zip(0..grid.positions.len());
    let rows: Vec<TableResult> = switches.with_min_len(64).map_init(Vec::new, row).collect();
    let notes = unrouted(fabric, grid, &rows);
    drop(comparison);
    if notes.is_empty() {
        Ok((rows.into_iter().map(|(lft, _)| lft).collect(), inputs))
    } else {
        Err(notes)
    }
}

/// A forwarding table, and the positions it has no route to.
type TableResult = (Arc<Lft>, Vec<Position>);

/// Makes the forwarding table of the switch at `at`.
fn forwarding_table(
    grid: &Grid,
    inputs: &LftInputs,
    at: Position,
    by_position: &mut Vec<u8>,
) -> TableResult {
    let mut lft = Lft::empty(inputs.max);
    let mut unreachable = Vec::new();
    directions(&inputs.directions, at, by_position);
    let port_groups = Direction::ALL.map(|direction| grid.port_group(at, direction));
    // Turns taken so far, for host ports and ports 0 apart.
    let mut turns = [[0usize; 2]; 6];
    for (destination, ports) in inputs.targets.groups() {
        match by_position[destination.index()] {
            OWN_SWITCH => ports.iter().for_each(|target| fill(&mut lft, target, target.port)),
            NO_DIRECTION => unreachable.push(destination),
            direction => {
                let direction = usize::from(direction);
                let (group_ports, turns) = (port_groups[direction], &mut turns[direction]);
                if let &[only] = group_ports {
                    ports.iter().for_each(|target| fill(&mut lft, target, only));
                    continue;
                }
                for target in ports {
                    let turn = &mut turns[usize::from(target.is_management)];
                    fill(&mut lft, target, group_ports[*turn]);
                    *turn = if *turn + 1 == group_ports.len() { 0 } else { *turn + 1 };
                }
            }
        }
    }
    (Arc::new(lft), unreachable)
}

/// The number of ordered pairs of switches without a route; `directions` has the ways of `grid`.
pub(super) fn unrouted_pairs(grid: &Grid, directions: &RingDirections) -> usize {
    let lattice = &grid.lattice;
    let blocked = |at: Position, axis: usize| {
        let ways = directions.along(at, axis).iter().zip(0u32..);
        ways.filter(|&(&way, _)| way == NO_DIRECTION).map(|(_, coordinate)| coordinate)
    };
    let mut count = 0;
    for (at, _) in grid.placed() {
        for z in blocked(at, 2).map(|z| lattice.with(at, 2, z)) {
            for y in blocked(at, 1).map(|y| lattice.with(z, 1, y)) {
                let goals = blocked(at, 0).map(|x| lattice.with(y, 0, x));
                count += goals.filter(|&to| to != at && grid.is_present(to)).count();
            }
        }
    }
    count
}

/// Enters the output port for all LIDs of a target.
#[inline]
fn fill(lft: &mut Lft, target: &Destination, port: u8) {
    let first = usize::from(target.lid);
    match target.lids {
        _ if first == 0 => {}
        // By far the most frequent, and a call of memset for one byte would double the time.
        1 => lft.0[first] = port,
        lids => lft.0[first..first + usize::from(lids)].fill(port),
    }
}

/// Removes the entries of a destination of an earlier table. The highest LIDs may be its own: then
/// the table has become shorter, and has no entries for them.
fn clear(lft: &mut Lft, target: &Destination) {
    let first = usize::from(target.lid);
    let end = lft.0.len().min(first + usize::from(target.lids));
    if let Some(entries) = lft.0.get_mut(first..end).filter(|_| first != 0) {
        entries.fill(LFT_NO_PATH);
    }
}

fn unrouted(fabric: &Fabric, grid: &Grid, rows: &[TableResult]) -> Vec<Note> {
    let pairs = grid
        .placed()
        .flat_map(|(from, switch)| rows[switch.index()].1.iter().map(move |&to| (from, to)));
    let mut notes: Vec<Note> = pairs
        .clone()
        .take(LISTED_PAIRS)
        .map(|(from, to)| {
            let (from, to) = (grid.describe(fabric, from), grid.describe(fabric, to));
            Note::error("4E39", format!("no route from switch {from} to switch {to}"))
        })
        .collect();
    let more = pairs.skip(LISTED_PAIRS).count();
    if more > 0 {
        notes.push(Note::error("4E39", format!("no route between {more} more pairs of switches")));
    }
    notes
}
