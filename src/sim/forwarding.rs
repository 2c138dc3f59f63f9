//! Packet forwarding: along a directed route (IBA vol. 1, 14.2.2), or by the switches' forwarding
//! tables. A directed route may have a LID-routed part at either end.

use super::adaptive_tables::PacketClass;
use super::devices::Devices;
use crate::ids::{Lid, PortNum};
use crate::wire::attr::PortState;
use crate::wire::mad::{Class, Mad};
use crate::wire::smp::{INITIAL_PATH, MAX_HOPS, RETURN_PATH};

/// Links that a LID-routed packet may cross; more are taken for a routing loop.
const MAX_LID_HOPS: usize = 128;

/// Observes a packet at every link, and may drop it. Ports are given by their slots.
pub(super) trait LinkObserver {
    /// Called before the packet crosses the link from `exit` to `entry`; false drops it.
    fn cross(&mut self, exit: u32, entry: u32) -> bool;

    /// Called when the switch that received the packet through `entry` has no route for it.
    fn no_route(&mut self, entry: u32);

    /// Called when the packet, last received through `entry`, is in a routing loop.
    fn routing_loop(&mut self, entry: u32);

    /// Called when the link at the output port `exit` is down or not ACTIVE.
    fn link_inactive(&mut self, exit: u32);
}

/// Observer that neither counts nor drops packets.
pub(super) struct NoFaults;

impl LinkObserver for NoFaults {
    fn cross(&mut self, _exit: u32, _entry: u32) -> bool {
        true
    }
    fn no_route(&mut self, _entry: u32) {}
    fn routing_loop(&mut self, _entry: u32) {}
    fn link_inactive(&mut self, _exit: u32) {}
}

/// Offset of the hop pointer in a directed-route SMP.
pub(super) const HOP_POINTER: usize = 6;
/// Offset of the hop count in a directed-route SMP.
pub(super) const HOP_COUNT: usize = 7;

impl Devices {
    /// True if the packet never leaves its port: the destination is one of the port's own LIDs, or
    /// a directed route without hops.
    pub(super) fn is_loopback(&self, start: u32, to: Lid, mad: &Mad) -> bool {
        if mad.0[1] == Class::SUBN_DIRECTED {
            return mad.0[HOP_COUNT] == 0 && mad.dr_lids() == [Lid::PERMISSIVE; 2];
        }
        self.owns_lid(self.end_port(start), to)
    }

    /// Forwards a directed-route request from the port `start` along its initial path, and records
    /// the return path in it. LID-routed parts lead to the LID `to` before the initial path and to
    /// DrDLID after it. Returns the slot that receives the request, and its source LID there;
    /// `None` if it is lost.
    pub(super) fn forward_request(
        &self,
        start: u32,
        to: Lid,
        mad: &mut Mad,
        links: &mut impl LinkObserver,
    ) -> Option<(u32, Lid)> {
        let [before, after] = mad.dr_lids();
        let hops = usize::from(mad.0[HOP_COUNT]);
        if hops > MAX_HOPS || mad.0[HOP_POINTER] != 0 {
            return None;
        }
        let mut at = start;
        if before != Lid::PERMISSIVE {
            at = self.forward_by_lid(at, to, false, links)?;
        }
        for hop in 1..=hops {
            let exit = PortNum(mad.0[INITIAL_PATH + hop]);
            let forwards =
                self.is_switch(self.port(at).node) || (hop == 1 && exit == self.port(at).num);
            if !forwards {
                return None;
            }
            at = self.hop(at, exit, links)?;
            mad.0[RETURN_PATH + hop] = self.port(at).num.0;
        }
        mad.0[HOP_POINTER] = mad.0[HOP_COUNT];
        if after == Lid::PERMISSIVE {
            return Some((at, Lid::PERMISSIVE));
        }
        let source = self.port(self.end_port(at)).info.lid();
        Some((self.forward_by_lid(at, after, false, links)?, source))
    }

    /// Forwards a directed-route response from the node of `start` along its return path, with
    /// LID-routed parts to the LID `to` before it and to DrSLID after it. Returns the same as
    /// [`Self::forward_request`].
    pub(super) fn forward_response(
        &self,
        start: u32,
        to: Lid,
        mad: &mut Mad,
        links: &mut impl LinkObserver,
    ) -> Option<(u32, Lid)> {
        let [after, before] = mad.dr_lids();
        let hops = usize::from(mad.0[HOP_COUNT]);
        if hops > MAX_HOPS {
            return None;
        }
        let mut at = start;
        if before != Lid::PERMISSIVE {
            at = self.forward_by_lid(at, to, false, links)?;
        }
        for hop in (1..=hops).rev() {
            at = self.hop(at, PortNum(mad.0[RETURN_PATH + hop]), links)?;
        }
        mad.0[HOP_POINTER] = 0;
        if after == Lid::PERMISSIVE {
            return Some((at, Lid::PERMISSIVE));
        }
        let source = self.port(self.end_port(at)).info.lid();
        Some((self.forward_by_lid(at, after, false, links)?, source))
    }

