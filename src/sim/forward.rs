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
    /// `None` if it is lost. `crosses` is asked at the exit of every link whether the packet
    /// survives.
    pub(super) fn walk_directed(
        &self,
        start: u32,
        to: Lid,
        mad: &mut Mad,
        crosses: &mut dyn FnMut(u32) -> bool,
    ) -> Option<(u32, Lid)> {
        let [before, after] = outer_lids(mad);
        let hops = usize::from(mad.0[HOP_COUNT]);
        if hops > MAX_HOPS || mad.0[HOP_POINTER] != 0 {
            return None;
        }
        let mut at = start;
        if before != Lid::PERMISSIVE {
            at = self.walk_lid(at, to, false, crosses)?;
        }
        for hop in 1..=hops {
            let exit = PortNum(mad.0[INITIAL_PATH + hop]);
            let passes_on =
                self.is_switch(self.port(at).node) || (hop == 1 && exit == self.port(at).num);
            if !passes_on {
                return None;
            }
            at = self.hop(at, exit, crosses)?;
            mad.0[RETURN_PATH + hop] = self.port(at).num.0;
        }
        mad.0[HOP_POINTER] = mad.0[HOP_COUNT];
        if after == Lid::PERMISSIVE {
            return Some((at, Lid::PERMISSIVE));
        }
        let turn = self.port(self.end_port(at)).info.lid();
        Some((self.walk_lid(at, after, false, crosses)?, turn))
    }

    /// Carries the directed-route response from the node of `start` back along its return path,
    /// with what is LID routed before it (to the LID `to`) and after it (to DrSLID).
    pub(super) fn walk_back(
        &self,
        start: u32,
        to: Lid,
        mad: &mut Mad,
        crosses: &mut dyn FnMut(u32) -> bool,
    ) -> Option<(u32, Lid)> {
        let [after, before] = outer_lids(mad);
        let hops = usize::from(mad.0[HOP_COUNT]);
        if hops > MAX_HOPS {
            return None;
        }
        let mut at = start;
        if before != Lid::PERMISSIVE {
            at = self.walk_lid(at, to, false, crosses)?;
        }
        for hop in (1..=hops).rev() {
            at = self.hop(at, PortNum(mad.0[RETURN_PATH + hop]), crosses)?;
        }
        mad.0[HOP_POINTER] = 0;
        if after == Lid::PERMISSIVE {
            return Some((at, Lid::PERMISSIVE));
        }
        let turn = self.port(self.end_port(at)).info.lid();
        Some((self.walk_lid(at, after, false, crosses)?, turn))
    }

    fn hop(&self, at: u32, exit: PortNum, crosses: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let slot = self.slot(self.port(at).node, exit).filter(|_| exit != PortNum::ZERO)?;
        let next = self.across(slot)?;
        crosses(slot).then_some(next)
    }

    /// Carries a packet from the port `start` to the port that owns `lid`, by the tables of the
    /// switches. Data (all but subnet management) needs ACTIVE links. Gives the slot it arrives
    /// at: on a switch the one of the last link.
    pub(super) fn walk_lid(
        &self,
        start: u32,
        lid: Lid,
        data: bool,
        crosses: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        if self.owns(self.end_port(start), lid) {
            return Some(start);
        }
        let mut at = start;
        if !self.is_switch(self.port(start).node) {
            at = self.link(start, data, crosses)?;
        }
        for _ in 0..HOP_LIMIT {
            let node = self.port(at).node;
            if self.owns(self.end_port(at), lid) {
                return Some(at);
            }
            let exit = self.lft_entry(node, lid).filter(|&exit| exit != PortNum::ZERO)?;
            at = self.link(self.slot(node, exit)?, data, crosses)?;
        }
        None
    }

    fn link(&self, slot: u32, data: bool, crosses: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let next = self.across(slot)?;
        let active = |slot: u32| self.port(slot).info.port_state() == PortState::Active;
        let open = !data || (active(slot) && active(next));
        (open && crosses(slot)).then_some(next)
    }
}
