//! Link state machine (IBA vol. 1, 7.2), cables and their faults.

use super::cable_fault::CableFault;
use super::devices::{Devices, NONE, Port, factory_switch};
use super::negotiation::{negotiate, set_link_up};
use crate::fabric::link_rate::LinkRate;
use crate::fabric::synthetic::set_link;
use crate::wire::attr::{PhysState, PortState};
use std::collections::HashMap;

impl Devices {
    /// Takes the link at `slot` down, at both ends.
    pub(super) fn link_down(&mut self, slot: u32) {
        for end in self.ends(slot).into_iter().flatten() {
            let was_up = self.port(end).info.port_state() != PortState::Down;
            let disabled = self.port(end).info.phys_state() == PhysState::Disabled;
            set_link(&mut self.port_mut(end).info, false);
            self.vendor.link_down(end);
            if disabled {
                self.port_mut(end).info.set_phys_state(PhysState::Disabled);
            }
            if was_up {
                self.link_changes.downed_ports.push(end);
                self.record_state_change(end);
            }
        }
    }

    /// Trains the link at `slot` if it is down, its cable is plugged in, and both ends are in the
    /// physical state Polling. A slow link is added to the link changes.
    pub(super) fn link_train(&mut self, slot: u32) {
        let Some((a, b)) = self.trainable_ends(slot) else { return };
        let time = self.cable_fault(a, b).training_time;
        if time.is_zero() {
            self.complete_training(slot);
        } else {
            self.link_changes.training.push((slot, time));
        }
    }

    /// Both ends of the cable at `slot`, if its link is ready to be trained.
    fn trainable_ends(&self, slot: u32) -> Option<(u32, u32)> {
        let [Some(a), Some(b)] = self.ends(slot) else { return None };
        (self.is_ready(a) && self.is_ready(b)).then_some((a, b))
    }

    /// Defects of the cable between two ports.
    fn cable_fault(&self, a: u32, b: u32) -> CableFault {
        if self.cables.faults.is_empty() {
            return CableFault::NONE;
        }
        fault_at(&self.cables.faults, a).combine(fault_at(&self.cables.faults, b))
    }

    /// Changes the defects of the cable at `slot`, from the next training on.
    pub(super) fn change_cable(&mut self, slot: u32, change: impl FnOnce(&mut CableFault)) {
        change(self.cables.faults.entry(slot).or_insert(CableFault::NONE));
        self.cables.faults.retain(|_, fault| *fault != CableFault::NONE);
    }

    /// Limits the link at `slot` to these widths and speeds, and trains it again.
    pub(super) fn degrade(&mut self, slot: u32, widths: u8, speeds: u8) {
        self.change_cable(slot, |cable| (cable.widths, cable.speeds) = (widths, speeds));
        self.retrain(slot);
    }

    /// Trains the link at `slot` again if it is up.
    pub(super) fn retrain(&mut self, slot: u32) {
        if self.port(slot).info.port_state() != PortState::Down {
            self.link_down(slot);
            self.link_train(slot);
        }
    }

    /// Takes the link at `slot` from Polling to INIT, if it is still ready to be trained.
    pub(super) fn complete_training(&mut self, slot: u32) {
        let Some((a, b)) = self.trainable_ends(slot) else { return };
        let cable = self.cable_fault(a, b);
        let (width, speed) = negotiate(&self.port(a).info, &self.port(b).info, cable);
        for end in [a, b] {
            set_link_up(&mut self.port_mut(end).info, width, speed);
            self.record_state_change(end);
        }
    }

    /// Makes the ARMED peer of a port that became ACTIVE ACTIVE as well, as the first packet from
    /// the port would (IBA vol. 1, 7.2.7).
    pub(super) fn activate_peer(&mut self, slot: u32) {
        if let Some(peer) = self.linked_peer(slot)
            && self.port(peer).info.port_state() == PortState::Armed
        {
            self.activate(peer);
        }
    }

    /// Both ends of the cable at `slot`.
    fn ends(&self, slot: u32) -> [Option<u32>; 2] {
        let peer = self.port(slot).peer;
        [Some(slot), (peer != NONE).then_some(peer)]
    }

    /// Sets PortStateChange of the switch at this end (IBA vol. 1, 14.2.5.4).
    pub(super) fn record_state_change(&mut self, slot: u32) {
        let node = self.port(slot).node;
        if let Some(switch) = self.switch_mut(node) {
            switch.info.set_port_state_change(true);
            if !self.link_changes.switches.contains(&node) {
                self.link_changes.switches.push(node);
            }
        }
    }

