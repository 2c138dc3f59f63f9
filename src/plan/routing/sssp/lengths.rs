//! The lengths of links, which grow with the paths over them.

use crate::plan::routing::weighted_paths::network::Network;
use crate::plan::routing::weighted_paths::search::Search;

/// The lengths of all links, and the weights of paths.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Lengths {
    /// The length of a link without paths.
    pub one_hop: u64,
    /// By link.
    pub by_link: Vec<u64>,
    /// By switch: its LIDs and those of the ports linked to it.
    weights: Vec<u32>,
    /// Zeros by switch, where the weights of the paths over it are added up.
    over: Vec<u64>,
}

impl Lengths {
    /// The lengths without paths. `weights` are the numbers of LIDs by switch.
    pub(super) fn new(network: &Network, one_hop: u64, weights: Vec<u32>) -> Self {
        let by_link = vec![one_hop; network.links().len()];
        Self { one_hop, by_link, weights, over: vec![0; network.len()] }
    }

    /// By how much a path from this switch makes a link longer.
    pub(super) fn weight(&self, switch: u32) -> u64 {
        self.weights[switch as usize].into()
    }

    /// Makes links longer by the paths of a search.
    pub(super) fn add_paths(&mut self, network: &Network, search: &Search) {
        // Each switch is behind the next one on its path.
        for &switch in search.order.iter().rev() {
            let over = std::mem::take(&mut self.over[switch as usize]);
            let link = search.used[switch as usize] as usize;
            if let Some(&next) = network.starts().get(link) {
                let all = over + self.weight(switch);
                self.by_link[link] += all;
                self.over[next as usize] += all;
            }
        }
    }
}
