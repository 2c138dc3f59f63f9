//! The links on paths with the fewest hops to a switch, whatever their lengths are.

use crate::plan::routing::weighted_paths::network::{Network, ReachedSwitches};
use std::ops::Range;

/// By link: the link in the opposite direction; `None` if a link has none.
pub(super) fn opposites(network: &Network) -> Option<Vec<u32>> {
    network.links().iter().map(|link| network.link_at(link.to, link.to_port)).collect()
}

/// The paths with the fewest hops to a switch, from switches in the order of their hops. Each begins
/// with a step over a link to the next switch.
pub(super) struct FewestHops {
    /// The switches with a path by place, the one where paths end first.
    pub order: Vec<u32>,
    /// By number of hops: the place of the first switch; then the number of switches.
    levels: Vec<usize>,
    /// By place: the first step of the switch; then the number of steps.
    first: Vec<usize>,
    /// By step: the place of the next switch towards the end of the path.
    pub next: Vec<u32>,
    /// By step: the link from there.
    pub links: Vec<u32>,
    /// By step: the port to which that link leads.
    pub ports: Vec<u8>,
}

impl FewestHops {
    /// The paths to the switch `root`. `opposites` are those of the network.
    pub(super) fn to(network: &Network, opposites: &[u32], root: u32) -> Self {
        let mut found = ReachedSwitches::default();
        network.hops_from(std::iter::once(root), &mut found);
        let ReachedSwitches { order, hops } = found;
        let mut levels = Vec::new();
        let mut places = vec![u32::MAX; network.len()];
        for (place, &switch) in order.iter().enumerate() {
            places[switch as usize] = place as u32;
            if hops[switch as usize] as usize == levels.len() {
                levels.push(place);
            }
        }
        levels.push(order.len());
        let mut first = Vec::with_capacity(order.len() + 1);
        // One more than can be used: a step is written before it is known whether it counts, which
        // could not be predicted.
        let room = network.links().len() + 1;
        let mut next = vec![0; room];
        let mut links = vec![0; room];
        let mut ports = vec![0; room];
        let mut count = 0;
        for &switch in &order {
            first.push(count);
            let own_hops = hops[switch as usize] as usize;
            let begin = levels[own_hops.saturating_sub(1)] as u32;
            let nearer = levels[own_hops] as u32 - begin;
            let range = network.range(switch);
            let own_links = &network.links()[range.clone()];
            for (own, &opposite) in own_links.iter().zip(&opposites[range]) {
                let place = places[own.to as usize];
                (next[count], links[count], ports[count]) = (place, opposite, own.port);
                count += usize::from(place.wrapping_sub(begin) < nearer);
            }
        }
        first.push(count);
        next.truncate(count);
        links.truncate(count);
        ports.truncate(count);
        Self { order, levels, first, next, links, ports }
    }

    /// The largest number of hops.
    pub(super) fn max_hops(&self) -> u64 {
        (self.levels.len() as u64).saturating_sub(2)
    }

    /// The places of all switches with the same number of hops, by ascending number, without the
    /// switch where the paths end.
    pub(super) fn levels(&self) -> impl Iterator<Item = (u64, Range<usize>)> {
        (0..).zip(self.levels.windows(2).map(|range| range[0]..range[1])).skip(1)
    }

    /// The steps with which the paths of the switch at a place begin.
    pub(super) fn steps(&self, place: usize) -> Range<usize> {
        self.first[place]..self.first[place + 1]
    }
}
