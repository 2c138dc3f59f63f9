//! The tree of the paths to one LID.

use super::links::HostPathLinks;
use crate::verify::MAX_PATH_SWITCHES;

/// Depth of switches that were not visited yet.
const UNKNOWN: u8 = 0;

/// Depth of switches whose packets are lost.
const LOST: u8 = u8::MAX;

const _: () = assert!(MAX_PATH_SWITCHES < LOST as u32);

/// The paths from all switches to one LID. Its memory is used again for the next LID.
#[derive(Default)]
pub(super) struct PathTree {
    target: usize,
    /// By switch: number of switches on its path, 1 for the target.
    depths: Vec<u8>,
    /// The switches with a path, each behind the next one on its path.
    order: Vec<u32>,
    /// By switch: the SLs that reach it from others; 0 between two trees.
    passing: Vec<u16>,
    trail: Vec<u32>,
}

impl PathTree {
    /// Follows the entries of a LID, `column`, from all switches to the one where it is.
    pub(super) fn grow(&mut self, links: &HostPathLinks, target: usize, column: &[u8]) {
        self.target = target;
        self.depths.clear();
        self.depths.resize(column.len(), UNKNOWN);
        self.passing.resize(column.len(), 0);
        self.order.clear();
        self.depths[target] = 1;
        self.order.push(target as u32);
        for start in 0..column.len() {
            let mut depth = self.follow(links, start, column);
            while let Some(passed) = self.trail.pop() {
                depth = if depth >= MAX_PATH_SWITCHES as u8 { LOST } else { depth + 1 };
                self.depths[passed as usize] = depth;
                if depth != LOST {
                    self.order.push(passed);
                }
            }
        }
    }

    /// The depth of the first switch on the way from `start` that has one; the switches before it
    /// are in `trail`.
    fn follow(&mut self, links: &HostPathLinks, start: usize, column: &[u8]) -> u8 {
        let mut at = start;
        while self.depths[at] == UNKNOWN {
            self.trail.push(at as u32);
            match links.behind(at, column[at]) {
                Some(next) if self.trail.len() <= MAX_PATH_SWITCHES as usize => {
                    at = next.switch as usize;
                }
                _ => return LOST,
            }
        }
        self.depths[at]
    }

    pub(super) fn target(&self) -> usize {
        self.target
    }

    /// The switches with a path, each behind the next one on its path.
    pub(super) fn outwards(&self) -> &[u32] {
        &self.order
    }

    /// Number of switches on the path from a switch that has one.
    #[inline]
    pub(super) fn depth(&self, switch: usize) -> usize {
        self.depths[switch].into()
    }

    /// Adds SLs that a switch receives from another one.
    #[inline]
    pub(super) fn pass(&mut self, switch: usize, sls: u16) {
        self.passing[switch] |= sls;
    }

    /// The SLs that a switch received from others; none are left.
    #[inline]
    pub(super) fn take_passing(&mut self, switch: usize) -> u16 {
        std::mem::take(&mut self.passing[switch])
    }
}
