//! Packets, from the port that sends them to the agent that receives them.

use super::Net;
use crate::sim::congestion::GmpAction;
use crate::sim::events::FabricEvent;
use crate::sim::fault_injector::FaultInjector;
use crate::sim::faults::Faults;
use crate::sim::forwarding::{HOP_COUNT, HOP_POINTER};
use crate::sim::kernel::classes::{is_smi, unsupported_response};
use crate::sim::node_faults::Misbehaviour;
use crate::sim::packet::{Arrival, Packet};
use crate::sim::pma;
use crate::sim::redirection::{self, GSI_QPN, PerfRedirection};
use crate::sim::sma::AgentAction;
use crate::sim::sma_load::AgentAnswer;
use crate::sim::transit_faults::{Crossing, MadKind};
use crate::transport::Address;
use crate::wire::attr::AttrId;
use crate::wire::mad::{Class, Mad, Method};
use crate::wire::perf::PerfData;
use std::time::Duration;
use tokio::time::Instant;

impl Net {
    /// Handles all events that are due.
    pub(in crate::sim) fn run_due_events(&mut self) {
        let now = Instant::now();
        while let Some(event) = self.events.pop_due(now) {
            match event {
                FabricEvent::Deliver(packet) => self.deliver(*packet, false),
                FabricEvent::Arrive(arrival) => self.receive(*arrival),
                FabricEvent::Serve(arrival) => self.process_smp(*arrival),
                FabricEvent::Respond(packet) => self.transmit(*packet),
                FabricEvent::RequestTimeout(key) => self.request_timed_out(key),
                FabricEvent::TransferTimeout(key) => self.transfer_timed_out(key),
                FabricEvent::ReassemblyTimeout { agent, serial } => {
                    self.reassembly_timed_out(agent, serial);
                }
                FabricEvent::RepeatTrap { node, tid } => self.send_trap(node, tid),
                FabricEvent::Flap { slot, period, left } => self.flap(slot, period, left),
                FabricEvent::Trained { slot } => self.trained(slot),
                FabricEvent::Storm(storm) => self.storm(storm),
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
        let method = packet.mad.method();
        self.faults.corrupt(&mut packet.mad.0, method.is_response());
        let Faults { transit, random, .. } = &mut self.faults;
        let delays = transit.draw_copies(MadKind::of(method), random);
        if delays.is_empty() {
            return self.deliver(packet, true);
        }
        for delay in delays {
            if delay.is_zero() {
                self.deliver(packet.clone(), false);
            } else {
                self.schedule(delay, FabricEvent::Deliver(Box::new(packet.clone())));
            }
        }
    }

    /// Forwards the packet to its destination. With `is_lost` it is dropped on the first link.
    fn deliver(&mut self, packet: Packet, is_lost: bool) {
        let Some((arrival, crossing)) = self.forward(packet, is_lost) else { return };
        if crossing.is_duplicated {
            self.receive_after(crossing.delay, arrival.clone());
        }
        self.receive_after(crossing.delay, arrival);
    }

    /// Forwards the packet to the port that receives it; `None` if it is lost.
    fn forward(&mut self, mut packet: Packet, is_lost: bool) -> Option<(Arrival, Crossing)> {
        let is_smi = is_smi(packet.mad.0[1]);
        let devices = &self.devices;
        let kind = MadKind::of(packet.mad.method());
        let links =
            &mut FaultInjector::new(&mut self.faults, &mut self.counters, is_smi, kind, is_lost);
        let from = packet.from;
        let to = packet.to.lid;
        let mad = &mut packet.mad;
        let (slot, source) = if mad.0[1] == Class::SUBN_DIRECTED {
            let arrival = if mad.method().is_response() {
                devices.forward_response(from, to, mad, links)
            } else {
                devices.forward_request(from, to, mad, links)
            };
            let (slot, lid) = arrival.filter(|_| packet.to.qpn == 0)?;
            (slot, Address::smi(lid))
        } else {
            let slot = devices.forward_by_lid(from, to, !is_smi, links)?;
            let end_port = devices.end_port(slot);
            (slot, devices.source_address(from, &packet.to, end_port, is_smi)?)
        };
        let qpn = packet.to.qpn;
        let mad = packet.mad;
        Some((Arrival { slot, qpn, from: source, mad }, links.crossing))
    }

    fn receive_after(&mut self, delay: Duration, arrival: Arrival) {
        if delay.is_zero() {
            self.receive(arrival);
        } else {
            self.schedule(delay, FabricEvent::Arrive(Box::new(arrival)));
        }
    }

    fn receive(&mut self, Arrival { slot, qpn, from, mad }: Arrival) {
        if is_smi(mad.0[1]) {
            self.receive_smp(slot, from, mad);
        } else {
            self.receive_gmp(slot, qpn, from, mad);
        }
    }

    /// Handles a general-services MAD received through the port `slot`. As in Linux, the device's
    /// own agent gets it first; MADs that this agent does not answer go to programs.
    fn receive_gmp(&mut self, slot: u32, qpn: u32, from: Address, mad: Mad) {
        let node = self.devices.port(slot).node;
        let end_port = self.devices.end_port(slot);
        let header = mad.header();
        // Only performance management is redirected to other queue pairs.
        let has_agent = qpn == GSI_QPN || header.class() == Class::PERF;
        if header.base_version() != 1 || !has_agent {
            return;
        }
        let mut response = mad;
        let action = self.process_gmp(slot, qpn, &mut response);
        if action == GmpAction::Ignore {
            return;
        }
        if action == GmpAction::Respond {
            self.falsify(node, &mut response);
        } else if self.dispatch(end_port, from, mad) {
            return;
        } else if let Some(unsupported) = unsupported_response(&mad) {
            response = unsupported;
        } else {
            return;
        }
        let is_ignored = self.faults.nodes.has(node, Misbehaviour::Silent)
            || !self.faults.accepts_request(slot, header.attr_id());
        if !is_ignored {
            self.respond(node, Packet { from: end_port, to: from, mad: response });
        }
    }

    /// Lets the agent of the MAD's class process a request, and replaces it with the response.
    fn process_gmp(&mut self, slot: u32, qpn: u32, mad: &mut Mad) -> GmpAction {
        match mad.header().class() {
            Class::PERF => self.process_perf(slot, qpn, mad),
            Class::CONGESTION => {
                let fault = self.faults.nodes.congestion(self.devices.port(slot).node);
                self.congestion.process(&self.devices, slot, fault, mad)
            }
            _ => GmpAction::NotSupported,
        }
    }

    /// Lets the performance management agent at a port and queue pair process a request.
    fn process_perf(&mut self, slot: u32, qpn: u32, mad: &mut Mad) -> GmpAction {
        let Some(entry) = self.perf_entry(slot, qpn, mad) else { return GmpAction::Ignore };
        let node = self.devices.port(slot).node;
        let is_redirected = qpn == GSI_QPN && !mad.method().is_response();
        let redirection = self.faults.nodes.perf_redirection(node).filter(|_| is_redirected);
        if let Some(PerfRedirection { to, qpn }) = redirection {
            let lid = self.devices.port(to).info.lid();
            redirection::redirect(mad, self.devices.is_switch(node), lid, qpn);
            return GmpAction::Respond;
        }
        match pma::process(&self.devices, &mut self.counters, entry, mad) {
            AgentAction::Respond => GmpAction::Respond,
            _ => GmpAction::NotSupported,
        }
    }

    /// The port through which the asked node would receive a request that arrives at a port and
    /// queue pair; `None` if no agent answers there.
    fn perf_entry(&self, slot: u32, qpn: u32, mad: &Mad) -> Option<u32> {
        if qpn == GSI_QPN {
            return Some(slot);
        }
        let place = PerfRedirection { to: self.devices.end_port(slot), qpn };
        let node = self.faults.nodes.redirected_to(place)?;
        let last = *self.devices.slots_of(node).end();
        let selected = self.devices.slot(node, PerfData::of(mad).port_select());
        Some(selected.unwrap_or(last))
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
        if self.faults.nodes.has(node, Misbehaviour::Silent) {
            return;
        }
        let header = mad.header();
        let is_directed = header.class() == Class::SUBN_DIRECTED;
        if method == Method::TRAP_REPRESS {
            if self.devices.admits_m_key(slot, &mad) {
                self.repress_trap(node, header.tid());
            } else {
                self.raise_bad_m_key(slot, from, &mad);
            }
            return;
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
        let arrival = Arrival { slot, qpn: 0, from, mad };
        if self.smas.round_trip.is_zero() && self.smas.loads.is_empty() {
            return self.process_smp(arrival);
        }
        // The time of the whole round trip passes on the way to the agent: one event instead of two.
        let arrives = Instant::now() + self.smas.round_trip;
        let due = match self.smas.loads.admit(node, arrives) {
            AgentAnswer::AtOnce if self.smas.round_trip.is_zero() => {
                return self.process_smp(arrival);
            }
            AgentAnswer::AtOnce => arrives,
            AgentAnswer::At(due) => due,
            AgentAnswer::Dropped => return,
        };
        self.events.schedule_at(due, FabricEvent::Serve(Box::new(arrival)));
    }

    /// Lets the subnet management agent of a port process a request, and sends its response.
    fn process_smp(&mut self, Arrival { slot, from, mut mad, .. }: Arrival) {
        let header = mad.header();
        match mad.method() {
            Method::GET => self.smas.requests.entry(header.attr_id()).or_default()[0] += 1,
            Method::SET => self.smas.requests.entry(header.attr_id()).or_default()[1] += 1,
            _ => {}
        }
        let node = self.devices.port(slot).node;
        match self.faults.nodes.process_smp(&mut self.devices, slot, &mut mad) {
            AgentAction::Drop => {}
            AgentAction::BadMKey => self.raise_bad_m_key(slot, from, &mad),
            AgentAction::Respond => {
                self.falsify(node, &mut mad);
                if header.class() == Class::SUBN_DIRECTED {
                    mad.0[4] |= 0x80;
                }
                self.respond(node, Packet { from: slot, to: from, mad });
            }
        }
        self.report_link_changes();
    }

    /// Falsifies the response of a node, as its faults want.
    fn falsify(&mut self, node: u32, mad: &mut Mad) {
        let Faults { nodes, random, .. } = &mut self.faults;
        nodes.falsify(node, mad, |data| random.fill(data));
    }

    /// Sends the response of a node's agent, after the node's response time.
    fn respond(&mut self, node: u32, packet: Packet) {
        let time = self.faults.nodes.response_time(node);
        if time.is_zero() {
            self.transmit(packet);
        } else {
            self.schedule(time, FabricEvent::Respond(Box::new(packet)));
        }
    }
}

/// Sets the hop pointer of a received directed-route request to the start of its return path.
fn set_return_hop_pointer(mad: &mut Mad) {
    mad.0[HOP_POINTER] = mad.0[HOP_COUNT].saturating_add(1);
}
