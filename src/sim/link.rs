//! Link state machine (IBA vol. 1, 7.2) and cables.

use super::devices::{Devices, NONE, Port};
use crate::fabric::synthetic::set_link;
use crate::wire::attr::{PhysState, PortInfo, PortState};

/// Width and speed of the link between two ports: the maximum that both have enabled.
fn negotiate(a: &PortInfo, b: &PortInfo) -> (u8, u8) {
    let best = |mask: u8| if mask == 0 { 1 } else { 1 << mask.ilog2() };
    (
        best(a.link_width_enabled() & b.link_width_enabled()),
        best(a.link_speed_enabled() & b.link_speed_enabled()),
    )
}

impl Devices {
    /// Takes the link at `slot` down, at both ends.
    pub(super) fn link_down(&mut self, slot: u32) {
        for end in self.ends(slot).into_iter().flatten() {
            let was_up = self.port(end).info.port_state() != PortState::Down;
            let disabled = self.port(end).info.phys_state() == PhysState::Disabled;
            set_link(&mut self.port_mut(end).info, false);
            if disabled {
                self.port_mut(end).info.set_phys_state(PhysState::Disabled);
            }
            if was_up {
                self.downed_ports.push(end);
                self.record_state_change(end);
            }
        }
    }

    /// Trains the link at `slot` if it is down, its cable is plugged in, and both ends are in the
    /// physical state Polling.
    pub(super) fn link_train(&mut self, slot: u32) {
        let [Some(a), Some(b)] = self.ends(slot) else { return };
        let ready = |end: u32| {
            let port = self.port(end);
            port.plugged
                && port.info.phys_state() == PhysState::Polling
                && port.info.port_state() == PortState::Down
        };
        if !ready(a) || !ready(b) {
            return;
        }
        let (width, speed) = negotiate(&self.port(a).info, &self.port(b).info);
        for end in [a, b] {
            let info = &mut self.port_mut(end).info;
            set_link(info, true);
            info.set_link_width_active(width);
            info.set_link_speed_active(speed);
            self.record_state_change(end);
        }
    }

    /// Makes the ARMED peer of a port that became ACTIVE ACTIVE as well, as the first packet from
    /// the port would (IBA vol. 1, 7.2.7).
    pub(super) fn activate_peer(&mut self, slot: u32) {
        if let Some(peer) = self.linked_peer(slot)
            && self.port(peer).info.port_state() == PortState::Armed
        {
            self.port_mut(peer).info.set_port_state(PortState::Active);
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
            if !self.changed_switches.contains(&node) {
                self.changed_switches.push(node);
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

    /// Restores the factory defaults of a port whose link is down, except its VL capabilities.
    pub(super) fn reset_port(&mut self, slot: u32) {
        let Port { node, num, info: old, .. } = *self.port(slot);
        let kind = self.node(node).info.kind();
        let mut info = self.hardware.port_info(kind, num, false);
        info.set_vl_cap(old.vl_cap());
        info.set_vl_arb_high_cap(old.vl_arb_high_cap());
        info.set_vl_arb_low_cap(old.vl_arb_low_cap());
        let port = self.port_mut(slot);
        port.info = info;
        port.tables = None;
    }

    /// Restores the factory defaults of a node and trains its links again.
    pub(super) fn reboot(&mut self, node: u32) {
        let slots = self.slots_of(node);
        for slot in slots.clone() {
            self.link_down(slot);
            self.reset_port(slot);
        }
        let factory = self.factory_switch();
        if let Some(switch) = self.switch_mut(node) {
            *switch = factory;
        }
        for slot in slots {
            self.link_train(slot);
        }
        self.changed_switches.retain(|&other| other != node);
    }
}
