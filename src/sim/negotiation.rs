//! Width and speed that two ports agree on when their link is trained.

use super::cable_fault::CableFault;
use crate::fabric::link_rate::LinkSpeed;
use crate::fabric::synthetic::set_link;
use crate::wire::attr::{LinkWidth, PortInfo};

/// Width and speed of the link between two ports: the maximum that both have enabled and that the
/// cable allows; 1x SDR if there is none.
pub(super) fn negotiate(a: &PortInfo, b: &PortInfo, cable: CableFault) -> (u8, LinkSpeed) {
    let speeds = LinkSpeed::enabled_mask(a) & LinkSpeed::enabled_mask(b) & cable.speeds;
    (
        widest(a.link_width_enabled() & b.link_width_enabled() & cable.widths),
        LinkSpeed::fastest(speeds),
    )
}

/// In the order of their bits, 2x would be the widest.
fn widest(mask: u8) -> u8 {
    match mask & !LinkWidth::X2 {
        0 if mask != 0 => LinkWidth::X2,
        LinkWidth::X1 if mask & LinkWidth::X2 != 0 => LinkWidth::X2,
        wider => highest_bit(wider),
    }
}

fn highest_bit(mask: u8) -> u8 {
    if mask == 0 { 1 } else { 1 << mask.ilog2() }
}

/// Sets the fields of a port whose link has been trained.
pub(super) fn set_link_up(info: &mut PortInfo, width: u8, speed: LinkSpeed) {
    set_link(info, true);
    info.set_link_width_active(width);
    speed.activate(info);
}
