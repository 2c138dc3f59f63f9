//! Identifiers of Sets.

use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::AttrId;

/// Identifies a Set within a snapshot: the device, and the part of a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SetId {
    pub node: NodeId,
    /// The port to address: a port of a channel adapter, or port 0 of a switch.
    pub port: PortNum,
    pub attr_id: u16,
    pub attr_mod: u32,
}

impl SetId {
    /// Node GUID, attribute ID and attribute modifier, which identify the Set across snapshots.
    pub fn key(&self, fabric: &Fabric) -> (Guid, u16, u32) {
        (fabric.node(self.node).guid(), self.attr_id, self.attr_mod)
    }

    /// The port slot of the addressed port.
    pub fn slot(&self, fabric: &Fabric) -> PortId {
        PortId(fabric.node(self.node).first_port.0 + u32::from(self.port.0))
    }

    /// Describes the Set for messages.
    pub fn describe(&self, fabric: &Fabric) -> String {
        let what = AttrId::name(self.attr_id);
        format!("Set({what}, 0x{:x}) of {}", self.attr_mod, fabric.describe(self.slot(fabric)))
    }
}
