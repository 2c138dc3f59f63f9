//! Confirms duplicate GUIDs: a port that was moved during the sweep looks the same.
//!
//! The devices at the ends of both paths are asked for NodeInfo again. If both still have the GUID,
//! there are two devices. Else a port was moved, and the sweep is repeated.

use super::discovery_queries::DiscoveryQueries;
use crate::fabric::DiscoveryFault;
use crate::ids::Guid;
use crate::transport::client::SmpClient;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, NodeInfo};
use crate::wire::smp::{DirectedRoute, SmpRoute};

impl DiscoveryQueries {
    /// Asks the devices with duplicate GUIDs again. True if one of them was moved during the sweep.
    pub(super) async fn has_moved_ports(&self, client: &SmpClient) -> bool {
        for fault in &self.state.faults {
            let both = match fault {
                DiscoveryFault::DuplicateNodeGuid { guid, first, second } => {
                    self.has_guid(client, *first, *guid, NodeInfo::node_guid).await
                        && self.has_guid(client, *second, *guid, NodeInfo::node_guid).await
                }
                DiscoveryFault::DuplicatePortGuid { guid, first, second } => {
                    self.has_guid(client, *first, *guid, NodeInfo::port_guid).await
                        && self.has_guid(client, *second, *guid, NodeInfo::port_guid).await
                }
                _ => true,
            };
            if !both {
                return true;
            }
        }
        false
    }

    /// True if the device at the end of a route has the GUID that `guid_of` returns.
    async fn has_guid(
        &self,
        client: &SmpClient,
        route: DirectedRoute,
        guid: Guid,
        guid_of: fn(&NodeInfo) -> Guid,
    ) -> bool {
        let request = SmpRequest::get(SmpRoute::Directed(route), AttrId::NODE_INFO, 0);
        let answer = client.call(&request.with_m_key(self.keys.of_guid(guid))).await;
        answer.is_ok_and(|reply| guid_of(&NodeInfo::read(&reply.data)) == guid)
    }
}
