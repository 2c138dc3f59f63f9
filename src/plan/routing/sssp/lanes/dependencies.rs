//! The dependencies between the channels of a VL.

use super::paths::{PathState, PathsTo};
use std::sync::Arc;

/// No channel.
pub(super) const NONE: u32 = u32::MAX;

/// A channel depends on another one.
#[derive(Default)]
pub(super) struct ChannelDependency {
    pub to: u32,
    /// Bundles whose paths had the dependency when they were added.
    pub bundles: Vec<u32>,
    /// The number of their paths.
    pub added: u32,
    /// The number of paths that were removed again.
    pub removed: u32,
    /// True if a cycle was broken here.
    pub is_broken: bool,
}

impl ChannelDependency {
    fn add(&mut self, bundle: u32, paths: u32) {
        self.bundles.push(bundle);
        self.added += paths;
    }

    /// The number of paths that are left.
    pub(super) fn paths(&self) -> u32 {
        self.added.wrapping_sub(self.removed)
    }
}

/// The dependencies of a VL. Channels are links between switches.
pub(super) struct Dependencies {
    /// By channel: its key in the tree.
    ranks: Arc<[u64]>,
    /// By channel: its dependencies on others, in the order in which they were added.
    pub from: Vec<Vec<ChannelDependency>>,
    tree: ChannelTree,
    /// By channel: those on which it cannot depend without a cycle, as far as they were tried.
    closing: Vec<Vec<u32>>,
    /// By channel: the number of the last search that met it.
    met: Vec<u32>,
    searches: u32,
}

impl Dependencies {
    pub(super) fn new(ranks: Arc<[u64]>) -> Self {
        let from = ranks.iter().map(|_| Vec::new()).collect();
        let closing = vec![Vec::new(); ranks.len()];
        let met = vec![0; ranks.len()];
        Self { from, tree: ChannelTree::new(ranks.len()), closing, ranks, met, searches: 0 }
    }

    /// Adds the paths of a bundle.
    pub(super) fn add(&mut self, path: &[u32], bundle: u32, paths: u32) {
        path.iter().for_each(|&channel| self.insert(channel));
        for pair in path.windows(2) {
            let place = self.place(pair[0], pair[1]);
            self.from[pair[0] as usize][place].add(bundle, paths);
        }
    }

    /// Adds the paths of a bundle from a switch. `places` are those of the dependencies on links of
    /// switches, as far as they are known, or [`NONE`].
    pub(super) fn add_from(
        &mut self,
        to: &PathsTo<'_>,
        switch: u32,
        places: &mut [u32],
        bundle: u32,
        paths: u32,
    ) {
        self.insert(to.next[switch as usize]);
        for (at, link, next) in to.steps(switch) {
            let place = &mut places[at as usize];
            if *place == NONE {
                self.insert(next);
                *place = self.place(link, next) as u32;
            }
            self.from[link as usize][*place as usize].add(bundle, paths);
        }
    }

    /// Inserts a channel into the tree, or nothing if it is [`NONE`].
    fn insert(&mut self, channel: u32) {
        if channel != NONE {
            self.tree.insert(channel, &self.ranks);
        }
    }

    /// The place of a dependency, which is added if it is not known.
    fn place(&mut self, from: u32, to: u32) -> usize {
        let known = &mut self.from[from as usize];
        known.iter().position(|other| other.to == to).unwrap_or_else(|| {
            known.push(ChannelDependency { to, ..ChannelDependency::default() });
            known.len() - 1
        })
    }

    /// Adds the dependencies of the path from a switch to those that have no cycle, unless they
    /// close one. Nothing but such paths may be added or removed any more. `states` are those of
    /// the paths to the same LID, by switch.
    pub(super) fn try_add(
        &mut self,
        to: &PathsTo<'_>,
        switch: u32,
        states: &mut [PathState],
    ) -> bool {
        if self.is_known_to_close(to, switch, states) || !self.add_steps(to, switch, states) {
            states[switch as usize] = PathState::ClosesCycle;
            return false;
        }
        let mut at = switch;
        while std::mem::replace(&mut states[at as usize], PathState::Added) != PathState::Added {
            let Some(link) = to.network.links().get(to.next[at as usize] as usize) else { break };
            at = link.to;
        }
        true
    }

    /// True if the path from a switch is known to close a cycle, so that no search is needed.
    fn is_known_to_close(&self, to: &PathsTo<'_>, switch: u32, states: &[PathState]) -> bool {
        let mut steps = to.steps(switch);
        let known = steps.find_map(|(at, link, next)| match states[at as usize] {
            PathState::Added => Some(false),
            PathState::ClosesCycle => Some(true),
            PathState::Unknown => self.closing[link as usize].contains(&next).then_some(true),
        });
        known.unwrap_or(false)
    }