    /// Forwards a packet from the node of `at` through its port `exit`.
    fn hop(&self, at: u32, exit: PortNum, links: &mut impl LinkObserver) -> Option<u32> {
        let slot = self.slot(self.port(at).node, exit).filter(|_| exit != PortNum::ZERO)?;
        self.cross_link(slot, false, links)
    }

    /// Forwards a packet from the port `start` to the port that owns `lid`, by the forwarding tables
    /// of the switches. With `needs_active` (all packets but SMPs) it crosses ACTIVE links only. Returns
    /// the slot that receives it; on a switch, that of the last link.
    pub(super) fn forward_by_lid(
        &self,
        start: u32,
        lid: Lid,
        needs_active: bool,
        links: &mut impl LinkObserver,
    ) -> Option<u32> {
        if self.owns_lid(self.end_port(start), lid) {
            return Some(start);
        }
        let mut at = start;
        if !self.is_switch(self.port(start).node) {
            at = self.cross_link(start, needs_active, links)?;
        }
        for _ in 0..MAX_LID_HOPS {
            let node = self.port(at).node;
            if self.owns_lid(self.end_port(at), lid) {
                return Some(at);
            }
            let exits = self.exits(node, lid, PacketClass::MAD);
            let exit = exits.and_then(|exits| exits.first());
            let Some(exit) = exit.filter(|&exit| exit != PortNum::ZERO) else {
                links.no_route(at);
                return None;
            };
            at = self.cross_link(self.slot(node, exit)?, needs_active, links)?;
        }
        links.routing_loop(at);
        None
    }

    /// The ports of `starts` from which no packet reaches the port that owns `lid`, as by
    /// [`Self::forward_by_lid`]. Each switch is looked at once.
    pub(super) fn cut_off(&self, starts: &[u32], lid: Lid, needs_active: bool) -> Vec<u32> {
        let mut arrives: Vec<Option<bool>> = vec![None; self.nodes.len()];
        starts
            .iter()
            .filter(|&&start| !self.arrives(start, lid, needs_active, &mut arrives))
            .copied()
            .collect()
    }

    /// True if a packet from the port `start` reaches the port that owns `lid`. Records it in
    /// `known` for the switches on its way; those of a loop count as cut off.
    fn arrives(
        &self,
        start: u32,
        lid: Lid,
        needs_active: bool,
        known: &mut [Option<bool>],
    ) -> bool {
        let mut way = Vec::new();
        let mut at = Some(start);
        let arrives = loop {
            let Some(here) = at else { break false };
            if self.owns_lid(self.end_port(here), lid) {
                break true;
            }
            let node = self.port(here).node;
            if !self.is_switch(node) {
                let leaves = here == start && way.is_empty();
                way.push(node);
                at = self.cross_link(here, needs_active, &mut NoFaults).filter(|_| leaves);
                continue;
            }
            if let Some(arrives) = known[node as usize] {
                break arrives;
            }
            known[node as usize] = Some(false);
            way.push(node);
            let exits = self.exits(node, lid, PacketClass::MAD);
            let exit = exits.and_then(|exits| exits.first()).filter(|&exit| exit != PortNum::ZERO);
            let exit = exit.and_then(|exit| self.slot(node, exit));
            at = exit.and_then(|exit| self.cross_link(exit, needs_active, &mut NoFaults));
        };
        way.iter().filter(|&&node| self.is_switch(node)).for_each(|&node| {
            known[node as usize] = Some(arrives);
        });
        arrives
    }

    fn cross_link(
        &self,
        slot: u32,
        needs_active: bool,
        links: &mut impl LinkObserver,
    ) -> Option<u32> {
        let next = self
            .linked_peer(slot)
            .filter(|&next| !needs_active || (self.is_active(slot) && self.is_active(next)));
        let Some(next) = next else {
            links.link_inactive(slot);
            return None;
        };
        links.cross(slot, next).then_some(next)
    }

    fn is_active(&self, slot: u32) -> bool {
        self.port(slot).info.port_state() == PortState::Active
    }
}
