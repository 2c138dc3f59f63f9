//! Names of ports in the output.

use crate::sim::devices::Devices;

/// `"sw 0,0,0"[3]`.
pub(super) fn port_name(devices: &Devices, slot: u32) -> String {
    let port = devices.port(slot);
    format!("\"{}\"[{}]", devices.node(port.node).description, port.num)
}
