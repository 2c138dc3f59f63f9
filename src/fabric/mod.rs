//! [`Fabric`]: an immutable, densely indexed snapshot of a fabric.
//!
//! Nodes are ordered by node GUID, so a fabric has the same snapshot whatever the order of
//! discovery. Each node owns `num_ports + 1` consecutive port slots. Slot 0 is the management port
//! of a switch; on channel adapters and routers it is unused. GUIDs serve for look-ups from
//! outside; inside, everything is an index.
//!
//! [`topology`] describes nodes and cables without state, as generators and fabric files
//! ([`ibnet`]) give them. [`synthetic`] makes the snapshot that a sweep of a topology would return.
//! [`DiscoveryFault`] is a failure of a sweep.
//! [`difference`] compares two snapshots, [`successors`] finds the ports of one in a later one, and [`part`] makes a fabric of some nodes and ports.
//! [`virtual_ports`] are those of SR-IOV functions. [`link_rate`] has widths and speeds.
//! [`quarantined`] names links that are treated as down.

pub mod difference;
mod discovery_fault;
mod guid_index;
pub mod ibnet;
pub mod link_rate;
pub mod node_name;
pub mod node_names;
pub mod part;
mod port;
pub mod quarantined;
pub mod subnet_list;
pub mod successors;
pub mod synthetic;
pub mod topology;
pub mod virtual_ports;

pub use self::discovery_fault::DiscoveryFault;
use self::guid_index::GuidIndex;
use self::node_names::NodeName;
pub use self::port::Port;
use self::virtual_ports::VirtualPorts;
use crate::ids::{Guid, Lid, PortNum};
use crate::paged_vec::PagedVec;
use crate::wire::attr::{
    MlnxExtPortInfo, NodeDescription, NodeInfo, NodeKind, PortInfo, SwitchInfo,
};
use crate::wire::smp::DirectedRoute;
use rustc_hash::FxHashMap;
use std::sync::Arc;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into a slice.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A node of a [`Fabric`].
    NodeId
}
index! {
    /// A switch of a [`Fabric`]: dense, in the order of the nodes.
    SwitchId
}
index! {
    /// A port slot of a [`Fabric`].
    PortId
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// NodeInfo through the port by which the node was reached first.
    pub info: NodeInfo,
    pub description: NodeDescription,
    /// The name of the node name map, which replaces the description in messages.
    pub mapped_name: Option<Arc<str>>,
    /// `None` for nodes that are no switches.
    pub switch: Option<SwitchId>,
    /// SwitchInfo, for switches that answered it.
    pub switch_info: SwitchInfo,
    /// Slot of port 0.
    pub first_port: PortId,
    /// Directed route from the SM's node.
    pub route: DirectedRoute,
}

impl Node {
    pub fn guid(&self) -> Guid {
        self.info.node_guid()
    }

    pub fn kind(&self) -> NodeKind {
        self.info.kind()
    }

    /// The name for messages, dumps and interfaces.
    pub fn name(&self) -> NodeName<'_> {
        NodeName(self)
    }

    pub fn is_switch(&self) -> bool {
        self.switch.is_some()
    }

    /// True for a switch that did not answer SwitchInfo, so that the size of its tables is unknown.
    pub fn lacks_switch_info(&self) -> bool {
        self.is_switch() && self.switch_info.linear_fdb_cap() == 0
    }

    /// Number of ports without port 0.
    pub fn num_ports(&self) -> u8 {
        self.info.num_ports()
    }

    /// Ids of the port slots, port 0 first.
    pub fn slots(&self) -> impl Iterator<Item = PortId> + use<> {
        let first = self.first_port.0;
        (first..=first + u32::from(self.num_ports())).map(PortId)
    }
}

/// The end of a directed route in a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteEnd {
    Port(PortId),
    /// The route leaves the snapshot by this port, which has no cable there.
    Behind(PortId),
}

/// The snapshot of a fabric.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Shared, as far as they are equal, with the snapshots that this one was made from.
    nodes: PagedVec<Node>,
    ports: PagedVec<Port>,
    index: Arc<GuidIndex>,
    local: PortId,
    faults: Vec<DiscoveryFault>,
    /// ExtendedPortInfo of the ports that support FDR10.
    extended_ports: FxHashMap<PortId, MlnxExtPortInfo>,
    virtual_ports: Arc<VirtualPorts>,
}

