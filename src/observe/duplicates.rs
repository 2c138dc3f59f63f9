//! Confirms duplicate GUIDs: a port that was moved during the sweep looks the same.
//!
//! The devices at the ends of both paths are asked for NodeInfo again. If both still have the GUID,
//! there are two devices. Else a port was moved, and the sweep is repeated.

use super::discovery_keys::DiscoveryKeys;
use crate::fabric::DiscoveryFault;
use crate::ids::Guid;
use crate::transport::client::SmpClient;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, NodeInfo};
use crate::wire::smp::{DirectedRoute, SmpRoute};

/// Asks the devices with duplicate GUIDs again. True if one of them was moved during the sweep.
pub(super) async fn has_moved_ports(
    client: &SmpClient,
    keys: &DiscoveryKeys,
    faults: &[DiscoveryFault],
) -> bool {
    for fault in faults {
        let (guid, routes, guid_of): (_, _, fn(&NodeInfo) -> Guid) = match fault {
            DiscoveryFault::DuplicateNodeGuid { guid, first, second } => {
                (*guid, [*first, *second], NodeInfo::node_guid)
            }
            DiscoveryFault::DuplicatePortGuid { guid, first, second } => {
                (*guid, [*first, *second], NodeInfo::port_guid)
            }
            _ => continue,
        };
        for route in routes {
            let found = node_info(client, keys, route, guid).await;
            if found.is_none_or(|info| guid_of(&info) != guid) {
                return true;
            }
        }
    }
    false
}

/// NodeInfo of the device at the end of a route, which is asked with the M_Key of `guid`.
async fn node_info(
    client: &SmpClient,
    keys: &DiscoveryKeys,
    route: DirectedRoute,
    guid: Guid,
) -> Option<NodeInfo> {
    let request = SmpRequest::get(SmpRoute::Directed(route), AttrId::NODE_INFO, 0);
    let answer = client.call(&request.with_m_key(keys.of_guid(guid))).await;
    answer.ok().map(|reply| NodeInfo::read(&reply.data))
}