    /// Plugs in or unplugs the cable at `slot`, if there is one.
    pub(super) fn set_plugged(&mut self, slot: u32, plugged: bool) {
        let [Some(near), Some(far)] = self.ends(slot) else { return };
        for end in [near, far] {
            self.port_mut(end).plugged = plugged;
        }
        if plugged { self.link_train(slot) } else { self.link_down(slot) }
    }

    /// Unplugs all cables between the nodes of `part` and the others, and remembers them. An
    /// adapter belongs to the part if all its plugged cables lead there.
    pub(super) fn split(&mut self, part: &[u32]) {
        let mut inside = vec![false; self.nodes.len()];
        part.iter().for_each(|&node| inside[node as usize] = true);
        for node in (0..self.nodes.len() as u32).filter(|&node| !self.is_switch(node)) {
            let peers = self.slots_of(node).filter_map(|slot| self.plugged_peer(slot));
            let mut neighbours = peers.map(|peer| self.port(peer).node).peekable();
            let all_inside =
                neighbours.peek().is_some() && neighbours.all(|node| inside[node as usize]);
            inside[node as usize] |= all_inside;
        }
        for slot in 0..self.ports.len() as u32 {
            let Some(peer) = self.plugged_peer(slot) else { continue };
            let [near, far] = [slot, peer].map(|end| inside[self.port(end).node as usize]);
            if near != far {
                self.set_plugged(slot, false);
                self.cables.cut.push(slot);
            }
        }
    }

    /// Plugs in the cables that [`Self::split`] has unplugged.
    pub(super) fn heal(&mut self) {
        for slot in std::mem::take(&mut self.cables.cut) {
            self.set_plugged(slot, true);
        }
    }

    /// Slot at the other end of the cable, if it is plugged in.
    fn plugged_peer(&self, slot: u32) -> Option<u32> {
        let port = self.port(slot);
        (port.plugged && port.peer != NONE).then_some(port.peer)
    }

    /// Connects two ports with a new cable, and removes the cables that they had.
    pub(super) fn connect_ports(&mut self, a: u32, b: u32) {
        for slot in [a, b] {
            self.set_plugged(slot, false);
            for end in self.ends(slot).into_iter().flatten() {
                self.port_mut(end).peer = NONE;
            }
        }
        for (slot, peer) in [(a, b), (b, a)] {
            let port = self.port_mut(slot);
            port.peer = peer;
            port.plugged = true;
        }
        self.link_train(a);
    }

    /// Restores the factory defaults of a port whose link is down, except its capabilities of VLs,
    /// widths and speeds.
    pub(super) fn reset_port(&mut self, slot: u32) {
        let Port { node, num, info: old, .. } = *self.port(slot);
        let kind = self.node(node).info.kind();
        let mut info = self.hardware_of(node).port_info(kind, num, false);
        info.set_vl_cap(old.vl_cap());
        LinkRate::copy_support(&old, &mut info);
        info.set_vl_arb_high_cap(old.vl_arb_high_cap());
        info.set_vl_arb_low_cap(old.vl_arb_low_cap());
        let port = self.port_mut(slot);
        port.info = info;
        port.tables = None;
    }

    /// Restores the factory defaults of a node, except the LIDs of its ports and of their SM if
    /// `keeps_lids`, and trains its links again.
    pub(super) fn reboot(&mut self, node: u32, keeps_lids: bool) {
        let slots = self.slots_of(node);
        for slot in slots.clone() {
            self.link_down(slot);
            let old = self.port(slot).info;
            self.reset_port(slot);
            self.leases.remove(&slot);
            self.vendor.reset(slot);
            if keeps_lids {
                let info = &mut self.port_mut(slot).info;
                info.set_lid(old.lid());
                info.set_lmc(old.lmc());
                info.set_master_sm_lid(old.master_sm_lid());
                info.set_master_sm_sl(old.master_sm_sl());
            }
        }
        let factory = factory_switch(&self.hardware_of(node));
        if let Some(switch) = self.switch_mut(node) {
            *switch = factory;
        }
        for slot in slots {
            self.link_train(slot);
        }
        self.link_changes.switches.retain(|&other| other != node);
    }

    fn is_ready(&self, end: u32) -> bool {
        let port = self.port(end);
        port.plugged
            && port.info.phys_state() == PhysState::Polling
            && port.info.port_state() == PortState::Down
    }
}

fn fault_at(cable_faults: &HashMap<u32, CableFault>, end: u32) -> CableFault {
    cable_faults.get(&end).copied().unwrap_or(CableFault::NONE)
}
