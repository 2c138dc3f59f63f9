//! Routes of the complete torus: next hops, SLs and channel dependencies. They are those of
//! torus-2QoS without any damage, and follow from one table for each dimension.

use super::links::Links;
use super::nodes::{branch, node};
use crate::plan::routing::torus::lattice::{Direction, Lattice};
use crate::plan::routing::torus::ring_directions::next_hops_along;

/// The direction at the destination itself.
pub(super) const ARRIVED: u8 = 6;

/// The way from one coordinate of a dimension to another.
#[derive(Clone, Copy, Default, Debug)]
struct Way {
    /// Index of the direction; [`ARRIVED`] if the coordinates are equal.
    direction: u8,
    /// 1 if the SL bit of the dimension is set.
    dateline: u8,
    hops: u16,
}

/// The rule by which packets between switches get their VLs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct VlRule {
    /// True if turns back to an earlier dimension have VLs of their own.
    pub has_turn_vls: bool,
}

impl VlRule {
    /// The VL of packets with the dateline bits `sl` that leave in a direction, after they came along
    /// `axis`.
    #[inline]
    pub(super) fn vl(self, sl: u8, axis: u8, direction: u8) -> u8 {
        let turns_back = self.has_turn_vls && axis > direction / 2;
        sl >> (direction / 2) & 1 | u8::from(turns_back) << 1
    }
}

/// The first hop of a path, its length, and all that its VLs follow from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PathTraits {
    /// Index of the direction of the first hop; [`ARRIVED`] at the destination.
    pub next: u8,
    /// The dateline bits of the SL.
    pub sl: u8,
    /// Mask of the dimensions along which packets go.
    pub axes: u8,
    /// Number of channels.
    pub hops: u16,
}

/// Next hops, lengths and SLs between all positions of the complete torus.
#[derive(Clone, Debug)]
pub(super) struct HealthyRoutes {
    coordinates: Vec<[u32; 3]>,
    radix: [u32; 3],
    /// By dimension, coordinate and coordinate of the destination.
    ways: [Vec<Way>; 3],
}

/// The dateline bits that packets of a channel may have, as masks of 2 bits by coordinate and sign.
struct ChannelBits {
    /// Of packets whose first hop along the dimension it is.
    first: Vec<[u8; 2]>,
    /// Of packets whose last hop along the dimension it is.
    last: Vec<[u8; 2]>,
    /// Of packets that take the next channel of the dimension, too.
    through: Vec<[u8; 2]>,
}

impl HealthyRoutes {
    pub(super) fn new(lattice: &Lattice) -> Self {
        let ways = std::array::from_fn(|axis| {
            let radix = lattice.radix(axis);
            let pairs = (0..radix).flat_map(|here| (0..radix).map(move |there| (here, there)));
            pairs.map(|(here, there)| Way::new(lattice, axis, here, there)).collect()
        });
        let coordinates = lattice.positions().map(|at| lattice.coordinates(at).0).collect();
        Self { coordinates, radix: lattice.radices(), ways }
    }

    #[inline]
    fn way(&self, axis: usize, from: u32, to: u32) -> Way {
        let here = self.coordinates[from as usize][axis];
        let there = self.coordinates[to as usize][axis];
        self.ways[axis][(here * self.radix[axis] + there) as usize]
    }

    /// The path of the complete torus.
    #[inline]
    pub(super) fn path(&self, from: u32, to: u32) -> PathTraits {
        let mut path = PathTraits { next: ARRIVED, sl: 0, axes: 0, hops: 0 };
        for axis in (0..3).rev() {
            let way = self.way(axis, from, to);
            path.sl |= way.dateline << axis;
            path.hops += way.hops;
            if way.direction != ARRIVED {
                path.next = way.direction;
                path.axes |= 1 << axis;
            }
        }
        path
    }

