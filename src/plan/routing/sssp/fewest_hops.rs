//! The links on paths with the fewest hops to a switch, whatever their lengths are.

use crate::plan::routing::weighted_paths::network::{Hops, Network};

/// A link on a path with the fewest hops, seen from the switch behind it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Step {
    /// The next switch towards the end of the path.
    pub from: u32,
    /// The link from there.
    pub link: u32,
}

/// By link: the link in the opposite direction; `None` if a link has none.
pub(super) fn opposites(network: &Network) -> Option<Vec<u32>> {
    network.links().iter().map(|link| network.link_at(link.to, link.to_port)).collect()
}

/// The paths with the fewest hops to a switch.
pub(super) struct FewestHops {
    /// The switches with a path, those with fewer hops first.
    pub order: Vec<u32>,
    /// Hops of each, in the same order.
    hops: Vec<u32>,
    /// Index of the first step of each, in the same order; the last entry is the number of steps.
    first: Vec<u32>,
    steps: Vec<Step>,
}

impl FewestHops {
    /// The paths to the switch `root`. `opposites` are those of the network.
    pub(super) fn to(network: &Network, opposites: &[u32], root: u32) -> Self {
        let mut found = Hops::default();
        network.hops_from(std::iter::once(root), &mut found);
        let Hops { order, hops } = found;
        let mut first = Vec::with_capacity(order.len() + 1);
        // One more than can be used: a step is written before it is known whether it counts, which
        // could not be predicted.
        let mut steps = vec![Step::default(); network.links().len() + 1];
        let mut count = 0;
        for &switch in &order {
            first.push(count as u32);
            let (range, own) = (network.range(switch), hops[switch as usize]);
            for (&from, &link) in network.ends()[range.clone()].iter().zip(&opposites[range]) {
                steps[count] = Step { from, link };
                count += usize::from(hops[from as usize].wrapping_add(1) == own);
            }
        }
        first.push(count as u32);
        steps.truncate(count);
        let hops = order.iter().map(|&switch| hops[switch as usize]).collect();
        Self { order, hops, first, steps }
    }

    /// The largest number of hops.
    pub(super) fn max_hops(&self) -> u32 {
        self.hops.last().copied().unwrap_or(0)
    }

    /// Number of steps of all switches.
    pub(super) fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// All switches but the one where the paths end, by ascending hops: each with its number of hops
    /// and the steps with which its paths begin.
    pub(super) fn steps(&self) -> impl Iterator<Item = (u32, u32, &[Step])> {
        let ranges = self.first.windows(2).map(|range| range[0] as usize..range[1] as usize);
        let switches = self.order.iter().zip(&self.hops).zip(ranges).skip(1);
        switches.map(|((&switch, &hops), range)| (switch, hops, &self.steps[range]))
    }
}
