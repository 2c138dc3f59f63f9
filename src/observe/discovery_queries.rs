//! The queries of a sweep and the handling of their answers. The heavy and the focused sweep share them and
//! differ only in the first queries.

use super::discovery_state::{DiscoveryState, NodeMatch};
use crate::fabric::DiscoveryFault;
use crate::ids::{Guid, PortNum};
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::{SmpError, SmpReply, SmpRequest};
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};
use crate::wire::attr::{
    AttrId, CapMask, NodeDescription, NodeInfo, NodeKind, PortInfo, SmInfo, SwitchInfo,
};
use crate::wire::smp::{DirectedRoute, SmpRoute};

/// A query in flight.
#[derive(Clone, Copy, Debug)]
enum Query {
    /// NodeInfo of the node at the end of a route, which leaves from a port of a known node; `None` stands for
    /// the local node.
    Node {
        from: Option<(usize, PortNum)>,
        route: DirectedRoute,
    },
    Description {
        node: usize,
    },
    Switch {
        node: usize,
    },
    Port {
        node: usize,
        port: PortNum,
    },
    Pkeys {
        node: usize,
        port: PortNum,
        block: u16,
    },
    Manager {
        node: usize,
        port: PortNum,
    },
}

impl Query {
    /// The last known node on the route of the query; `None` for the query to the local node.
    fn node(self) -> Option<usize> {
        match self {
            Self::Node { from, .. } => from.map(|(node, _)| node),
            Self::Description { node }
            | Self::Switch { node }
            | Self::Port { node, .. }
            | Self::Pkeys { node, .. }
            | Self::Manager { node, .. } => Some(node),
        }
    }
}

/// A sweep in progress.
pub(super) struct DiscoveryQueries {
    batch: Tagged<Query>,
    m_key: u64,
    pub state: DiscoveryState,
    pub managers: Vec<((usize, PortNum), SmInfo)>,
    /// Switches with PortStateChange set.
    pub changed_switches: Vec<Guid>,
    /// Queries without an answer in the first round, which [`Self::retry`] repeats once.
    deferred: Vec<Query>,
    is_retry: bool,
    /// A lost cable was found, and queries across it are not deferred yet.
    is_cut: bool,
    /// Failure of the query to the local node.
    pub local_failure: Option<SmpError>,
}

impl DiscoveryQueries {
    pub(super) fn new(client: &SmpClient, m_key: u64, state: DiscoveryState) -> Self {
        Self {
            batch: Tagged::new(client),
            m_key,
            state,
            managers: Vec::new(),
            changed_switches: Vec::new(),
            deferred: Vec::new(),
            is_retry: false,
            is_cut: false,
            local_failure: None,
        }
    }

    /// Runs until all queries, including those that answers cause, are complete.
    pub(super) async fn run(&mut self) {
        while let Some((query, answer)) = self.batch.next().await {
            match answer {
                Ok(reply) => self.answered(query, &reply),
                Err(error) => self.unanswered(query, &error),
            }
        }
    }

    /// [`Self::run`] where routes may cross lost cables. As soon as a cable is known to be lost, queries across
    /// it are deferred until [`Self::retry`]: waiting for their timeout would take a hundred times as long
    /// as all others together.
    pub(super) async fn run_deferring_cut_routes(&mut self) {
        while let Some((query, answer)) = self.batch.next().await {
            match answer {
                Ok(reply) => self.answered(query, &reply),
                Err(error) => self.unanswered(query, &error),
            }
            if std::mem::take(&mut self.is_cut) {
                let state = &self.state;
                let is_lost = |query: &Query| {
                    let node = query.node();
                    node.is_some_and(|node| !state.is_intact(&state.entries()[node].route))
                };
                self.deferred.extend(self.batch.cancel(is_lost));
            }
        }
    }

    /// Repeats the unanswered queries on the routes that are known now. Those that fail again become faults of
    /// the snapshot.
    pub(super) async fn retry(&mut self) {
        self.is_retry = true;
        for query in std::mem::take(&mut self.deferred) {
            match query {
                Query::Node { from, .. } => self.query_node(from),
                other => self.submit(other),
            }
        }
        self.run().await;
    }

    /// Drops the deferred queries to lost nodes.
    pub(super) fn drop_queries_to(&mut self, is_lost: impl Fn(usize) -> bool) {
        self.deferred.retain(|query| !query.node().is_some_and(&is_lost));
    }

