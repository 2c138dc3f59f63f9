//! Multicast trees of shortest paths, over the links that carry the fewest unicast paths.

use super::network::Network;
use super::search::{Root, Search};
use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::plan::routing::switch_graph::linked_peer;
use crate::plan::routing::{MulticastTree, PortMask};
use std::collections::BTreeMap;

/// The switch and port to which an end port is linked; port 0 for the switch itself.
#[derive(Clone, Copy)]
struct Attached {
    switch: u32,
    exit: u8,
}

/// The network of the trees.
pub(in crate::plan::routing) struct MulticastPaths {
    pub network: Network,
    /// Lengths of the links after all paths are counted.
    lengths: Vec<u64>,
    /// By switch: true if it supports multicast.
    has_multicast: Vec<bool>,
    /// By port: where it is attached.
    attached: Vec<Option<Attached>>,
}

impl MulticastPaths {
    pub(in crate::plan::routing) fn new(
        fabric: &Fabric,
        network: Network,
        lengths: Vec<u64>,
    ) -> Self {
        let has_multicast = network.switches.iter();
        let has_multicast = has_multicast
            .map(|&switch| fabric.switch(switch).switch_info.multicast_fdb_cap() > 0)
            .collect();
        let attached = fabric.port_ids().map(|port| attached(fabric, &network, port)).collect();
        Self { network, lengths, has_multicast, attached }
    }

    /// The tree of shortest paths from the switch with the smallest distance to its farthest
    /// member; `None` for a single member. `hops_to` gives the hops of all switches to one.
    pub(in crate::plan::routing) fn tree(
        &self,
        members: &[PortId],
        hops_to: impl Fn(u32) -> Vec<u8>,
    ) -> Option<MulticastTree> {
        if members.len() < 2 {
            return None;
        }
        let mut masks = BTreeMap::<u32, PortMask>::new();
        for to in members.iter().filter_map(|port| *self.attached.get(port.index())?) {
            masks.entry(to.switch).or_default().insert(to.exit);
        }
        let root = self.root(&masks, hops_to)?;
        let mut search = Search::default();
        search.run(&self.network, &self.lengths, Root::Switch(root));
        let with_members: Vec<u32> =
            masks.keys().copied().filter(|switch| self.has_multicast[*switch as usize]).collect();
        for switch in with_members {
            self.climb(&search, switch, &mut masks);
        }
        let mut switches: Vec<_> = masks
            .into_iter()
            .map(|(number, mask)| (self.network.switches[number as usize], mask))
            .collect();
        switches.sort_by_key(|&(switch, _)| switch);
        Some(MulticastTree { switches, notes: Vec::new() })
    }

    fn root(
        &self,
        members: &BTreeMap<u32, PortMask>,
        hops_to: impl Fn(u32) -> Vec<u8>,
    ) -> Option<u32> {
        let mut farthest = vec![0_u32; self.network.len()];
        for (&switch, exits) in members {
            // The hosts of a switch count as distant as the switch if it is a member, too.
            let last_hop = u32::from(!exits.contains(0));
            for (farthest, hops) in farthest.iter_mut().zip(hops_to(switch)) {
                *farthest = (*farthest).max(u32::from(hops) + last_hop);
            }
        }
        let able = self.network.by_guid.iter().filter(|&&at| self.has_multicast[at as usize]);
        able.copied().min_by_key(|&switch| farthest[switch as usize])
    }

    /// Adds the path from a switch to the root of the tree.
    fn climb(&self, search: &Search, from: u32, masks: &mut BTreeMap<u32, PortMask>) {
        let mut at = from;
        while let Some(link) = self.network.links().get(search.used[at as usize] as usize) {
            masks.entry(at).or_default().insert(link.to_port);
            masks.entry(link.from).or_default().insert(link.port);
            at = link.from;
        }
    }
}

fn attached(fabric: &Fabric, network: &Network, port: PortId) -> Option<Attached> {
    let switch = match fabric.node_of(port).switch {
        Some(_) if fabric.port(port).num != PortNum::ZERO => return None,
        Some(switch) => return Some(Attached { switch: network.numbers[switch.index()], exit: 0 }),
        None => linked_peer(fabric, port)?,
    };
    let id = fabric.node_of(switch).switch?;
    Some(Attached { switch: network.numbers[id.index()], exit: fabric.port(switch).num.0 })
}
