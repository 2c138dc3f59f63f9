//! Workarounds for defects of devices (`enable_quirks`), as in OpenSM.

use super::PathEnds;
use crate::fabric::Node;
use crate::sa::query::Query;
use crate::wire::record::{PathRecord, Selector};

/// Code of the MTU of 1024 bytes.
const MTU_1024: u8 = 3;

/// DeviceID of Mellanox's InfiniHost (Tavor).
const TAVOR: u16 = 23108;

/// VendorIDs of Mellanox, Topspin, SilverStorm and Voltaire, which sold the device.
const TAVOR_VENDORS: [u32; 4] = [0x00_02c9, 0x00_05ad, 0x00_066a, 0x00_08f1];

/// The limit of the MTU of a path to or from a Tavor, which is faster with an MTU of 1024 bytes;
/// `None` for other devices, and if the query wants a greater MTU.
pub(super) fn mtu_limit(query: &Query<'_>, wanted: &PathRecord, ends: &PathEnds) -> Option<u8> {
    if !query.view.options().enable_quirks {
        return None;
    }
    let fabric = query.view.fabric();
    let has_tavor =
        [ends.from.physical, ends.to.physical].iter().any(|&port| is_tavor(fabric.node_of(port)));
    let is_asked = query.has(PathRecord::MTU_SELECTOR | PathRecord::MTU);
    let is_allowed = match wanted.mtu_selector() {
        Selector::GreaterThan | Selector::Exactly => wanted.mtu() <= MTU_1024,
        Selector::LessThan => true,
        Selector::Best => false,
    };
    (has_tavor && (!is_asked || is_allowed)).then_some(MTU_1024)
}

fn is_tavor(node: &Node) -> bool {
    node.info.device_id() == TAVOR && TAVOR_VENDORS.contains(&node.info.vendor_id())
}
