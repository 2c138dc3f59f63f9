//! Shortest paths to one switch, level by level of hops: the result of
//! [`crate::plan::routing::weighted_paths::search`] in a third of its time.
//!
//! A link is much longer than what all paths over it add, so that the shortest paths have the
//! fewest hops in practice. The links on such paths are known before their lengths are
//! ([`super::fewest_hops`]), and they are the same for all hosts of a switch. What remains is to
//! choose among them.
//!
//! Of paths of the same length the search takes the one whose next switch it reached first: the
//! nearer one. The order of equally near ones depends on all steps of its heap, so for a choice that
//! depends on it the search runs until it has chosen, too. Nothing is found here if a path with more
//! hops could be as short.

use super::fewest_hops::FewestHops;
use super::lengths::Lengths;
use crate::plan::routing::weighted_paths::network::Network;
use crate::plan::routing::weighted_paths::search::{Root, Search};
use std::ops::Range;

/// Bits of a key that hold the place of a step among those of its switch, which has at most 254
/// ports.
const PLACE_BITS: u32 = 8;
/// The bits of a key that hold the place.
const PLACE: u64 = (1 << PLACE_BITS) - 1;
/// Limit of distances in keys.
const MAX_DISTANCE: u64 = 1 << (u64::BITS - PLACE_BITS - 1);

/// The shortest paths to one switch, which are searched for each of its LIDs in turn.
pub(super) struct LevelSearch<'a> {
    network: &'a Network,
    paths: &'a FewestHops,
    found: &'a mut Found,
}

/// What a search found. Places are those of switches in the order of [`FewestHops`].
#[derive(Default)]
pub(super) struct Found {
    /// By step: the length of its link, and the place of the step.
    keys: Vec<u64>,
    /// By place: by how much a path makes links longer.
    weights: Vec<u64>,
    /// By place: the distance of the switch, shifted as in keys.
    distances: Vec<u64>,
    /// By place: the step with which the path begins.
    chosen: Vec<usize>,
    /// The places of switches whose choice depends on the order of the heap.
    unclear: Vec<usize>,
    /// By place: by how much all paths over the switch make links longer.
    over: Vec<u64>,
}

impl<'a> LevelSearch<'a> {
    /// A search for the end of these paths. Its lengths of links stay as they are but for
    /// [`Self::add_to`] and [`Self::read`].
    pub(super) fn new(
        network: &'a Network,
        paths: &'a FewestHops,
        lengths: &Lengths,
        found: &'a mut Found,
    ) -> Self {
        let switches = paths.order.len();
        found.distances.resize(switches, 0);
        found.chosen.resize(switches, 0);
        found.weights.clear();
        found.weights.extend(paths.order.iter().map(|&switch| lengths.weight(switch)));
        let mut search = Self { network, paths, found };
        search.read(lengths);
        search
    }

    /// Takes the lengths of links after another search made them longer.
    pub(super) fn read(&mut self, lengths: &Lengths) {
        let Self { paths, found: Found { keys, .. }, .. } = self;
        keys.clear();
        for place in 0..paths.order.len() {
            let links = paths.links[paths.steps(place)].iter();
            let lengths = links.map(|&link| lengths.by_link[link as usize]);
            keys.extend((0..).zip(lengths).map(|(place, length)| length << PLACE_BITS | place));
        }
    }

    /// Finds the shortest paths from all switches to `root`. False if paths with more hops could be
    /// shorter.
    pub(super) fn run(&mut self, lengths: &Lengths, root: Root, by_heap: &mut Search) -> bool {
        let one_hop = lengths.one_hop;
        if one_hop.saturating_mul(self.paths.max_hops() + 1) >= MAX_DISTANCE {
            return false;
        }
        self.found.distances[0] = root.distance() << PLACE_BITS;
        self.found.unclear.clear();
        for (hops, places) in self.paths.levels() {
            if self.choose(places) >= one_hop * (hops + 1) {
                return false;
            }
        }
        if !self.found.unclear.is_empty() {
            self.choose_by_heap(lengths, root, by_heap);
        }
        true
    }

