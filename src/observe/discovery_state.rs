//! Nodes and cables while they are being collected.
//!
//! A discovery starts empty (heavy sweep) or with the last snapshot (focused sweep). Each cable is
//! recorded at both ends. See `discovery_snapshot` for the conversions from and into a snapshot.

use crate::fabric::node_names::NodeNames;
use crate::fabric::{DiscoveryFault, Fabric, NodeId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::tables::PkeyBlock;
use crate::wire::attr::{NodeDescription, NodeInfo, NodeKind, PortInfo, PortState, SwitchInfo};
use crate::wire::smp::DirectedRoute;
use rustc_hash::FxHashMap;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// A discovered node.
#[derive(Clone, Debug)]
pub struct DiscoveredNode {
    /// NodeInfo through the port by which the node was reached first.
    pub info: NodeInfo,
    /// Empty until the node answers NodeDescription.
    pub description: NodeDescription,
    /// Unset for nodes that are no switches.
    pub switch_info: SwitchInfo,
    /// Directed route to the node.
    pub route: DirectedRoute,
    /// Ports from 0 to the number of ports.
    pub ports: Vec<DiscoveredPort>,
}

/// A port of a discovered node.
#[derive(Clone, Debug, Default)]
pub struct DiscoveredPort {
    /// 0 while unknown.
    pub guid: Guid,
    /// `None` until the port answers PortInfo.
    pub info: Option<PortInfo>,
    /// Far end of the cable: node index and port.
    pub peer: Option<(usize, PortNum)>,
    /// The blocks of the P_Key table that were read; `None` for those of the last snapshot, if it has
    /// the port.
    pub pkeys: Option<Vec<PkeyBlock>>,
}

impl DiscoveredNode {
    pub fn is_switch(&self) -> bool {
        self.info.kind() == NodeKind::Switch
    }

    /// A port; `None` if the node has fewer ports.
    pub fn slot(&mut self, port: PortNum) -> Option<&mut DiscoveredPort> {
        self.ports.get_mut(port.index())
    }
}

/// The result of [`DiscoveryState::record_node`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeMatch {
    /// A node seen for the first time.
    NewNode(usize),
    /// A known channel adapter or router, through another of its ports.
    NewPort(usize),
    /// A known node and port.
    Known(usize),
    /// Another node with the GUID of a known one, which is recorded as a fault.
    DuplicateGuid,
}

/// How a node is reached, see [`DiscoveryState::reroute_avoiding`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// No cable leads to it.
    None,
    /// Only through nodes to avoid.
    Doubtful,
    /// Through none of them.
    Clear,
}

/// A snapshot, and the P_Key tables by its port slots.
pub(super) type LastSnapshot = (Arc<Fabric>, Arc<Vec<Vec<PkeyBlock>>>);

/// The state of a discovery.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryState {
    pub(super) entries: Vec<DiscoveredNode>,
    /// The snapshot that the state started from: its nodes are the first entries.
    pub(super) last: Option<LastSnapshot>,
    /// The nodes that `last` does not have.
    pub(super) by_guid: FxHashMap<Guid, usize>,
    /// The end ports that `last` does not have.
    pub(super) port_owner: FxHashMap<Guid, (usize, PortNum)>,
    /// The local port of the SM.
    pub local: Option<(usize, PortNum)>,
    /// Failures so far.
    pub faults: Vec<DiscoveryFault>,
    /// Names that replace descriptions.
    pub names: Arc<NodeNames>,
}

impl DiscoveryState {
    pub fn entries(&self) -> &[DiscoveredNode] {
        &self.entries
    }

    pub fn entry(&mut self, index: usize) -> &mut DiscoveredNode {
        &mut self.entries[index]
    }

    /// Index of the node with this GUID.
    pub fn find(&self, guid: Guid) -> Option<usize> {
        let last = self.last.as_ref().and_then(|(last, _)| last.node_by_guid(guid));
        last.map(NodeId::index).or_else(|| self.by_guid.get(&guid).copied())
    }

    /// The end port with this GUID.
    fn owner(&self, guid: Guid) -> Option<(usize, PortNum)> {
        let last = self.last.as_ref().and_then(|(last, _)| {
            let port = last.port(last.port_by_guid(guid)?);
            Some((port.node.index(), port.num))
        });
        last.or_else(|| self.port_owner.get(&guid).copied())
    }