    /// Writes to `ways` the directions of the next hops from a switch by position of the destination.
    pub(super) fn next_hops(&self, from: u32, ways: &mut Vec<u8>) {
        let [x, y, z] = [0, 1, 2].map(|axis| {
            let radix = self.radix[axis] as usize;
            let start = self.coordinates[from as usize][axis] as usize * radix;
            let along = &self.ways[axis][start..start + radix];
            along.iter().map(|way| way.direction).collect::<Vec<u8>>()
        });
        next_hops_along([&x, &y, &z], ARRIVED, ways);
    }

    /// Index of the direction of the next hop; [`ARRIVED`] at the destination.
    #[inline]
    pub(super) fn next(&self, from: u32, to: u32) -> u8 {
        let directions = (0..3).map(|axis| self.way(axis, from, to).direction);
        directions.into_iter().find(|&direction| direction != ARRIVED).unwrap_or(ARRIVED)
    }

    /// The dateline bits of the SL.
    #[inline]
    pub(super) fn sl(&self, from: u32, to: u32) -> u8 {
        (0..3).map(|axis| self.way(axis, from, to).dateline << axis).sum()
    }

    /// Number of channels of the path.
    pub(super) fn hops(&self, from: u32, to: u32) -> u16 {
        (0..3).map(|axis| self.way(axis, from, to).hops).sum()
    }

    /// True if the path leads through `at`, or starts or ends there.
    pub(super) fn passes(&self, from: u32, at: u32, to: u32) -> bool {
        let [from, at, to] = [from, at, to].map(|position| self.coordinates[position as usize]);
        // Packets go along one dimension after the other: they have the destination's coordinates of those
        // before, and the source's of those after it.
        (0..3).any(|axis| {
            let is_earlier = (0..axis).all(|earlier| at[earlier] == to[earlier]);
            let is_later = (axis + 1..3).all(|later| at[later] == from[later]);
            is_earlier && is_later && self.passes_along(axis, from[axis], at[axis], to[axis])
        })
    }

    /// True if the way from one coordinate of a dimension to another leads by a third.
    fn passes_along(&self, axis: usize, from: u32, by: u32, to: u32) -> bool {
        let radix = self.radix[axis];
        let Way { direction, hops, .. } = self.ways[axis][(from * radix + to) as usize];
        let is_plus = direction % 2 == 1;
        let ahead = if is_plus { by + radix - from } else { from + radix - by };
        ahead % radix <= u32::from(hops)
    }

    /// The dependencies between the channels of `links`, by node: a mask of the branches at the next
    /// switch.
    pub(super) fn dependencies(&self, lattice: &Lattice, links: &Links) -> Vec<u32> {
        let bits: [ChannelBits; 3] = std::array::from_fn(|axis| self.channel_bits(axis));
        let mut successors = vec![0; 24 * lattice.len()];
        for at in lattice.positions() {
            for direction in 0..6u8 {
                let next = links.neighbor(at.0, direction);
                if next == super::links::NONE {
                    continue;
                }
                let axis = usize::from(direction / 2);
                let sign = usize::from(direction % 2);
                let here = self.coordinates[at.index()][axis] as usize;
                for vl in 0..2u8 {
                    let mut mask = 0;
                    if bits[axis].through[here][sign] >> vl & 1 == 1 && links.has(next, direction) {
                        mask |= 1 << branch(direction, vl);
                    }
                    if bits[axis].last[here][sign] >> vl & 1 == 1 {
                        mask |= self.turns(&bits, links, next, axis);
                    }
                    successors[node(at.0, direction, vl) as usize] = mask;
                }
            }
        }
        successors
    }

    /// The branches into which packets turn at a switch from dimension `axis`.
    fn turns(&self, bits: &[ChannelBits; 3], links: &Links, at: u32, axis: usize) -> u32 {
        let mut mask = 0;
        for direction in 2 * (axis as u8 + 1)..6 {
            let axis = usize::from(direction / 2);
            let sign = usize::from(direction % 2);
            let here = self.coordinates[at as usize][axis] as usize;
            let first = bits[axis].first[here][sign];
            if links.has(at, direction) {
                let vls = (0..2u8).filter(|vl| first >> vl & 1 == 1);
                mask |= vls.map(|vl| 1 << branch(direction, vl)).sum::<u32>();
            }
        }
        mask
    }

