//! Shape of a torus: coordinates, directions and positions.
//!
//! A position is a dense index with x running fastest and z slowest: ascending positions are the
//! order in which discovery, checks and messages go over the torus. Coordinate arithmetic is modulo
//! the radix even in open dimensions; callers check [`Lattice::is_edge`] before a step in an open
//! dimension.

use crate::config::torus::TorusSize;
use std::fmt;

/// Maximum number of positions. A subnet has fewer than 49,152 LIDs, so a larger torus would have
/// mostly empty positions.
const MAX_POSITIONS: u64 = 1 << 16;

/// Coordinates x, y, z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
pub struct Coordinates(pub [u32; 3]);

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x},{y},{z}")
    }
}

/// Index of a position in a lattice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position(pub u32);

impl Position {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Direction of a step along a dimension, ordered -x, +x, -y, +y, -z, +z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Direction(u8);

impl Direction {
    pub const ALL: [Self; 6] = [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5)];

    /// The direction towards lower coordinates along `axis` (0 to 2).
    pub const fn minus(axis: usize) -> Self {
        Self(2 * axis as u8)
    }

    /// The direction towards higher coordinates along `axis` (0 to 2).
    pub const fn plus(axis: usize) -> Self {
        Self(2 * axis as u8 + 1)
    }

    /// The dimension, 0 to 2.
    pub const fn axis(self) -> usize {
        (self.0 / 2) as usize
    }

    pub const fn is_plus(self) -> bool {
        self.0 % 2 == 1
    }

    pub const fn opposite(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// The index in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_plus() { '+' } else { '-' };
        write!(f, "{sign}{}", AXIS_NAMES[self.axis()])
    }
}

/// Letters of the dimensions in messages and configuration.
pub const AXIS_NAMES: [char; 3] = ['x', 'y', 'z'];

/// Radices of a torus and which dimensions are looped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lattice {
    size: TorusSize,
    stride: [u32; 3],
    len: u32,
}

impl Lattice {
    /// Returns `None` if a radix is zero or there are more than [`MAX_POSITIONS`] positions.
    pub(crate) fn new(size: TorusSize) -> Option<Self> {
        let mut stride = [0; 3];
        let mut len = 1u64;
        for (stride, radix) in stride.iter_mut().zip(size.radix) {
            *stride = u32::try_from(len).ok()?;
            len = len.checked_mul(u64::from(radix))?;
        }
        let fits = (1..=MAX_POSITIONS).contains(&len);
        fits.then_some(Self { size, stride, len: len as u32 })
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn size(&self) -> TorusSize {
        self.size
    }

    pub(crate) fn radices(&self) -> [u32; 3] {
        self.size.radix
    }

    pub(crate) fn radix(&self, axis: usize) -> u32 {
        self.size.radix[axis]
    }

    /// True for torus dimensions, false for mesh dimensions.
    pub(crate) fn is_looped(&self, axis: usize) -> bool {
        self.size.looped[axis]
    }

    pub(crate) fn is_active(&self, axis: usize) -> bool {
        self.radix(axis) > 1
    }

    pub(crate) fn positions(&self) -> impl ExactSizeIterator<Item = Position> + Clone + use<> {
        (0..self.len).map(Position)
    }

    pub(crate) fn coordinates(&self, at: Position) -> Coordinates {
        Coordinates(std::array::from_fn(|axis| self.coordinate(at, axis)))
    }

    pub(crate) fn coordinate(&self, at: Position, axis: usize) -> u32 {
        at.0 / self.stride[axis] % self.size.radix[axis]
    }

    /// The position with these coordinates modulo the radices.
    pub(crate) fn position(&self, coordinates: [i64; 3]) -> Position {
        let terms = coordinates.iter().zip(self.size.radix).zip(self.stride);
        Position(terms.map(|((c, r), s)| c.rem_euclid(r.into()) as u32 * s).sum())
    }

    /// The position one step away, across the dateline where necessary.
    pub(crate) fn step(&self, at: Position, direction: Direction) -> Position {
        let axis = direction.axis();
        let radix = self.size.radix[axis];
        let stride = self.stride[axis];
        let here = self.coordinate(at, axis);
        let there = if direction.is_plus() { here + 1 } else { here + radix - 1 } % radix;
        Position(at.0 - here * stride + there * stride)
    }

    /// The position whose coordinate along `axis` is replaced by `coordinate`.
    pub(crate) fn with(&self, at: Position, axis: usize, coordinate: u32) -> Position {
        let stride = self.stride[axis];
        Position(at.0 - self.coordinate(at, axis) * stride + coordinate * stride)
    }

    /// True if a step from `at` in `direction` leaves an open dimension.
    pub(crate) fn is_edge(&self, at: Position, direction: Direction) -> bool {
        let axis = direction.axis();
        let end = if direction.is_plus() { self.radix(axis) - 1 } else { 0 };
        !self.is_looped(axis) && self.coordinate(at, axis) == end
    }

    /// The corners of the cube at `base`, by corner number: bit n of the number is the offset along
    /// dimension n. In inactive dimensions both offsets give the same position. `None` if the cube
    /// crosses the edge of an open dimension.
    pub(crate) fn cube(&self, base: Position) -> Option<[Position; 8]> {
        let mut offsets = [[0; 2]; 3];
        for (axis, offsets) in offsets.iter_mut().enumerate() {
            let radix = self.radix(axis);
            let here = self.coordinate(base, axis);
            let next = if here + 1 == radix { 0 } else { here + 1 };
            if next == 0 && self.is_active(axis) && !self.is_looped(axis) {
                return None;
            }
            *offsets = [here, next].map(|coordinate| coordinate * self.stride[axis]);
        }
        let [x, y, z] = offsets;
        Some(std::array::from_fn(|n| Position(x[n & 1] + y[n >> 1 & 1] + z[n >> 2 & 1])))
    }

    /// The first position of each ring or line along `axis`, in ascending order.
    pub(crate) fn lines(&self, axis: usize) -> impl Iterator<Item = Position> + '_ {
        self.positions().filter(move |&at| self.coordinate(at, axis) == 0)
    }

