//! Nodes and cables of a fabric without state, as generators make them and fabric files hold them.

use super::link_rate::LinkRate;
use crate::ids::{Guid, PortNum};
use crate::wire::attr::NodeKind;
use std::collections::BTreeMap;

/// Nodes and cables, without any state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// Nodes in the order of the file or generator.
    pub nodes: Vec<TopologyNode>,
    /// Cables, each once, as (node index, port) of both ends.
    pub cables: Vec<[(usize, PortNum); 2]>,
    /// Width and speed of the links whose rate differs from the default, by both ends.
    pub rates: BTreeMap<(usize, PortNum), LinkRate>,
}

impl Topology {
    /// The rate of the link at a port.
    pub fn rate(&self, node: usize, num: PortNum) -> LinkRate {
        self.rates.get(&(node, num)).copied().unwrap_or_default()
    }

    /// The rate of the fastest link of a node, which tells what the node supports.
    pub fn fastest_rate(&self, node: usize) -> LinkRate {
        let rates = self.rates.range((node, PortNum(0))..=(node, PortNum(u8::MAX)));
        let fastest = rates.map(|(_, rate)| *rate).max_by_key(|rate| rate.speed);
        fastest.filter(|rate| rate.speed.is_extended()).unwrap_or_default()
    }

    /// Sorts cables, port GUIDs and LIDs by node and port, so that equal topologies are equal
    /// values.
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

/// The ports for the cables of a fabric that is being made: each node takes its ports in ascending order.
pub struct NextPorts {
    used: Vec<u8>,
}

impl NextPorts {
    pub fn new(nodes: usize) -> Self {
        Self { used: vec![0; nodes] }
    }

    /// The end of a cable at the next port of a node, from port 1 on. A node has at most 255 ports.
    pub fn take(&mut self, node: usize) -> (usize, PortNum) {
        self.used[node] += 1;
        (node, PortNum(self.used[node]))
    }

    /// Number of ports that a node has taken.
    pub fn count(&self, node: usize) -> u8 {
        self.used[node]
    }
}

/// A node of a [`Topology`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyNode {
    pub kind: NodeKind,
    pub guid: Guid,
    pub system_guid: Guid,
    pub description: String,
    /// Number of ports without port 0.
    pub num_ports: u8,
    /// Port GUIDs that differ from the default: node GUID + port number for channel adapters and
    /// routers, the node GUID for port 0 of switches.
    pub port_guids: Vec<(PortNum, Guid)>,
    /// LIDs in the file as (port, LID, LMC).
    pub lids: Vec<(PortNum, u16, u8)>,
    pub model: DeviceModel,
}

/// VendorID and DeviceID of NodeInfo, 0 if unknown, and properties of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceModel {
    pub vendor_id: u32,
    pub device_id: u16,
    /// Port 0 of the switch is an enhanced one.
    pub enhanced_port0: bool,
}

impl TopologyNode {
    /// A node that is a system of its own, without a description.
    pub fn new(kind: NodeKind, guid: Guid, num_ports: u8) -> Self {
        Self {
            model: Default::default(),
            kind,
            guid,
            system_guid: guid,
            description: String::new(),
            num_ports,
            port_guids: Vec::new(),
            lids: Vec::new(),
        }
    }

    /// The node with a description.
    #[must_use]
    pub fn described(self, description: impl Into<String>) -> Self {
        Self { description: description.into(), ..self }
    }

    pub fn port_guid(&self, num: PortNum) -> Guid {
        let special = self.port_guids.iter().find(|(port, _)| *port == num);
        match (special, self.kind) {
            (Some(&(_, guid)), _) => guid,
            (None, NodeKind::Switch) => self.guid,
            (None, _) => Guid(self.guid.0.wrapping_add(num.0.into())),
        }
    }
}
