//! The ports that have SL to VL mapping and VL arbitration tables, and their operational VLs.

use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::plan::port_targets::PortTargets;
use crate::wire::attr::tables::SlToVl;
use crate::wire::attr::{PortInfo, PortState};

/// VL 15 in an SL to VL mapping drops the packets of that SL (IBA vol. 1, 14.2.5.8).
pub(super) const DROPPED_VL: u8 = 15;

/// The target PortInfo of a port that has QoS tables; `None` for ports that are down and for base
/// switch ports 0.
pub(super) fn configurable_info(
    fabric: &Fabric,
    targets: &PortTargets,
    port: PortId,
) -> Option<PortInfo> {
    let node = fabric.node_of(port);
    let info = fabric.port(port).info()?;
    let is_port_0 = node.is_switch() && fabric.port(port).num == PortNum::ZERO;
    let lives = if is_port_0 {
        node.switch_info.enhanced_port0()
    } else {
        info.port_state() != PortState::Down
    };
    lives.then(|| targets.of(port).unwrap_or(info))
}

/// The SLs that a mapping drops, one bit per SL.
pub(super) fn dropped_by(map: &SlToVl) -> u16 {
    let vls = map.vls();
    let dropped = vls.iter().enumerate().filter(|(_, vl)| **vl == DROPPED_VL);
    dropped.fold(0, |sls, (sl, _)| sls | 1 << sl)
}

/// The mask that reduces a VL number to the operational VLs of a port.
pub(super) fn vl_mask(info: &PortInfo) -> u8 {
    match info.operational_vls() {
        code @ 1..=5 => (1 << (code - 1)) - 1,
        _ => 0,
    }
}