    /// The P_Key table of a port as far as it is known, from the last snapshot or read since.
    pub fn pkeys(&self, node: usize, port: PortNum) -> &[PkeyBlock] {
        let slot = self.entries.get(node).and_then(|entry| entry.ports.get(port.index()));
        let read = slot.and_then(|slot| slot.pkeys.as_deref());
        read.or_else(|| self.last_pkeys(node, port)).unwrap_or(&[])
    }

    /// The P_Key table of a port in the last snapshot; `None` if that does not have the port.
    fn last_pkeys(&self, node: usize, port: PortNum) -> Option<&[PkeyBlock]> {
        let (fabric, pkeys) = self.last.as_ref()?;
        let first = fabric.nodes().get(node)?.first_port;
        pkeys.get(first.index() + port.index()).map(Vec::as_slice)
    }

    /// Records the node that answered `info` at the end of `route`.
    pub fn record_node(&mut self, info: NodeInfo, route: DirectedRoute) -> NodeMatch {
        match self.find(info.node_guid()) {
            None => NodeMatch::NewNode(self.add(info, route)),
            Some(index) => self.record_again(index, info, route),
        }
    }

    fn add(&mut self, info: NodeInfo, route: DirectedRoute) -> usize {
        let index = self.entries.len();
        let mut ports = vec![DiscoveredPort::default(); usize::from(info.num_ports()) + 1];
        if info.kind() == NodeKind::Switch {
            ports.iter_mut().for_each(|slot| slot.guid = info.port_guid());
        }
        self.by_guid.insert(info.node_guid(), index);
        let entry = DiscoveredNode {
            info,
            description: NodeDescription::default(),
            switch_info: SwitchInfo::default(),
            route,
            ports,
        };
        self.entries.push(entry);
        self.set_port_guid(index, info, route);
        index
    }

    fn record_again(&mut self, index: usize, info: NodeInfo, route: DirectedRoute) -> NodeMatch {
        let known = &self.entries[index];
        if !same_device(&known.info, &info) {
            return self.duplicate_guid(index, info.node_guid(), route);
        }
        if known.is_switch() {
            return NodeMatch::Known(index);
        }
        let slot = &known.ports[info.local_port().index()];
        if slot.guid == info.port_guid() {
            return NodeMatch::Known(index);
        }
        if slot.guid.0 != 0 {
            return self.duplicate_guid(index, info.node_guid(), route);
        }
        self.set_port_guid(index, info, route);
        NodeMatch::NewPort(index)
    }

    fn duplicate_guid(&mut self, index: usize, guid: Guid, second: DirectedRoute) -> NodeMatch {
        let first = self.entries[index].route;
        self.faults.push(DiscoveryFault::DuplicateNodeGuid { guid, first, second });
        NodeMatch::DuplicateGuid
    }

    /// Records the GUID of the port through which a channel adapter or router answered `info`.
    fn set_port_guid(&mut self, index: usize, info: NodeInfo, route: DirectedRoute) {
        let guid = info.port_guid();
        let port = if self.entries[index].is_switch() { PortNum::ZERO } else { info.local_port() };
        match self.owner(guid) {
            None => drop(self.port_owner.insert(guid, (index, port))),
            Some(owner) if owner != (index, port) => {
                let first = self.entries[owner.0].route;
                self.faults.push(DiscoveryFault::DuplicatePortGuid { guid, first, second: route });
            }
            Some(_) => {}
        }
        if let Some(slot) = self.entries[index].slot(port) {
            slot.guid = guid;
        }
    }

    /// The route for managing a port. Each port of a channel adapter or router is reached through
    /// its own cable.
    pub fn port_route(&self, node: usize, port: PortNum) -> DirectedRoute {
        let entry = &self.entries[node];
        if entry.is_switch() || self.local == Some((node, port)) {
            return entry.route;
        }
        let through_peer = self.peer((node, port));
        let through_peer = through_peer.and_then(|(peer, num)| self.entries[peer].route.then(num));
        through_peer.unwrap_or(entry.route)
    }

    /// The far end of the cable at a port.
    pub fn peer(&self, end: (usize, PortNum)) -> Option<(usize, PortNum)> {
        self.entries.get(end.0)?.ports.get(end.1.index())?.peer
    }