    /// Finds the shortest paths from the switches at these places, and returns the longest distance.
    fn choose(&mut self, places: Range<usize>) -> u64 {
        let Self { paths, found: Found { keys, distances, chosen, unclear, .. }, .. } = self;
        let (nearer, own) = distances.split_at_mut(places.start);
        let mut farthest = 0;
        for ((place, own), chosen) in places.clone().zip(own).zip(&mut chosen[places]) {
            let steps = paths.steps(place);
            let [least, second] =
                two_least(&paths.next[steps.clone()], &keys[steps.clone()], nearer);
            let distance = least & !PLACE;
            *chosen = steps.start + (least & PLACE) as usize;
            if second & !PLACE == distance {
                match first_of_equal(paths, keys, nearer, steps, distance) {
                    Some(step) => *chosen = step,
                    None => unclear.push(place),
                }
            }
            *own = distance;
            farthest = farthest.max(distance);
        }
        farthest >> PLACE_BITS
    }

    /// Makes the choices that depend on the order of the heap.
    fn choose_by_heap(&mut self, lengths: &Lengths, root: Root, by_heap: &mut Search) {
        let Self { network, paths, found: Found { distances, chosen, unclear, .. } } = self;
        let mut left = unclear.as_slice();
        by_heap.run_until(network, &lengths.by_link, root, |by_heap| {
            while let Some((&place, others)) = left.split_first() {
                if by_heap[paths.order[place] as usize] != distances[place] >> PLACE_BITS {
                    return false;
                }
                left = others;
            }
            true
        });
        for &place in &*unclear {
            let link = by_heap.used[paths.order[place] as usize];
            if let Some(step) = paths.steps(place).find(|&step| paths.links[step] == link) {
                chosen[place] = step;
            }
        }
    }

    /// Makes links longer by the paths that were found, and writes the ports of switches that lead
    /// there, by number of the switch.
    pub(super) fn add_to(&mut self, lengths: &mut Lengths, ports: &mut [u8]) {
        let Self { paths, found: Found { keys, weights, chosen, over, .. }, .. } = self;
        over.clear();
        over.extend_from_slice(weights);
        for (place, (&switch, &step)) in paths.order.iter().zip(&*chosen).enumerate().skip(1).rev()
        {
            let all = over[place];
            over[paths.next[step] as usize] += all;
            lengths.by_link[paths.links[step] as usize] += all;
            keys[step] += all << PLACE_BITS;
            ports[switch as usize] = paths.ports[step];
        }
    }
}

/// The two smallest distances over steps, with the places of the steps. Without branches, which
/// could not be predicted.
fn two_least(next: &[u32], keys: &[u64], distances: &[u64]) -> [u64; 2] {
    let key = |(&next, &key): (&u32, &u64)| distances[next as usize] + key;
    let mut least = u64::MAX;
    let mut second = u64::MAX;
    let pairs = next.chunks_exact(2);
    let keys_of_pairs = keys.chunks_exact(2);
    let last = pairs.remainder().iter().zip(keys_of_pairs.remainder()).map(key).next();
    for (next, keys) in pairs.zip(keys_of_pairs) {
        let a = key((&next[0], &keys[0]));
        let b = key((&next[1], &keys[1]));
        let nearer = a.min(b);
        let farther = a.max(b);
        second = second.min(farther).min(least.max(nearer));
        least = least.min(nearer);
    }
    last.map_or([least, second], |last| [least.min(last), second.min(least.max(last))])
}

/// The step to the nearest switch among those of paths of this shifted length, and the first of the
/// links from there; `None` if several switches are equally near.
#[cold]
fn first_of_equal(
    paths: &FewestHops,
    keys: &[u64],
    distances: &[u64],
    steps: Range<usize>,
    distance: u64,
) -> Option<usize> {
    let beyond = |step: usize| distances[channel_of_step(&paths.next, step) as usize];
    let is_shortest = |&step: &usize| beyond(step) + (keys[step] & !PLACE) == distance;
    let first =
        steps.clone().filter(is_shortest).min_by_key(|&step| (beyond(step), paths.links[step]))?;
    (!steps.filter(is_shortest).any(|step| {
        beyond(step) == beyond(first)
            && channel_of_step(&paths.next, step) != channel_of_step(&paths.next, first)
    }))
    .then_some(first)
}

