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
pub(super) struct Subtrees {
    of: Vec<Subtree>,
    /// The last subtree in which a position was found, by number.
    found_in: Vec<u32>,
    /// Number of the last subtree that was looked for.
    number: u32,
}

impl Subtrees {
    pub(super) fn none(positions: usize) -> Self {
        Self { of: vec![Subtree::default(); positions], found_in: vec![0; positions], number: 0 }
    }

    pub(super) fn of(&self, at: u32) -> Subtree {
        self.of[at as usize]
    }

    /// The switches of a subtree: one of `switches`, which are sorted by the lengths of their paths, and those
    /// that lead through it, the closest first.
    pub(super) fn members(
        &mut self,
        switches: &[Detour],
        index: usize,
        present: &Links,
    ) -> Vec<Detour> {
        self.number += 1;
        let mut members = Vec::with_capacity(self.of(switches[index].at).paths as usize);
        for (detour, place) in switches.iter().zip(0..).skip(index) {
            let next = present.neighbor(detour.at, detour.way);
            if place == index || self.found_in[next as usize] == self.number {
                self.found_in[detour.at as usize] = self.number;
                members.push(*detour);
            }
        }
        members
    }

    /// True if the last subtree that was looked for has the switch.
    pub(super) fn is_member(&self, at: u32) -> bool {
        self.found_in[at as usize] == self.number
    }

    /// Sums up the detours of `switches`, which are sorted by the lengths of their paths. No other must be
    /// known.
    pub(super) fn measure(&mut self, switches: &[Detour], present: &Links) {
        for detour in switches {
            self.of[detour.at as usize] = Subtree { paths: 1, deepest: detour.hops };
        }
        for detour in switches.iter().rev() {
            let Subtree { paths, deepest } = self.of(detour.at);
            let next = &mut self.of[present.neighbor(detour.at, detour.way) as usize];
            // The path goes on outside of the switches otherwise.
            if next.paths > 0 {
                next.paths += paths;
                next.deepest = next.deepest.max(deepest);
            }
        }
    }

    pub(super) fn forget(&mut self, switches: &[Detour]) {
        for detour in switches {
            self.of[detour.at as usize] = Subtree::default();
        }
    }
}
