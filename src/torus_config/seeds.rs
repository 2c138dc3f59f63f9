//! Seeds, found by trying them: the engine's own discovery must find from each what the map has.

use super::graph::Graph;
use super::map::Map;
use crate::config::torus::{Seed, SeedLink};
use crate::fabric::{Fabric, SwitchId};
use crate::plan::routing::torus::{Direction, Position, SeedTrial, Wiring};
use std::cmp::Reverse;

/// Seeds to fall back on when a switch of the first is gone.
const BACKUPS: usize = 3;
/// Trials for the first seed, and again for the others.
const TRIALS: usize = 24;
/// Up to this many sites every one is tried.
const FEW: usize = 256;
/// Trials for each mirror image, times the sites.
const IMAGE_EFFORT: usize = 20_000;
/// All names that three axes can have.
const AXIS_ORDERS: [[usize; 3]; 6] =
    [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]];

/// What the seeds are looked for in.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Its cables.
    pub wiring: &'a Wiring,
    /// Its graph.
    pub graph: &'a Graph,
    /// Largest size of a group of ports.
    pub portgroup_max_ports: u32,
}

/// The map with its origin at the first seed, and the seeds.
pub(super) struct Planted {
    /// The map.
    pub map: Map,
    /// Disjoint seeds that all grow to the same coordinates.
    pub seeds: Vec<Seed>,
    /// The size of groups of ports that was reckoned with.
    pub portgroup_max_ports: u32,
    /// What the engine makes of the first seed.
    pub found: Yield,
    /// Which of several readings this is.
    pub reading: usize,
}

/// What the engine's discovery makes of a seed; more is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Yield {
    is_routable: bool,
    switches: usize,
    cables: usize,
}

impl Yield {
    /// True if every switch of a map is routed.
    pub(super) fn is_complete(&self, map: &Map) -> bool {
        self.is_routable && self.switches == map.placed()
    }
}

/// A switch to begin at, and its neighbours that the seed names, by [`Direction`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Site {
    origin: u32,
    neighbors: [Option<u32>; 6],
}

impl Site {
    fn switches(&self) -> impl Iterator<Item = u32> + '_ {
        [self.origin].into_iter().chain(self.neighbors.into_iter().flatten())
    }
}

