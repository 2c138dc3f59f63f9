//! Nodes that a reconfiguration knew nothing about, because they are new or have restarted.

use crate::fabric::Fabric;
use crate::ids::Guid;
use rustc_hash::FxHashMap;

/// For each node the generation of the last subnet for which nothing was known of what the node
/// held: it was new or had restarted, or another SM may have written to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restarts(FxHashMap<Guid, u64>);

impl Restarts {
    /// The generation of a node; 0 if there is none.
    pub fn last(&self, node: Guid) -> u64 {
        self.0.get(&node).copied().unwrap_or(0)
    }

    /// Records these nodes, and forgets those that are not in the fabric.
    pub fn record(&mut self, fabric: &Fabric, generation: u64, nodes: &[Guid]) {
        self.0.retain(|&guid, _| fabric.node_by_guid(guid).is_some());
        self.0.extend(nodes.iter().map(|&guid| (guid, generation)));
    }
}