    /// Number of paths between coordinates of a dimension over the channel from each coordinate, backwards
    /// and forwards.
    pub(super) fn paths_along(&self, axis: usize) -> Vec<[u32; 2]> {
        let radix = self.radix[axis];
        let mut paths = vec![[0; 2]; radix as usize];
        for from in 0..radix {
            for to in (0..radix).filter(|&to| to != from) {
                let Way { direction, hops, .. } = self.ways[axis][(from * radix + to) as usize];
                let sign = usize::from(direction % 2);
                let step = if sign == 1 { 1 } else { radix - 1 };
                for hop in 0..u32::from(hops) {
                    paths[((from + hop * step) % radix) as usize][sign] += 1;
                }
            }
        }
        paths
    }

    /// Number of channels of the longest path along a dimension.
    pub(super) fn longest_along(&self, axis: usize) -> u32 {
        self.ways[axis].iter().map(|way| way.hops.into()).max().unwrap_or(0)
    }

    fn channel_bits(&self, axis: usize) -> ChannelBits {
        let radix = self.radix[axis];
        let mut bits = ChannelBits { first: none(radix), last: none(radix), through: none(radix) };
        for from in 0..radix {
            for to in (0..radix).filter(|&to| to != from) {
                let Way { direction, dateline, hops } =
                    self.ways[axis][(from * radix + to) as usize];
                let sign = usize::from(direction % 2);
                let bit = 1 << dateline;
                let step = if sign == 1 { 1 } else { radix - 1 };
                let mut here = from;
                bits.first[here as usize][sign] |= bit;
                for _ in 1..hops {
                    bits.through[here as usize][sign] |= bit;
                    here = (here + step) % radix;
                }
                bits.last[here as usize][sign] |= bit;
            }
        }
        bits
    }
}

fn none(radix: u32) -> Vec<[u8; 2]> {
    vec![[0; 2]; radix as usize]
}

impl Way {
    fn new(lattice: &Lattice, axis: usize, here: u32, there: u32) -> Self {
        if here == there {
            return Self { direction: ARRIVED, ..Self::default() };
        }
        let is_plus = if lattice.is_looped(axis) {
            lattice.shorter(axis, here, there).is_plus()
        } else {
            there > here
        };
        let direction = if is_plus { Direction::plus(axis) } else { Direction::minus(axis) };
        let ahead = if is_plus {
            there + lattice.radix(axis) - here
        } else {
            here + lattice.radix(axis) - there
        };
        Self {
            direction: direction.index() as u8,
            dateline: u8::from(lattice.crosses(axis, here, there)),
            hops: (ahead % lattice.radix(axis)) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::torus::TorusSize;
    use crate::plan::routing::torus::lattice::Position;

    /// The switches of a path by its next hops.
    fn switches(
        lattice: &Lattice,
        routes: &HealthyRoutes,
        from: Position,
        to: Position,
    ) -> Vec<u32> {
        let links = Links::complete(lattice);
        let mut at = from.0;
        let mut switches = vec![at];
        while at != to.0 {
            at = links.neighbor(at, routes.next(at, to.0));
            switches.push(at);
        }
        switches
    }

    #[test]
    fn a_path_passes_the_switches_of_its_hops() {
        for looped in [[true; 3], [false, true, false]] {
            let lattice = Lattice::new(TorusSize { radix: [4, 5, 3], looped }).expect("a lattice");
            let routes = HealthyRoutes::new(&lattice);
            for from in lattice.positions() {
                for to in lattice.positions() {
                    let path = switches(&lattice, &routes, from, to);
                    for at in lattice.positions() {
                        let passes = routes.passes(from.0, at.0, to.0);
                        assert_eq!(passes, path.contains(&at.0), "{from:?} {at:?} {to:?}");
                    }
                }
            }
        }
    }
}
