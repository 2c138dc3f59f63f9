//! Findings about seeds: links that contradict each other, switches that several seeds share, and
//! backup seeds with other coordinates.

use super::grid::Grid;
use super::lattice::{AXIS_NAMES, Coordinates, Direction, Lattice, Position};
use super::placement::{NamedSwitch, origin};
use super::report::warning;
use crate::config::torus::{Seed, SeedLink};
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::notes::Note;
use std::collections::{BTreeMap, BTreeSet};

/// A link of a seed with its keyword.
pub(super) struct NamedLink {
    /// Index in [`Seed::links`].
    pub slot: usize,
    pub keyword: String,
    pub direction: Direction,
    pub link: SeedLink,
}

/// The links of a seed in active dimensions.
pub(super) fn active_links(lattice: &Lattice, seed: &Seed) -> impl Iterator<Item = NamedLink> {
    let links = seed.links.iter().enumerate().filter_map(|(slot, link)| {
        let axis = slot / 2;
        let direction = if slot % 2 == 0 { Direction::plus(axis) } else { Direction::minus(axis) };
        let sign = if direction.is_plus() { 'p' } else { 'm' };
        let keyword = format!("{}{sign}_link", AXIS_NAMES[axis]);
        link.map(|link| NamedLink { slot, keyword, direction, link })
    });
    links.filter(|named| lattice.is_active(named.direction.axis()))
}

/// The reason why a seed cannot be used on any fabric: its links place a switch at two positions.
pub(super) fn contradiction(lattice: &Lattice, seed: &Seed, index: usize) -> Option<String> {
    let start = origin(lattice, seed);
    let mut placed: BTreeMap<Position, Guid> = BTreeMap::new();
    for NamedLink { keyword, direction, link, .. } in active_links(lattice, seed) {
        let ends = [(start, link.origin), (lattice.step(start, direction), link.neighbor)];
        for (at, guid) in ends {
            if placed.contains_key(&at) {
                continue;
            }
            if placed.values().any(|&known| known == guid) {
                let fault = if link.origin == link.neighbor {
                    format!("{keyword} leads from switch {guid} to itself")
                } else {
                    format!("{keyword} names switch {guid}, which is at another position")
                };
                return Some(format!("torus seed {index}: {fault}"));
            }
            placed.insert(at, guid);
        }
    }
    None
}

/// The switches of a seed that are in the fabric. The links must not contradict each other.
pub(super) fn named_switches(fabric: &Fabric, lattice: &Lattice, seed: &Seed) -> Vec<NamedSwitch> {
    let start = origin(lattice, seed);
    let ends = active_links(lattice, seed).flat_map(|NamedLink { direction, link, .. }| {
        [(start, link.origin), (lattice.step(start, direction), link.neighbor)]
    });
    let ends: BTreeMap<Position, Guid> = ends.collect();
    let named = ends.into_iter().filter_map(|(at, guid)| {
        let switch = fabric.node(fabric.node_by_guid(guid)?).switch?;
        Some(NamedSwitch { at, switch })
    });
    named.collect()
}

/// Warnings about backup seeds that do not help if a switch of another seed fails. `used` is the seed
/// in use.
pub(super) fn warnings(lattice: &Lattice, seeds: &[Seed], used: usize) -> Vec<Note> {
    let named: Vec<BTreeSet<Guid>> = seeds
        .iter()
        .map(|seed: &Seed| -> BTreeSet<Guid> {
            let links = active_links(lattice, seed);
            links.flat_map(|named| [named.link.origin, named.link.neighbor]).collect()
        })
        .collect();
    let mut notes = Vec::new();
    for (index, seed) in seeds.iter().enumerate() {
        if index != used
            && let Some(fault) = contradiction(lattice, seed, index)
        {
            notes.push(warning(format!("{fault}; the fabric is not routed when its turn comes")));
        }
        let shared = named[..index].iter().enumerate().find_map(|(other, names)| {
            names.intersection(&named[index]).next().map(|&guid| (other, guid))
        });
        if let Some((other, guid)) = shared {
            notes.push(warning(format!(
                "torus seeds {other} and {index} share switch {guid}: if it fails, neither can be \
                 used; name other switches in one of them"
            )));
        }
    }
    notes
}

