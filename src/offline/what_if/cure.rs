//! The cure of failures that torus-2QoS does not route because they take a switch of each seed: a further
//! seed, tried with these failures before it is recommended.

use crate::config::torus::{Seed, SeedLink, TorusConfig};
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::plan::routing::torus::{Coordinates, Direction, Torus, TorusLayout};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Seeds that are tried, the farthest from the others first.
const MAX_TRIED: usize = 4;

/// Seeds with no switch in common with those of the configuration, in its directions and with its
/// datelines; the one that is farthest from all others is first.
pub(super) fn further_seeds(fabric: &Fabric, torus: &Torus, config: &TorusConfig) -> Vec<Seed> {
    let layout = TorusLayout::of(torus);
    let named: BTreeSet<Guid> = config.seeds.iter().flat_map(switches).collect();
    let of_seeds: Vec<Coordinates> = layout
        .positions()
        .filter(|&at| guid(fabric, &layout, at).is_some_and(|guid| named.contains(&guid)))
        .collect();
    let mut found: Vec<(u32, Seed)> = Vec::new();
    for at in layout.positions() {
        let Some(seed) = seed_at(fabric, &layout, at) else { continue };
        if switches(&seed).any(|guid| named.contains(&guid)) {
            continue;
        }
        let nearest = of_seeds.iter().map(|&other| distance(&layout, at, other)).min();
        found.push((nearest.unwrap_or(0), seed));
    }
    found.sort_by_key(|&(nearest, _)| Reverse(nearest));
    found.into_iter().take(MAX_TRIED).map(|(_, seed)| seed).collect()
}

/// The node GUIDs that a seed names.
fn switches(seed: &Seed) -> impl Iterator<Item = Guid> {
    seed.links.into_iter().flatten().flat_map(|link| [link.origin, link.neighbor])
}

fn guid(fabric: &Fabric, layout: &TorusLayout, at: Coordinates) -> Option<Guid> {
    Some(fabric.switch(layout.switch(at)?).guid())
}

/// The seed at a switch that has a cable along each dimension.
fn seed_at(fabric: &Fabric, layout: &TorusLayout, at: Coordinates) -> Option<Seed> {
    let origin = guid(fabric, layout, at)?;
    let mut seed = Seed::default();
    for axis in (0..3).filter(|&axis| layout.radices()[axis] > 1) {
        let ways = [Direction::plus(axis), Direction::minus(axis)];
        let cabled = ways.into_iter().filter(|&way| layout.cables(at, way) > 0);
        // In a ring of four, one link does not tell the directions apart (torus-2QoS.conf(5)).
        let is_ring_of_four = layout.is_looped(axis) && layout.radices()[axis] == 4;
        let needed = if is_ring_of_four { 2 } else { 1 };
        let ways: Vec<Direction> = cabled.take(needed).collect();
        if ways.len() < needed {
            return None;
        }
        for way in ways {
            let neighbor = guid(fabric, layout, layout.neighbour(at, way)?)?;
            let slot = 2 * axis + usize::from(!way.is_plus());
            seed.links[slot] = Some(SeedLink { origin, neighbor });
        }
        // Coordinates begin at the datelines.
        seed.dateline[axis] = -i64::from(at.0[axis]);
    }
    Some(seed)
}

/// The number of steps between two positions.
fn distance(layout: &TorusLayout, one: Coordinates, other: Coordinates) -> u32 {
    (0..3)
        .map(|axis| {
            let straight = one.0[axis].abs_diff(other.0[axis]);
            if layout.is_looped(axis) {
                straight.min(layout.radices()[axis] - straight)
            } else {
                straight
            }
        })
        .sum()
}