    fn submit(&mut self, query: Query) {
        let (route, attr_id, attr_mod) = match query {
            Query::Node { route, .. } => (route, AttrId::NODE_INFO, 0),
            Query::Description { node } => (self.route(node), AttrId::NODE_DESCRIPTION, 0),
            Query::Switch { node } => (self.route(node), AttrId::SWITCH_INFO, 0),
            Query::Port { node, port } => {
                (self.port_route(node, port), AttrId::PORT_INFO, port.0.into())
            }
            Query::Pkeys { node, port, block } => {
                let is_switch = self.state.entries()[node].is_switch();
                let high = if is_switch { u32::from(port.0) << 16 } else { 0 };
                (self.port_route(node, port), AttrId::PKEY_TABLE, high | u32::from(block))
            }
            Query::Manager { node, port } => (self.port_route(node, port), AttrId::SM_INFO, 0),
        };
        let mut request = SmpRequest::get(SmpRoute::Directed(route), attr_id, attr_mod);
        request.m_key = self.m_key;
        self.batch.submit(query, request);
    }

    fn route(&self, node: usize) -> DirectedRoute {
        self.state.entries()[node].route
    }

    /// The route for managing a port. Each port of a channel adapter or router is reached through its own
    /// cable.
    fn port_route(&self, node: usize, port: PortNum) -> DirectedRoute {
        let entry = &self.state.entries()[node];
        if entry.is_switch() || self.state.local == Some((node, port)) {
            return entry.route;
        }
        let through_peer = entry.ports.get(port.index()).and_then(|slot| slot.peer);
        through_peer.and_then(|(peer, num)| self.route(peer).then(num)).unwrap_or(entry.route)
    }

    /// Queries the node at the far end of a port's cable.
    pub(super) fn query_node(&mut self, from: Option<(usize, PortNum)>) {
        let route = match from {
            None => Some(DirectedRoute::LOCAL),
            Some((node, port)) => self.route(node).then(port),
        };
        match route {
            Some(route) => self.submit(Query::Node { from, route }),
            None => {
                let Some((node, _)) = from else { return };
                let route = self.route(node);
                self.no_answer("NodeInfo", "a node more than 63 hops away".into(), route);
            }
        }
    }

    /// Queries a switch and all its ports.
    pub(super) fn query_switch(&mut self, node: usize) {
        self.submit(Query::Switch { node });
        for port in 0..self.state.entries()[node].ports.len() {
            self.submit(Query::Port { node, port: PortNum(port as u8) });
        }
    }

    /// Queries the PortInfo of one port.
    pub(super) fn query_port(&mut self, node: usize, port: PortNum) {
        self.submit(Query::Port { node, port });
    }

    /// Queries the P_Key tables of all end ports, and of switch ports that face end ports and enforce P_Keys.
    pub(super) fn query_pkeys(&mut self) {
        let mut wanted = Vec::new();
        for (node, entry) in self.state.entries().iter().enumerate() {
            for (num, slot) in entry.ports.iter().enumerate() {
                let port = PortNum(num as u8);
                if slot.info.is_some() && slot.pkeys.is_empty() {
                    let keys = self.pkey_capacity(node, port);
                    let blocks = usize::from(keys).div_ceil(PKEY_BLOCK);
                    wanted.extend((0..blocks).map(|block| (node, port, block as u16)));
                }
            }
        }
        for (node, port, block) in wanted {
            self.submit(Query::Pkeys { node, port, block });
        }
    }

    fn pkey_capacity(&self, node: usize, port: PortNum) -> u16 {
        let entry = &self.state.entries()[node];
        if !entry.is_switch() || port == PortNum::ZERO {
            return entry.info.partition_cap();
        }
        let peer = entry.ports[port.index()].peer;
        let faces_end_port = peer.is_some_and(|(peer, _)| !self.state.entries()[peer].is_switch());
        if faces_end_port { entry.switch_info.partition_enforcement_cap() } else { 0 }
    }

    fn answered(&mut self, query: Query, reply: &SmpReply) {
        match query {
            Query::Node { from, route } => self.met(from, route, NodeInfo::read(&reply.data)),
            Query::Description { node } => {
                self.state.entry(node).description = NodeDescription(reply.data);
            }
            Query::Switch { node } => {
                let info = SwitchInfo::read(&reply.data);
                let entry = self.state.entry(node);
                entry.switch_info = info;
                let guid = entry.info.node_guid();
                if info.port_state_change() && !self.changed_switches.contains(&guid) {
                    self.changed_switches.push(guid);
                }
            }
            Query::Port { node, port } => self.port_answered(node, port, &reply.data),
            Query::Pkeys { node, port, block } => {
                let Some(slot) = self.state.entry(node).slot(port) else { return };
                let block = usize::from(block);
                if slot.pkeys.len() <= block {
                    slot.pkeys.resize(block + 1, PkeyBlock::default());
                }
                slot.pkeys[block] = PkeyBlock::read(&reply.data);
            }
            Query::Manager { node, port } => {
                self.managers.push(((node, port), SmInfo::read(&reply.data)));
            }
        }
    }

