//! The policy of Fat Tree, and the order of compute nodes.

use super::DUMP_FILE;
use super::hosts::Role;
use super::tree::RankedTree;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Lid;
use crate::plan::LidTable;
use crate::plan::routing::port_hops::PortHops;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::{Dump, RoutingPolicy};
use std::fmt::Write;

/// The compute nodes leaf by leaf, with `None` for each missing one.
fn ca_order(
    tree: &RankedTree<'_>,
    leaves: &[SwitchId],
    max_compute_nodes: usize,
) -> Vec<Option<(Lid, String)>> {
    let mut order = Vec::with_capacity(leaves.len() * max_compute_nodes);
    for &leaf in leaves {
        let before = order.len();
        order.extend(
            tree.compute_nodes(leaf)
                .map(|host| Some((host.lid, tree.fabric.node_of(host.port).name().to_string()))),
        );
        order.resize(before + max_compute_nodes, None);
    }
    order
}

fn unordered_leaves(tree: &RankedTree<'_>, leaves: &[SwitchId]) -> Vec<SwitchId> {
    leaves
        .iter()
        .copied()
        .filter(|&leaf| {
            let groups = tree.groups(leaf);
            let is_linked = !groups.down.is_empty() || !groups.siblings.is_empty();
            is_linked && tree.is_leaf(leaf) && tree.down_count(leaf) > 1
        })
        .collect()
}

/// The switches of each rank, and the roots.
fn structure(tree: &RankedTree<'_>) -> EngineStructure {
    let ranks = &tree.ranks.by_switch;
    let roots = (0..).map(SwitchId).zip(ranks).filter(|(_, rank)| **rank == 0);
    let roots = roots.map(|(switch, _)| switch).collect();
    EngineStructure { roots, ..EngineStructure::of_ranks(ranks.iter().copied()) }
}

/// The policy of Fat Tree, which leaves SLs, VLs and multicast trees to the defaults.
#[derive(Debug)]
pub struct FtreePolicy {
    /// LID and description of the compute nodes in the order of their leaf switches, with `None`
    /// for each missing one.
    ca_order: Vec<Option<(Lid, String)>>,
    port_hops: PortHops,
    unordered_leaves: Vec<SwitchId>,
    structure: EngineStructure,
    /// Paths to I/O nodes may go down on the way up, which may close credit loops.
    has_reverse_hops: bool,
}

impl FtreePolicy {
    pub(super) fn new(
        tree: &RankedTree<'_>,
        leaves: &[SwitchId],
        max_compute_nodes: usize,
        port_hops: PortHops,
        max_reverse_hops: u16,
    ) -> Self {
        let has_io_nodes = tree.hosts.iter().any(|host| host.role == Role::Io);
        Self {
            has_reverse_hops: max_reverse_hops > 0 && has_io_nodes,
            ca_order: ca_order(tree, leaves, max_compute_nodes),
            port_hops,
            unordered_leaves: unordered_leaves(tree, leaves),
            structure: structure(tree),
        }
    }

    /// Leaf switches whose compute nodes OpenSM routes in an order that depends on addresses in
    /// memory, and may leave out: those with several down groups and with cables to switches of
    /// the same or a higher rank.
    pub fn unordered_leaves(&self) -> &[SwitchId] {
        &self.unordered_leaves
    }

    /// Contents of [`DUMP_FILE`].
    pub(super) fn dump(&self) -> String {
        let mut text = String::new();
        for entry in &self.ca_order {
            match entry {
                Some((lid, description)) => {
                    let _ = writeln!(text, "{:#06x}\t{description}", lid.0);
                }
                None => text.push_str("0xFFFF\tDUMMY\n"),
            }
        }
        text
    }
}

impl RoutingPolicy for FtreePolicy {
    /// One group for all ports, because the SL of a path is always the requested one.
    fn sl_group(&self, _port: PortId) -> u32 {
        0
    }

    /// Two policies of this engine never differ.
    fn changes_since(&self, before: &dyn RoutingPolicy) -> Option<Vec<PortId>> {
        before.as_any().is::<Self>().then(Vec::new)
    }

    fn same_path_sls_as(&self, before: &dyn RoutingPolicy) -> bool {
        before.as_any().is::<Self>()
    }

    fn port_hops(&self) -> Option<&PortHops> {
        Some(&self.port_hops)
    }

    fn avoids_credit_loops(&self) -> bool {
        !self.has_reverse_hops
    }

    fn dumps(&self, _fabric: &Fabric, _lids: &LidTable) -> Vec<Dump> {
        self.standing_dumps()
    }

    fn standing_dumps(&self) -> Vec<Dump> {
        vec![Dump { file: DUMP_FILE.into(), text: self.dump() }]
    }

    /// No path up and down the tree leads from one root to another.
    fn may_omit_switch_routes(&self) -> bool {
        true
    }

    fn structure(&self) -> EngineStructure {
        self.structure.clone()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
