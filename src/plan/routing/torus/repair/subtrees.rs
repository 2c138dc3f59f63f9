//! How many detours to a destination lead through each of some switches, and how long they are.

use super::broken::Detour;
use super::links::Links;

/// The detours that lead through a switch, its own included.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Subtree {
    pub paths: u32,
    /// Number of channels of the longest one.
    pub deepest: u8,
}

/// Subtrees by position.
pub(super) struct Subtrees(Vec<Subtree>);

impl Subtrees {
    pub(super) fn none(positions: usize) -> Self {
        Self(vec![Subtree::default(); positions])
    }

    pub(super) fn of(&self, at: u32) -> Subtree {
        self.0[at as usize]
    }

    /// Sums up the detours of `switches`, which are sorted by the lengths of their paths. No other must be
    /// known.
    pub(super) fn measure(&mut self, switches: &[Detour], present: &Links) {
        for detour in switches {
            self.0[detour.at as usize] = Subtree { paths: 1, deepest: detour.hops };
        }
        for detour in switches.iter().rev() {
            let Subtree { paths, deepest } = self.of(detour.at);
            let next = &mut self.0[present.neighbor(detour.at, detour.way) as usize];
            // The path goes on outside of the switches otherwise.
            if next.paths > 0 {
                next.paths += paths;
                next.deepest = next.deepest.max(deepest);
            }
        }
    }

    pub(super) fn forget(&mut self, switches: &[Detour]) {
        for detour in switches {
            self.0[detour.at as usize] = Subtree::default();
        }
    }
}