    /// Records a cable between two ports. Returns `false` and keeps the older cable if one of the
    /// ports already has another one.
    pub fn connect(&mut self, a: (usize, PortNum), b: (usize, PortNum)) -> bool {
        let mut peer = |end: (usize, PortNum)| self.entries[end.0].slot(end.1).map(|s| s.peer);
        let (Some(peer_a), Some(peer_b)) = (peer(a), peer(b)) else { return false };
        if peer_a.is_some_and(|peer| peer != b) || peer_b.is_some_and(|peer| peer != a) {
            return false;
        }
        for (end, other) in [(a, b), (b, a)] {
            if let Some(slot) = self.entries[end.0].slot(end.1) {
                slot.peer = Some(other);
            }
        }
        true
    }

    /// Removes the cable at a port and returns its far end.
    pub fn disconnect(&mut self, end: (usize, PortNum)) -> Option<(usize, PortNum)> {
        let other = self.entries[end.0].slot(end.1)?.peer.take()?;
        if let Some(slot) = self.entries[other.0].slot(other.1) {
            slot.peer = None;
        }
        Some(other)
    }

    /// The nodes along a route and the ports by which the route leaves them, as far as the state
    /// has the cables; the node at the end is not included.
    pub fn hops(&self, route: &DirectedRoute) -> Vec<(usize, PortNum)> {
        let mut hops = Vec::with_capacity(route.len());
        let mut node = self.local.map(|(node, _)| node);
        for exit in route.exits() {
            let Some(here) = node else { break };
            hops.push((here, exit));
            let peer = self.entries[here].ports.get(exit.index()).and_then(|slot| slot.peer);
            node = peer.map(|(next, _)| next);
        }
        hops
    }

    /// True if the state has each cable along a route, and no node on the way is in `avoided`.
    pub fn is_open(&self, route: &DirectedRoute, avoided: &HashSet<usize>) -> bool {
        let Some((mut node, _)) = self.local else { return false };
        let last = route.len();
        route.exits().zip(1..).all(|(exit, hop)| {
            let peer = self.entries[node].ports.get(exit.index()).and_then(|slot| slot.peer);
            peer.is_some_and(|(next, _)| {
                node = next;
                hop == last || !avoided.contains(&next)
            })
        })
    }

    /// Recomputes the routes of all nodes: the shortest along the cables, lower ports first.
    /// Packets pass through switches only, and leave through the local port. Returns the reachable
    /// nodes.
    pub fn reroute(&mut self) -> Vec<bool> {
        let reach = self.reroute_avoiding(&HashSet::new());
        reach.into_iter().map(|reach| reach != Reach::None).collect()
    }

    /// [`Self::reroute`] with routes through the nodes of `avoided` only where there are no others.
    pub fn reroute_avoiding(&mut self, avoided: &HashSet<usize>) -> Vec<Reach> {
        let mut reach = vec![Reach::None; self.entries.len()];
        let Some((local, own_port)) = self.local else { return reach };
        reach[local] = Reach::Clear;
        self.entries[local].route = DirectedRoute::LOCAL;
        let (mut queue, mut put_off) = (VecDeque::from([local]), VecDeque::new());
        let mut now = Reach::Clear;
        loop {
            let Some(index) = queue.pop_front() else {
                let Some(index) = put_off.pop_front() else { return reach };
                now = Reach::Doubtful;
                queue.push_back(index);
                continue;
            };
            let entry = &self.entries[index];
            let (route, passes) = (entry.route, entry.is_switch());
            for num in (1..entry.ports.len()).map(|num| PortNum(num as u8)) {
                if !passes && (index != local || num != own_port) {
                    continue;
                }
                let peer = self.entries[index].ports[num.index()].peer;
                if let Some((peer, _)) = peer
                    && reach[peer] == Reach::None
                    && let Some(route) = route.then(num)
                {
                    reach[peer] = now;
                    self.entries[peer].route = route;
                    let is_put_off = now == Reach::Clear && avoided.contains(&peer);
                    if is_put_off { put_off.push_back(peer) } else { queue.push_back(peer) }
                }
            }
        }
    }

    /// True if the link of a port is trained, so that discovery continues at its far end.
    pub fn has_trained_link(info: &PortInfo) -> bool {
        matches!(info.port_state(), PortState::Init | PortState::Armed | PortState::Active)
    }
}

/// True if two NodeInfos with the same node GUID may come from the same device.
fn same_device(a: &NodeInfo, b: &NodeInfo) -> bool {
    let switch_agrees = a.kind() != NodeKind::Switch || a.port_guid() == b.port_guid();
    a.kind() == b.kind()
        && a.num_ports() == b.num_ports()
        && a.device_id() == b.device_id()
        && a.vendor_id() == b.vendor_id()
        && a.system_guid() == b.system_guid()
        && switch_agrees
}
