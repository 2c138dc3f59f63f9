//! The nodes that a comparison of the devices with a plan looks at (see `changed`).

use crate::fabric::{Fabric, NodeId, PortId};
use crate::observe::m_keys::MKeys;
use crate::wire::attr::tables::PkeyTable;
use std::sync::Arc;

/// The nodes to look at.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    All,
    /// These nodes only, ascending.
    Nodes(&'a [NodeId]),
}

impl<'a> Scope<'a> {
    pub(in crate::apply) fn nodes(self, fabric: &Fabric) -> impl Iterator<Item = NodeId> + use<'a> {
        let (nodes, count) = match self {
            Self::All => (&[][..], fabric.nodes().len()),
            Self::Nodes(nodes) => (nodes, nodes.len()),
        };
        (0..count).map(move |index| nodes.get(index).copied().unwrap_or(NodeId(index as u32)))
    }

    /// The port slots of the nodes, ascending.
    pub(in crate::apply) fn slots(self, fabric: &'a Fabric) -> impl Iterator<Item = PortId> + 'a {
        self.nodes(fabric).flat_map(move |node| fabric.node(node).slots())
    }
}

/// What was true after a reconfiguration that left no exception.
#[derive(Clone, Debug)]
pub(in crate::apply) struct Settled {
    pub pkeys: Arc<Vec<PkeyTable>>,
    pub keys: MKeys,
    /// Nodes that would get Sets again, because they do not hold what they acknowledged.
    pub unsettled: Vec<NodeId>,
}
