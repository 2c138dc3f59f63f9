//! The attributes of subnet management, IBA vol. 1, 14.2.5, one file each (small table blocks
//! are in [`tables`]). Any 64 bytes are a valid attribute.

mod mlnx_ext_port_info;
mod node_info;
mod notice;
mod port_info;
mod sm_info;
mod switch_info;
pub mod tables;

use super::vendor::facts;

pub use mlnx_ext_port_info::{FDR10, MlnxExtPortInfo};
pub use node_info::{NodeDescription, NodeInfo, NodeKind};
pub use notice::{ChangeFlag, Notice, TrapNumber};
pub use port_info::{CapMask, CapMask2, LinkWidth, PhysState, PortInfo, PortState};
pub use sm_info::{SmInfo, SmState};
pub use switch_info::SwitchInfo;

/// Attribute identifiers of subnet management (IBA vol. 1, table 121 "Subnet management
/// attributes"), and of the common attributes that its classes use.
pub struct AttrId;

impl AttrId {
    pub const CLASS_PORT_INFO: u16 = 0x0001;
    pub const NOTICE: u16 = 0x0002;
    pub const INFORM_INFO: u16 = 0x0003;
    pub const NODE_DESCRIPTION: u16 = 0x0010;
    pub const NODE_INFO: u16 = 0x0011;
    pub const SWITCH_INFO: u16 = 0x0012;
    pub const GUID_INFO: u16 = 0x0014;
    pub const PORT_INFO: u16 = 0x0015;
    pub const PKEY_TABLE: u16 = 0x0016;
    pub const SL_TO_VL: u16 = 0x0017;
    pub const VL_ARBITRATION: u16 = 0x0018;
    pub const LINEAR_FT: u16 = 0x0019;
    pub const RANDOM_FT: u16 = 0x001A;
    pub const MULTICAST_FT: u16 = 0x001B;
    pub const SM_INFO: u16 = 0x0020;
    pub const VENDOR_DIAG: u16 = 0x0030;
    pub const LED_INFO: u16 = 0x0031;
    /// ExtendedPortInfo of Mellanox, vendor-specific.
    pub const MLNX_EXT_PORT_INFO: u16 = 0xFF90;
    /// GeneralInfo of Mellanox, vendor-specific.
    pub const GENERAL_INFO: u16 = facts::GENERAL_INFO.value;
    /// QosConfigSL of Mellanox, vendor-specific.
    pub const QOS_CONFIG_SL: u16 = facts::QOS_CONFIG_SL.value;
    /// ARInfo of Mellanox, vendor-specific.
    pub const AR_INFO: u16 = facts::AR_INFO.value;
    /// ARGroupTable of Mellanox, vendor-specific.
    pub const AR_GROUP_TABLE: u16 = facts::AR_GROUP_TABLE.value;
    /// ARLinearForwardingTable (revised) of Mellanox, vendor-specific.
    pub const AR_LFT: u16 = facts::AR_LFT.value;
    /// ARGroupTableCopy of Mellanox, vendor-specific.
    pub const AR_GROUP_TABLE_COPY: u16 = facts::AR_GROUP_TABLE_COPY.value;
    /// VirtualizationInfo of Mellanox, vendor-specific.
    pub const VIRTUALIZATION_INFO: u16 = facts::VIRTUALIZATION_INFO.value;
    /// VPortInfo of Mellanox, vendor-specific.
    pub const VPORT_INFO: u16 = facts::VPORT_INFO.value;
    /// VNodeInfo of Mellanox, vendor-specific.
    pub const VNODE_INFO: u16 = facts::VNODE_INFO.value;
    /// VPortState of Mellanox, vendor-specific.
    pub const VPORT_STATE: u16 = facts::VPORT_STATE.value;
    /// VNodeDescription of Mellanox, vendor-specific.
    pub const VNODE_DESCRIPTION: u16 = facts::VNODE_DESCRIPTION.value;
    /// VPortGUIDInfo of Mellanox, vendor-specific.
    pub const VPORT_GUID_INFO: u16 = facts::VPORT_GUID_INFO.value;
    /// VPortPKeyTable of Mellanox, vendor-specific.
    pub const VPORT_PKEY_TABLE: u16 = facts::VPORT_PKEY_TABLE.value;

    /// The attribute's name in the specification, for messages.
    pub fn name(id: u16) -> &'static str {
        match id {
            Self::CLASS_PORT_INFO => "ClassPortInfo",
            Self::NOTICE => "Notice",
            Self::INFORM_INFO => "InformInfo",
            Self::NODE_DESCRIPTION => "NodeDescription",
            Self::NODE_INFO => "NodeInfo",
            Self::SWITCH_INFO => "SwitchInfo",
            Self::GUID_INFO => "GUIDInfo",
            Self::PORT_INFO => "PortInfo",
            Self::PKEY_TABLE => "P_KeyTable",
            Self::SL_TO_VL => "SLtoVLMappingTable",
            Self::VL_ARBITRATION => "VLArbitrationTable",
            Self::LINEAR_FT => "LinearForwardingTable",
            Self::RANDOM_FT => "RandomForwardingTable",
            Self::MULTICAST_FT => "MulticastForwardingTable",
            Self::SM_INFO => "SMInfo",
            Self::VENDOR_DIAG => "VendorDiag",
            Self::LED_INFO => "LedInfo",
            Self::MLNX_EXT_PORT_INFO => "ExtendedPortInfo",
            Self::GENERAL_INFO => "GeneralInfo",
            Self::QOS_CONFIG_SL => "QosConfigSL",
            Self::AR_INFO => "ARInfo",
            Self::AR_GROUP_TABLE => "ARGroupTable",
            Self::AR_LFT => "ARLinearForwardingTable",
            Self::AR_GROUP_TABLE_COPY => "ARGroupTableCopy",
            Self::VIRTUALIZATION_INFO => "VirtualizationInfo",
            Self::VPORT_INFO => "VPortInfo",
            Self::VNODE_INFO => "VNodeInfo",
            Self::VPORT_STATE => "VPortState",
            Self::VNODE_DESCRIPTION => "VNodeDescription",
            Self::VPORT_GUID_INFO => "VPortGUIDInfo",
            Self::VPORT_PKEY_TABLE => "VPortPKeyTable",
            _ => "unknown attribute",
        }
    }
}
