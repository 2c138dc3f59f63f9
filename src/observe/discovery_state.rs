//! Nodes and cables while they are being collected.
//!
//! A discovery starts empty (heavy sweep) or with the last snapshot (focused sweep). It keeps nodes
//! and port slots as a snapshot does, those of the last one first, with the same indexes; new nodes
//! follow in the order in which they answer. Each cable is recorded at both ends. See
//! `discovery_snapshot` for the conversions from and into a snapshot.

use crate::fabric::node_names::NodeNames;
use crate::fabric::{DiscoveryFault, Fabric, Node, NodeId, Port, PortId, SwitchId};
use crate::ids::{Guid, PortNum};
use crate::paged_vec::PagedVec;
use crate::wire::attr::tables::{PkeyBlock, PkeyTable};
use crate::wire::attr::{NodeDescription, NodeInfo, NodeKind, PortInfo, PortState, SwitchInfo};
use crate::wire::smp::DirectedRoute;
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

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
pub(super) type LastSnapshot = (Arc<Fabric>, Arc<Vec<PkeyTable>>);

/// The state of a discovery.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryState {
    /// Their descriptions are empty until they answer NodeDescription.
    pub(super) nodes: PagedVec<Node>,
    /// The port slots of all nodes, those of a node together. PortInfo is `None` until the port
    /// answers it.
    pub(super) ports: PagedVec<Port>,
    /// The blocks of the P_Key tables that were read; the others are those of the last snapshot.
    pub(super) read_pkeys: FxHashMap<PortId, Vec<PkeyBlock>>,
    /// The snapshot that the state started from: its nodes and ports are the first ones.
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
    /// Nodes that did not answer and are as they were last known, see `unresponsive`. Routes pass them
    /// only where there are no others.
    pub(super) unresponsive: BTreeSet<usize>,
    /// The reachable nodes, if all routes are those of the last [`Self::reroute`].
    pub(super) reached: Option<Vec<bool>>,
}

impl DiscoveryState {
    pub fn nodes(&self) -> &PagedVec<Node> {
        &self.nodes
    }

    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// The slots of a node, port 0 first.
    pub fn ports_of(
        &self,
        index: usize,
    ) -> impl DoubleEndedIterator<Item = &Port> + ExactSizeIterator + Clone {
        let node = &self.nodes[index];
        let first = node.first_port.index();
        self.ports.range(first..first + usize::from(node.num_ports()) + 1)
    }

    /// Slot of a port; `None` if there is no such port.
    pub fn slot(&self, end: (usize, PortNum)) -> Option<PortId> {
        let (node, num) = end;
        let node = self.nodes.get(node)?;
        (num.0 <= node.num_ports()).then(|| PortId(node.first_port.0 + u32::from(num.0)))
    }

    /// A port; `None` if there is no such port.
    pub fn port(&self, end: (usize, PortNum)) -> Option<&Port> {
        self.slot(end).map(|slot| &self.ports[slot.index()])
    }

    /// [`Self::port`], to be changed.
    pub fn port_mut(&mut self, end: (usize, PortNum)) -> Option<&mut Port> {
        self.slot(end).map(|slot| &mut self.ports[slot.index()])
    }

