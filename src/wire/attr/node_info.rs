//! NodeInfo and NodeDescription: IBA vol. 1, 14.2.5.3 and 14.2.5.2.

use crate::ids::{Guid, PortNum};
use crate::wire::bits::{Field, record};
use std::fmt;

record! {
    /// NodeInfo, IBA vol. 1, 14.2.5.3. `port_guid` and `local_port` belong to the port through
    /// which the request arrived.
    pub struct NodeInfo[40] {
        /// Version of the MAD base format the node supports.
        base_version, set_base_version: u8 = 0, 8;
        /// Version of the subnet management class the node supports.
        class_version, set_class_version: u8 = 8, 8;
        /// Channel adapter, switch or router.
        kind, set_kind: NodeKind = 16, 8;
        /// Number of physical ports, without port 0 of a switch.
        num_ports, set_num_ports: u8 = 24, 8;
        /// GUID shared by the nodes of one chassis.
        system_guid, set_system_guid: Guid = 32, 64;
        node_guid, set_node_guid: Guid = 96, 64;
        /// GUID of the port that the request arrived through; that of port 0 for a switch.
        port_guid, set_port_guid: Guid = 160, 64;
        /// Entries of the P_Key table of a CA or router port, or of a switch's port 0.
        partition_cap, set_partition_cap: u16 = 224, 16;
        /// Device identifier, as the vendor assigns it.
        device_id, set_device_id: u16 = 240, 16;
        /// Revision of the device.
        revision, set_revision: u32 = 256, 32;
        /// The port through which the request arrived.
        local_port, set_local_port: PortNum = 288, 8;
        /// IEEE company identifier, 24 bits.
        vendor_id, set_vendor_id: u32 = 296, 24;
    }
}

/// Node type (IBA vol. 1, 14.2.5.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum NodeKind {
    Ca,
    Switch,
    Router,
    /// An undefined code.
    Unknown(u8),
}

impl Field for NodeKind {
    fn from_bits(bits: u64) -> Self {
        match bits as u8 {
            1 => Self::Ca,
            2 => Self::Switch,
            3 => Self::Router,
            other => Self::Unknown(other),
        }
    }

    fn to_bits(self) -> u64 {
        match self {
            Self::Ca => 1,
            Self::Switch => 2,
            Self::Router => 3,
            Self::Unknown(other) => other.into(),
        }
    }
}

impl fmt::Display for NodeKind {
    /// The names in OpenSM's dump files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ca => "Channel Adapter",
            Self::Switch => "Switch",
            Self::Router => "Router",
            Self::Unknown(_) => "Unknown",
        })
    }
}

/// NodeDescription: up to 64 bytes of text, ended by a zero byte if shorter.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeDescription(pub [u8; 64]);

impl NodeDescription {
    /// The description with this text, truncated to 64 bytes.
    pub fn new(text: &str) -> Self {
        let mut raw = [0; 64];
        let len = text.len().min(64);
        raw[..len].copy_from_slice(&text.as_bytes()[..len]);
        Self(raw)
    }

    /// The bytes before the first NUL byte.
    pub fn bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap_or(64);
        &self.0[..len]
    }
}

impl Default for NodeDescription {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl fmt::Display for NodeDescription {
    /// The text; what is not printable ASCII shows as `?`, so that a node cannot write control
    /// characters into logs or dump files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self
            .bytes()
            .iter()
            .map(|&byte| if (0x20..0x7F).contains(&byte) { char::from(byte) } else { '?' })
            .collect();
        f.pad(&text)
    }
}

impl fmt::Debug for NodeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
