//! The names of Sets, for those who send them and those who remember what became of them.

use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::AttrId;

/// One Set: whose, and which part of which table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SetId {
    /// The device.
    pub node: NodeId,
    /// The port whose own cable leads to it (channel adapters), else port 0.
    pub port: PortNum,
    /// Attribute.
    pub attr_id: u16,
    /// Attribute modifier.
    pub attr_mod: u32,
}

impl SetId {
    /// Node GUID, attribute and modifier: the Set's name beyond the life of a fabric picture.
    pub fn name(&self, fabric: &Fabric) -> (Guid, u16, u32) {
        (fabric.node(self.node).guid(), self.attr_id, self.attr_mod)
    }

    /// The port slot concerned.
    pub fn slot(&self, fabric: &Fabric) -> PortId {
        PortId(fabric.node(self.node).first_port.0 + u32::from(self.port.0))
    }

    /// What failed, for reports.
    pub fn describe(&self, fabric: &Fabric) -> String {
        let what = AttrId::name(self.attr_id);
        format!("Set({what}, 0x{:x}) of {}", self.attr_mod, fabric.describe(self.slot(fabric)))
    }
}
