//! Traps, and the link changes and reboots that cause them.

use super::Net;
use crate::ids::Sl;
use crate::sim::counters::PacketFault;
use crate::sim::events::FabricEvent;
use crate::sim::node_faults::Misbehaviour;
use crate::sim::packet::Packet;
use crate::sim::trap::{self, PendingTrap, TrapStorm};
use crate::transport::Address;
use crate::wire::attr::{NodeDescription, Notice, TrapNumber};
use crate::wire::mad::Mad;
use crate::wire::vendor::MELLANOX;
use std::time::Duration;

impl Net {
    /// Counts links that went down, and sends trap 128 for every switch with a changed port state.
    pub(in crate::sim) fn report_link_changes(&mut self) {
        let changes = std::mem::take(&mut self.devices.link_changes);
        for slot in changes.downed_ports {
            self.counters.count_fault(slot, PacketFault::LinkDowned);
        }
        for (slot, time) in changes.training {
            self.schedule(time, FabricEvent::Trained { slot });
        }
        for node in changes.switches {
            let port0 = self.devices.node(node).first;
            self.raise_trap(port0, TrapNumber::LINK_STATE);
        }
    }

    /// Sends trap `number` from the port (port 0 of a switch) of `slot` to its master SM, and
    /// repeats it until it is repressed. Does nothing while such a trap is pending, or without an
    /// SM.
    pub(in crate::sim) fn raise_trap(&mut self, slot: u32, number: u16) {
        self.raise_trap_with(slot, number, |_| {});
    }

    /// As [`Self::raise_trap`]; `complete` fills in the details of the notice.
    fn raise_trap_with(&mut self, slot: u32, number: u16, complete: impl FnOnce(&mut Notice)) {
        let node = self.devices.port(slot).node;
        let pending = self.traps.pending.entry(node).or_default();
        if pending.iter().any(|trap| trap.number == number) {
            return;
        }
        let Some((tid, packet)) = self.trap_packet(slot, number, complete) else { return };
        self.traps.pending.entry(node).or_default().push(PendingTrap { number, tid, packet });
        self.send_trap(node, tid);
    }

    /// Sends a vendor-specific trap from the adapter port `slot`, and repeats it until it is
    /// repressed.
    pub(in crate::sim) fn raise_vendor_trap(
        &mut self,
        slot: u32,
        number: u16,
        complete: impl FnOnce(&mut Notice),
    ) {
        let lid = self.devices.port(slot).info.lid();
        self.raise_trap_with(slot, number, |notice| {
            notice.set_is_generic(false);
            notice.set_producer_type(MELLANOX);
            notice.set_trap_number(0);
            notice.set_vendor_trap_number(number);
            notice.set_subject_lid(lid);
            complete(notice);
        });
    }

    /// Sends trap 256 about `request`, which the port of `slot` received from `from`.
    pub(super) fn raise_bad_m_key(&mut self, slot: u32, from: Address, request: &Mad) {
        self.raise_trap_with(slot, TrapNumber::BAD_M_KEY, |notice| {
            trap::fill_bad_m_key(notice, from.lid, request)
        });
    }

    /// Trap `number` from the port (port 0 of a switch) of `slot` to its master SM, with its
    /// transaction ID; `None` without an SM.
    fn trap_packet(
        &mut self,
        slot: u32,
        number: u16,
        complete: impl FnOnce(&mut Notice),
    ) -> Option<(u64, Packet)> {
        let from = self.devices.end_port(slot);
        let port = self.devices.port(from);
        let num = self.devices.port(slot).num;
        let info = &port.info;
        if !info.master_sm_lid().is_unicast() || !info.lid().is_unicast() {
            return None;
        }
        let tid = self.traps.next_tid;
        self.traps.next_tid += 1;
        let mut to = Address::smi(info.master_sm_lid());
        to.sl = Sl(info.master_sm_sl().0 & 0xF);
        let kind = self.devices.node(port.node).info.kind();
        let mut notice = trap::notice(kind, number, info.lid(), num);
        if number == TrapNumber::LOCAL_CHANGES {
            notice.set_capability_mask(info.capability_mask());
        }
        complete(&mut notice);
        let mad = trap::mad(tid, &notice);
        Some((tid, Packet { from, to, mad }))
    }

    /// Sends the traps of a storm: one now, the others at their times. Each has a transaction ID of
    /// its own.
    pub(in crate::sim) fn storm(&mut self, storm: TrapStorm) {
        let Some(left) = storm.left.checked_sub(1) else { return };
        let node = self.devices.port(storm.slot).node;
        if !self.faults.nodes.has(node, Misbehaviour::Silent)
            && let Some((_, packet)) = self.trap_packet(storm.slot, storm.number, |_| {})
        {
            self.transmit(packet);
        }
        self.schedule(storm.period, FabricEvent::Storm(TrapStorm { left, ..storm }));
    }

    /// Changes the node description, and sends trap 144 from the first port that has a LID.
    pub(in crate::sim) fn set_description(&mut self, node: u32, description: &str) {
        self.devices.nodes[node as usize].description = NodeDescription::new(description);
        let slots = self.devices.slots_of(node);
        let mut end_ports = slots.filter(|&slot| self.devices.is_end_port(slot));
        let with_lid = end_ports.find(|&slot| self.devices.port(slot).info.lid().is_unicast());
        if let Some(slot) = with_lid {
            self.raise_trap(slot, TrapNumber::LOCAL_CHANGES);
        }
    }

    /// Sends a pending trap and schedules its repetition.
    pub(super) fn send_trap(&mut self, node: u32, tid: u64) {
        let pending = self.traps.pending.get(&node);
        let Some(trap) = pending.and_then(|traps| traps.iter().find(|trap| trap.tid == tid)) else {
            return;
        };
        let packet = trap.packet.clone();
        self.schedule(self.traps.interval, FabricEvent::RepeatTrap { node, tid });
        if !self.faults.nodes.has(node, Misbehaviour::Silent) {
            self.transmit(packet);
        }
    }

    pub(super) fn repress_trap(&mut self, node: u32, tid: u64) {
        if let Some(traps) = self.traps.pending.get_mut(&node) {
            traps.retain(|trap| trap.tid != tid);
        }
    }

    /// Restarts a node: its tables, settings, counters and pending traps are lost, and its LIDs
    /// unless `keeps_lids`. Programs on it keep running, so its ports still show IsSM.
    pub(in crate::sim) fn reboot(&mut self, node: u32, keeps_lids: bool) {
        self.traps.pending.remove(&node);
        self.devices.reboot(node, keeps_lids);
        self.report_link_changes();
        for slot in self.devices.slots_of(node) {
            self.counters.reset(slot);
            self.congestion.reset(slot);
            if self.has_sm(slot) {
                self.update_is_sm(slot);
            }
        }
    }

    /// Unplugs or plugs in the cable at `slot`, now and `left` - 1 times more, every `period`.
    pub(in crate::sim) fn flap(&mut self, slot: u32, period: Duration, left: u32) {
        if left == 0 {
            return;
        }
        let plugged = self.devices.port(slot).plugged;
        self.devices.set_plugged(slot, !plugged);
        self.report_link_changes();
        self.schedule(period, FabricEvent::Flap { slot, period, left: left - 1 });
    }

    /// Completes the training of a slow link.
    pub(super) fn trained(&mut self, slot: u32) {
        self.devices.complete_training(slot);
        self.report_link_changes();
    }
}