    /// The positions of the ring or line along `axis` that starts at `first`.
    pub(crate) fn line(
        &self,
        first: Position,
        axis: usize,
    ) -> impl Iterator<Item = Position> + use<> {
        let stride = self.stride[axis];
        (0..self.radix(axis)).map(move |c| Position(first.0 + c * stride))
    }

    /// The direction of the shorter way from coordinate `a` to `b`; of two equally long ways the
    /// one that does not cross the dateline.
    pub(crate) fn shorter(&self, axis: usize, a: u32, b: u32) -> Direction {
        let direct_is_shorter = !self.crosses(axis, a, b);
        if (b > a) == direct_is_shorter { Direction::plus(axis) } else { Direction::minus(axis) }
    }

    /// True if the shorter way between two coordinates crosses the dateline. Of two equally long
    /// ways the direct one counts.
    pub(crate) fn crosses(&self, axis: usize, a: u32, b: u32) -> bool {
        let direct = a.abs_diff(b);
        direct > self.radix(axis) - direct
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn torus(radix: [u32; 3]) -> Lattice {
        Lattice::new(TorusSize { radix, looped: radix.map(|r| r != 2) }).unwrap()
    }

    #[test]
    fn positions_run_x_first() {
        let lattice = torus([6, 5, 3]);
        assert_eq!(lattice.len(), 90);
        for (index, at) in lattice.positions().enumerate() {
            let Coordinates([x, y, z]) = lattice.coordinates(at);
            assert_eq!(index as u32, x + 6 * (y + 5 * z));
            assert_eq!(lattice.position([x.into(), y.into(), z.into()]), at);
        }
        assert_eq!(lattice.position([-1, 5, 4]), lattice.position([5, 0, 1]));
    }

    #[test]
    fn steps_come_back() {
        let lattice = torus([4, 2, 1]);
        for at in lattice.positions() {
            for direction in Direction::ALL {
                let there = lattice.step(at, direction);
                assert_eq!(lattice.step(there, direction.opposite()), at);
            }
        }
    }

    #[test]
    fn cubes_have_corners_one_step_apart() {
        for looped in [[true; 3], [false, true, false]] {
            let lattice = Lattice::new(TorusSize { radix: [4, 3, 1], looped }).unwrap();
            for base in lattice.positions() {
                let is_cut = (0..2).any(|axis| lattice.is_edge(base, Direction::plus(axis)));
                let Some(cube) = lattice.cube(base) else {
                    assert!(is_cut);
                    continue;
                };
                assert!(!is_cut);
                for (corner, axis) in (0..8usize).flat_map(|n| (0..3).map(move |axis| (n, axis))) {
                    let up = lattice.step(cube[corner & !(1 << axis)], Direction::plus(axis));
                    assert_eq!(cube[corner | 1 << axis], up);
                }
            }
        }
    }

    #[test]
    fn ties_do_not_cross_the_dateline() {
        let lattice = torus([6, 1, 1]);
        let ways = [(0, 3), (3, 0), (5, 1), (5, 2), (1, 5)];
        let names: Vec<_> = ways.map(|(a, b)| lattice.shorter(0, a, b).to_string()).into();
        assert_eq!(names, ["+x", "-x", "+x", "-x", "-x"]);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for radix in [[0, 3, 3], [u32::MAX; 3], [1 << 8, 1 << 8, 2]] {
            assert!(Lattice::new(TorusSize { radix, looped: [true; 3] }).is_none());
        }
    }
}
