//! The queries of a sweep and the handling of their answers. The heavy and the focused sweep share
//! them and differ only in the first queries and in what they wait for.
//!
//! No query waits for the timeout of another one. The state of a neighbour's port is the evidence:
//! if it is Down, whatever is behind it alone is gone, and queries across it are put off until
//! other routes are known. A query that stalls is no evidence but a suspicion: the ports along its
//! route are queried, it is sent once more, and if it stalls again, other queries take routes
//! around the silent device. See `evidence` for the rules.

use super::discovery_keys::DiscoveryKeys;
use super::discovery_pkeys::missing_pkeys;
use super::discovery_state::{DiscoveryState, NodeMatch, Reach};
use super::evidence::Evidence;
use super::m_keys::MKeys;
use super::node_info::{misrouting, node_info_problem};
use super::query::DiscoveryQuery;
use crate::fabric::DiscoveryFault;
use crate::ids::{Guid, PortNum};
use crate::transport::client::SmpClient;
use crate::transport::tagged::{Tagged, TaggedEvent};
use crate::transport::transactions::{SmpError, SmpReply};
use crate::wire::attr::tables::PkeyBlock;
use crate::wire::attr::{
    CapMask, NodeDescription, NodeInfo, NodeKind, PortInfo, PortState, SmInfo, SwitchInfo,
};
use crate::wire::smp::DirectedRoute;
use std::collections::HashSet;

/// A sweep in progress.
pub(super) struct DiscoveryQueries {
    batch: Tagged<DiscoveryQuery>,
    pub(super) keys: DiscoveryKeys,
    pub scope: SweepScope,
    pub state: DiscoveryState,
    pub found: SweepFindings,
    pub(super) evidence: Evidence,
    read_again: ReadAgain,
    /// Number of nodes known from the last snapshot.
    known_before: usize,
    /// A cable was lost or a device fell silent, so that queries may need other routes.
    needs_routes: bool,
    /// No query is put off any more.
    is_last_pass: bool,
}

/// Parts that a sweep leaves out, and that it reads beyond the changed switches.
#[derive(Default)]
pub(super) struct SweepScope {
    /// See [`SweepSettings::silent_manager`](super::SweepSettings::silent_manager).
    pub silent_manager: Option<Guid>,
    /// Ports across which no node is queried.
    pub avoided: HashSet<(usize, PortNum)>,
    /// Channel adapters and routers whose NodeInfo is read again if their switch is.
    pub restarted: HashSet<usize>,
}

/// Findings of a sweep beside the state of nodes and ports.
#[derive(Default)]
pub(super) struct SweepFindings {
    pub managers: Vec<((usize, PortNum), SmInfo)>,
    /// Switches with PortStateChange set.
    pub changed_switches: Vec<Guid>,
    /// A known route that leads to another device.
    pub misrouted: Option<String>,
}

/// Parts that a sweep has read again, or found again.
#[derive(Default)]
struct ReadAgain {
    /// Switches of which all ports were queried.
    switches: HashSet<usize>,
    /// Switches whose SwitchInfo is read again because an ACTIVE link of theirs is in INIT.
    reset_switches: HashSet<usize>,
    /// Ends of cables that were found in this sweep.
    reconnected: HashSet<(usize, PortNum)>,
}

impl DiscoveryQueries {
    pub(super) fn new(client: &SmpClient, keys: &MKeys, state: DiscoveryState) -> Self {
        Self {
            batch: Tagged::new(client),
            keys: DiscoveryKeys::new(keys, client.port().identity().guid),
            scope: SweepScope::default(),
            known_before: state.nodes().len(),
            evidence: Evidence::of_doubtful(&state.unresponsive),
            state,
            found: SweepFindings::default(),
            read_again: ReadAgain::default(),
            needs_routes: false,
            is_last_pass: false,
        }
    }

    /// Runs until all queries, including those that answers cause, are complete or stalled.
    pub(super) async fn run(&mut self) {
        while self.batch.is_waiting() {
            let Some(event) = self.batch.next_event().await else { break };
            self.handle(event);
        }
    }

