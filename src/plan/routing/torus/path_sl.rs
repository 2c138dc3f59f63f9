//! The SL of a path: which datelines the shorter way crosses, and the QoS bit asked for.
//!
//! Failures and detours never change it, so that connections survive them.

use super::lattice::{Lattice, Position};
use crate::ids::Sl;

/// The bit of an SL that selects the QoS level.
pub const QOS_BIT: u8 = 8;

/// The SL from one switch's ports to another's: bit d for the dateline of dimension d, and the
/// QoS bit of `hint`.
pub fn path_sl(lattice: &Lattice, from: Position, to: Position, hint: Sl) -> Sl {
    let crosses = |axis: &usize| {
        let [a, b] = [from, to].map(|at| lattice.coordinate(at, *axis));
        lattice.crosses(*axis, a, b)
    };
    let datelines: u8 = (0..3).filter(crosses).map(|axis| 1 << axis).sum();
    Sl(datelines | hint.0 & QOS_BIT)
}

#[cfg(test)]
mod tests {
    use super::super::lattice::tests::torus;
    use super::*;

    #[test]
    fn worked_examples() {
        let lattice = torus([6, 5, 1]);
        let sl = |[a, b]: [i64; 2], [c, d]: [i64; 2], hint| {
            path_sl(&lattice, lattice.position([a, b, 0]), lattice.position([c, d, 0]), Sl(hint)).0
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
        for a in lattice.positions() {
            for b in lattice.positions() {
                assert_eq!(path_sl(&lattice, a, b, Sl(8)), path_sl(&lattice, b, a, Sl(8)));
            }
        }
    }
}
