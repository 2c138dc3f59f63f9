//! The directions of links.
//!
//! The seed's links get directions first. Other links inherit them until nothing changes: links
//! opposite to those with a direction, links seen from the other end, and links of the squares
//! whose other sides have directions.

use super::super::paths::{NONE, Neighbours};
use super::geometry::LocalDistances;

/// The distance beyond which neighbours are not opposite to each other.
const MAX_OPPOSITE_DISTANCE: i32 = 4;

/// A direction along a dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Axis {
    pub dimension: u8,
    pub is_negative: bool,
}

impl Axis {
    fn reversed(self) -> Self {
        Self { is_negative: !self.is_negative, ..self }
    }
}

/// The direction of each link, as far as it is known.
pub(super) struct Axes<'a> {
    neighbours: &'a Neighbours,
    distances: &'a [Option<LocalDistances>],
    seed: u32,
    /// By channel.
    axes: Vec<Option<Axis>>,
}

impl<'a> Axes<'a> {
    /// Gives directions to links, beginning with those of the seed.
    pub(super) fn assign(
        neighbours: &'a Neighbours,
        distances: &'a [Option<LocalDistances>],
        seed: u32,
        dimensions: usize,
    ) -> Self {
        let axes = vec![None; neighbours.channels()];
        let mut own = Self { neighbours, distances, seed, axes };
        own.assign_seed(dimensions);
        loop {
            let mut is_changed = false;
            for switch in 0..neighbours.len() as u32 {
                is_changed |= own.across(switch);
            }
            for switch in 0..neighbours.len() as u32 {
                is_changed |= own.at_other_ends(switch);
            }
            for switch in 0..neighbours.len() as u32 {
                is_changed |= own.around_corners(switch);
            }
            if !is_changed {
                return own;
            }
        }
    }

    /// The directions of the links of a switch.
    pub(super) fn of(&self, switch: u32) -> &[Option<Axis>] {
        &self.axes[self.neighbours.channel(switch, 0) as usize..]
            [..self.neighbours.of(switch).len()]
    }

    /// Sets the direction of a link that has none; true if that changes it.
    fn set(&mut self, switch: u32, place: usize, axis: Option<Axis>) -> bool {
        let known = &mut self.axes[self.neighbours.channel(switch, place as u8) as usize];
        let is_changed = known.is_none() && axis.is_some();
        *known = known.or(axis);
        is_changed
    }

    /// Each dimension takes the first link left, and the first one left that may be opposite to it.
    fn assign_seed(&mut self, dimensions: usize) {
        let Some(distances) = &self.distances[self.seed as usize] else { return };
        for dimension in 0..dimensions as u8 {
            let Some(first) = self.of(self.seed).iter().position(Option::is_none) else { return };
            let axis = Axis { dimension, is_negative: false };
            self.set(self.seed, first, Some(axis));
            let mut opposites = distances.opposites(first);
            if let Some(opposite) = opposites.find(|&place| self.of(self.seed)[place].is_none()) {
                self.set(self.seed, opposite, Some(axis.reversed()));
            }
        }
    }

    /// The direction against `axis` at a switch: `axis` itself in dimensions of length 2; `None` if
    /// the switch has no link in the direction.
    pub(super) fn opposite(&self, switch: u32, axis: Axis) -> Option<Axis> {
        let distances = self.distances[switch as usize].as_ref()?;
        let place = self.of(switch).iter().position(|&own| own == Some(axis))?;
        let is_alone = distances.opposites(place).next().is_none();
        Some(if is_alone { axis } else { axis.reversed() })
    }

    /// Directions of links opposite to those with directions.
    fn across(&mut self, switch: u32) -> bool {
        let Some(distances) = &self.distances[switch as usize] else { return false };
        let count = distances.len();
        let is_chain = count < self.neighbours.of(self.seed).len() && count <= 2;
        if is_chain {
            return false;
        }
        let mut is_changed = false;
        for place in 0..count {
            let Some(axis) = self.of(switch)[place] else { continue };
            let mut opposites = distances.opposites(place);
            let (Some(opposite), None) = (opposites.next(), opposites.next()) else { continue };
            if distances.get(place, opposite) <= MAX_OPPOSITE_DISTANCE {
                is_changed |= self.set(switch, opposite, self.opposite(self.seed, axis));
            }
        }
        is_changed
    }

    /// Directions of links that have one at this end.
    fn at_other_ends(&mut self, switch: u32) -> bool {
        let mut is_changed = false;
        if self.distances[switch as usize].is_none() {
            return false;
        }
        for (place, neighbour) in self.neighbours.of(switch).iter().enumerate() {
            let Some(axis) = self.of(switch)[place] else { continue };
            if neighbour.back != NONE && self.distances[neighbour.switch as usize].is_some() {
                let axis = self.opposite(self.seed, axis);
                is_changed |= self.set(neighbour.switch, usize::from(neighbour.back), axis);
            }
        }
        is_changed
    }

    /// Directions of the far sides of squares with two sides at this switch.
    fn around_corners(&mut self, switch: u32) -> bool {
        let Some(distances) = &self.distances[switch as usize] else { return false };
        let mut is_changed = false;
        for one in 0..distances.len() {
            for other in 0..distances.len() {
                let axis_one = self.of(switch)[one];
                let axis_other = self.of(switch)[other];
                if axis_one.is_none() || axis_other.is_none() || !distances.is_corner(one, other) {
                    continue;
                }
                let neighbours = self.neighbours.of(switch);
                let one = neighbours[one].switch;
                let other = neighbours[other].switch;
                if let Some((from_one, from_other)) = self.corner(switch, one, other) {
                    is_changed |= self.set(one, from_one, axis_other);
                    is_changed |= self.set(other, from_other, axis_one);
                }
            }
        }
        is_changed
    }

    /// The first neighbour other than `switch` that two switches share, as places among theirs.
    fn corner(&self, switch: u32, one: u32, other: u32) -> Option<(usize, usize)> {
        let one = self.neighbours.of(one);
        let other = self.neighbours.of(other);
        one.iter().enumerate().filter(|(_, far)| far.switch != switch).find_map(|(place, far)| {
            let back = other.iter().position(|back| back.switch == far.switch)?;
            Some((place, back))
        })
    }
}
