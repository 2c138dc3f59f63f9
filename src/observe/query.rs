//! The queries of a sweep.

use super::discovery_state::DiscoveryState;
use crate::ids::{MKey, PortNum};
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::AttrId;
use crate::wire::smp::{DirectedRoute, SmpRoute};

/// A query in flight.
#[derive(Clone, Copy, Debug)]
pub(super) enum DiscoveryQuery {
    /// NodeInfo of the node at the end of a route, which leaves from a port of a known node; `None`
    /// stands for the local node.
    Node {
        from: Option<(usize, PortNum)>,
        route: DirectedRoute,
        /// The key that the device is asked with.
        m_key: MKey,
    },
    /// NodeInfo of a known node, in order to see whether the route still leads to it.
    Identity {
        node: usize,
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

impl DiscoveryQuery {
    /// The last known node on the route of the query; `None` for the query to the local node.
    pub(super) fn node(self) -> Option<usize> {
        match self {
            Self::Node { from, .. } => from.map(|(node, _)| node),
            Self::Identity { node }
            | Self::Description { node }
            | Self::Switch { node }
            | Self::Port { node, .. }
            | Self::Pkeys { node, .. }
            | Self::Manager { node, .. } => Some(node),
        }
    }

    /// The request of the query, without its M_Key.
    pub(super) fn request(self, state: &DiscoveryState) -> SmpRequest {
        let (route, attr_id, attr_mod) = match self {
            Self::Node { route, .. } => (route, AttrId::NODE_INFO, 0),
            Self::Identity { node } => (state.node(node).route, AttrId::NODE_INFO, 0),
            Self::Description { node } => (state.node(node).route, AttrId::NODE_DESCRIPTION, 0),
            Self::Switch { node } => (state.node(node).route, AttrId::SWITCH_INFO, 0),
            Self::Port { node, port } => {
                (state.port_route(node, port), AttrId::PORT_INFO, port.0.into())
            }
            Self::Pkeys { node, port, block } => {
                let is_switch = state.node(node).is_switch();
                let high = if is_switch { u32::from(port.0) << 16 } else { 0 };
                let modifier = high | u32::from(block);
                (state.port_route(node, port), AttrId::PKEY_TABLE, modifier)
            }
            Self::Manager { node, port } => (state.port_route(node, port), AttrId::SM_INFO, 0),
        };
        SmpRequest::get(SmpRoute::Directed(route), attr_id, attr_mod)
    }

    /// Identifies the query among those of a sweep, whatever its route.
    pub(super) fn key(self) -> QueryKey {
        match self {
            Self::Node { from: None, .. } => answer_key(0, 0, PortNum::ZERO, 0),
            Self::Node { from: Some((node, port)), .. } => answer_key(1, node, port, 0),
            Self::Description { node } => answer_key(2, node, PortNum::ZERO, 0),
            Self::Switch { node } => answer_key(3, node, PortNum::ZERO, 0),
            Self::Port { node, port } => answer_key(4, node, port, 0),
            Self::Pkeys { node, port, block } => answer_key(5, node, port, block),
            Self::Manager { node, port } => answer_key(6, node, port, 0),
            Self::Identity { node } => answer_key(7, node, PortNum::ZERO, 0),
        }
    }
}

fn answer_key(kind: u8, node: usize, port: PortNum, block: u16) -> (u8, usize, u8, u16) {
    (kind, node, port.0, block)
}

/// Kind of query, node, port and block.
pub(super) type QueryKey = (u8, usize, u8, u16);