    /// Runs until all queries are complete, stalled ones included.
    pub(super) async fn run_to_the_end(&mut self) {
        while let Some(event) = self.batch.next_event().await {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: TaggedEvent<DiscoveryQuery>) {
        match event {
            TaggedEvent::Result(query, Ok(reply)) => {
                self.evidence.answered(query);
                self.answered(query, &reply);
            }
            TaggedEvent::Result(query, Err(error)) => self.unanswered(query, error),
            TaggedEvent::Stalled(query) => self.stalled(query),
        }
        // Further answers that have arrived may name more lost cables.
        if self.needs_routes && !self.batch.has_result() {
            self.needs_routes = false;
            self.take_other_routes();
        }
    }

    /// Repeats the queries that failed, stalled or were put off, each once, on the routes that are
    /// known now. Queries to lost nodes are dropped.
    ///
    /// With `patient`, silent devices are queried again on the same route as well.
    pub(super) async fn retry(&mut self, patient: bool) {
        if !self.evidence.has_unanswered() {
            return;
        }
        let reach = self.state.reroute_avoiding(self.evidence.doubtful());
        for query in self.evidence.unanswered() {
            let reach = query.node().map_or(Reach::Clear, |node| reach[node]);
            let is_hopeful = patient || (reach == Reach::Clear && !self.evidence.is_silent(query));
            if reach == Reach::None {
                self.evidence.drop(query);
            } else if is_hopeful && self.evidence.may_repeat(query) {
                self.repeat(query);
            }
        }
        self.run().await;
    }

    /// Repeats the queries that were cut short again and again although their devices answer
    /// others, as happens where many MADs are lost, and waits for all of them.
    pub(super) async fn run_last_pass(&mut self) {
        self.is_last_pass = true;
        self.retry(true).await;
        self.query_pkeys();
        self.run_to_the_end().await;
    }

    /// Cancels the queries whose routes cross lost cables or silent devices, and sends those again
    /// that have another route.
    fn take_other_routes(&mut self) {
        let state = &self.state;
        let doubtful = self.evidence.doubtful();
        let cut = self.batch.cancel(|query| {
            let node = query.node();
            node.is_some_and(|node| !state.is_open(&state.node(node).route, doubtful))
        });
        let reach = self.state.reroute_avoiding(self.evidence.doubtful());
        for query in cut {
            match query.node().map(|node| reach[node]) {
                Some(Reach::Clear) => self.repeat(query),
                _ => self.evidence.put_off(query),
            }
        }
    }

    fn repeat(&mut self, query: DiscoveryQuery) {
        match query {
            DiscoveryQuery::Node { from, .. } => self.query_node(from),
            other => self.submit(other),
        }
    }

    /// Handles a query that is unanswered while others are answered: the ports along its route are
    /// queried, and the query is sent once more, since the MAD may be lost by chance.
    fn stalled(&mut self, query: DiscoveryQuery) {
        if let DiscoveryQuery::Manager { node, port } = query {
            return self.manager_stalled(node, port);
        }
        self.try_other_keys(query);
        let Some(node) = query.node().filter(|_| !self.is_last_pass) else { return };
        if let DiscoveryQuery::Node { from: Some((node, port)), .. } = query {
            self.probe(node, port);
        }
        self.probe_route(node);
        if !matches!(query, DiscoveryQuery::Node { .. }) {
            let waiting = self.batch.cancel_queued(|other| other.node() == Some(node));
            waiting.into_iter().for_each(|other| self.evidence.put_off(other));
        }
        if self.evidence.stalled_first(query) {
            self.repeat(query);
        } else {
            self.needs_routes |= self.evidence.stalled_again(query);
        }
    }

    /// Handles an unanswered query to an SM, a program that may hang: it tells nothing about the
    /// device or the route to it.
    fn manager_stalled(&mut self, node: usize, port: PortNum) {
        let query = DiscoveryQuery::Manager { node, port };
        let guid = self.state.port((node, port)).map(|port| port.guid);
        if self.evidence.stalled_first(query) {
            self.repeat(query);
        } else if guid.is_some() && guid == self.scope.silent_manager {
            self.batch.cancel(|other| other.key() == query.key());
            self.evidence.drop(query);
        }
    }

    /// Queries the ports by which the route to a node leaves the nodes on the way. A port that is
    /// Down tells that what is behind it is cut off.
    pub(super) fn probe_route(&mut self, node: usize) {
        let route = self.route(node);
        for (hop, exit) in self.state.hops(&route) {
            self.probe(hop, exit);
        }
    }

    /// Queries a port, once for each sweep.
    fn probe(&mut self, node: usize, port: PortNum) {
        if self.evidence.may_probe(node, port) {
            self.submit(DiscoveryQuery::Port { node, port });
        }
    }

    /// Handles the loss of the cable to a port of `node`, which may be lost as a whole: queries the
    /// port, and the ports of all neighbours that face a switch.
    fn lost_cable(&mut self, node: usize, far_port: PortNum) {
        self.needs_routes = true;
        if self.state.local == Some((node, far_port)) {
            // The local port may be cabled to another switch now.
            self.probe(node, far_port);
        }
        if !self.state.node(node).is_switch() {
            return;
        }
        self.evidence.lost_cable(node);
        self.probe(node, far_port);
        let ports = self.state.ports_of(node);
        let peers: Vec<_> = ports.filter_map(|port| self.state.peer((node, port.num))).collect();
        for (peer, port) in peers {
            if self.state.node(peer).is_switch() {
                self.probe(peer, port);
            }
        }
    }

    pub(super) fn submit(&mut self, query: DiscoveryQuery) {
        let mut request = query.request(&self.state);
        request.m_key = self.keys.of_query(&self.state, query);
        self.batch.submit(query, request);
    }

    fn route(&self, node: usize) -> DirectedRoute {
        self.state.node(node).route
    }

    /// Queries the node at the far end of a port's cable.
    pub(super) fn query_node(&mut self, from: Option<(usize, PortNum)>) {
        let route = match from {
            None => Some(DirectedRoute::LOCAL),
            Some((node, port)) => self.route(node).then(port),
        };
        let m_key = self.keys.expected(&self.state, from);
        match route {
            Some(route) => self.submit(DiscoveryQuery::Node { from, route, m_key }),
            None => {
                let Some((node, _)) = from else { return };
                let route = self.route(node);
                let what = "a node more than 63 hops away".into();
                let fault = DiscoveryFault::NoAnswer { attribute: "NodeInfo", what, route };
                self.state.faults.push(fault);
            }
        }
    }

    /// Queries the identity of the device behind the local port.
    pub(super) fn query_local_peer(&mut self) {
        let peer = self.state.local.and_then(|local| self.state.peer(local));
        if let Some((node, _)) = peer {
            self.submit(DiscoveryQuery::Identity { node });
        }
    }

    /// Queries the P_Key tables that are of interest and not known.
    pub(super) fn query_pkeys(&mut self) {
        for query in missing_pkeys(&self.state) {
            self.submit(query);
        }
    }

    /// Queries a switch, its identity and description and all its ports.
    pub(super) fn query_suspect(&mut self, node: usize) {
        self.submit(DiscoveryQuery::Identity { node });
        self.submit(DiscoveryQuery::Description { node });
        self.query_switch(node);
    }

    /// Queries a switch and all its ports.
    pub(super) fn query_switch(&mut self, node: usize) {
        self.submit(DiscoveryQuery::Switch { node });
        self.query_ports(node);
    }

    /// Queries all ports of a switch, once for each sweep.
    fn query_ports(&mut self, node: usize) {
        if self.read_again.switches.insert(node) {
            for port in (0..=self.state.node(node).num_ports()).map(PortNum) {
                self.submit(DiscoveryQuery::Port { node, port });
            }
        }
    }

    fn answered(&mut self, query: DiscoveryQuery, reply: &SmpReply) {
        if let Some(node) = query.node().filter(|_| !matches!(query, DiscoveryQuery::Node { .. })) {
            self.state.unresponsive.remove(&node);
        }
        match query {
            DiscoveryQuery::Node { from, route, m_key } => {
                let info = NodeInfo::read(&reply.data);
                if m_key != self.keys.expected(&self.state, from) {
                    self.keys.accepted(info.port_guid(), m_key);
                }
                self.met(from, route, info);
            }
            DiscoveryQuery::Identity { node } => {
                let info = NodeInfo::read(&reply.data);
                if let Some(route) = misrouting(self.state.node(node), &info) {
                    self.found.misrouted = Some(route);
                }
            }
            DiscoveryQuery::Description { node } => {
                self.state.node_mut(node).description = NodeDescription(reply.data);
            }
            DiscoveryQuery::Switch { node } => {
                let info = SwitchInfo::read(&reply.data);
                let switch = self.state.node_mut(node);
                switch.switch_info = info;
                let guid = switch.guid();
                if info.port_state_change() && !self.found.changed_switches.contains(&guid) {
                    self.found.changed_switches.push(guid);
                    // The bit is cleared after the sweep, so all ports must be read in it.
                    self.query_ports(node);
                }
            }
            DiscoveryQuery::Port { node, port } => self.port_answered(node, port, &reply.data),
            DiscoveryQuery::Pkeys { node, port, block } => {
                self.state.replace_pkeys((node, port), block, PkeyBlock::read(&reply.data));
            }
            DiscoveryQuery::Manager { node, port } => {
                self.found.managers.push(((node, port), SmInfo::read(&reply.data)));
            }
        }
    }

    /// Handles a NodeInfo: of a new node, of a new port of a known one, or of the far end of a
    /// cable only.
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
        self.state.unresponsive.remove(&node);
        let port = info.local_port();
        match from {
            None => self.state.local = Some((node, port)),
            Some(from) => {
                let was_connected = self.state.peer(from) == Some((node, port));
                if !self.state.connect(from, (node, port)) {
                    // A different device with the same GUID is behind one of the cables.
                    let first = self.route(node);
                    let guid = info.node_guid();
                    let fault = DiscoveryFault::DuplicateNodeGuid { guid, first, second: route };
                    self.state.faults.push(fault);
                    return;
                }
                if !was_connected {
                    self.read_again.reconnected.extend([from, (node, port)]);
                    self.query_reconnected(met, port);
                }
            }
        }
        let is_switch = info.kind() == NodeKind::Switch;
        if let NodeMatch::NewNode(_) = met {
            self.submit(DiscoveryQuery::Description { node });
            if is_switch {
                self.query_switch(node);
            }
        }
        if !is_switch && met != NodeMatch::Known(node) {
            self.submit(DiscoveryQuery::Port { node, port });
        }
    }

