//! Links that run slower or narrower than both of their ends could (`avoid_throttled_links`).

use crate::fabric::{Fabric, PortId};
use crate::wire::attr::{CapMask, LinkWidth, PortInfo};

/// True if a link does not run at the greatest speed and width that both ends have enabled, or runs
/// at different ones in its two directions. A link is not throttled if an end is unknown.
pub(super) fn is_throttled(fabric: &Fabric, port: PortId) -> bool {
    let ends = fabric.port(port).peer.and_then(|peer| {
        let end = |port: PortId| {
            let info = fabric.port(port).info?;
            Some((info, has_extended_speeds(fabric, port)?))
        };
        Some([end(port)?, end(peer)?])
    });
    let Some(ends) = ends else { return false };
    let [speeds, widths] = [
        ends.map(|(info, extended)| enabled_speeds(&info, extended)),
        ends.map(|(info, _)| info.link_width_enabled().into()),
    ];
    let fastest = highest_bit(speeds[0] & speeds[1]);
    let widest = widest(widths[0] & widths[1]);
    ends.iter().any(|(info, extended)| {
        highest_bit(active_speeds(info, *extended)) != fastest
            || u16::from(info.link_width_active()) != widest
    })
}

/// True if the node of a port supports extended speeds. Of a switch, only port 0 says so.
fn has_extended_speeds(fabric: &Fabric, port: PortId) -> Option<bool> {
    let node = fabric.node_of(port);
    let owner = if node.is_switch() { node.first_port } else { port };
    Some(fabric.port(owner).info?.has(CapMask::EXTENDED_SPEEDS))
}

/// Enabled speeds as a mask in which a faster speed is a higher bit.
fn enabled_speeds(info: &PortInfo, extended: bool) -> u16 {
    let more = if extended { info.link_speed_ext_enabled() } else { 0 };
    u16::from(more) << 4 | u16::from(info.link_speed_enabled())
}

fn active_speeds(info: &PortInfo, extended: bool) -> u16 {
    let more = if extended { info.link_speed_ext_active() } else { 0 };
    u16::from(more) << 4 | u16::from(info.link_speed_active())
}

fn highest_bit(mask: u16) -> u16 {
    mask.checked_ilog2().map_or(0, |bit| 1 << bit)
}

/// The code of the greatest width in a mask.
fn widest(mask: u16) -> u16 {
    let widths =
        [LinkWidth::X12, LinkWidth::X8, LinkWidth::X4, LinkWidth::X2, LinkWidth::X1].map(u16::from);
    widths.into_iter().find(|width| mask & width != 0).unwrap_or(0)
}
