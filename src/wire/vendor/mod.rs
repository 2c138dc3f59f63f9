//! Vendor-specific attributes of subnet management, of devices with chips by Mellanox (NVIDIA).
//!
//! They are ordinary SMPs with an attribute ID of 0xFFxx. No specification of them is public.
//!
//! * [`facts`]: every number that is not in a specification, and how certain it is
//! * [`capabilities`]: the capability mask of GeneralInfo
//! * [`adaptive`]: adaptive routing of switches
//! * [`qos_config_sl`]: QosConfigSL, the rate limit of each SL
//! * [`virtual_ports`]: virtual ports of an adapter port

pub mod adaptive;
pub mod capabilities;
pub mod facts;
pub mod qos_config_sl;
pub mod virtual_ports;

use super::attr::{MlnxExtPortInfo, NodeInfo};

/// VendorID of Mellanox.
pub const MELLANOX: u32 = 0x0002C9;

/// True for devices that may answer vendor-specific attributes: by VendorID those of Mellanox, and
/// those with its chips that OpenSM asks for ExtendedPortInfo.
pub fn is_concerned(device: &NodeInfo) -> bool {
    device.vendor_id() == MELLANOX || MlnxExtPortInfo::is_supported_by(device)
}