/// A node from a sweep or a file, as input of [`Fabric::assemble`].
#[derive(Clone, Debug)]
pub struct NodeParts {
    pub info: NodeInfo,
    pub description: NodeDescription,
    pub switch_info: SwitchInfo,
    /// Directed route from the SM's node.
    pub route: DirectedRoute,
    /// Port GUID (0 if unknown) and PortInfo of each of the `num_ports + 1` slots.
    pub ports: Vec<(Guid, Option<Arc<PortInfo>>)>,
}

/// End of a cable: node GUID and port number.
pub type End = (Guid, PortNum);

impl Fabric {
    /// Makes a snapshot of nodes and cables, seen from port `local`; `None` if that does not exist.
    /// Node GUIDs must be unique (sweeps keep the first node and record a [`DiscoveryFault`]).
    /// Cables at ports that do not exist are ignored, and so is a second cable at one port.
    pub fn assemble(
        mut parts: Vec<NodeParts>,
        cables: &[(End, End)],
        local: End,
        faults: Vec<DiscoveryFault>,
    ) -> Option<Self> {
        parts.sort_by_key(|node| node.info.node_guid());
        let mut index = GuidIndex::with_capacity(parts.len());
        let mut fabric = Self {
            nodes: PagedVec::default(),
            ports: PagedVec::default(),
            index: Arc::default(),
            local: PortId(0),
            faults,
            extended_ports: FxHashMap::default(),
            virtual_ports: Arc::default(),
        };
        for node in parts {
            fabric.add_node(node, &mut index);
        }
        fabric.index = Arc::new(index);
        for &(a, b) in cables {
            if let (Some(a), Some(b)) = (fabric.port_by_end(a), fabric.port_by_end(b))
                && fabric.port(a).peer.is_none()
                && fabric.port(b).peer.is_none()
            {
                fabric.ports[a.index()].peer = Some(b);
                fabric.ports[b.index()].peer = Some(a);
            }
        }
        debug_assert!(fabric.port_ids().all(|port| fabric.is_peer_of_its_peer(port)));
        fabric.local = fabric.port_by_end(local)?;
        Some(fabric)
    }

    /// A snapshot with other contents of the same nodes and ports, which must be as many as here, in
    /// the same order and with the same GUIDs. It has no ExtendedPortInfo.
    pub fn with_contents(
        &self,
        nodes: PagedVec<Node>,
        ports: PagedVec<Port>,
        local: PortId,
        faults: Vec<DiscoveryFault>,
    ) -> Self {
        debug_assert_eq!(nodes.len(), self.nodes.len(), "contents of the same nodes");
        debug_assert_eq!(ports.len(), self.ports.len(), "contents of the same ports");
        Self {
            nodes,
            ports,
            index: self.index.clone(),
            local,
            faults,
            extended_ports: FxHashMap::default(),
            virtual_ports: self.virtual_ports.clone(),
        }
    }

    /// True unless only one end of a cable has the other one as its peer.
    fn is_peer_of_its_peer(&self, port: PortId) -> bool {
        self.port(port).peer.is_none_or(|peer| self.port(peer).peer == Some(port))
    }

    fn add_node(&mut self, parts: NodeParts, index: &mut GuidIndex) {
        let id = NodeId(self.nodes.len() as u32);
        let first_port = PortId(self.ports.len() as u32);
        let is_switch = parts.info.kind() == NodeKind::Switch;
        let switch = is_switch.then(|| index.add_switch(id));
        index.add_node(parts.info.node_guid(), id);
        for num in 0..=parts.info.num_ports() {
            let slot = PortId(self.ports.len() as u32);
            let known = parts.ports.get(usize::from(num)).cloned();
            let (guid, port_info) = known.unwrap_or_default();
            let has_own_guid = guid.0 != 0 && (!is_switch || num == 0);
            if has_own_guid {
                index.add_end_port(guid, slot);
            }
            self.ports.push(Port::new(id, PortNum(num), guid).with_info(port_info));
        }
        self.nodes.push(Node {
            info: parts.info,
            description: parts.description,
            mapped_name: None,
            switch,
            switch_info: parts.switch_info,
            first_port,
            route: parts.route,
        });
    }

