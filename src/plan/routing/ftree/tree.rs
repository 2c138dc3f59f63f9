//! The tree: ranked switches with their port groups, and the hosts at each switch.
//!
//! A port group is the set of cables between two switches. It is a down, sibling or up group,
//! depending on whether the peer has a higher, the same or a lower rank. The groups of a switch
//! are in the order of their first ports until [`super::index`] sorts them.

use super::hosts::{Role, TreeHost};
use super::rank::{TreeRanks, UNRANKED};
use crate::fabric::{Fabric, SwitchId};
use crate::plan::routing::switch_graph::SwitchGraph;
use std::ops::Range;

/// A cable of a port group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupCable {
    pub port: u8,
    /// The port number at the peer.
    pub peer_port: u8,
}

/// The cables from one switch to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PortGroup {
    pub peer: SwitchId,
    /// Cables by port number; at least one.
    pub cables: Vec<GroupCable>,
}

/// The direction of a port group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GroupDirection {
    Down,
    Sibling,
    Up,
}

/// The port groups of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct TreeSwitchGroups {
    pub down: Vec<PortGroup>,
    pub siblings: Vec<PortGroup>,
    pub up: Vec<PortGroup>,
}

impl TreeSwitchGroups {
    fn of(&mut self, direction: GroupDirection) -> &mut Vec<PortGroup> {
        match direction {
            GroupDirection::Down => &mut self.down,
            GroupDirection::Sibling => &mut self.siblings,
            GroupDirection::Up => &mut self.up,
        }
    }
}

/// Ranked switches and hosts.
pub(super) struct RankedTree<'a> {
    pub fabric: &'a Fabric,
    pub graph: SwitchGraph,
    pub ranks: TreeRanks,
    /// Switches in OpenSM's order: by byte-swapped node GUID.
    pub order: Vec<SwitchId>,
    pub groups: Vec<TreeSwitchGroups>,
    /// Hosts at ranked switches, in OpenSM's order.
    pub hosts: Vec<TreeHost>,
    /// The rank of all switches with compute nodes.
    pub leaf_rank: u32,
    /// The channel adapter ports at each switch, as indices of `hosts`, by port of the switch.
    adapters: Vec<u32>,
    /// The first adapter of each switch; the last entry is their number.
    first_adapter: Vec<u32>,
}

impl<'a> RankedTree<'a> {
    /// Builds the groups. The caller sets `leaf_rank`.
    pub(super) fn new(
        fabric: &'a Fabric,
        graph: SwitchGraph,
        ranks: TreeRanks,
        hosts: Vec<TreeHost>,
    ) -> Self {
        let hosts: Vec<_> =
            hosts.into_iter().filter(|host| is_ranked(&ranks, host.switch)).collect();
        let mut order: Vec<_> =
            fabric.switch_ids().filter(|&switch| is_ranked(&ranks, switch)).collect();
        order.sort_by_cached_key(|&switch| fabric.switch(switch).guid().opensm_order());
        let groups = fabric.switch_ids().map(|switch| groups_of(&graph, &ranks, switch)).collect();
        let (adapters, first_adapter) = adapters(fabric, &hosts);
        let leaf_rank = ranks.max;
        Self { fabric, graph, ranks, order, groups, hosts, leaf_rank, adapters, first_adapter }
    }

    /// The channel adapter ports at a switch, by port of the switch.
    pub(super) fn adapters(&self, switch: SwitchId) -> impl ExactSizeIterator<Item = &TreeHost> {
        let adapters = &self.adapters[self.adapter_range(switch)];
        adapters.iter().map(|&host| &self.hosts[host as usize])
    }

    fn adapter_range(&self, switch: SwitchId) -> Range<usize> {
        let first = &self.first_adapter[switch.index()..];
        first[0] as usize..first[1] as usize
    }

    /// The compute nodes at a switch, by port of the switch.
    pub(super) fn compute_nodes(&self, switch: SwitchId) -> impl Iterator<Item = &TreeHost> {
        self.adapters(switch).filter(|host| host.role == Role::Compute)
    }

    /// True for switches with compute nodes.
    pub(super) fn is_leaf(&self, switch: SwitchId) -> bool {
        self.compute_nodes(switch).next().is_some()
    }

    pub(super) fn groups(&self, switch: SwitchId) -> &TreeSwitchGroups {
        &self.groups[switch.index()]
    }

    /// Number of down groups in OpenSM's count, where each channel adapter port is a group.
    pub(super) fn down_count(&self, switch: SwitchId) -> usize {
        self.groups(switch).down.len() + self.adapter_range(switch).len()
    }

    /// GUID, description and rank of a switch for messages.
    pub(super) fn describe(&self, switch: SwitchId) -> String {
        let node = self.fabric.switch(switch);
        let rank = self.ranks.of(switch);
        format!("switch {} \"{}\" of rank {rank}", node.guid(), node.name())
    }
}

fn is_ranked(ranks: &TreeRanks, switch: SwitchId) -> bool {
    ranks.of(switch) != UNRANKED
}

/// The port groups of a switch, in the order of their first ports.
fn groups_of(graph: &SwitchGraph, ranks: &TreeRanks, switch: SwitchId) -> TreeSwitchGroups {
    let mut groups = TreeSwitchGroups::default();
    if ranks.of(switch) == UNRANKED {
        return groups;
    }
    for link in graph.links(switch) {
        let direction = match ranks.of(link.to).cmp(&ranks.of(switch)) {
            std::cmp::Ordering::Greater => GroupDirection::Down,
            std::cmp::Ordering::Equal => GroupDirection::Sibling,
            std::cmp::Ordering::Less => GroupDirection::Up,
        };
        let cable = GroupCable { port: link.port, peer_port: link.to_port };
        let groups = groups.of(direction);
        match groups.iter_mut().find(|group| group.peer == link.to) {
            Some(group) => group.cables.push(cable),
            None => groups.push(PortGroup { peer: link.to, cables: vec![cable] }),
        }
    }
    groups
}

/// Sorts the hosts on channel adapters by switch and port.
fn adapters(fabric: &Fabric, hosts: &[TreeHost]) -> (Vec<u32>, Vec<u32>) {
    let mut adapters: Vec<_> = (0..hosts.len() as u32)
        .filter(|&index| hosts[index as usize].role != Role::Router)
        .collect();
    adapters.sort_unstable_by_key(|&index| {
        let host = &hosts[index as usize];
        (host.switch, host.switch_port)
    });
    let count = fabric.switches().len();
    let first = (0..=count as u32)
        .map(|id| {
            adapters.partition_point(|&index| hosts[index as usize].switch < SwitchId(id)) as u32
        })
        .collect();
    (adapters, first)
}
