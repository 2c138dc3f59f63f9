//! SLs of paths: the dateline bits of the shorter way, and the requested QoS bit. Failures and
//! detours never change the SL of a path, so that established connections survive them.

use super::lattice::{Coordinates, Lattice};
use crate::ids::Sl;

/// The SL bit that selects the QoS level.
pub(super) const QOS_BIT: u8 = 8;

/// The SL of paths between the end ports of two switches: bit d is set if the shorter way crosses
/// the dateline of dimension d; the QoS bit is that of `hint`.
pub(super) fn path_sl(lattice: &Lattice, from: Coordinates, to: Coordinates, hint: Sl) -> Sl {
    let dateline = |axis: usize| u8::from(lattice.crosses(axis, from.0[axis], to.0[axis])) << axis;
    Sl(dateline(0) | dateline(1) | dateline(2) | hint.0 & QOS_BIT)
}

/// The key of a source outside the torus.
pub(super) const SOURCE_OUTSIDE: u64 = u64::MAX;

/// Bits of a coordinate in a key: a radix is at most 2^16.
const KEY_BITS: u32 = 16;

/// The key of a source at a switch with these coordinates.
pub(super) fn source_key(at: Coordinates) -> u64 {
    let [x, y, z] = at.0.map(u64::from);
    x | y << KEY_BITS | z << (2 * KEY_BITS)
}

/// The SL bits of paths to one switch, by dimension and coordinate of the first switch.
pub(super) struct DatelineBits {
    bits: [Vec<u8>; 3],
    /// The QoS bit.
    level: u8,
}

impl DatelineBits {
    pub(super) fn new(lattice: &Lattice, to: Coordinates, hint: Sl) -> Self {
        let along = |axis: usize| {
            (0..lattice.radix(axis))
                .map(|from| u8::from(lattice.crosses(axis, from, to.0[axis])) << axis)
                .collect()
        };
        Self { bits: std::array::from_fn(along), level: hint.0 & QOS_BIT }
    }

    /// [`path_sl`] from a switch with this key.
    #[inline]
    pub(super) fn path_sl(&self, from: u64) -> Sl {
        let [x, y, z] = &self.bits;
        let coordinate = |axis: u32| usize::from((from >> (axis * KEY_BITS)) as u16);
        Sl(x[coordinate(0)] | y[coordinate(1)] | z[coordinate(2)] | self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lattice::tests::torus;
    use super::*;

    #[test]
    fn worked_examples() {
        let lattice = torus([6, 5, 1]);
        let sl = |[a, b]: [u32; 2], [c, d]: [u32; 2], hint| {
            path_sl(&lattice, Coordinates([a, b, 0]), Coordinates([c, d, 0]), Sl(hint)).0
        };
        assert_eq!(sl([0, 4], [2, 1], 0), 2);
        assert_eq!(sl([5, 0], [1, 0], 0), 1);
        assert_eq!(sl([5, 0], [2, 0], 0), 0);
        assert_eq!(sl([0, 4], [2, 1], 11), 10);
        assert_eq!(sl([1, 1], [1, 1], 15), 8);
    }

    #[test]
    fn symmetric() {
        let lattice = torus([4, 3, 7]);
        let all = || lattice.positions().map(|at| lattice.coordinates(at));
        for a in all() {
            for b in all() {
                assert_eq!(path_sl(&lattice, a, b, Sl(8)), path_sl(&lattice, b, a, Sl(8)));
                let to_b = DatelineBits::new(&lattice, b, Sl(8));
                assert_eq!(to_b.path_sl(source_key(a)), path_sl(&lattice, a, b, Sl(8)));
            }
        }
    }
}
