//! The way of a packet through the tables that are programmed.

use super::Ends;
use crate::fabric::PortId;
use crate::ids::PortNum;
use crate::sa::view::{Speed, View};

/// The most links of a path: tables that lead further lead in a circle.
const MAX_LINKS: usize = 64;

/// What packets find on their way.
pub(super) struct Way {
    /// The least MTU and rate.
    pub speed: Speed,
    /// The SLs whose packets are dropped, bit n for SL n.
    pub dropped: u16,
}

/// What is on the way that the tables send a packet; `None` if they do not deliver it.
pub(super) fn way(view: &View<'_>, ends: &Ends) -> Option<Way> {
    let mut way = Way { speed: view.speed(ends.from), dropped: 0 };
    // The port by which the packet came to the node that it is at.
    let mut entry: Option<PortId> = None;
    let mut leaves = true;
    let pass = |port: PortId| {
        let Speed { mtu, rate } = view.speed(port);
        way.speed.mtu = way.speed.mtu.min(mtu);
        way.speed.rate = way.speed.rate.min(rate);
        if leaves && entry != Some(port) {
            let input = entry.map_or(PortNum::ZERO, |entry| view.fabric().port(entry).num);
            way.dropped |= view.dropped(input, port);
        }
        entry = Some(port);
        leaves = !leaves;
    };
    walk(view, ends, pass).then_some(way)
}

/// Calls `pass` for every port that a packet enters or leaves by as the tables send it, in their
/// order. False if they do not deliver it.
pub(in crate::sa) fn walk(view: &View<'_>, ends: &Ends, mut pass: impl FnMut(PortId)) -> bool {
    let fabric = view.fabric();
    let mut at = ends.from;
    for _ in 0..MAX_LINKS {
        if at == ends.to {
            pass(at);
            return true;
        }
        let Some(exit) = exit(view, ends, at) else { return false };
        pass(exit);
        if exit == ends.to {
            return true;
        }
        let Some(peer) = fabric.port(exit).peer else { return false };
        pass(peer);
        at = peer;
    }
    false
}

/// The port by which a packet that came to `at` leaves that node, if the node sends it on.
fn exit(view: &View<'_>, ends: &Ends, at: PortId) -> Option<PortId> {
    let fabric = view.fabric();
    let node = fabric.node_of(at);
    let Some(switch) = node.switch else { return (at == ends.from).then_some(at) };
    let out = view.plan().routing.lfts.get(switch.index())?.out(ends.dlid)?;
    let exit = PortId(node.first_port.0 + u32::from(out));
    fabric.ports().get(exit.index()).filter(|port| port.node == fabric.port(at).node)?;
    Some(exit)
}
