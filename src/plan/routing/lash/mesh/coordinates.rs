//! The coordinates of switches.

use super::super::paths::Neighbours;
use super::axes::Axes;

/// The coordinate of a switch that no link with a direction reaches. OpenSM sorts by it as by other
/// numbers.
pub(super) const UNPLACED: i32 = i32::MAX;

/// The coordinates of all switches. Those of the seed are 0.
pub(super) struct MeshCoordinates {
    dimensions: usize,
    /// By switch and dimension.
    all: Vec<i32>,
    /// By dimension.
    sizes: Vec<i32>,
}

impl MeshCoordinates {
    /// Follows the links with directions until no coordinate comes nearer to 0.
    pub(super) fn assign(
        neighbours: &Neighbours,
        axes: &Axes<'_>,
        seed: u32,
        dimensions: usize,
    ) -> Self {
        let all = vec![UNPLACED; neighbours.len() * dimensions];
        let mut own = Self { dimensions, all, sizes: Vec::new() };
        own.all[seed as usize * dimensions..][..dimensions].fill(0);
        loop {
            let mut is_changed = false;
            for switch in 0..neighbours.len() as u32 {
                is_changed |= own.follow(neighbours, axes, switch);
            }
            if !is_changed {
                break;
            }
        }
        own.sizes = (0..dimensions).map(|dimension| own.size(dimension)).collect();
        own
    }

    /// Coordinates of the neighbours of a switch; true if one changes.
    fn follow(&mut self, neighbours: &Neighbours, axes: &Axes<'_>, switch: u32) -> bool {
        if self.of(switch).contains(&UNPLACED) {
            return false;
        }
        let mut is_changed = false;
        for (neighbour, axis) in neighbours.of(switch).iter().zip(axes.of(switch)) {
            let Some(axis) = axis else { continue };
            for dimension in 0..self.dimensions {
                let step = match axis.is_negative {
                    _ if usize::from(axis.dimension) != dimension => 0,
                    true => -1,
                    false => 1,
                };
                let coordinate = self.of(switch)[dimension] + step;
                let known = &mut self.all[neighbour.switch as usize * self.dimensions + dimension];
                if is_nearer(coordinate, *known) {
                    *known = coordinate;
                    is_changed = true;
                }
            }
        }
        is_changed
    }

    fn size(&self, dimension: usize) -> i32 {
        let placed = self.all.iter().skip(dimension).step_by(self.dimensions);
        let placed = placed.copied().filter(|&coordinate| coordinate != UNPLACED);
        let (min, max) = placed.fold((0, 0), |(min, max), at| (at.min(min), at.max(max)));
        max - min + 1
    }

    /// The coordinates of a switch.
    pub(super) fn of(&self, switch: u32) -> &[i32] {
        &self.all[switch as usize * self.dimensions..][..self.dimensions]
    }

    /// The sizes of the dimensions.
    pub(super) fn sizes(&self) -> &[i32] {
        &self.sizes
    }

    /// The dimensions by size, the longest first, which suits LASH best.
    pub(super) fn longest_first(&self) -> Vec<usize> {
        let mut dimensions: Vec<_> = (0..self.dimensions).collect();
        dimensions.sort_by_key(|&dimension| std::cmp::Reverse(self.sizes[dimension]));
        dimensions
    }
}

/// True if a coordinate is nearer to 0 than another; of opposite ones the positive is.
fn is_nearer(one: i32, other: i32) -> bool {
    let near = one.unsigned_abs();
    let far = other.unsigned_abs();
    near < far || (near == far && one > other)
}
