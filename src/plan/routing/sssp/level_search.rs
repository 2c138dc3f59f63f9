//! Shortest paths to one switch, level by level of hops: the result of
//! [`crate::plan::routing::weighted_paths::search`] in a third of its time, where it is certain.
//!
//! A link is much longer than what all paths over it add, so that the shortest paths have the
//! fewest hops in practice. The links on such paths are known before their lengths are
//! ([`super::fewest_hops`]), and they are the same for all hosts of a switch. What remains is to
//! choose among them.
//!
//! Of paths of the same length the search takes the one whose next switch it reached first: the
//! nearer one. The order of equally near ones depends on all steps of its heap, so nothing is found
//! here if a choice depends on it, or if a path with more hops could be as short.

use super::fewest_hops::{FewestHops, Step};
use crate::plan::routing::weighted_paths::search::{HOST_LINK, NONE, Root, Search};

/// Bits of a key that hold the place of a step.
const PLACE_BITS: u32 = 20;
/// Limit of distances in keys.
const MAX_DISTANCE: u64 = 1 << (u64::BITS - PLACE_BITS - 1);

/// The buffers of a search.
pub(super) struct LevelSearch {
    /// By switch.
    distances: Vec<u64>,
}

impl LevelSearch {
    pub(super) fn new(switches: usize) -> Self {
        Self { distances: vec![0; switches] }
    }

    /// Finds the shortest paths from all switches to `root`, to which `paths` lead, by these lengths
    /// of links, each at least `one_hop`. False if the paths are not certain to be those of
    /// [`Search::run`].
    pub(super) fn run(
        &mut self,
        paths: &FewestHops,
        lengths: &[u64],
        one_hop: u64,
        root: Root,
        found: &mut Search,
    ) -> bool {
        let limit = one_hop.saturating_mul(u64::from(paths.max_hops()) + 1);
        if paths.step_count() >> PLACE_BITS > 0 || limit >= MAX_DISTANCE {
            return false;
        }
        found.used.clear();
        found.used.resize(self.distances.len(), NONE);
        if let Root::Host(switch) = root {
            found.used[switch as usize] = HOST_LINK;
        }
        self.distances[root.switch() as usize] = 0;
        for (switch, hops, steps) in paths.steps() {
            let Some((step, distance)) = self.nearest(steps, lengths) else { return false };
            if distance >= one_hop * u64::from(hops + 1) {
                return false;
            }
            self.distances[switch as usize] = distance;
            found.used[switch as usize] = step.link;
        }
        found.order.clear();
        found.order.extend_from_slice(&paths.order);
        true
    }

    /// The first step of the shortest path, and its length; `None` if it is not certain.
    fn nearest(&self, steps: &[Step], lengths: &[u64]) -> Option<(Step, u64)> {
        // The two smallest keys, without branches, which could not be predicted.
        let (mut least, mut second) = (u64::MAX, u64::MAX);
        for (place, step) in (0..).zip(steps) {
            let distance = self.distances[step.from as usize] + lengths[step.link as usize];
            let key = distance << PLACE_BITS | place;
            second = second.min(least.max(key));
            least = least.min(key);
        }
        let distance = least >> PLACE_BITS;
        if second >> PLACE_BITS == distance {
            return Some((self.first_of_equal(steps, lengths, distance)?, distance));
        }
        let place = least & ((1 << PLACE_BITS) - 1);
        Some((*steps.get(place as usize)?, distance))
    }

    /// The step from the nearest switch among those of paths of this length, and the first of the
    /// links from there; `None` if several switches are equally near.
    #[cold]
    fn first_of_equal(&self, steps: &[Step], lengths: &[u64], distance: u64) -> Option<Step> {
        let before = |step: &Step| self.distances[step.from as usize];
        let of_path = |step: &&Step| before(step) + lengths[step.link as usize] == distance;
        let first = steps.iter().filter(of_path).min_by_key(|step| (before(step), step.link))?;
        let is_rival = |step: &Step| before(step) == before(first) && step.from != first.from;
        (!steps.iter().filter(of_path).any(is_rival)).then_some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;
    use crate::plan::routing::balancing::tests::{picture, ring, wiring};
    use crate::plan::routing::sssp::fewest_hops::opposites;
    use crate::plan::routing::weighted_paths::network::Network;
    use proptest::prelude::*;

    const ONE_HOP: u64 = 100;

    fn network(fabric: &Fabric) -> Network {
        Network::new(fabric, false, |switch| u64::from(switch.0))
    }

    /// The paths of both searches; `None` of this one if they are not certain.
    fn both(network: &Network, lengths: &[u64], root: Root) -> (Option<Vec<u32>>, Vec<u32>) {
        let opposites = opposites(network).expect("both directions");
        let paths = FewestHops::to(network, &opposites, root.switch());
        let [mut by_level, mut by_heap] = [Search::default(), Search::default()];
        let mut search = LevelSearch::new(network.len());
        let is_certain = search.run(&paths, lengths, ONE_HOP, root, &mut by_level);
        by_heap.run(network, lengths, root);
        if is_certain {
            let sorted = |search: &Search| {
                let mut order = search.order.clone();
                order.sort_unstable();
                order
            };
            assert_eq!(sorted(&by_level), sorted(&by_heap));
        }
        (is_certain.then_some(by_level.used), by_heap.used)
    }

    #[test]
    fn a_choice_that_depends_on_the_heap_is_not_made() {
        let network = network(&ring(4));
        let equal = vec![ONE_HOP; network.links().len()];
        assert_eq!(both(&network, &equal, Root::Host(0)).0, None, "two ways to the far switch");
        let different: Vec<u64> = (0..).take(equal.len()).map(|more| ONE_HOP + more).collect();
        let (by_level, by_heap) = both(&network, &different, Root::Host(0));
        assert_eq!(by_level, Some(by_heap));
        // Four hops the one way around are as short as one hop the other way.
        let mut long = different;
        for link in network.range(0).chain(network.range(1)) {
            long[link] = 4 * ONE_HOP;
        }
        assert_eq!(both(&network, &long, Root::Switch(0)).0, None, "more hops could be shorter");
    }

    proptest! {
        #[test]
        fn certain_paths_are_those_of_the_heap(
            topology in wiring(),
            more in prop::collection::vec(0u64..ONE_HOP, 200),
            spread in prop::sample::select(vec![2, 5, ONE_HOP]),
            is_host: bool,
        ) {
            let network = network(&picture(&topology));
            let longer = more.iter().cycle().map(|more| ONE_HOP + more % spread);
            let lengths: Vec<u64> = longer.take(network.links().len()).collect();
            for switch in 0..network.len() as u32 {
                let root = if is_host { Root::Host(switch) } else { Root::Switch(switch) };
                let (by_level, by_heap) = both(&network, &lengths, root);
                if let Some(by_level) = by_level {
                    prop_assert_eq!(by_level, by_heap);
                }
            }
        }
    }
}
