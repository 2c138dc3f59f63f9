//! Next hops and forwarding tables.
//!
//! A packet goes along x, then y, then z, each the shorter way round unless that is interrupted.
//! Only if the switch where it would turn is missing may it turn early. The decision per
//! dimension depends on the switch and on one coordinate of the destination, so each switch has
//! three short tables, from which the direction to every other switch is read off.

use super::grid::Grid;
use super::lattice::{Direction, Lattice, Position};
use crate::fabric::Fabric;
use crate::ids::Lid;
use crate::notes::Note;
use crate::plan::LidTable;
use crate::plan::routing::Lft;
use rayon::prelude::*;
use std::sync::Arc;

/// In tables of directions: not along this dimension.
const NONE: u8 = 0xFF;
/// In tables of directions by position: the switch itself.
const HERE: u8 = 6;
/// How many pairs without a route are listed.
const LISTED_PAIRS: usize = 32;

/// A port that gets an entry in every forwarding table.
struct Target {
    /// First of its LIDs; 0 if it has none.
    lid: u16,
    /// Number of its LIDs.
    lids: u16,
    /// Its port number on its own switch.
    port: u8,
    /// True for a switch's port 0, which is balanced on its own.
    is_management: bool,
}

/// All targets in the order in which they are routed: by placement order of their switches,
/// then by port order.
struct Targets {
    list: Vec<Target>,
    /// Position of the switch, end of its targets in the list.
    switches: Vec<(Position, usize)>,
}

impl Targets {
    fn new(grid: &Grid, lids: &LidTable, port_order: &[u8]) -> Self {
        let mut rank = [usize::MAX; 256];
        for (index, &port) in port_order.iter().enumerate() {
            rank[usize::from(port)] = index;
        }
        let mut targets = Self { list: Vec::new(), switches: Vec::new() };
        for &at in &grid.order {
            let mut ports = grid.local[at.index()].clone();
            ports.sort_by_key(|local| rank[usize::from(local.port)]);
            targets.list.extend(ports.iter().map(|local| Target {
                lid: lids.base(local.end).map_or(0, |lid| lid.0),
                lids: 1 << lids.lmc(local.end),
                port: local.port,
                is_management: local.port == 0,
            }));
            targets.switches.push((at, targets.list.len()));
        }
        targets
    }
}

/// The direction in which `at` sends packets whose coordinate along `axis` is to become
/// `coordinate`; `None` if they cannot go along this dimension now.
fn step(grid: &Grid, at: Position, axis: usize, coordinate: u32) -> Option<Direction> {
    let here = grid.lattice.coordinate(at, axis);
    let preferred = grid.lattice.shorter(axis, here, coordinate);
    let turn = grid.lattice.with(at, axis, coordinate);
    if grid.is_present(turn) {
        let mut ways = [preferred, preferred.opposite()].into_iter();
        return ways.find(|&way| leads_to(grid, at, way, turn));
    }
    // Towards a missing switch: as far as possible. Along z this cannot be, since x and y come
    // first and missing switches share them.
    (axis < 2 && grid.is_open(at, preferred)).then_some(preferred)
}

/// True if the cables in `direction` lead from `at` to `goal`.
fn leads_to(grid: &Grid, mut at: Position, direction: Direction, goal: Position) -> bool {
    // A goal on the same ring is met before the start is met again.
    while at != goal {
        if !grid.is_open(at, direction) {
            return false;
        }
        at = grid.lattice.step(at, direction);
    }
    true
}

