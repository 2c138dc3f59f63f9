//! Packets, from the port that sends them to the agent that receives them.

use super::Net;
use crate::sim::events::Event;
use crate::sim::fault_injector::FaultInjector;
use crate::sim::faults::Misbehaviour;
use crate::sim::forwarding::{HOP_COUNT, HOP_POINTER};
use crate::sim::kernel::classes::{is_smi, unsupported_response};
use crate::sim::packet::Packet;
use crate::sim::pma;
use crate::sim::sma::AgentAction;
use crate::transport::Address;
use crate::wire::attr::{AttrId, TrapNumber};
use crate::wire::mad::{Class, Mad, Method, Status};
use tokio::time::Instant;

impl Net {
    /// Handles all events that are due.
    pub(in crate::sim) fn run_due_events(&mut self) {
        let now = Instant::now();
        while let Some(event) = self.events.pop_due(now) {
            match event {
                Event::Deliver(packet) => self.deliver(*packet, false),
                Event::RequestTimeout(key) => self.request_timed_out(key),
                Event::TransferTimeout(key) => self.transfer_timed_out(key),
                Event::ReassemblyTimeout { agent, serial } => {
                    self.reassembly_timed_out(agent, serial);
                }
                Event::RepeatTrap { node, tid } => self.send_trap(node, tid),
                Event::Flap { slot, period, left } => self.flap(slot, period, left),
            }
            self.send_backlog();
        }
    }

    /// Sends a packet, subject to the faults of the whole fabric: loss, delay, duplication and
    /// corruption.
    pub(in crate::sim) fn transmit(&mut self, mut packet: Packet) {
        let skips_faults = self.faults.are_none()
            || self.devices.is_loopback(packet.from, packet.to.lid, &packet.mad);
        if skips_faults {
            return self.deliver(packet, false);
        }
        let is_response = packet.mad.method().is_response();
        self.faults.corrupt(&mut packet.mad.0, is_response);
        let delays = self.faults.draw_copies();
        if delays.is_empty() {
            return self.deliver(packet, true);
        }
        for delay in delays {
            if delay.is_zero() {
                self.deliver(packet.clone(), false);
            } else {
                self.schedule(delay, Event::Deliver(Box::new(packet.clone())));
            }
        }
    }

    /// Forwards the packet to its destination. With `is_lost` it is dropped on the first link.
    fn deliver(&mut self, mut packet: Packet, is_lost: bool) {
        let is_smi = is_smi(packet.mad.0[1]);
        let devices = &self.devices;
        let links = &mut FaultInjector::new(&mut self.faults, &mut self.counters, is_smi, is_lost);
        let (from, to, mad) = (packet.from, packet.to.lid, &mut packet.mad);
        if mad.0[1] == Class::SUBN_DIRECTED {
            let arrival = if mad.method().is_response() {
                devices.forward_response(from, to, mad, links)
            } else {
                devices.forward_request(from, to, mad, links)
            };
            if let Some((slot, lid)) = arrival
                && packet.to.qpn == 0
            {
                self.receive_smp(slot, Address::smi(lid), packet.mad);
            }
            return;
        }
        let Some(slot) = devices.forward_by_lid(from, to, !is_smi, links) else { return };
        let end_port = self.devices.end_port(slot);
        let Some(source) = self.devices.source_address(from, &packet.to, end_port, is_smi) else {
            return;
        };
        if is_smi {
            self.receive_smp(slot, source, packet.mad);
        } else {
            self.receive_gmp(slot, source, packet.mad);
        }
    }