    /// Node and number of a port.
    fn end(&self, slot: PortId) -> (usize, PortNum) {
        let port = &self.ports[slot.index()];
        (port.node.index(), port.num)
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

    /// True if an end port with this GUID was found.
    pub(super) fn has_end_port(&self, guid: Guid) -> bool {
        self.owner(guid).is_some()
    }

    /// The P_Key table of a port as far as it is known, from the last snapshot or read since.
    pub fn pkeys(&self, slot: PortId) -> &[PkeyBlock] {
        if let Some(read) = self.read_pkeys.get(&slot) {
            return read;
        }
        let known = self.last.as_ref().and_then(|(_, all)| all.get(slot.index()));
        known.map_or(&[], |table| &table[..])
    }

    /// Records the node that answered `info` at the end of `route`.
    pub fn record_node(&mut self, info: NodeInfo, route: DirectedRoute) -> NodeMatch {
        match self.find(info.node_guid()) {
            None => NodeMatch::NewNode(self.add(info, route)),
            Some(index) => self.record_again(index, info, route),
        }
    }

    pub(super) fn add(&mut self, info: NodeInfo, route: DirectedRoute) -> usize {
        let index = self.nodes.len();
        let node = NodeId(index as u32);
        let first_port = PortId(self.ports.len() as u32);
        let is_switch = info.kind() == NodeKind::Switch;
        let guid = if is_switch { info.port_guid() } else { Guid(0) };
        let slots = (0..=info.num_ports()).map(PortNum);
        self.ports.extend(slots.map(|num| Port::new(node, num, guid)));
        self.by_guid.insert(info.node_guid(), index);
        self.reached = None;
        self.nodes.push(Node {
            info,
            description: NodeDescription::default(),
            mapped_name: None,
            // The snapshot numbers its switches; here it only tells that the node is one.
            switch: is_switch.then_some(SwitchId(index as u32)),
            switch_info: SwitchInfo::default(),
            first_port,
            route,
        });
        self.set_port_guid(index, info, route);
        index
    }

    fn record_again(&mut self, index: usize, info: NodeInfo, route: DirectedRoute) -> NodeMatch {
        let known = &self.nodes[index];
        if !same_device(&known.info, &info) {
            return self.duplicate_guid(index, info.node_guid(), route);
        }
        if known.is_switch() {
            return NodeMatch::Known(index);
        }
        let known_guid = self.port((index, info.local_port())).map(|port| port.guid);
        if known_guid == Some(info.port_guid()) {
            return NodeMatch::Known(index);
        }
        if known_guid.is_some_and(|guid| guid.0 != 0) {
            return self.duplicate_guid(index, info.node_guid(), route);
        }
        self.set_port_guid(index, info, route);
        NodeMatch::NewPort(index)
    }

    fn duplicate_guid(&mut self, index: usize, guid: Guid, second: DirectedRoute) -> NodeMatch {
        let first = self.nodes[index].route;
        self.faults.push(DiscoveryFault::DuplicateNodeGuid { guid, first, second });
        NodeMatch::DuplicateGuid
    }

    /// Records the GUID of the port through which a channel adapter or router answered `info`.
    fn set_port_guid(&mut self, index: usize, info: NodeInfo, route: DirectedRoute) {
        let guid = info.port_guid();
        let port = if self.nodes[index].is_switch() { PortNum::ZERO } else { info.local_port() };
        match self.owner(guid) {
            None => drop(self.port_owner.insert(guid, (index, port))),
            Some(owner) if owner != (index, port) => {
                let first = self.nodes[owner.0].route;
                self.faults.push(DiscoveryFault::DuplicatePortGuid { guid, first, second: route });
            }
            Some(_) => {}
        }
        if let Some(slot) = self.port_mut((index, port)) {
            slot.guid = guid;
        }
    }

    /// The route for managing a port. Each port of a channel adapter or router is reached through
    /// its own cable.
    pub fn port_route(&self, node: usize, port: PortNum) -> DirectedRoute {
        let known = &self.nodes[node];
        if known.is_switch() || self.local == Some((node, port)) {
            return known.route;
        }
        let through_peer = self.peer((node, port));
        let through_peer = through_peer.and_then(|(peer, num)| self.nodes[peer].route.then(num));
        through_peer.unwrap_or(known.route)
    }

    /// The far end of the cable at a port.
    pub fn peer(&self, end: (usize, PortNum)) -> Option<(usize, PortNum)> {
        self.port(end)?.peer.map(|peer| self.end(peer))
    }

    /// Records a cable between two ports. Returns `false` and keeps the older cable if one of the
    /// ports already has another one.
    pub fn connect(&mut self, a: (usize, PortNum), b: (usize, PortNum)) -> bool {
        let (Some(a), Some(b)) = (self.slot(a), self.slot(b)) else { return false };
        let is_free_for =
            |end: PortId, other| self.ports[end.index()].peer.is_none_or(|peer| peer == other);
        if !is_free_for(a, b) || !is_free_for(b, a) {
            return false;
        }
        self.reached = None;
        self.ports[a.index()].peer = Some(b);
        self.ports[b.index()].peer = Some(a);
        true
    }

    /// Removes the cable at a port and returns its far end.
    pub fn disconnect(&mut self, end: (usize, PortNum)) -> Option<(usize, PortNum)> {
        let other = self.port_mut(end)?.peer.take()?;
        self.reached = None;
        self.ports[other.index()].peer = None;
        Some(self.end(other))
    }

    /// The nodes along a route and the ports by which the route leaves them, as far as the state
    /// has the cables; the node at the end is not included.
    pub fn hops(&self, route: &DirectedRoute) -> Vec<(usize, PortNum)> {
        let mut hops = Vec::with_capacity(route.len());
        let mut node = self.local.map(|(node, _)| node);
        for exit in route.exits() {
            let Some(here) = node else { break };
            hops.push((here, exit));
            node = self.peer((here, exit)).map(|(next, _)| next);
        }
        hops
    }

    /// True if the state has each cable along a route, and no node on the way is in `avoided`.
    pub fn is_open(&self, route: &DirectedRoute, avoided: &HashSet<usize>) -> bool {
        let Some((mut node, _)) = self.local else { return false };
        let last = route.len();
        route.exits().zip(1..).all(|(exit, hop)| {
            self.peer((node, exit)).is_some_and(|(next, _)| {
                node = next;
                hop == last || !avoided.contains(&next)
            })
        })
    }

    /// Recomputes the routes of all nodes: the shortest along the cables, lower ports first.
    /// Packets pass through switches only, and leave through the local port. Returns the reachable
    /// nodes.
    pub fn reroute(&mut self) -> Vec<bool> {
        if self.reached.is_none() {
            let unresponsive = self.unresponsive.iter().copied().collect();
            let reach = self.reroute_avoiding(&unresponsive);
            let reached = reach.iter().map(|&reach| reach != Reach::None).collect();
            self.reached = self.local.is_some().then_some(reached);
        }
        self.reached.clone().unwrap_or_else(|| vec![false; self.nodes.len()])
    }

    /// [`Self::reroute`] with routes through the nodes of `avoided` only where there are no others.
    pub fn reroute_avoiding(&mut self, avoided: &HashSet<usize>) -> Vec<Reach> {
        let reach = self.new_routes(avoided);
        let avoids_none = avoided.is_empty() && self.unresponsive.is_empty();
        self.reached = (avoids_none && self.local.is_some())
            .then(|| reach.iter().map(|&reach| reach != Reach::None).collect());
        reach
    }

    fn new_routes(&mut self, avoided: &HashSet<usize>) -> Vec<Reach> {
        let mut reach = vec![Reach::None; self.nodes.len()];
        let Some((local, own_port)) = self.local else { return reach };
        reach[local] = Reach::Clear;
        self.set_route(local, DirectedRoute::LOCAL);
        let mut queue = VecDeque::from([local]);
        let mut put_off = VecDeque::new();
        let mut now = Reach::Clear;
        loop {
            let Some(index) = queue.pop_front() else {
                let Some(index) = put_off.pop_front() else { return reach };
                now = Reach::Doubtful;
                queue.push_back(index);
                continue;
            };
            let node = &self.nodes[index];
            let route = node.route;
            let passes = node.is_switch();
            let first = node.first_port.index();
            for num in (1..=node.num_ports()).map(PortNum) {
                if !passes && (index != local || num != own_port) {
                    continue;
                }
                let peer = self.ports[first + num.index()].peer;
                if let Some(peer) = peer.map(|peer| self.ports[peer.index()].node.index())
                    && reach[peer] == Reach::None
                    && let Some(route) = route.then(num)
                {
                    reach[peer] = now;
                    self.set_route(peer, route);
                    let is_put_off = now == Reach::Clear && avoided.contains(&peer);
                    if is_put_off { put_off.push_back(peer) } else { queue.push_back(peer) }
                }
            }
        }
    }

    /// Changes the route of a node. Most have theirs already: their pages stay shared.
    fn set_route(&mut self, index: usize, route: DirectedRoute) {
        if self.nodes[index].route != route {
            self.nodes[index].route = route;
        }
    }

    /// True if the link of a port is trained, so that discovery continues at its far end.
    pub fn has_trained_link(info: &PortInfo) -> bool {
        matches!(info.port_state(), PortState::Init | PortState::Armed | PortState::Active)
    }
}

/// True if two NodeInfos with the same node GUID may come from the same device.
pub(super) fn same_device(a: &NodeInfo, b: &NodeInfo) -> bool {
    let switch_agrees = a.kind() != NodeKind::Switch || a.port_guid() == b.port_guid();
    a.kind() == b.kind()
        && a.num_ports() == b.num_ports()
        && a.device_id() == b.device_id()
        && a.vendor_id() == b.vendor_id()
        && a.system_guid() == b.system_guid()
        && switch_agrees
}