    /// Handles a NodeInfo: of a new node, of a new port of a known one, or of the far end of a cable only.
    fn met(&mut self, from: Option<(usize, PortNum)>, route: DirectedRoute, info: NodeInfo) {
        if let Some(problem) = node_info_problem(&info) {
            let what = format!("{} {}", info.kind(), info.node_guid());
            self.state.faults.push(DiscoveryFault::InvalidAnswer { what, route, problem });
            return;
        }
        let met = self.state.record_node(info, route);
        let (NodeMatch::NewNode(node) | NodeMatch::NewPort(node) | NodeMatch::Known(node)) = met
        else {
            return;
        };
        let port = info.local_port();
        match from {
            None => self.state.local = Some((node, port)),
            Some(from) if !self.state.connect(from, (node, port)) => {
                self.cable_conflict(node, &info, route);
                return;
            }
            Some(_) => {}
        }
        let is_switch = info.kind() == NodeKind::Switch;
        if let NodeMatch::NewNode(_) = met {
            self.submit(Query::Description { node });
            if is_switch {
                self.query_switch(node);
            }
        }
        if !is_switch && met != NodeMatch::Known(node) {
            self.query_port(node, port);
        }
    }

    /// Records a second cable at one port: a different device with the same GUID is behind one of them.
    fn cable_conflict(&mut self, node: usize, info: &NodeInfo, second: DirectedRoute) {
        let (first, guid) = (self.route(node), info.node_guid());
        self.state.faults.push(DiscoveryFault::DuplicateNodeGuid { guid, first, second });
    }

    fn port_answered(&mut self, node: usize, port: PortNum, data: &[u8]) {
        let info = PortInfo::read(data);
        let entry = self.state.entry(node);
        let is_switch = entry.is_switch();
        let Some(slot) = entry.slot(port) else { return };
        slot.info = Some(info);
        let here = (node, port);
        let is_local = self.state.local == Some(here);
        let runs_manager = info.has(CapMask::IS_SM) && (!is_switch || port == PortNum::ZERO);
        if runs_manager && !is_local {
            self.submit(Query::Manager { node, port });
        }
        let has_trained_link = DiscoveryState::has_trained_link(&info) && port != PortNum::ZERO;
        let peer = self.state.entries()[node].ports[port.index()].peer;
        if !has_trained_link && (is_switch || is_local) {
            self.is_cut |= self.state.disconnect(here).is_some();
        } else if has_trained_link && peer.is_none() && (is_switch || is_local) {
            self.query_node(Some(here));
        }
    }

    fn unanswered(&mut self, query: Query, error: &SmpError) {
        if !self.is_retry {
            self.deferred.push(query);
            return;
        }
        let (attribute, node, port) = match query {
            Query::Node { from: None, .. } => {
                self.local_failure = Some(error.clone());
                return;
            }
            Query::Node { from: Some((node, port)), .. } => ("NodeInfo", node, port),
            Query::Description { node } => ("NodeDescription", node, PortNum::ZERO),
            Query::Switch { node } => ("SwitchInfo", node, PortNum::ZERO),
            Query::Port { node, port } => ("PortInfo", node, port),
            Query::Pkeys { node, port, .. } => ("P_KeyTable", node, port),
            Query::Manager { node, port } => ("SMInfo", node, port),
        };
        let (route, what) = match query {
            Query::Node { route, .. } => {
                (route, format!("the node at the far end of {}", self.name(node, port)))
            }
            _ => (self.port_route(node, port), self.name(node, port)),
        };
        match error {
            SmpError::Unanswered => self.no_answer(attribute, what, route),
            other => {
                let problem = format!("{attribute}: {other}");
                self.state.faults.push(DiscoveryFault::InvalidAnswer { what, route, problem });
            }
        }
    }

    fn no_answer(&mut self, attribute: &'static str, what: String, route: DirectedRoute) {
        self.state.faults.push(DiscoveryFault::NoAnswer { attribute, what, route });
    }

    fn name(&self, node: usize, port: PortNum) -> String {
        let entry = &self.state.entries()[node];
        let (kind, guid) = (entry.info.kind(), entry.info.node_guid());
        format!("{kind} {guid} \"{}\" port {port}", entry.description)
    }
}

/// The reason why a NodeInfo is invalid; `None` if it is valid.
fn node_info_problem(info: &NodeInfo) -> Option<String> {
    let (port, ports) = (info.local_port(), info.num_ports());
    let is_switch = info.kind() == NodeKind::Switch;
    if let NodeKind::Unknown(code) = info.kind() {
        Some(format!("node type {code}"))
    } else if info.node_guid().0 == 0 || info.port_guid().0 == 0 {
        Some("a GUID of 0".into())
    } else if ports == 255 || ports == 0 {
        Some(format!("{ports} ports"))
    } else if port.0 > ports || (port.0 == 0 && !is_switch) {
        Some(format!("reached through port {port} of {ports}"))
    } else {
        None
    }
}
