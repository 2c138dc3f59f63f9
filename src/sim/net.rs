//! The fabric at work: packets under way, timers, and what reaches whom.
//!
//! Without a delay a packet travels within the call that sends it, and what it causes does so
//! too. What is for programs goes to their agents ([`super::kernel`]), all else to the devices.

use super::device::Devices;
use super::fault::{Faults, Misbehaviour};
use super::forward::{HOP_COUNT, HOP_POINTER};
use super::journey::Journey;
use super::kernel::{Kernel, RequestKey, TransferKey, is_smi, refusal};
use super::meters::{Meters, Mishap};
use super::pma;
use super::sma::Verdict;
use crate::ids::Sl;
use crate::transport::Address;
use crate::wire::attr::{AttrId, TrapNumber};
use crate::wire::mad::{Class, Mad, Method, Status};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A MAD under way.
#[derive(Clone)]
pub(super) struct Packet {
    /// The port slot that sent it.
    pub(super) from: u32,
    pub(super) to: Address,
    pub(super) mad: Mad,
}

/// Names an event that is still to come.
pub(super) type Timer = (Instant, u64);

/// What happens later.
pub(super) enum Event {
    Carry(Box<Packet>),
    /// No answer came in time.
    Request(RequestKey),
    /// No acknowledgement came in time.
    Transfer(TransferKey),
    /// A message that comes in is due, or may be forgotten.
    Receive {
        agent: u32,
        serial: u64,
    },
    TrapAgain {
        node: u32,
        tid: u64,
    },
    Flap {
        slot: u32,
        period: Duration,
        left: u32,
    },
}

/// A trap that is sent until somebody represses it.
struct Trap {
    number: u16,
    tid: u64,
    packet: Packet,
}

/// Everything that moves.
pub(super) struct Net {
    pub(super) devices: Devices,
    pub(super) faults: Faults,
    pub(super) meters: Meters,
    pub(super) kernel: Kernel,
    /// Requests seen by the devices: `[Get, Set]` by attribute.
    pub(super) requests: BTreeMap<u16, [u64; 2]>,
    pub(super) trap_interval: Duration,
    events: BTreeMap<Timer, Event>,
    next_event: u64,
    traps: BTreeMap<u32, Vec<Trap>>,
    next_trap: u64,
    /// Rung when the next event may have moved.
    pub(super) moved: Arc<Notify>,
}

impl Net {
    pub(super) fn new(devices: Devices, seed: u64) -> Self {
        Self {
            meters: Meters::new(devices.ports.len()),
            devices,
            faults: Faults::new(seed),
            kernel: Kernel::default(),
            requests: BTreeMap::new(),
            trap_interval: Duration::from_millis(500),
            events: BTreeMap::new(),
            next_event: 0,
            traps: BTreeMap::new(),
            next_trap: 1,
            moved: Arc::new(Notify::new()),
        }
    }

    pub(super) fn schedule(&mut self, after: Duration, event: Event) -> Timer {
        let key = (Instant::now() + after, self.next_event);
        self.next_event += 1;
        let is_first = self.events.first_key_value().is_none_or(|(first, _)| key < *first);
        self.events.insert(key, event);
        if is_first {
            self.moved.notify_one();
        }
        key
    }

    /// Takes back what was scheduled.
    pub(super) fn cancel(&mut self, timer: Option<Timer>) {
        if let Some(timer) = timer {
            self.events.remove(&timer);
        }
    }

    /// Events that are scheduled.
    #[cfg(test)]
    pub(super) fn events_to_come(&self) -> usize {
        self.events.len()
    }