fn channel_of_step(next: &[u32], step: usize) -> u32 {
    next[step]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;
    use crate::plan::routing::balancing::tests::{picture, ring, wiring};
    use crate::plan::routing::sssp::fewest_hops::opposites;
    use proptest::prelude::*;

    const ONE_HOP: u64 = 100;

    fn network(fabric: &Fabric) -> Network {
        Network::new(fabric, false, |switch| u64::from(switch.0))
    }

    /// Links that are so much longer than one hop.
    fn lengths(network: &Network, more: impl Iterator<Item = u64>) -> Lengths {
        let weights = (1..=network.len() as u32).collect();
        let mut lengths = Lengths::new(network, ONE_HOP, weights);
        lengths.by_link.iter_mut().zip(more).for_each(|(length, more)| *length += more);
        lengths
    }

    /// Searches for a number of paths, one after the other. Returns how many of them have the fewest
    /// hops, and how many depended on the heap. Checks that these and the lengths with them are those
    /// of the other search.
    fn search(network: &Network, lengths: &mut Lengths, root: Root, count: usize) -> [usize; 2] {
        let opposites = opposites(network).expect("both directions");
        let paths = FewestHops::to(network, &opposites, root.switch());
        let (mut found, mut by_heap, mut heap) = Default::default();
        let mut levels = LevelSearch::new(network, &paths, lengths, &mut found);
        let mut counts = [0; 2];
        for _ in 0..count {
            Search::run(&mut heap, network, &lengths.by_link, root);
            let mut expected = lengths.clone();
            expected.add_paths(network, &heap);
            if !levels.run(lengths, root, &mut by_heap) {
                *lengths = expected;
                levels.read(lengths);
                continue;
            }
            counts[0] += 1;
            counts[1] += usize::from(!levels.found.unclear.is_empty());
            let mut ports = vec![0; network.len()];
            levels.add_to(lengths, &mut ports);
            assert_eq!(*lengths, expected);
            assert_eq!(ports, heap.used.iter().map(|a| port(network, a)).collect::<Vec<_>>());
        }
        counts
    }

    fn port(network: &Network, &link: &u32) -> u8 {
        network.links().get(link as usize).map_or(0, |to| to.to_port)
    }

    #[test]
    fn a_choice_that_depends_on_the_heap_is_made_there() {
        let network = network(&ring(4));
        let mut equal = lengths(&network, std::iter::empty());
        let counts = search(&network, &mut equal, Root::Host(0), 2);
        assert_eq!(counts, [2, 1], "two ways to the far switch");
        assert_eq!(search(&network, &mut different(&network), Root::Host(0), 1), [1, 0]);
        // Four hops the one way around are as short as one hop the other way.
        let mut long = different(&network);
        for link in network.range(0).chain(network.range(1)) {
            long.by_link[link] = 4 * ONE_HOP;
        }
        let counts = search(&network, &mut long, Root::Switch(0), 1);
        assert_eq!(counts, [0, 0], "more hops could be shorter");
    }

    fn different(network: &Network) -> Lengths {
        lengths(network, 0..)
    }

    proptest! {
        #[test]
        fn paths_are_those_of_the_heap(
            topology in wiring(),
            more in prop::collection::vec(0u64..ONE_HOP, 200),
            spread in prop::sample::select(vec![1, 2, 5, ONE_HOP]),
            is_host: bool,
        ) {
            let network = network(&picture(&topology));
            let more = more.iter().cycle().map(|more| more % spread);
            let mut lengths = lengths(&network, more);
            for switch in 0..network.len() as u32 {
                let root = if is_host { Root::Host(switch) } else { Root::Switch(switch) };
                search(&network, &mut lengths, root, 3);
            }
        }
    }
}
