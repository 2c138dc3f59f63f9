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
            }
        }
    }
}