    /// When the next event is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.events.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Lets everything happen that is due.
    pub(super) fn run_due(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > now {
                return;
            }
            match entry.remove() {
                Event::Carry(packet) => self.carry(*packet, false),
                Event::Request(key) => self.request_timed_out(key),
                Event::Transfer(key) => self.transfer_timed_out(key),
                Event::Receive { agent, serial } => self.receive_timed_out(agent, serial),
                Event::TrapAgain { node, tid } => self.send_trap(node, tid),
                Event::Flap { slot, period, left } => self.flap(slot, period, left),
            }
            self.settle();
        }
    }

    /// Puts a packet on the wire.
    pub(super) fn launch(&mut self, mut packet: Packet) {
        if self.faults.are_none() || self.devices.stays(packet.from, packet.to.lid, &packet.mad) {
            return self.carry(packet, false);
        }
        let is_answer = packet.mad.method().is_response();
        self.faults.corrupt(&mut packet.mad.0, is_answer);
        let fates = self.faults.fates();
        if fates.is_empty() {
            return self.carry(packet, true);
        }
        for delay in fates {
            if delay.is_zero() {
                self.carry(packet.clone(), false);
            } else {
                self.schedule(delay, Event::Carry(Box::new(packet.clone())));
            }
        }
    }

    /// Takes the packet to where it goes, if it gets there; one that is doomed does not.
    fn carry(&mut self, mut packet: Packet, is_doomed: bool) {
        let is_smi = is_smi(packet.mad.0[1]);
        let devices = &self.devices;
        let road = &mut Journey::new(&mut self.faults, &mut self.meters, is_smi, is_doomed);
        let (from, to, mad) = (packet.from, packet.to.lid, &mut packet.mad);
        let class = mad.0[1];
        if class == Class::SUBN_DIRECTED {
            let way = if mad.method().is_response() {
                devices.walk_back(from, to, mad, road)
            } else {
                devices.walk_directed(from, to, mad, road)
            };
            if let Some((slot, lid)) = way
                && packet.to.qpn == 0
            {
                self.smp_arrived(slot, Address::smi(lid), packet.mad);
            }
            return;
        }
        let Some(slot) = devices.walk_lid(from, to, !is_smi, road) else { return };
        let end_port = self.devices.end_port(slot);
        let Some(origin) = self.devices.origin(from, &packet.to, end_port, is_smi) else { return };
        if is_smi {
            self.smp_arrived(slot, origin, packet.mad);
        } else {
            self.gmp_arrived(slot, origin, packet.mad);
        }
    }

    /// A MAD of the general services came in through the port `slot`. As in Linux, the device
    /// looks at it first, and what it does not answer is for programs.
    fn gmp_arrived(&mut self, slot: u32, from: Address, mad: Mad) {
        let (node, end_port) = (self.devices.port(slot).node, self.devices.end_port(slot));
        let header = mad.header();
        if header.base_version() != 1 {
            return;
        }
        let mut answer = mad;
        if header.class() == Class::PERF
            && pma::answer(&self.devices, &mut self.meters, slot, &mut answer) == Verdict::Respond
        {
            self.spoil(node, &mut answer);
        } else if self.offer(end_port, from, mad) {
            return;
        } else if let Some(refused) = refusal(&mad) {
            answer = refused;
        } else {
            return;
        }
        let is_deaf = self.faults.is(node, Misbehaviour::Silent)
            || !self.faults.hears(slot, header.attr_id());
        if !is_deaf {
            self.launch(Packet { from: end_port, to: from, mad: answer });
        }
    }

    fn smp_arrived(&mut self, slot: u32, from: Address, mut mad: Mad) {
        let end_port = self.devices.end_port(slot);
        let method = mad.method();
        if method.is_response() {
            self.offer(end_port, from, mad);
            return;
        }
        let node = self.devices.port(slot).node;
        if self.faults.is(node, Misbehaviour::Silent) {
            return;
        }
        let header = mad.header();
        let is_directed = header.class() == Class::SUBN_DIRECTED;
        if method == Method::TRAP_REPRESS {
            return self.repress(node, header.tid());
        }
        if method == Method::TRAP || header.attr_id() == AttrId::SM_INFO {
            if is_directed {
                point_home(&mut mad);
            }
            if self.offer(end_port, from, mad) || method == Method::TRAP {
                return;
            }
        }
        if !self.faults.hears(slot, header.attr_id()) {
            return;
        }
        match method {
            Method::GET => self.requests.entry(header.attr_id()).or_default()[0] += 1,
            Method::SET => self.requests.entry(header.attr_id()).or_default()[1] += 1,
            _ => {}
        }
        let refuses = self.faults.is(node, Misbehaviour::RefusesSlToVl)
            && (method, header.attr_id()) == (Method::SET, AttrId::SL_TO_VL);
        if refuses {
            // It is answered as if nothing was to be set, with a status.
            let mut get = header;
            get.set_method(Method::GET.0);
            mad.set_header(&get);
        }
        match self.devices.answer(slot, &mut mad) {
            Verdict::Drop => {}
            Verdict::BadMKey => self.raise(slot, TrapNumber::BAD_M_KEY),
            Verdict::Respond => {
                if refuses {
                    let mut header = mad.header();
                    header.set_status(Status::BAD_METHOD_ATTR);
                    mad.set_header(&header);
                }
                self.spoil(node, &mut mad);
                if is_directed {
                    mad.0[4] |= 0x80;
                }
                self.launch(Packet { from: slot, to: from, mad });
            }
        }
        self.tell_changes();
    }

    fn spoil(&mut self, node: u32, mad: &mut Mad) {
        if self.faults.is(node, Misbehaviour::Garbage) {
            self.faults.random.fill(mad.smp_data_mut());
        }
        if self.faults.is(node, Misbehaviour::WrongTid) {
            let mut header = mad.header();
            header.set_tid(!header.tid());
            mad.set_header(&header);
        }
    }

    /// Counts links that went down, and sends trap 128 for every switch whose links changed by
    /// themselves.
    pub(super) fn tell_changes(&mut self) {
        for slot in std::mem::take(&mut self.devices.downed) {
            self.meters.note(slot, Mishap::LinkDowned);
        }
        for node in std::mem::take(&mut self.devices.changed) {
            let port0 = self.devices.node(node).first;
            self.raise(port0, TrapNumber::LINK_STATE);
        }
    }

    /// Sends the trap `number` from the port or switch of `slot` to its master SM, until it is
    /// repressed. While one with this number is under way, there is no second.
    pub(super) fn raise(&mut self, slot: u32, number: u16) {
        let node = self.devices.port(slot).node;
        let from = self.devices.end_port(slot);
        let waiting = self.traps.entry(node).or_default();
        if waiting.iter().any(|trap| trap.number == number) {
            return;
        }
        let info = &self.devices.port(from).info;
        if !info.master_sm_lid().is_unicast() || !info.lid().is_unicast() {
            return;
        }
        let tid = self.next_trap;
        self.next_trap += 1;
        let mut to = Address::smi(info.master_sm_lid());
        to.sl = Sl(info.master_sm_sl().0 & 0xF);
        let notice = super::trap::notice(self.devices.node(node).info.kind(), number, info.lid());
        let mad = super::trap::mad(tid, info.m_key(), &notice);
        waiting.push(Trap { number, tid, packet: Packet { from, to, mad } });
        self.send_trap(node, tid);
    }

    fn send_trap(&mut self, node: u32, tid: u64) {
        let waiting = self.traps.get(&node);
        let Some(trap) = waiting.and_then(|traps| traps.iter().find(|trap| trap.tid == tid)) else {
            return;
        };
        let packet = trap.packet.clone();
        self.schedule(self.trap_interval, Event::TrapAgain { node, tid });
        if !self.faults.is(node, Misbehaviour::Silent) {
            self.launch(packet);
        }
    }

    fn repress(&mut self, node: u32, tid: u64) {
        if let Some(traps) = self.traps.get_mut(&node) {
            traps.retain(|trap| trap.tid != tid);
        }
    }

    /// A node starts anew: its tables, settings, counters and traps are lost.
    pub(super) fn reboot(&mut self, node: u32) {
        self.traps.remove(&node);
        self.devices.reboot(node);
        self.tell_changes();
        let first = self.devices.node(node).first;
        for slot in first..=first + u32::from(self.devices.node(node).info.num_ports()) {
            self.meters.reset(slot);
            if self.has_sm(slot) {
                // Its programs are still there.
                self.show_sm(slot);
            }
        }
    }

    /// Turns the link at `slot` over, `left` times from now on.
    pub(super) fn flap(&mut self, slot: u32, period: Duration, left: u32) {
        if left == 0 {
            return;
        }
        let plugged = self.devices.port(slot).plugged;
        self.devices.set_plugged(slot, !plugged);
        self.tell_changes();
        self.schedule(period, Event::Flap { slot, period, left: left - 1 });
    }
}

/// The hop pointer of a request that arrived: the way back starts there.
fn point_home(mad: &mut Mad) {
    mad.0[HOP_POINTER] = mad.0[HOP_COUNT].saturating_add(1);
}