/// The directions from `at` by position of the destination: a direction's index, [`HERE`], or
/// [`NONE`] where there is no route (or no switch).
fn directions(grid: &Grid, at: Position, out: &mut Vec<u8>) {
    let lattice: &Lattice = &grid.lattice;
    let along = |axis: usize| -> Vec<u8> {
        let here = lattice.coordinate(at, axis);
        let way = |c| if c == here { None } else { step(grid, at, axis, c) };
        (0..lattice.radix(axis)).map(|c| way(c).map_or(NONE, |d| d.index() as u8)).collect()
    };
    let [x, y, z] = [along(0), along(1), along(2)];
    out.clear();
    for &along_z in &z {
        for &along_y in &y {
            let later = if along_y == NONE { along_z } else { along_y };
            out.extend(x.iter().map(|&along_x| if along_x == NONE { later } else { along_x }));
        }
    }
    out[at.index()] = HERE;
}

/// The direction of the next hop from one placed switch to another.
pub fn next_hop(grid: &Grid, from: Position, to: Position) -> Option<Direction> {
    let (here, there) = (grid.lattice.coordinates(from), grid.lattice.coordinates(to));
    (0..3)
        .filter(|&axis| here.0[axis] != there.0[axis])
        .find_map(|axis| step(grid, from, axis, there.0[axis]))
}

/// Forwarding tables of all switches of the fabric; those that were not placed have empty ones.
///
/// # Errors
/// The pairs of switches without a route.
pub fn forwarding_tables(
    fabric: &Fabric,
    grid: &Grid,
    lids: &LidTable,
    port_order: &[u8],
) -> Result<Vec<Arc<Lft>>, Vec<Note>> {
    let targets = Targets::new(grid, lids, port_order);
    let max = lids.max();
    let rows: Vec<(Lft, Vec<Position>)> = grid
        .positions
        .par_iter()
        .map_init(Vec::new, |by_position, at| match at {
            Some(at) => forwarding_table(grid, &targets, *at, max, by_position),
            None => (Lft::empty(max), Vec::new()),
        })
        .collect();
    let notes = unrouted(fabric, grid, &rows);
    if notes.is_empty() {
        Ok(rows.into_iter().map(|(lft, _)| Arc::new(lft)).collect())
    } else {
        Err(notes)
    }
}

/// The forwarding table of the switch at `at`, and the positions it has no route to.
fn forwarding_table(
    grid: &Grid,
    targets: &Targets,
    at: Position,
    max: Lid,
    by_position: &mut Vec<u8>,
) -> (Lft, Vec<Position>) {
    let mut lft = Lft::empty(max);
    let mut unreachable = Vec::new();
    directions(grid, at, by_position);
    let bundles = Direction::ALL.map(|direction| grid.bundle(at, direction));
    // Turns taken so far, for host ports and ports 0 apart.
    let mut turns = [[0usize; 2]; 6];
    let mut first = 0;
    for &(destination, end) in &targets.switches {
        let ports = &targets.list[first..end];
        first = end;
        match by_position[destination.index()] {
            HERE => ports.iter().for_each(|target| fill(&mut lft, target, target.port)),
            NONE => unreachable.push(destination),
            direction => {
                let direction = usize::from(direction);
                let (bundle, turns) = (bundles[direction], &mut turns[direction]);
                if let &[only] = bundle {
                    ports.iter().for_each(|target| fill(&mut lft, target, only));
                    continue;
                }
                for target in ports {
                    let turn = &mut turns[usize::from(target.is_management)];
                    fill(&mut lft, target, bundle[*turn]);
                    *turn = if *turn + 1 == bundle.len() { 0 } else { *turn + 1 };
                }
            }
        }
    }
    (lft, unreachable)
}

/// Enters the output port for all LIDs of a target.
#[inline]
fn fill(lft: &mut Lft, target: &Target, port: u8) {
    let first = usize::from(target.lid);
    match target.lids {
        _ if first == 0 => {}
        // By far the most frequent, and a call of memset for one byte would double the time.
        1 => lft.0[first] = port,
        lids => lft.0[first..first + usize::from(lids)].fill(port),
    }
}

fn unrouted(fabric: &Fabric, grid: &Grid, rows: &[(Lft, Vec<Position>)]) -> Vec<Note> {
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