    /// The port at an end of a cable; `None` if it does not exist.
    pub fn port_by_end(&self, (guid, num): End) -> Option<PortId> {
        self.port_of(self.node_by_guid(guid)?, num)
    }

    /// True if both snapshots have the same nodes and port slots, with the same indexes.
    pub fn has_same_ids(&self, other: &Self) -> bool {
        self.ports.len() == other.ports.len()
            && self.nodes.is_equal_by(&other.nodes, |node, other| {
                node.first_port == other.first_port && node.guid() == other.guid()
            })
    }

    /// Replaces memory by that of an earlier snapshot which is equal.
    pub fn share_memory(&mut self, earlier: &Self) {
        self.nodes.share_pages(&earlier.nodes);
        self.ports.share_pages(&earlier.ports);
        if self.has_same_ids(earlier)
            && self.ports.is_equal_by(&earlier.ports, |one, two| one.guid == two.guid)
        {
            self.index = earlier.index.clone();
        }
    }

    /// True if both snapshots are known to have the same nodes and end ports, because one was made
    /// from the other. False tells nothing.
    pub fn shares_index(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.index, &other.index)
    }

    /// All nodes, ordered by GUID.
    pub fn nodes(&self) -> &PagedVec<Node> {
        &self.nodes
    }

    /// All port slots, those of a node together.
    pub fn ports(&self) -> &PagedVec<Port> {
        &self.ports
    }

    /// All switches, ordered by GUID: `switches()[id.index()]` is the node of `SwitchId` id.
    pub fn switches(&self) -> &[NodeId] {
        &self.index.switches
    }

    /// Ids of all nodes.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Ids of all switches.
    pub fn switch_ids(&self) -> impl ExactSizeIterator<Item = SwitchId> + use<> {
        (0..self.switches().len() as u32).map(SwitchId)
    }

    /// Ids of all port slots.
    pub fn port_ids(&self) -> impl ExactSizeIterator<Item = PortId> + use<> {
        (0..self.ports.len() as u32).map(PortId)
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn switch(&self, id: SwitchId) -> &Node {
        self.node(self.switches()[id.index()])
    }

    pub fn port(&self, id: PortId) -> &Port {
        &self.ports[id.index()]
    }

    /// The node of a port.
    pub fn node_of(&self, id: PortId) -> &Node {
        self.node(self.port(id).node)
    }

    /// The GUID of the node of a port, and the port number.
    pub fn end_of(&self, id: PortId) -> End {
        (self.node_of(id).guid(), self.port(id).num)
    }

    /// Slot of port `num` of a node; `None` if the node has no such port.
    pub fn port_of(&self, node: NodeId, num: PortNum) -> Option<PortId> {
        let node = self.node(node);
        (num.0 <= node.num_ports()).then(|| PortId(node.first_port.0 + u32::from(num.0)))
    }

    /// Slot of port `num` of a switch; `None` if it has no such port.
    pub fn switch_port(&self, switch: SwitchId, num: PortNum) -> Option<PortId> {
        self.port_of(self.switches()[switch.index()], num)
    }

    /// The slots of a node, port 0 first.
    pub fn ports_of(
        &self,
        node: NodeId,
    ) -> impl DoubleEndedIterator<Item = &Port> + ExactSizeIterator + Clone {
        let node = self.node(node);
        let first = node.first_port.index();
        self.ports.range(first..first + usize::from(node.num_ports()) + 1)
    }

    /// The node with this node GUID.
    pub fn node_by_guid(&self, guid: Guid) -> Option<NodeId> {
        self.index.node(guid)
    }

    /// The end port with this port GUID.
    pub fn port_by_guid(&self, guid: Guid) -> Option<PortId> {
        self.index.end_port(guid)
    }

    /// The SM's own port.
    pub fn local(&self) -> PortId {
        self.local
    }

    /// The failures of the sweep.
    pub fn faults(&self) -> &[DiscoveryFault] {
        &self.faults
    }

    /// The devices that did not answer and are as they were last known, in the order of the faults.
    pub fn unresponsive(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.faults.iter().filter_map(|fault| match fault {
            DiscoveryFault::Unresponsive { guid, .. } => self.node_by_guid(*guid),
            _ => None,
        })
    }

    /// All end ports that were reached, ordered by node and port: ports of channel adapters and
    /// routers, and port 0 of switches. These ports get LIDs.
    pub fn end_ports(&self) -> impl Iterator<Item = PortId> + '_ {
        // Skips the external ports of switches, which are most slots of a fabric.
        let candidates = self.nodes().iter().flat_map(|node| {
            let last = if node.is_switch() { 0 } else { usize::from(node.num_ports()) };
            node.slots().take(last + 1).skip(usize::from(!node.is_switch()))
        });
        candidates.filter(|&id| self.port(id).info().is_some())
    }

    /// The switch of a port or, for the port of a channel adapter or router, the switch at the far
    /// end of its cable.
    pub fn switch_behind(&self, id: PortId) -> Option<SwitchId> {
        let port = self.port(id);
        match self.node(port.node).switch {
            Some(switch) => Some(switch),
            None => self.node_of(port.peer?).switch,
        }
    }

    /// The directed route for managing this port. A port of a switch is managed through the
    /// switch, with its number in the attribute modifier; each port of a channel adapter or
    /// router is reached through its own cable.
    pub fn route_to(&self, id: PortId) -> DirectedRoute {
        let port = self.port(id);
        let node = self.node_of(id);
        if node.is_switch() || id == self.local {
            return node.route;
        }
        let through_peer = port.peer.and_then(|peer| {
            let peer = self.port(peer);
            self.node(peer.node).route.then(peer.num)
        });
        through_peer.unwrap_or(node.route)
    }

    /// Updates the snapshot with the answers of devices to Sets.
    pub fn acknowledge(
        &mut self,
        ports: &[(PortId, PortInfo)],
        switches: &[(SwitchId, SwitchInfo)],
    ) {
        for &(port, info) in ports {
            self.ports[port.index()].set_info(Some(info));
        }
        for &(switch, info) in switches {
            let node = self.switches()[switch.index()];
            self.nodes[node.index()].switch_info = info;
        }
    }

    /// The end of a directed route; `None` if a node on it does not have the port by which the route
    /// leaves it.
    pub fn end_of_route(&self, route: &DirectedRoute) -> Option<RouteEnd> {
        let mut at = self.local();
        for exit in route.exits() {
            let port = self.port_of(self.port(at).node, exit)?;
            match self.port(port).peer {
                Some(peer) => at = peer,
                None => return Some(RouteEnd::Behind(port)),
            }
        }
        Some(RouteEnd::Port(at))
    }

    /// The ExtendedPortInfo of a port; `None` if it does not support FDR10, or was not asked.
    pub fn extended_port_info(&self, id: PortId) -> Option<&MlnxExtPortInfo> {
        self.extended_ports.get(&id)
    }

    /// All ports with an ExtendedPortInfo, in no order.
    pub fn extended_ports(&self) -> impl Iterator<Item = (PortId, &MlnxExtPortInfo)> {
        self.extended_ports.iter().map(|(&id, info)| (id, info))
    }

    /// Stores the ExtendedPortInfo of a port, if it supports FDR10.
    pub fn set_extended_port_info(&mut self, id: PortId, info: MlnxExtPortInfo) {
        if info.supports_fdr10() {
            self.extended_ports.insert(id, info);
        }
    }

    /// Changes the description of the node of a port.
    pub fn set_description(&mut self, port: PortId, description: NodeDescription) {
        let node = self.port(port).node;
        self.nodes[node.index()].description = description;
    }

    /// Changes the SystemImageGUID of the node of a port.
    pub fn set_system_guid(&mut self, port: PortId, guid: Guid) {
        let node = self.port(port).node;
        self.nodes[node.index()].info.set_system_guid(guid);
    }

    /// Kind, GUID, description and number of a port for messages.
    pub fn describe(&self, id: PortId) -> String {
        let port = self.port(id);
        let node = self.node_of(id);
        format!("{} {} \"{}\"[{}]", node.kind(), node.guid(), node.name(), port.num)
    }

    /// The end port that has the LID, the M_Key and the SM of this port: port 0 of a switch, else
    /// the port itself.
    pub fn owner(&self, id: PortId) -> PortId {
        let node = self.node_of(id);
        if node.is_switch() { node.first_port } else { id }
    }

    /// The LID that the device reported; for all ports of a switch that of port 0.
    pub fn observed_lid(&self, id: PortId) -> Option<Lid> {
        self.port(self.owner(id)).info().map(|info| info.lid()).filter(|lid| lid.is_unicast())
    }
}
