//! How SMPs and MADs find their way: along a directed route (IBA vol. 1, 14.2.2), or by the
//! forwarding tables that were programmed. A directed route may have a LID-routed part at either
//! end.

use super::device::Devices;
use crate::ids::{Lid, PortNum};
use crate::wire::attr::PortState;
use crate::wire::mad::{Class, Mad};
use crate::wire::smp::{INITIAL_PATH, MAX_HOPS, RETURN_PATH};

/// Links a LID-routed packet crosses before it counts as caught in a loop.
const HOP_LIMIT: usize = 128;

/// What a packet meets on its way: asked at every link, told why a walk ends.
pub(super) trait Road {
    /// The packet leaves through `exit` and would come in at `entry`: does it?
    fn crosses(&mut self, exit: u32, entry: u32) -> bool;

    /// The packet came in at `entry` and the switch has no way for it.
    fn has_no_way(&mut self, entry: u32);

    /// The packet goes round in circles; it came in at `entry` last.
    fn loops(&mut self, entry: u32);

    /// The packet should leave through `exit`, whose link is not up or not active.
    fn is_closed(&mut self, exit: u32);
}

/// A road on which nothing happens.
pub(super) struct OpenRoad;

impl Road for OpenRoad {
    fn crosses(&mut self, _exit: u32, _entry: u32) -> bool {
        true
    }
    fn has_no_way(&mut self, _entry: u32) {}
    fn loops(&mut self, _entry: u32) {}
    fn is_closed(&mut self, _exit: u32) {}
}

/// Byte of the hop pointer.
pub(super) const HOP_POINTER: usize = 6;
/// Byte of the hop count.
pub(super) const HOP_COUNT: usize = 7;
/// Bytes of DrSLID and DrDLID.
const DR_LIDS: [usize; 2] = [32, 34];

/// DrSLID and DrDLID: permissive where the route has no LID-routed part at that end.
fn outer_lids(mad: &Mad) -> [Lid; 2] {
    DR_LIDS.map(|at| Lid(u16::from_be_bytes([mad.0[at], mad.0[at + 1]])))
}

impl Devices {
    /// True if the packet never leaves the port: it goes to a LID of its own, or the directed
    /// route has no hops.
    pub(super) fn stays(&self, start: u32, to: Lid, mad: &Mad) -> bool {
        if mad.0[1] == Class::SUBN_DIRECTED {
            return mad.0[HOP_COUNT] == 0 && outer_lids(mad) == [Lid::PERMISSIVE; 2];
        }
        self.owns(self.end_port(start), to)
    }

    /// Carries the directed-route request from the port `start` to the end of its initial path,
    /// writing the return path, with what is LID routed before it (to the LID `to`) and after it
    /// (to DrDLID). Gives the slot it arrives at, and the LID that it seems to come from there;
    /// `None` if it is lost.
    pub(super) fn walk_directed(
        &self,
        start: u32,
        to: Lid,
        mad: &mut Mad,
        road: &mut impl Road,
    ) -> Option<(u32, Lid)> {
        let [before, after] = outer_lids(mad);
        let hops = usize::from(mad.0[HOP_COUNT]);
        if hops > MAX_HOPS || mad.0[HOP_POINTER] != 0 {
            return None;
        }
        let mut at = start;
        if before != Lid::PERMISSIVE {
            at = self.walk_lid(at, to, false, road)?;
        }
        for hop in 1..=hops {
            let exit = PortNum(mad.0[INITIAL_PATH + hop]);
            let passes_on =
                self.is_switch(self.port(at).node) || (hop == 1 && exit == self.port(at).num);
            if !passes_on {
                return None;
            }
            at = self.hop(at, exit, road)?;
            mad.0[RETURN_PATH + hop] = self.port(at).num.0;
        }
        mad.0[HOP_POINTER] = mad.0[HOP_COUNT];
        if after == Lid::PERMISSIVE {
            return Some((at, Lid::PERMISSIVE));
        }
        let turn = self.port(self.end_port(at)).info.lid();
        Some((self.walk_lid(at, after, false, road)?, turn))
    }

    /// Carries the directed-route response from the node of `start` back along its return path,
    /// with what is LID routed before it (to the LID `to`) and after it (to DrSLID).
    pub(super) fn walk_back(
        &self,
        start: u32,
        to: Lid,
        mad: &mut Mad,
        road: &mut impl Road,
    ) -> Option<(u32, Lid)> {
        let [after, before] = outer_lids(mad);
        let hops = usize::from(mad.0[HOP_COUNT]);
        if hops > MAX_HOPS {
            return None;
        }
        let mut at = start;
        if before != Lid::PERMISSIVE {
            at = self.walk_lid(at, to, false, road)?;
        }
        for hop in (1..=hops).rev() {
            at = self.hop(at, PortNum(mad.0[RETURN_PATH + hop]), road)?;
        }
        mad.0[HOP_POINTER] = 0;
        if after == Lid::PERMISSIVE {
            return Some((at, Lid::PERMISSIVE));
        }
        let turn = self.port(self.end_port(at)).info.lid();
        Some((self.walk_lid(at, after, false, road)?, turn))
    }

    fn hop(&self, at: u32, exit: PortNum, road: &mut impl Road) -> Option<u32> {
        let slot = self.slot(self.port(at).node, exit).filter(|_| exit != PortNum::ZERO)?;
        self.link(slot, false, road)
    }

    /// Carries a packet from the port `start` to the port that owns `lid`, by the tables of the
    /// switches. Data (all but subnet management) needs ACTIVE links. Gives the slot it arrives
    /// at: on a switch the one of the last link.
    pub(super) fn walk_lid(
        &self,
        start: u32,
        lid: Lid,
        data: bool,
        road: &mut impl Road,
    ) -> Option<u32> {
        if self.owns(self.end_port(start), lid) {
            return Some(start);
        }
        let mut at = start;
        if !self.is_switch(self.port(start).node) {
            at = self.link(start, data, road)?;
        }
        for _ in 0..HOP_LIMIT {
            let node = self.port(at).node;
            if self.owns(self.end_port(at), lid) {
                return Some(at);
            }
            let Some(exit) = self.lft_entry(node, lid).filter(|&exit| exit != PortNum::ZERO) else {
                road.has_no_way(at);
                return None;
            };
            at = self.link(self.slot(node, exit)?, data, road)?;
        }
        road.loops(at);
        None
    }

    fn link(&self, slot: u32, data: bool, road: &mut impl Road) -> Option<u32> {
        let active = |slot: u32| self.port(slot).info.port_state() == PortState::Active;
        let next = self.across(slot).filter(|&next| !data || (active(slot) && active(next)));
        let Some(next) = next else {
            road.is_closed(slot);
            return None;
        };
        road.crosses(slot, next).then_some(next)
    }
}
