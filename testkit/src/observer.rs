//! Observes the roles of subnet managers by SMInfo, from a port without one.

use crate::cluster::SimCluster;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use torus_sm::fabric::topology::Topology;
use torus_sm::fabric::topology::TopologyNode;
use torus_sm::ids::{Guid, PortNum, SmKey};
use torus_sm::transport::client::SmpClient;
use torus_sm::transport::demux::{MadDemux, Unsolicited};
use torus_sm::transport::transactions::{SmpLimits, SmpRequest, SmpResult};
use torus_sm::wire::attr::{AttrId, SmInfo, SmState};
use torus_sm::wire::smp::{DirectedRoute, SmpRoute};

/// The shortest directed route from the first port of one node to another node.
///
/// # Panics
/// There is none.
pub fn directed_route(topology: &Topology, from: Guid, to: Guid) -> DirectedRoute {
    let from = index(&topology.nodes, from).expect("a node");
    let to = index(&topology.nodes, to).expect("a node");
    let mut routes = vec![None; topology.nodes.len()];
    routes[from] = Some(DirectedRoute::LOCAL);
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        let route: DirectedRoute = routes[node].expect("reached");
        for &[a, b] in &topology.cables {
            for ((near, port), (far, _)) in [(a, b), (b, a)] {
                if near == node && routes[far].is_none() {
                    routes[far] = route.then(port);
                    queue.push_back(far);
                }
            }
        }
    }
    routes[to].expect("the nodes are connected")
}

fn index(nodes: &[TopologyNode], guid: Guid) -> Option<usize> {
    nodes.iter().position(|node| node.guid == guid)
}

/// A port that queries the subnet managers of a [`SimCluster`].
pub struct Observer {
    client: SmpClient,
    own: Guid,
    _unsolicited: Unsolicited,
}

impl Observer {
    /// Attaches to the host of the switch at `at`.
    pub fn at(cluster: &SimCluster, at: [u16; 3]) -> Self {
        let (demux, unsolicited) = MadDemux::new(16);
        let own = cluster.shape.host_guid(at, 0);
        let port = cluster.fabric.attach(own, PortNum(1), demux.clone(), false);
        let limits = SmpLimits {
            window: 16,
            timeout: Duration::from_millis(20),
            retries: 1,
            ..SmpLimits::default()
        };
        let client = SmpClient::new(Arc::new(port.expect("the host exists")), &demux, limits);
        Self { client, own, _unsolicited: unsolicited }
    }

    /// The directed route to the host of the switch at `at`, if no link is down.
    pub fn route(&self, cluster: &SimCluster, at: [u16; 3]) -> SmpRoute {
        let to = cluster.shape.host_guid(at, 0);
        SmpRoute::Directed(directed_route(&cluster.topology, self.own, to))
    }

    /// The directed route to a node, if no link is down.
    pub fn route_to(&self, cluster: &SimCluster, node: Guid) -> SmpRoute {
        SmpRoute::Directed(directed_route(&cluster.topology, self.own, node))
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// There is none, or it has an error status.
    pub async fn call(&self, request: &SmpRequest) -> SmpResult {
        self.client.call(request).await
    }

    /// The SMInfo of the subnet manager at `at`; `None` without an answer.
    pub async fn sm_info(&self, cluster: &SimCluster, at: [u16; 3]) -> Option<SmInfo> {
        let request = SmpRequest::get(self.route(cluster, at), AttrId::SM_INFO, 0);
        let reply = self.client.call(&request).await.ok()?;
        Some(SmInfo::read(&reply.data))
    }

    /// The states of the subnet managers at these positions; `None` without an answer.
    pub async fn states<const N: usize>(
        &self,
        cluster: &SimCluster,
        positions: [[u16; 3]; N],
    ) -> [Option<SmState>; N] {
        let mut states = [None; N];
        for (state, at) in states.iter_mut().zip(positions) {
            *state = self.sm_info(cluster, at).await.map(|info| info.state());
        }
        states
    }

    /// Sends SubnSet(SMInfo) with an AttributeModifier to the subnet manager at `at`, as an SM with
    /// the state and the SM_Key of `sender`.
    pub async fn set(
        &self,
        cluster: &SimCluster,
        at: [u16; 3],
        modifier: u32,
        sender: (SmState, u64),
    ) -> SmpResult {
        let (state, sm_key) = sender;
        let mut info = SmInfo::default();
        info.set_guid(Guid(self.own.0 + 1));
        info.set_sm_key(SmKey(sm_key));
        info.set_state(state);
        let mut data = [0; 64];
        info.write(&mut data);
        let route = self.route(cluster, at);
        self.client.call(&SmpRequest::set(route, AttrId::SM_INFO, modifier, data)).await
    }
}