/// Warnings about seeds with which switches would have other coordinates than with the seed `used`, and
/// paths other SLs.
pub(super) fn coordinate_warnings(
    fabric: &Fabric,
    grid: &Grid,
    seeds: &[Seed],
    used: usize,
) -> Vec<Note> {
    let others = seeds.iter().enumerate().filter(|&(index, _)| index != used);
    others
        .filter_map(|(index, seed)| coordinate_warning(fabric, grid, seed, [index, used]))
        .collect()
}

fn coordinate_warning(
    fabric: &Fabric,
    grid: &Grid,
    seed: &Seed,
    [index, used]: [usize; 2],
) -> Option<Note> {
    let lattice = &grid.lattice;
    let links: Vec<NamedLink> = active_links(lattice, seed).collect();
    let guid = links.first()?.link.origin;
    let at = position_of(fabric, &grid.positions, guid)?;
    let consequence = "established connections keep the SLs from before, and can deadlock";
    for NamedLink { keyword, direction, link, .. } in &links {
        let neighbor = position_of(fabric, &grid.positions, link.neighbor)?;
        if lattice.step(at, *direction) != neighbor {
            return Some(warning(format!(
                "torus seed {index} gives other coordinates than seed {used}: its {keyword} leads \
                 from {} to {}; when it is used, SLs change, and {consequence}; give it the \
                 directions of seed {used}",
                grid.describe(fabric, at),
                grid.describe(fabric, neighbor)
            )));
        }
    }
    let own = origin(lattice, seed);
    if own == at {
        return None;
    }
    let datelines: Vec<String> = (0..3)
        .filter(|&axis| lattice.coordinate(at, axis) != lattice.coordinate(own, axis))
        .map(|axis| format!("{}_dateline -{}", AXIS_NAMES[axis], lattice.coordinate(at, axis)))
        .collect();
    let pairs = lattice.len() as u64 * lattice.len() as u64;
    let coordinates = lattice.coordinates(at);
    let elsewhere = lattice.coordinates(own);
    Some(warning(format!(
        "torus seed {index} gives other coordinates than seed {used}: switch {guid} is at \
         {coordinates}, and at {elsewhere} by the datelines of seed {index}; when it is used, {} of \
         {pairs} SLs between switches change, and {consequence}; set {} in seed {index}",
        pairs - unchanged_sls(lattice, coordinates, elsewhere),
        datelines.join(" and ").replace("_dateline -0", "_dateline 0")
    )))
}

fn position_of(fabric: &Fabric, positions: &[Option<Position>], guid: Guid) -> Option<Position> {
    let node = fabric.node(fabric.node_by_guid(guid)?);
    positions.get(node.switch?.index()).copied().flatten()
}

/// Number of ordered pairs of positions whose SL stays the same if the coordinates `at` become `own`.
fn unchanged_sls(lattice: &Lattice, at: Coordinates, own: Coordinates) -> u64 {
    (0..3)
        .map(|axis| {
            let radix = lattice.radix(axis);
            let pairs = (0..radix).flat_map(|a| (0..radix).map(move |b| (a, b)));
            let same = pairs.filter(|&(a, b)| {
                lattice.crosses(axis, a, b)
                    == lattice.crosses(
                        axis,
                        moved_coordinate(&own.0, &at.0, a, radix, axis),
                        moved_coordinate(&own.0, &at.0, b, radix, axis),
                    )
            });
            same.count() as u64
        })
        .product()
}

fn moved_coordinate(own_0: &[u32; 3], at_0: &[u32; 3], c: u32, radix: u32, axis: usize) -> u32 {
    (c + radix + own_0[axis] - at_0[axis]) % radix
}
