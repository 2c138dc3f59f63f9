//! The paths from all switches to one LID, which share what follows after they meet.

use crate::plan::routing::weighted_paths::network::Network;

/// The paths from all switches to a LID.
pub(super) struct PathsTo<'a> {
    pub network: &'a Network,
    /// By switch: the first link of its path, or no link at the end of paths.
    pub next: Vec<u32>,
}

impl PathsTo<'_> {
    /// The steps of the path from a switch: the switch, its link, and the next link. There are no
    /// more of them than switches, even if the path leads in a circle.
    pub(super) fn steps(&self, from: u32) -> impl Iterator<Item = (u32, u32, u32)> {
        let links = self.network.links();
        let mut at = from;
        let steps = std::iter::from_fn(move || {
            let link = self.next[at as usize];
            let end = links.get(link as usize)?.to;
            let next = self.next[end as usize];
            links.get(next as usize)?;
            Some((std::mem::replace(&mut at, end), link, next))
        });
        steps.take(self.network.len())
    }
}

/// The switches from which the whole path to a LID is among the dependencies of a VL.
#[derive(Default)]
pub(super) struct KnownPaths {
    /// By VL, then by switch.
    is_known: Vec<Vec<bool>>,
}

impl KnownPaths {
    /// Those of a VL, by switch.
    pub(super) fn of_lane(&mut self, lane: usize, switches: usize) -> &mut [bool] {
        let count = self.is_known.len().max(lane + 1);
        self.is_known.resize_with(count, Vec::new);
        let known = &mut self.is_known[lane];
        known.resize(switches, false);
        known
    }
}
