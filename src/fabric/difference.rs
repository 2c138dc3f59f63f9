//! Differences between two snapshots, as far as plans depend on them.

use super::{Fabric, Node, NodeId, Port, PortId};
use crate::paged_vec::PagedVec;
use rayon::prelude::*;
use std::sync::Arc;

/// Pages in one task, at least.
const PAGES: usize = 32;

/// The differences from an earlier snapshot of the same nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Difference {
    /// Ports with a changed PortInfo, GUID or peer, or with changed vports, ascending.
    pub ports: Vec<PortId>,
    /// Nodes with changed capabilities or descriptions, ascending.
    pub nodes: Vec<NodeId>,
}

impl Difference {
    /// Compares two snapshots; `None` if their nodes, port slots or local ports are not the same.
    ///
    /// Directed routes and the state bits of SwitchInfo are ignored, since no plan depends on them.
    pub fn between(old: &Fabric, new: &Fabric) -> Option<Self> {
        let same_size = old.nodes.len() == new.nodes.len() && old.ports.len() == new.ports.len();
        if !same_size || old.local != new.local {
            return None;
        }
        let (nodes, ports) = rayon::join(
            || changed_nodes(&old.nodes, &new.nodes),
            || changed_ports(&old.ports, &new.ports),
        );
        let ports = with_changed_vports(old, new, ports);
        Some(Self { nodes: nodes?, ports })
    }

    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.nodes.is_empty()
    }
}

/// The changed nodes; `None` if a node was exchanged.
fn changed_nodes(old: &PagedVec<Node>, new: &PagedVec<Node>) -> Option<Vec<NodeId>> {
    let parts: Vec<_> = old.unshared(new).collect();
    let found = parts.into_par_iter().with_min_len(PAGES).map(|(start, old, new)| {
        let mut changed = Vec::new();
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            if !is_same_node(old, new) {
                return None;
            }
            if is_changed(old, new) {
                changed.push(NodeId((start + index) as u32));
            }
        }
        Some(changed)
    });
    let found: Option<Vec<Vec<NodeId>>> = found.collect();
    Some(found?.concat())
}

fn is_same_node(old: &Node, new: &Node) -> bool {
    old.first_port == new.first_port
        && old.switch == new.switch
        && (old.info == new.info || (old.guid() == new.guid() && old.kind() == new.kind()))
}

/// True if a capability that plans depend on, the description or the name changed.
fn is_changed(old: &Node, new: &Node) -> bool {
    let is_alike = old.info == new.info && old.switch_info == new.switch_info;
    (!is_alike && switch_capabilities(old) != switch_capabilities(new))
        || old.description != new.description
        || old.mapped_name != new.mapped_name
}

fn switch_capabilities(node: &Node) -> (u16, u16, u16, u16, bool, bool, bool) {
    let info = &node.info;
    let switch = &node.switch_info;
    (
        info.partition_cap(),
        switch.linear_fdb_cap(),
        switch.multicast_fdb_cap(),
        switch.partition_enforcement_cap(),
        switch.inbound_enforcement_cap(),
        switch.outbound_enforcement_cap(),
        switch.enhanced_port0(),
    )
}

fn changed_ports(old: &PagedVec<Port>, new: &PagedVec<Port>) -> Vec<PortId> {
    let parts: Vec<_> = old.unshared(new).collect();
    let found: Vec<Vec<PortId>> = parts
        .into_par_iter()
        .with_min_len(PAGES)
        .map(|(start, old, new)| {
            let pairs = old.iter().zip(new).enumerate();
            let changed = pairs.filter(|(_, (old, new))| {
                old.peer != new.peer || old.guid != new.guid || !is_same_info(old, new)
            });
            changed.map(|(index, _)| PortId((start + index) as u32)).collect()
        })
        .collect();
    found.concat()
}

/// Adds the ports whose vports differ.
fn with_changed_vports(old: &Fabric, new: &Fabric, mut ports: Vec<PortId>) -> Vec<PortId> {
    let before = old.virtual_ports();
    let after = new.virtual_ports();
    if Arc::ptr_eq(before, after) {
        return ports;
    }
    let guids = before.ports().chain(after.ports()).map(|(guid, _)| guid);
    ports.extend(
        guids
            .filter(|guid| match (before.of_port(*guid), after.of_port(*guid)) {
                (Some(old), Some(new)) => !Arc::ptr_eq(old, new) && old != new,
                _ => true,
            })
            .filter_map(|guid| new.port_by_guid(guid)),
    );
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Compares all 64 bytes without a branch between them, because nearly all ports are equal.
fn is_same_info(old: &Port, new: &Port) -> bool {
    let (Some(old), Some(new)) = (&old.info(), &new.info()) else {
        return old.info().is_none() && new.info().is_none();
    };
    let (old, _) = old.0.as_chunks::<8>();
    let (new, _) = new.0.as_chunks::<8>();
    let words = old.iter().zip(new);
    words.fold(0, |all, (&a, &b)| all | (u64::from_ne_bytes(a) ^ u64::from_ne_bytes(b))) == 0
}