    /// Reads again what a node of the last snapshot may have lost while a cable to it was down.
    fn query_reconnected(&mut self, met: NodeMatch, port: PortNum) {
        let NodeMatch::Known(node) = met else { return };
        if node >= self.known_before {
            return;
        }
        if !self.state.node(node).is_switch() {
            if let Some(slot) = self.state.slot((node, port)) {
                self.state.read_pkeys.insert(slot, Vec::new());
            }
            self.submit(DiscoveryQuery::Port { node, port });
        } else if self.read_again.switches.contains(&node) {
            self.submit(DiscoveryQuery::Port { node, port });
        } else {
            // A switch that restarted may have no PortStateChange and no tables.
            self.query_suspect(node);
        }
    }

    fn port_answered(&mut self, node: usize, port: PortNum, data: &[u8]) {
        let info = PortInfo::read(data);
        let here = (node, port);
        let is_switch = self.state.node(node).is_switch();
        let asked_with = self.keys.of(&self.state, here);
        let Some(slot) = self.state.port_mut(here) else { return };
        if (!is_switch || port == PortNum::ZERO) && self.keys.shown(slot.guid, &info, asked_with) {
            self.submit(DiscoveryQuery::Port { node, port });
            return;
        }
        let was_up = slot.info().is_some_and(|last| last.port_state() >= PortState::Armed);
        slot.set_info(Some(info));
        if was_up
            && info.port_state() == PortState::Init
            && !self.read_again.reconnected.contains(&here)
        {
            // The link was down meanwhile, so another device may be at its far end.
            self.state.disconnect(here);
            // SwitchInfo that was set after a restart does not show it; the LID and the links do.
            if is_switch && self.read_again.reset_switches.insert(node) {
                self.query_switch(node);
            }
        }
        let is_local = self.state.local == Some(here);
        let runs_manager = info.has(CapMask::IS_SM) && (!is_switch || port == PortNum::ZERO);
        if runs_manager && !is_local {
            self.submit(DiscoveryQuery::Manager { node, port });
        }
        let has_trained_link = DiscoveryState::has_trained_link(&info) && port != PortNum::ZERO;
        let peer = self.state.peer(here);
        if !has_trained_link && (is_switch || is_local) {
            if let Some((other, far_port)) = self.state.disconnect(here) {
                self.lost_cable(other, far_port);
            }
        } else if has_trained_link
            && peer.is_none()
            && (is_switch || is_local)
            && !self.scope.avoided.contains(&here)
        {
            self.query_node(Some(here));
        } else if peer.is_some_and(|(peer, _)| self.scope.restarted.remove(&peer)) {
            // The cable stays known meanwhile: this host may be that of the SM, and a lost answer
            // must not cut it off. What contradicts the last snapshot is left to a heavy sweep.
            self.query_node(Some(here));
        }
    }

    fn unanswered(&mut self, query: DiscoveryQuery, error: SmpError) {
        if let DiscoveryQuery::Node { from, .. } = query
            && self.is_met(from)
        {
            // Another key was accepted meanwhile.
            return;
        }
        self.try_other_keys(query);
        self.evidence.failed(query, error);
    }

    /// Asks the device at the end of a route with other M_Keys, once.
    fn try_other_keys(&mut self, query: DiscoveryQuery) {
        let DiscoveryQuery::Node { from, route, m_key } = query else { return };
        for m_key in self.keys.instead_of(m_key, query.key()) {
            self.submit(DiscoveryQuery::Node { from, route, m_key });
        }
    }

    /// True if the local node, or the device behind a port, has answered.
    fn is_met(&self, from: Option<(usize, PortNum)>) -> bool {
        from.map_or(self.state.local.is_some(), |from| self.state.peer(from).is_some())
    }
}
