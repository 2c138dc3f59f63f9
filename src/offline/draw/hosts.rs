//! Hosts at their switches, and datelines.

use super::{Drawing, Drawn, MARGIN, RADIUS, STEP, STUB, escaped, line};
use crate::fabric::PortId;
use crate::plan::routing::torus::{AXIS_NAMES, Coordinates};
use std::fmt::Write as _;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = writeln!($out, $($part)*);
    }};
}

/// Side of a host, and distance of neighbouring hosts, in pixels.
const SIDE: i64 = 7;
const PITCH: i64 = 9;
/// Hosts in a row.
const ROW: usize = 3;
/// Hosts that are drawn; the others are counted.
const MAX_DRAWN: usize = 6;

impl Drawing<'_> {
    /// Draws the end ports at a switch, to the lower right of it, where no cable is.
    pub(super) fn hosts(&self, out: &mut String, at: Coordinates) {
        let Drawn { fabric, layout, .. } = self.picture;
        let Some(switch) = layout.switch(at) else { return };
        let ports = fabric.ports_of(fabric.switches()[switch.index()]);
        let peers = ports.filter_map(|port| port.peer);
        let hosts: Vec<PortId> = peers.filter(|&peer| !fabric.node_of(peer).is_switch()).collect();
        let (x, y) = self.point(at);
        let corner = (x + i64::from(RADIUS) - 1, y + i64::from(RADIUS) - 2);
        for (place, &host) in hosts.iter().take(MAX_DRAWN).enumerate() {
            let column = (place % ROW) as i64;
            let row = (place / ROW) as i64;
            let node = fabric.node_of(host);
            let class = if host == fabric.local() { "host sm" } else { "host" };
            put!(
                out,
                "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{SIDE}\" height=\"{SIDE}\">\
                 <title>{} {}</title></rect>",
                corner.0 + column * PITCH,
                corner.1 + row * PITCH,
                node.guid(),
                escaped(&node.name().to_string())
            );
        }
        if let Some(others) = hosts.len().checked_sub(MAX_DRAWN).filter(|&others| others > 0) {
            let end = corner.0 + ROW as i64 * PITCH + 9;
            put!(out, "<text class=\"note\" x=\"{end}\" y=\"{}\">+{others}</text>", corner.1 + 13);
        }
    }

    /// Draws the datelines, which rings cross between their last and their first switch: at the
    /// left of a plane, at its lower end, and below the first plane.
    pub(super) fn datelines(&self, out: &mut String) {
        let layout = self.picture.layout;
        let reach = i64::from(STUB) - 4;
        for z in 0..self.radices[2] {
            let (left, low) = self.place([0, 0, z]);
            let (right, high) = self.place([self.radices[0] - 1, self.radices[1] - 1, z]);
            if layout.is_looped(self.axes[0]) && self.radices[0] > 1 {
                let x = left - reach;
                line(out, "dateline", (x, high - reach), (x, low + reach));
                let name = AXIS_NAMES[self.axes[0]];
                let y = high - reach - 4;
                put!(out, "<text class=\"note\" x=\"{x}\" y=\"{y}\">{name}</text>");
            }
            if layout.is_looped(self.axes[1]) && self.radices[1] > 1 {
                let y = low + reach;
                line(out, "dateline", (left - reach, y), (right + reach, y));
                put!(
                    out,
                    "<text class=\"note\" x=\"{}\" y=\"{}\">{}</text>",
                    right + reach + 7,
                    y + 4,
                    AXIS_NAMES[self.axes[1]]
                );
            }
        }
        if layout.is_looped(self.axes[2]) && self.radices[2] > 1 {
            let (left, top) = self.corner(0);
            put!(
                out,
                "<text class=\"note\" x=\"{}\" y=\"{}\">dateline of z below this plane</text>",
                left + i64::from(self.plane.0) / 2,
                top + 36
            );
        }
    }
}

const _: () = assert!(STUB < MARGIN && RADIUS as i64 + 2 * PITCH < STEP as i64 / 2 + PITCH);
