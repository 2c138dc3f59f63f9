//! The shapes of tori around a switch, by characteristic polynomial.

use super::geometry::{LocalDistances, MAX_NEIGHBOURS};
use super::polynomial::characteristic;
use std::collections::HashMap;
use std::fmt;

/// The length in switches that stands for itself and all larger ones, as in OpenSM's table of tori
/// (`mesh_info` in osm_mesh.c). From 6 on, a detour of 4 hops over a parallel row is no longer than
/// the rest of the ring, so local distances do not tell longer rings apart.
const MAX_LENGTH: u8 = 6;

/// The lengths of dimensions that local distances tell apart, the longest first. In a dimension of
/// length 4, opposite neighbours are as far from each other as those of different dimensions.
const LENGTHS: [u8; 4] = [MAX_LENGTH, 5, 3, 2];

/// The lengths of the dimensions of a torus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MeshShape {
    /// The longest first, [`MAX_LENGTH`] at most.
    lengths: Vec<u8>,
}

impl MeshShape {
    /// Number of dimensions.
    pub(super) fn dimensions(&self) -> usize {
        self.lengths.len()
    }

    fn neighbours(&self) -> usize {
        self.lengths.iter().map(|&length| if length == 2 { 1 } else { 2 }).sum()
    }

    /// True if OpenSM knows the shape: four dimensions of 5 and more are unknown to it.
    fn is_known(&self) -> bool {
        self.lengths.iter().filter(|&&length| length >= 5).count() < 4
    }

    /// The distances between the neighbours of a switch.
    fn distances(&self) -> LocalDistances {
        let dimensions = self.lengths.iter().zip(0..);
        let neighbours = dimensions.flat_map(|(&length, dimension)| {
            let count = if length == 2 { 1 } else { 2 };
            std::iter::repeat_n((dimension, length), count)
        });
        let neighbours: Vec<(usize, u8)> = neighbours.collect();
        LocalDistances::new(neighbours.len(), |from, to| {
            let (one, length) = neighbours[from];
            let (other, _) = neighbours[to];
            match length {
                _ if from == to => 0,
                _ if one != other => 2,
                // Around the ring; OpenSM's long ring alone has 8 switches.
                MAX_LENGTH if self.dimensions() == 1 => 6,
                length => i32::from(length) - 2,
            }
        })
    }
}

/// Writes `6+ x 3 x 2`.
impl fmt::Display for MeshShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &length) in self.lengths.iter().enumerate() {
            let separator = if index == 0 { "" } else { " x " };
            let more = if length == MAX_LENGTH { "+" } else { "" };
            write!(f, "{separator}{length}{more}")?;
        }
        Ok(())
    }
}

/// The known shapes.
pub(super) struct KnownShapes {
    by_polynomial: HashMap<Vec<i32>, MeshShape>,
}

impl KnownShapes {
    pub(super) fn new() -> Self {
        let mut own = Self { by_polynomial: HashMap::new() };
        own.add_longer(&MeshShape { lengths: Vec::new() });
        let long = MeshShape { lengths: vec![MAX_LENGTH; 2] };
        own.by_polynomial.insert(characteristic(&without_corner()), long);
        own
    }

    /// Adds the shapes that have these dimensions and further ones, which are not longer.
    fn add_longer(&mut self, start: &MeshShape) {
        let last = start.lengths.last().copied().unwrap_or(MAX_LENGTH);
        for length in LENGTHS.into_iter().filter(|&length| length <= last) {
            let mut shape = start.clone();
            shape.lengths.push(length);
            if shape.neighbours() > MAX_NEIGHBOURS {
                continue;
            }
            if shape.is_known() {
                self.by_polynomial.insert(characteristic(&shape.distances()), shape.clone());
            }
            self.add_longer(&shape);
        }
    }

    pub(super) fn find(&self, polynomial: &[i32]) -> Option<&MeshShape> {
        self.by_polynomial.get(polynomial)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_polynomial.len()
    }
}

/// The distances in a long 2D mesh where one of the switches at the corners of the neighbourhood is
/// missing, between neighbours 2 and 3.
fn without_corner() -> LocalDistances {
    LocalDistances::new(4, |from, to| match (from.min(to), from.max(to)) {
        (one, other) if one == other => 0,
        (0, 3) | (1, 2) => 4,
        (2, 3) => 6,
        _ => 2,
    })
}
