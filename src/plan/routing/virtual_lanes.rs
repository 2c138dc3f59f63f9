//! The number of virtual lanes that an engine may use.

use super::switch_graph::linked_peer;
use crate::fabric::Fabric;
use crate::wire::attr::PortInfo;

/// The largest code of VLCap that counts: 15 data VLs.
const MAX_VL_CODE: u8 = 5;

/// The smallest number of data VLs on a link of a switch, to hosts included. `max_op_vls` is a
/// VLCap code that limits it; 0 leaves the VLs of links as they are.
pub(super) fn data_vls(fabric: &Fabric, max_op_vls: u8) -> u8 {
    let limit = if max_op_vls == 0 { MAX_VL_CODE } else { max_op_vls.min(MAX_VL_CODE) };
    let ports = fabric.port_ids().filter(|&id| fabric.node_of(id).is_switch());
    let codes = ports.filter_map(|id| {
        let own = fabric.port(id).info()?;
        let peer = linked_peer(fabric, id)?;
        let peer = fabric.port(peer).info().map_or(own.vl_cap(), |info| info.vl_cap());
        Some(own.vl_cap().min(peer)).filter(|&code| code > 0)
    });
    PortInfo::data_vls(codes.min().unwrap_or(MAX_VL_CODE).min(limit))
}
