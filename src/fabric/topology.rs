//! The bare wiring of a fabric: what generators make, what files hold, what a simulator is
//! built from.

use crate::ids::{Guid, PortNum};
use crate::wire::attr::NodeKind;

/// Nodes and cables, without any state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// All nodes, in the order of the file or generator.
    pub nodes: Vec<TopologyNode>,
    /// All cables, each once: (node index, port) at both ends.
    pub cables: Vec<[(usize, PortNum); 2]>,
}

impl Topology {
    /// Brings cables, port GUIDs and LIDs into the order of nodes and ports, so that the same
    /// wiring is the same value.
    pub fn normalize(&mut self) {
        for cable in &mut self.cables {
            cable.sort_unstable();
        }
        self.cables.sort_unstable();
        for node in &mut self.nodes {
            node.port_guids.sort_unstable();
            node.lids.sort_unstable();
        }
    }
}

/// A node of a [`Topology`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyNode {
    /// Kind.
    pub kind: NodeKind,
    /// GUID of the node.
    pub guid: Guid,
    /// GUID of the system.
    pub system_guid: Guid,
    /// Description.
    pub description: String,
    /// Number of external ports.
    pub num_ports: u8,
    /// Port GUIDs where they are not the usual ones (node GUID + port number on CAs and
    /// routers, the node GUID itself on port 0 of switches).
    pub port_guids: Vec<(PortNum, Guid)>,
    /// LIDs that the devices already had, if the file tells: (port, LID, LMC).
    pub lids: Vec<(PortNum, u16, u8)>,
}

impl TopologyNode {
    /// GUID of port `num`.
    pub fn port_guid(&self, num: PortNum) -> Guid {
        let special = self.port_guids.iter().find(|(port, _)| *port == num);
        match (special, self.kind) {
            (Some(&(_, guid)), _) => guid,
            (None, NodeKind::Switch) => self.guid,
            (None, _) => Guid(self.guid.0.wrapping_add(num.0.into())),
        }
    }
}