    /// Adds the dependencies of the path from a switch, or none if they close a cycle.
    fn add_steps(&mut self, to: &PathsTo<'_>, switch: u32, states: &[PathState]) -> bool {
        let mut added = Vec::new();
        for (_, link, next) in to.steps(switch).take_while(|a| is_new(states, a)) {
            if self.from[link as usize].iter().any(|other| leads_to(other, next)) {
                continue;
            }
            if self.leads(next, link) {
                for &channel in added.iter().rev() {
                    self.from[channel as usize].pop();
                }
                // Without those of this path, too, it closes one with any other path.
                if added.is_empty() || self.leads(next, link) {
                    self.closing[link as usize].push(next);
                }
                return false;
            }
            self.from[link as usize]
                .push(ChannelDependency { to: next, ..ChannelDependency::default() });
            added.push(link);
        }
        true
    }

    /// True if a channel depends on another one through any others.
    fn leads(&mut self, from: u32, to: u32) -> bool {
        self.searches += 1;
        let mut waiting = vec![from];
        while let Some(channel) = waiting.pop() {
            if channel == to {
                return true;
            }
            if std::mem::replace(&mut self.met[channel as usize], self.searches) != self.searches {
                let next = self.from[channel as usize].iter().filter(|next| !next.is_broken);
                waiting.extend(next.map(|next| next.to));
            }
        }
        false
    }

    /// The channels in the order in which searches begin at them.
    pub(super) fn order(&self) -> Vec<u32> {
        self.tree.preorder()
    }
}

fn leads_to(other: &ChannelDependency, next: u32) -> bool {
    other.to == next && !other.is_broken
}

fn is_new(states: &[PathState], &(at, ..): &(u32, u32, u32)) -> bool {
    states[at as usize] != PathState::Added
}

/// The channels in a binary search tree that is not balanced, because OpenSM searches for cycles in
/// the order of such a tree.
struct ChannelTree {
    root: u32,
    is_in: Vec<bool>,
    children: Vec<[u32; 2]>,
}

impl ChannelTree {
    fn new(channels: usize) -> Self {
        Self { root: NONE, is_in: vec![false; channels], children: vec![[NONE; 2]; channels] }
    }

    fn insert(&mut self, channel: u32, ranks: &[u64]) {
        if std::mem::replace(&mut self.is_in[channel as usize], true) {
            return;
        }
        if self.root == NONE {
            self.root = channel;
            return;
        }
        let mut at = self.root as usize;
        loop {
            let side = usize::from(ranks[channel as usize] > ranks[at]);
            match self.children[at][side] {
                NONE => break self.children[at][side] = channel,
                below => at = below as usize,
            }
        }
    }

    /// The channels, each before those below it, smaller ones first.
    fn preorder(&self) -> Vec<u32> {
        let mut order = Vec::new();
        let mut waiting = vec![self.root];
        while let Some(channel) = waiting.pop() {
            if channel != NONE {
                order.push(channel);
                let [smaller, greater] = self.children[channel as usize];
                waiting.extend([greater, smaller]);
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;
    use crate::plan::routing::balancing::tests::{picture, ring, wiring};
    use crate::plan::routing::sssp::fewest_hops::opposites;
    use crate::plan::routing::sssp::lanes::paths::PathStates;
    use crate::plan::routing::weighted_paths::network::Network;
    use crate::plan::routing::weighted_paths::search::{Root, Search};
    use proptest::prelude::*;

    /// Adds the paths from all switches to each other one, by lengths of links that differ for each
    /// end. Returns which ones closed no cycle, and the dependencies; `remembers` as they are
    /// computed, else without what is known from paths before.
    fn added(fabric: &Fabric, lengths: &[u64], remembers: bool) -> (Vec<bool>, Vec<Vec<u32>>) {
        let network = Network::new(fabric, false, |switch| u64::from(switch.0));
        let opposites = opposites(&network).expect("both directions");
        let links = network.links().len();
        let mut all = Dependencies::new((0..links as u64).collect());
        let mut search = Search::default();
        let mut added = Vec::new();
        for end in 0..network.len() {
            let own: Vec<u64> =
                lengths.iter().cycle().skip(end).step_by(end + 1).take(links).copied().collect();
            search.run(&network, &own, Root::Switch(end as u32));
            let next = search.used.iter().map(|&link| opposites.get(link as usize).copied());
            let next = next.map(|link| link.unwrap_or(NONE)).collect();
            let paths = PathsTo { network: &network, next };
            let mut states = PathStates::default();
            for switch in 0..network.len() as u32 {
                if !remembers {
                    states = PathStates::default();
                    all.closing.iter_mut().for_each(Vec::clear);
                }
                added.push(all.try_add(&paths, switch, states.of_lane(0, network.len())));
            }
        }
        (added, all.from.iter().map(|known| known.iter().map(|next| next.to).collect()).collect())
    }

    #[test]
    fn paths_around_a_ring_close_a_cycle() {
        for remembers in [true, false] {
            let (added, _) = added(&ring(5), &[3, 5, 4], remembers);
            assert!(added.contains(&false) && added.contains(&true));
        }
    }

    proptest! {
        #[test]
        fn what_is_known_of_paths_changes_no_result(
            topology in wiring(),
            lengths in prop::collection::vec(1_u64..9, 40),
        ) {
            let fabric = picture(&topology);
            prop_assert_eq!(added(&fabric, &lengths, true), added(&fabric, &lengths, false));
        }
    }
}
