//! Whether the routes of a focused sweep still lead to the devices of the last snapshot.
//!
//! After cables were moved, a directed route may end at another switch, whose answers would be
//! taken for those of the expected one. So NodeInfo of each suspect, and of the peer of the local
//! port, is read with them. If it is that of another device, the sweep is of no use, and a heavy
//! sweep follows, which uses no earlier route.

use super::discovery_queries::DiscoveryQueries;
use super::query::DiscoveryQuery;
use crate::wire::attr::NodeInfo;

impl DiscoveryQueries {
    /// Queries the identity of the device behind the local port.
    pub(super) fn query_local_peer(&mut self) {
        let local = self.state.local;
        let peer = local.and_then(|local| self.state.peer(local));
        if let Some((node, _)) = peer {
            self.query_identity(node);
        }
    }

    /// Queries the identity of a known node, over the known route.
    pub(super) fn query_identity(&mut self, node: usize) {
        self.submit(DiscoveryQuery::Identity { node });
    }

    /// Handles the NodeInfo at the end of the route to a known node.
    pub(super) fn identified(&mut self, node: usize, info: &NodeInfo) {
        let known = self.state.node(node);
        let expected = known.guid();
        let found = info.node_guid();
        let route = known.route;
        if expected != found {
            self.misrouted = Some(format!("route {route} leads to {found}, not to {expected}"));
        }
    }
}
