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

/// What is known of the path from a switch on a VL.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum PathState {
    #[default]
    Unknown,
    /// All its dependencies were added.
    Added,
    /// It closes a cycle with dependencies that other paths added.
    ClosesCycle,
}

/// What is known of the paths from all switches to a LID.
#[derive(Default)]
pub(super) struct PathStates {
    /// By VL, then by switch.
    states: Vec<Vec<PathState>>,
}

impl PathStates {
    /// Those on a VL, by switch.
    pub(super) fn of_lane(&mut self, lane: usize, switches: usize) -> &mut [PathState] {
        let count = self.states.len().max(lane + 1);
        self.states.resize_with(count, Vec::new);
        let states = &mut self.states[lane];
        states.resize(switches, PathState::default());
        states
    }
}
