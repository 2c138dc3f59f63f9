//! Shortest paths from all switches to one destination: Dijkstra's algorithm from the destination.

use super::early_end::EarlyEnd;
use super::heap::Heap;
use super::network::Network;

/// No link: the destination itself, or a switch that cannot reach it.
pub(in crate::plan::routing) const NONE: u32 = u32::MAX;

/// The link of a host to its switch.
pub(in crate::plan::routing) const HOST_LINK: u32 = u32::MAX - 1;

/// Length of the link of a host to its switch.
const HOST_LINK_LENGTH: u64 = 1;

/// The end of all paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::plan::routing) enum Root {
    /// A switch, by number.
    Switch(u32),
    /// A host at the switch with this number.
    Host(u32),
}

impl Root {
    /// The distance of that switch from the end.
    pub(in crate::plan::routing) fn distance(self) -> u64 {
        match self {
            Self::Switch(_) => 0,
            Self::Host(_) => HOST_LINK_LENGTH,
        }
    }

    /// The number of the switch at which paths end.
    pub(in crate::plan::routing) fn switch(self) -> u32 {
        match self {
            Self::Switch(switch) | Self::Host(switch) => switch,
        }
    }
}

/// The result of a search, and its buffers.
#[derive(Default)]
pub(in crate::plan::routing) struct Search {
    heap: Heap,
    distances: Vec<u64>,
    /// By switch: the link that leads to it from the next switch towards the root; [`HOST_LINK`]
    /// for the switch of a host.
    pub used: Vec<u32>,
    /// The switches that reach the root, each behind the next one on its path.
    pub order: Vec<u32>,
    /// The number of switches with a path.
    found: usize,
    early_end: EarlyEnd,
}

impl Search {
    /// Searches that end earlier because all links are at least as long as `shortest_link`.
    pub(in crate::plan::routing) fn over_links_from(shortest_link: u64) -> Self {
        Self { early_end: EarlyEnd::new(shortest_link), ..Self::default() }
    }

    /// Finds the shortest paths by these lengths of links.
    pub(in crate::plan::routing) fn run(&mut self, network: &Network, lengths: &[u64], root: Root) {
        self.run_until(network, lengths, root, |_| false);
    }

    /// Finds the shortest paths by these lengths of links, until those by switch are far enough: true
    /// for their distances. Then [`Self::order`] has only some of the switches.
    pub(in crate::plan::routing) fn run_until(
        &mut self,
        network: &Network,
        lengths: &[u64],
        root: Root,
        mut is_enough: impl FnMut(&[u64]) -> bool,
    ) {
        let switches = network.len() as u32;
        let is_host = matches!(root, Root::Host(_));
        self.heap.fill(switches + u32::from(is_host));
        self.distances.clear();
        self.distances.resize(network.len(), u64::MAX);
        self.used.clear();
        self.used.resize(network.len(), NONE);
        self.order.clear();
        self.found = 0;
        self.early_end.begin();
        match root {
            Root::Switch(switch) => self.relax(switch, NONE, 0),
            Root::Host(_) => self.heap.lower(switches, 0),
        }
        while let Some((distance, element)) = self.heap.extract().filter(|&(d, _)| d != u64::MAX) {
            if element == switches {
                self.relax(root.switch(), HOST_LINK, HOST_LINK_LENGTH);
                continue;
            }
            self.order.push(element);
            if self.early_end.is_reached(distance, &self.distances, self.found) {
                self.order.extend(self.heap.drain().map(|(_, switch)| switch));
                return;
            }
            let range = network.range(element);
            let ends = network.ends()[range.clone()].iter().zip(&lengths[range.clone()]);
            for (place, (&to, &length)) in ends.enumerate() {
                self.relax(to, (range.start + place) as u32, distance + length);
            }
            if is_enough(&self.distances) {
                return;
            }
        }
    }

    /// Takes a link to a switch if it shortens the path. The paths of extracted switches cannot
    /// become shorter, because all lengths are positive.
    fn relax(&mut self, to: u32, link: u32, distance: u64) {
        let known = &mut self.distances[to as usize];
        if distance < *known {
            self.found += usize::from(*known == u64::MAX);
            *known = distance;
            self.used[to as usize] = link;
            self.heap.lower(to, distance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::routing::balancing::tests::{picture, wiring};
    use proptest::prelude::*;

    const SHORTEST: u64 = 100;

    proptest! {
        #[test]
        fn an_early_end_changes_no_path(
            topology in wiring(),
            more in prop::collection::vec(0u64..SHORTEST, 200),
            spread in prop::sample::select(vec![1, 3, 2 * SHORTEST]),
            is_host: bool,
        ) {
            let fabric = picture(&topology);
            let network = Network::new(&fabric, false, |switch| u64::from(switch.0));
            let longer = more.iter().cycle().map(|more| SHORTEST + more % spread);
            let lengths: Vec<u64> = longer.take(network.links().len()).collect();
            let [mut whole, mut shortened] = [Search::default(), Search::over_links_from(SHORTEST)];
            for switch in 0..network.len() as u32 {
                let root = if is_host { Root::Host(switch) } else { Root::Switch(switch) };
                whole.run(&network, &lengths, root);
                shortened.run(&network, &lengths, root);
                prop_assert_eq!(&whole.used, &shortened.used);
                let mut reached = vec![false; network.len()];
                for &switch in &shortened.order {
                    let link = network.links().get(shortened.used[switch as usize] as usize);
                    prop_assert!(link.is_none_or(|link| reached[link.from as usize]));
                    reached[switch as usize] = true;
                }
                prop_assert_eq!(shortened.order.len(), whole.order.len());
            }
        }
    }
}