    /// Handles a general-services MAD received through the port `slot`. As in Linux, the device's
    /// own agent gets it first; MADs that this agent does not answer go to programs.
    fn receive_gmp(&mut self, slot: u32, from: Address, mad: Mad) {
        let (node, end_port) = (self.devices.port(slot).node, self.devices.end_port(slot));
        let header = mad.header();
        if header.base_version() != 1 {
            return;
        }
        let mut response = mad;
        if header.class() == Class::PERF
            && pma::process(&self.devices, &mut self.counters, slot, &mut response)
                == AgentAction::Respond
        {
            self.apply_misbehaviour(node, &mut response);
        } else if self.dispatch(end_port, from, mad) {
            return;
        } else if let Some(unsupported) = unsupported_response(&mad) {
            response = unsupported;
        } else {
            return;
        }
        let is_ignored = self.faults.node_has(node, Misbehaviour::Silent)
            || !self.faults.accepts_request(slot, header.attr_id());
        if !is_ignored {
            self.transmit(Packet { from: end_port, to: from, mad: response });
        }
    }

    /// Handles an SMP received through the port `slot`.
    fn receive_smp(&mut self, slot: u32, from: Address, mut mad: Mad) {
        let end_port = self.devices.end_port(slot);
        let method = mad.method();
        if method.is_response() {
            self.dispatch(end_port, from, mad);
            return;
        }
        let node = self.devices.port(slot).node;
        if self.faults.node_has(node, Misbehaviour::Silent) {
            return;
        }
        let header = mad.header();
        let is_directed = header.class() == Class::SUBN_DIRECTED;
        if method == Method::TRAP_REPRESS {
            return self.repress_trap(node, header.tid());
        }
        if method == Method::TRAP || header.attr_id() == AttrId::SM_INFO {
            if is_directed {
                set_return_hop_pointer(&mut mad);
            }
            if self.dispatch(end_port, from, mad) || method == Method::TRAP {
                return;
            }
        }
        if !self.faults.accepts_request(slot, header.attr_id()) {
            return;
        }
        match method {
            Method::GET => self.requests.entry(header.attr_id()).or_default()[0] += 1,
            Method::SET => self.requests.entry(header.attr_id()).or_default()[1] += 1,
            _ => {}
        }
        self.process_smp(slot, from, mad, is_directed);
        self.report_link_changes();
    }

    /// Lets the subnet management agent of `slot` process a request, and sends its response.
    fn process_smp(&mut self, slot: u32, from: Address, mut mad: Mad, is_directed: bool) {
        let (node, header) = (self.devices.port(slot).node, mad.header());
        let is_refused = self.faults.node_has(node, Misbehaviour::RefusesSlToVl)
            && (mad.method(), header.attr_id()) == (Method::SET, AttrId::SL_TO_VL);
        if is_refused {
            // The response has the current data, as that to a Get, and an error status.
            let mut get = header;
            get.set_method(Method::GET.0);
            mad.set_header(&get);
        }
        match self.devices.process_smp(slot, &mut mad) {
            AgentAction::Drop => {}
            AgentAction::BadMKey => self.raise_trap(slot, TrapNumber::BAD_M_KEY),
            AgentAction::Respond => {
                if is_refused {
                    let mut header = mad.header();
                    header.set_status(Status::BAD_METHOD_ATTR);
                    mad.set_header(&header);
                }
                self.apply_misbehaviour(node, &mut mad);
                if is_directed {
                    mad.0[4] |= 0x80;
                }
                self.transmit(Packet { from: slot, to: from, mad });
            }
        }
    }

    /// Falsifies the response of a node with [`Misbehaviour::Garbage`] or
    /// [`Misbehaviour::WrongTid`].
    fn apply_misbehaviour(&mut self, node: u32, mad: &mut Mad) {
        if self.faults.node_has(node, Misbehaviour::Garbage) {
            self.faults.random.fill(mad.smp_data_mut());
        }
        if self.faults.node_has(node, Misbehaviour::WrongTid) {
            let mut header = mad.header();
            header.set_tid(!header.tid());
            mad.set_header(&header);
        }
    }
}

/// Sets the hop pointer of a received directed-route request to the start of its return path.
fn set_return_hop_pointer(mad: &mut Mad) {
    mad.0[HOP_POINTER] = mad.0[HOP_COUNT].saturating_add(1);
}
