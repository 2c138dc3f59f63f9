//! The switches of a snapshot, and its nodes and end ports by GUID. Snapshots with the same nodes
//! and end ports share it.

use super::{NodeId, PortId, SwitchId};
use crate::ids::Guid;
use rustc_hash::{FxBuildHasher, FxHashMap};

#[derive(Debug, Default)]
pub(super) struct GuidIndex {
    pub(super) switches: Vec<NodeId>,
    /// A fast hash is safe here: clients cannot add keys, and a device has few.
    by_node_guid: FxHashMap<Guid, NodeId>,
    by_port_guid: FxHashMap<Guid, PortId>,
}

impl GuidIndex {
    /// An empty index with space for this number of nodes.
    pub(super) fn with_capacity(nodes: usize) -> Self {
        Self {
            switches: Vec::new(),
            by_node_guid: FxHashMap::with_capacity_and_hasher(nodes, FxBuildHasher),
            by_port_guid: FxHashMap::with_capacity_and_hasher(nodes, FxBuildHasher),
        }
    }

    pub(super) fn add_node(&mut self, guid: Guid, node: NodeId) {
        self.by_node_guid.insert(guid, node);
    }

    pub(super) fn add_switch(&mut self, node: NodeId) -> SwitchId {
        self.switches.push(node);
        SwitchId(self.switches.len() as u32 - 1)
    }

    /// Adds an end port; of several with one GUID, the first stays.
    pub(super) fn add_end_port(&mut self, guid: Guid, slot: PortId) {
        self.by_port_guid.entry(guid).or_insert(slot);
    }

    pub(super) fn node(&self, guid: Guid) -> Option<NodeId> {
        self.by_node_guid.get(&guid).copied()
    }

    pub(super) fn end_port(&self, guid: Guid) -> Option<PortId> {
        self.by_port_guid.get(&guid).copied()
    }
}
