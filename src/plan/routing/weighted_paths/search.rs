//! Shortest paths from all switches to one destination: Dijkstra's algorithm from the destination.

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
    /// The switches that reach the root, nearest first.
    pub order: Vec<u32>,
}

impl Search {
    /// Finds the shortest paths by these lengths of links.
    pub(in crate::plan::routing) fn run(&mut self, network: &Network, lengths: &[u64], root: Root) {
        let switches = network.len() as u32;
        let is_host = matches!(root, Root::Host(_));
        self.heap.fill(switches + u32::from(is_host));
        self.distances.clear();
        self.distances.resize(network.len(), u64::MAX);
        self.used.clear();
        self.used.resize(network.len(), NONE);
        self.order.clear();
        match root {
            Root::Switch(switch) => {
                self.distances[switch as usize] = 0;
                self.heap.lower(switch, 0);
            }
            Root::Host(_) => self.heap.lower(switches, 0),
        }
        while let Some((distance, element)) = self.heap.extract().filter(|&(d, _)| d != u64::MAX) {
            if element == switches {
                self.relax(root.switch(), HOST_LINK, HOST_LINK_LENGTH);
                continue;
            }
            self.order.push(element);
            let range = network.range(element);
            let ends = network.ends()[range.clone()].iter().zip(&lengths[range.clone()]);
            for (place, (&to, &length)) in ends.enumerate() {
                self.relax(to, (range.start + place) as u32, distance + length);
            }
        }
    }

    /// Takes a link to a switch if it shortens the path. The paths of extracted switches cannot
    /// become shorter, because all lengths are positive.
    fn relax(&mut self, to: u32, link: u32, distance: u64) {
        let known = &mut self.distances[to as usize];
        if distance < *known {
            *known = distance;
            self.used[to as usize] = link;
            self.heap.lower(to, distance);
        }
    }
}
