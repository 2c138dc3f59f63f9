//! SLs of paths: the dateline bits of the shorter way, and the requested QoS bit. Failures and
//! detours never change the SL of a path, so that established connections survive them.

use super::lattice::{Coordinates, Lattice};
use crate::ids::Sl;

/// The SL bit that selects the QoS level.
pub(super) const QOS_BIT: u8 = 8;

/// The SL of paths between the end ports of two switches: bit d is set if the shorter way crosses
/// the dateline of dimension d; the QoS bit is that of `hint`.
pub(super) fn path_sl(lattice: &Lattice, from: Coordinates, to: Coordinates, hint: Sl) -> Sl {
    Sl(dateline(lattice, &from.0, &to.0, 0)
        | dateline(lattice, &from.0, &to.0, 1)
        | dateline(lattice, &from.0, &to.0, 2)
        | hint.0 & QOS_BIT)
}

fn dateline(lattice: &Lattice, from_0: &[u32; 3], to_0: &[u32; 3], axis: usize) -> u8 {
    u8::from(lattice.crosses(axis, from_0[axis], to_0[axis])) << axis
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
        Self {
            bits: std::array::from_fn(|axis| direction_along(lattice, &to.0, axis)),
            level: hint.0 & QOS_BIT,
        }
    }

    /// [`path_sl`] from a switch with this key.
    #[inline]
    pub(super) fn path_sl(&self, from: u64) -> Sl {
        let [x, y, z] = &self.bits;
        Sl(x[coordinate(0, from)] | y[coordinate(1, from)] | z[coordinate(2, from)] | self.level)
    }
}

fn coordinate(axis: u32, from: u64) -> usize {
    usize::from((from >> (axis * KEY_BITS)) as u16)
}

fn direction_along(lattice: &Lattice, to_0: &[u32; 3], axis: usize) -> Vec<u8> {
    (0..lattice.radix(axis))
        .map(|from| u8::from(lattice.crosses(axis, from, to_0[axis])) << axis)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::lattice::tests::torus;
    use super::*;

    #[test]
    fn worked_examples() {
        let lattice = torus([6, 5, 1]);
        assert_eq!(sl(&lattice, [0, 4], [2, 1], 0), 2);
        assert_eq!(sl(&lattice, [5, 0], [1, 0], 0), 1);
        assert_eq!(sl(&lattice, [5, 0], [2, 0], 0), 0);
        assert_eq!(sl(&lattice, [0, 4], [2, 1], 11), 10);
        assert_eq!(sl(&lattice, [1, 1], [1, 1], 15), 8);
    }

    fn sl(lattice: &Lattice, [a, b]: [u32; 2], [c, d]: [u32; 2], hint: u8) -> u8 {
        path_sl(lattice, Coordinates([a, b, 0]), Coordinates([c, d, 0]), Sl(hint)).0
    }

    #[test]
    fn symmetric() {
        let lattice = torus([4, 3, 7]);
        let all: Vec<_> = lattice.positions().map(|at| lattice.coordinates(at)).collect();
        for &a in &all {
            for &b in &all {
                assert_eq!(path_sl(&lattice, a, b, Sl(8)), path_sl(&lattice, b, a, Sl(8)));
                let to_b = DatelineBits::new(&lattice, b, Sl(8));
                assert_eq!(to_b.path_sl(source_key(a)), path_sl(&lattice, a, b, Sl(8)));
            }
        }
    }
}
