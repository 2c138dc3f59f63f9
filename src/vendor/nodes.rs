//! The nodes that are asked for their capabilities, once each time that they join the fabric.

use super::status::CapabilityAnswer;
use crate::fabric::{Fabric, NodeId};
use crate::ids::Guid;
use crate::transport::transactions::{SmpError, SmpRequest, SmpResult};
use crate::wire::attr::AttrId;
use crate::wire::mad::Status;
use crate::wire::smp::{DirectedRoute, SmpRoute};
use crate::wire::vendor::capabilities::Capabilities;
use crate::wire::vendor::facts::GENERAL_INFO_CAPABILITIES;
use crate::wire::vendor::is_concerned;
use std::collections::{BTreeMap, HashSet};

/// What identifies a device from one connection to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DeviceConnection {
    /// Generation of the last subnet in which the node was new or had restarted.
    restarted: u64,
    vendor_id: u32,
    device_id: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct VendorNode {
    connection: DeviceConnection,
    /// `None` until it was asked.
    answer: Option<CapabilityAnswer>,
}

/// The nodes that may have vendor-specific attributes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VendorNodes(BTreeMap<Guid, VendorNode>);

impl VendorNodes {
    /// Takes over the nodes of a fabric. `restarted` tells the generation of the last subnet in which a
    /// node was new or had restarted. Unresponsive nodes that were not asked are left for later, those
    /// that are gone are forgotten.
    pub fn observe(&mut self, fabric: &Fabric, restarted: impl Fn(Guid) -> u64) {
        let unresponsive: HashSet<NodeId> = fabric.unresponsive().collect();
        let mut before = std::mem::take(&mut self.0);
        for (id, node) in fabric.node_ids().map(|id| (id, fabric.node(id))) {
            if !is_concerned(&node.info) {
                continue;
            }
            let guid = node.guid();
            let connection = DeviceConnection {
                restarted: restarted(guid),
                vendor_id: node.info.vendor_id(),
                device_id: node.info.device_id(),
            };
            let known = before.remove(&guid).filter(|known| known.connection == connection);
            if known.is_none() && unresponsive.contains(&id) {
                continue;
            }
            self.0.insert(guid, known.unwrap_or(VendorNode { connection, answer: None }));
        }
    }

    /// The nodes that were not asked yet.
    pub fn due(&self) -> impl Iterator<Item = Guid> + '_ {
        self.0.iter().filter(|(_, node)| node.answer.is_none()).map(|(&guid, _)| guid)
    }

    /// Takes over the answer of a node. Returns it; `None` if the request was not sent, so that the node
    /// is still due, or the node is gone.
    pub fn answered(&mut self, guid: Guid, result: &SmpResult) -> Option<CapabilityAnswer> {
        let node = self.0.get_mut(&guid)?;
        let answer = match result {
            Ok(reply) => CapabilityAnswer::Capabilities(Capabilities::read(&reply.data)),
            Err(SmpError::Status(status)) => match status & Status::BAD_FIELD {
                Status::BAD_METHOD | Status::BAD_METHOD_ATTR => CapabilityAnswer::Unsupported,
                _ => CapabilityAnswer::Refused(*status),
            },
            Err(SmpError::Unanswered | SmpError::Malformed(_)) => CapabilityAnswer::Unanswered,
            Err(SmpError::Send(_)) => return None,
        };
        node.answer = Some(answer);
        Some(answer)
    }

    /// The answers so far.
    pub fn answers(&self) -> BTreeMap<Guid, CapabilityAnswer> {
        let answered = self.0.iter().filter_map(|(&guid, node)| Some((guid, node.answer?)));
        answered.collect()
    }

    pub fn capabilities(&self, guid: Guid) -> Capabilities {
        let answer = self.0.get(&guid).and_then(|node| node.answer);
        answer.map_or(Capabilities::NONE, CapabilityAnswer::capabilities)
    }
}

/// The request for the capabilities of the node at the end of `route`.
pub fn capability_request(route: DirectedRoute) -> SmpRequest {
    let route = SmpRoute::Directed(route);
    SmpRequest::get(route, AttrId::GENERAL_INFO, GENERAL_INFO_CAPABILITIES.value)
}