impl Ground<'_> {
    /// Finds seeds for a map; `None` if no switch has the neighbours that a seed needs.
    pub(super) fn plant(&self, map: &Map) -> Option<Planted> {
        let (map, mut sites, first, most) = self.first(map)?;
        let map = map.with_origin(map.positions[first.origin as usize]?)?;
        let mut chosen = vec![first];
        for _ in 0..TRIALS {
            sites.retain(|site| is_disjoint(site, &chosen));
            let Some(next) = farthest(&map, &chosen, &sites) else { break };
            let site = sites.remove(next);
            if self.trial(&map, &site).is_some_and(|found| found >= most) {
                chosen.push(site);
            }
            if chosen.len() > BACKUPS {
                break;
            }
        }
        let seeds = chosen.iter().map(|site| self.seed(&map, site)).collect();
        let portgroup_max_ports = self.portgroup_max_ports;
        Some(Planted { map, seeds, portgroup_max_ports, found: most, reading: 0 })
    }

    /// The first seed. The engine treats neither the axes of a damaged torus alike nor their
    /// directions: where it would refuse the preferred order of axes, others get a chance, and then
    /// their mirror images.
    fn first(&self, map: &Map) -> Option<(Map, Vec<Site>, Site, Yield)> {
        let mut best: Option<(Map, Vec<Site>, Site, Yield)> = None;
        for mirrored in 0..8 {
            let is_same = |axis: usize| mirrored >> axis & 1 == 1 && map.lattice.radix(axis) < 3;
            if (0..3).any(is_same) {
                continue;
            }
            for order in AXIS_ORDERS {
                let image = map.mirrored(mirrored).and_then(|map| map.with_axes(order));
                let Some(map) = image else { continue };
                let sites = self.sites(&map);
                let trials = match mirrored {
                    0 if sites.len() <= FEW => FEW,
                    0 => TRIALS,
                    _ => (IMAGE_EFFORT / sites.len().max(1)).clamp(3, TRIALS),
                };
                let Some((site, found)) = self.best(&map, &sites, trials) else { continue };
                let is_complete = found.is_complete(&map);
                if best.as_ref().is_none_or(|(.., most)| found > *most) {
                    best = Some((map, sites, site, found));
                }
                if is_complete {
                    return best;
                }
            }
            if best.as_ref().is_some_and(|(.., found)| found.is_routable) {
                break;
            }
        }
        best
    }

    /// All sites, those in the least damaged surroundings first.
    fn sites(&self, map: &Map) -> Vec<Site> {
        let health = |vertex: u32| -> usize {
            let around = self.graph.neighbors(vertex);
            around.iter().filter(|&&(other, _)| map.direction([vertex, other]).is_some()).count()
        };
        let health: Vec<usize> = (0..map.positions.len() as u32).map(health).collect();
        let mut sites: Vec<(usize, Site)> = Vec::new();
        for origin in map.lattice.positions().filter_map(|at| map.switches[at.index()]) {
            let around = self.graph.neighbors(origin).iter();
            let nearby: usize = around.map(|&(other, _)| health[other as usize]).sum();
            let own = sites.len();
            for down in 0..8 {
                let site = self.site(map, origin, down).map(|site| (nearby, site));
                let is_new = |site: &_| !sites[own..].contains(site);
                sites.extend(site.filter(is_new));
            }
        }
        sites.sort_by_key(|&(nearby, _)| Reverse(nearby));
        sites.into_iter().map(|(_, site)| site).collect()
    }

    /// The links that a seed at `origin` needs: one along each dimension, both in a ring of four,
    /// and all there are where there is but one dimension. A bit of `down` prefers the downward
    /// link of a dimension.
    fn site(&self, map: &Map, origin: u32, down: u8) -> Option<Site> {
        let lattice = &map.lattice;
        let at = map.positions[origin as usize]?;
        let axes = || (0..3).filter(|&axis| lattice.is_active(axis));
        let is_only = axes().count() == 1;
        let mut site = Site { origin, neighbors: [None; 6] };
        for axis in axes() {
            let mut ways = [Direction::plus(axis), Direction::minus(axis)];
            ways.rotate_left(usize::from(down >> axis & 1));
            let [first, second] = ways.map(|direction| {
                let neighbor = map.neighbor(at, direction)?;
                self.graph.edge(origin, neighbor).map(|_| (direction, neighbor))
            });
            let needs_both = lattice.is_looped(axis) && lattice.radix(axis) == 4;
            if needs_both && (first.is_none() || second.is_none()) {
                return None;
            }
            let wanted = [first, second.filter(|_| needs_both || is_only || first.is_none())];
            for (direction, neighbor) in wanted.into_iter().flatten() {
                site.neighbors[direction.index()] = Some(neighbor);
            }
            first.or(second)?;
        }
        Some(site)
    }

    /// Of up to `trials` sites the one with the best yield, the earliest of equals. Each is tried
    /// with the datelines just below it, as the seed will have them.
    fn best(&self, map: &Map, sites: &[Site], trials: usize) -> Option<(Site, Yield)> {
        let step = sites.len().div_ceil(trials).max(1);
        let mut best: Option<(Site, Yield)> = None;
        for site in sites.iter().step_by(step) {
            let origin = map.positions[site.origin as usize];
            let Some(map) = origin.and_then(|origin| map.with_origin(origin)) else { continue };
            let Some(found) = self.trial(&map, site) else { continue };
            if best.is_none_or(|(_, most)| found > most) {
                best = Some((*site, found));
            }
            if found.is_routable && found.switches == map.placed() {
                break;
            }
        }
        best
    }

    /// Lets the discovery grow from a site. `None` if it contradicts the map or itself.
    fn trial(&self, map: &Map, site: &Site) -> Option<Yield> {
        let (seed, max_ports) = (self.seed(map, site), self.portgroup_max_ports);
        let trial = SeedTrial::place(self.fabric, self.wiring, &map.lattice, &seed, max_ports)?;
        let mut switches = 0;
        for (at, switch) in trial.switches() {
            match map.positions[switch.index()] {
                Some(known) if known != at => return None,
                _ => switches += 1,
            }
        }
        let is_routable = trial.is_routable(self.fabric);
        Some(Yield { is_routable, switches, cables: trial.cable_count() })
    }

    fn seed(&self, map: &Map, site: &Site) -> Seed {
        let guid = |vertex: u32| self.fabric.switch(SwitchId(vertex)).guid();
        let mut seed = Seed::default();
        let at = map.positions[site.origin as usize].unwrap_or(Position(0));
        for direction in Direction::ALL {
            let axis = direction.axis();
            let slot = 2 * axis + usize::from(!direction.is_plus());
            seed.links[slot] = site.neighbors[direction.index()]
                .map(|other| SeedLink { origin: guid(site.origin), neighbor: guid(other) });
            seed.dateline[axis] = -i64::from(map.lattice.coordinate(at, axis));
        }
        seed
    }
}

fn is_disjoint(site: &Site, chosen: &[Site]) -> bool {
    let taken = |vertex| chosen.iter().any(|other| other.switches().any(|own| own == vertex));
    !site.switches().any(taken)
}

/// The site that is farthest from all that are chosen, the earliest of equals.
fn farthest(map: &Map, chosen: &[Site], sites: &[Site]) -> Option<usize> {
    let nearest = |site: &Site| {
        let distances = chosen.iter().map(|other| distance(map, site.origin, other.origin));
        distances.min().unwrap_or_default()
    };
    let indices = sites.iter().map(nearest).enumerate();
    indices.max_by_key(|&(index, distance)| (distance, Reverse(index))).map(|(index, _)| index)
}

fn distance(map: &Map, a: u32, b: u32) -> u32 {
    let (Some(a), Some(b)) = (map.positions[a as usize], map.positions[b as usize]) else {
        return 0;
    };
    let along = |axis: usize| {
        let direct = map.lattice.coordinate(a, axis).abs_diff(map.lattice.coordinate(b, axis));
        let around = map.lattice.radix(axis) - direct;
        if map.lattice.is_looped(axis) { direct.min(around) } else { direct }
    };
    (0..3).map(along).sum()
}
