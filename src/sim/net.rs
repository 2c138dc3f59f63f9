//! The fabric at work: packets under way, timers, and what reaches whom.
//!
//! Without a delay a packet travels within the call that sends it. What arrives at an attached
//! port goes into that port's mailbox, from which a task of its own hands it to the sink: a sink
//! is never called from within `post`.

use super::device::Devices;
use super::fault::{Faults, Misbehaviour};
use super::mailbox::{Mailbox, Parcel};
use super::sma::Verdict;
use crate::ids::Sl;
use crate::transport::{Address, Agent, Outcome};
use crate::wire::attr::{AttrId, TrapNumber};
use crate::wire::mad::{Class, Header, MAD_SIZE, Mad, Method};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A MAD, or an RMPP message in one piece.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly all messages are MADs, kept in place")]
pub(super) enum Message {
    Mad(Mad),
    Long(Vec<u8>),
}

impl Message {
    pub(super) fn new(bytes: &[u8]) -> Self {
        if bytes.len() > MAD_SIZE {
            Self::Long(bytes.to_vec())
        } else {
            Self::Mad(Mad::read(bytes))
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mad(mad) => &mad.0,
            Self::Long(bytes) => bytes,
        }
    }

    pub(super) fn header(&self) -> Header {
        Header::read(self.bytes())
    }

    fn set_header(&mut self, header: &Header) {
        match self {
            Self::Mad(mad) => mad.set_header(header),
            Self::Long(bytes) => header.write(bytes),
        }
    }
}

/// A MAD under way.
#[derive(Clone)]
pub(super) struct Packet {
    /// The port slot that sent it.
    pub(super) from: u32,
    pub(super) agent: Agent,
    pub(super) to: Address,
    pub(super) message: Message,
}

/// Names a request: the agent's half of the transaction ID, and the sender's.
type Key = (u32, u32);

/// A request without an answer so far.
struct Pending {
    port: usize,
    packet: Packet,
    timeout: Duration,
    retries: u32,
    timer: Option<(Instant, u64)>,
}

/// What happens later.
enum Event {
    Carry(Box<Packet>),
    Timeout(Key),
    TrapAgain { node: u32, tid: u64 },
    Flap { slot: u32, period: Duration, left: u32 },
}

/// An attached port.
pub(super) struct Attached {
    pub(super) slot: u32,
    pub(super) is_sm: bool,
    pub(super) mailbox: Arc<Mailbox>,
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
    pub(super) attached: Vec<Option<Attached>>,
    /// Requests seen by the devices: `[Get, Set]` by attribute.
    pub(super) requests: BTreeMap<u16, [u64; 2]>,
    pub(super) trap_interval: Duration,
    pending: HashMap<Key, Pending>,
    events: BTreeMap<(Instant, u64), Event>,
    next_event: u64,
    traps: BTreeMap<u32, Vec<Trap>>,
    next_trap: u64,
    /// Rung when the next event may have moved.
    pub(super) moved: Arc<Notify>,
}

fn agent_code(agent: Agent) -> u32 {
    match agent {
        Agent::SmiDirected => 1,
        Agent::SmiLid => 2,
        Agent::Sa => 3,
    }
}

impl Net {
    pub(super) fn new(devices: Devices, seed: u64) -> Self {
        Self {
            devices,
            faults: Faults::new(seed),
            attached: Vec::new(),
            requests: BTreeMap::new(),
            trap_interval: Duration::from_millis(500),
            pending: HashMap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            traps: BTreeMap::new(),
            next_trap: 1,
            moved: Arc::new(Notify::new()),
        }
    }

    fn schedule(&mut self, after: Duration, event: Event) -> (Instant, u64) {
        let key = (Instant::now() + after, self.next_event);
        self.next_event += 1;
        let is_first = self.events.first_key_value().is_none_or(|(first, _)| key < *first);
        self.events.insert(key, event);
        if is_first {
            self.moved.notify_one();
        }
        key
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
                Event::Carry(packet) => self.carry(*packet),
                Event::Timeout(key) => self.timed_out(key),
                Event::TrapAgain { node, tid } => self.send_trap(node, tid),
                Event::Flap { slot, period, left } => self.flap(slot, period, left),
            }
        }
    }

    /// Sends `packet` for the attached port `port`; with a timeout it is a request.
    pub(super) fn post(
        &mut self,
        port: usize,
        mut packet: Packet,
        timeout: Option<Duration>,
        retries: u32,
    ) {
        let Some(timeout) = timeout else { return self.launch(packet) };
        let mut header = packet.message.header();
        let upper = (port as u32 + 1) << 2 | agent_code(packet.agent);
        let key = (upper, header.tid() as u32);
        header.set_tid(u64::from(key.0) << 32 | u64::from(key.1));
        packet.message.set_header(&header);
        let pending = Pending { port, packet: packet.clone(), timeout, retries, timer: None };
        if let Some(Pending { timer: Some(timer), .. }) = self.pending.insert(key, pending) {
            self.events.remove(&timer);
        }
        self.launch(packet);
        self.arm(key);
    }

    fn arm(&mut self, key: Key) {
        let Some(timeout) = self.pending.get(&key).map(|pending| pending.timeout) else { return };
        let timer = self.schedule(timeout, Event::Timeout(key));
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.timer = Some(timer);
        }
    }

    fn timed_out(&mut self, key: Key) {
        let Some(pending) = self.pending.get_mut(&key) else { return };
        if pending.retries > 0 {
            pending.retries -= 1;
            pending.timer = None;
            let again = pending.packet.clone();
            self.launch(again);
            return self.arm(key);
        }
        if let Some(Pending { port, packet, .. }) = self.pending.remove(&key) {
            let Packet { agent, to, message, .. } = packet;
            self.mail(port, Parcel { agent, from: to, outcome: Outcome::Unanswered, message });
        }
    }

    fn mail(&self, port: usize, parcel: Parcel) {
        if let Some(Some(attached)) = self.attached.get(port) {
            attached.mailbox.put(parcel);
        }
    }

    fn launch(&mut self, packet: Packet) {
        if self.faults.random.happens(self.faults.loss) {
            return;
        }
        if self.faults.delay.is_zero() {
            return self.carry(packet);
        }
        self.schedule(self.faults.delay, Event::Carry(Box::new(packet)));
    }

    /// Takes the packet to where it goes, if it gets there.
    fn carry(&mut self, mut packet: Packet) {
        let (devices, faults) = (&self.devices, &mut self.faults);
        let crosses = &mut |slot: u32| faults.crosses(slot);
        let returning = Method(packet.message.header().method()).is_response();
        let arrived = match (packet.agent, &mut packet.message) {
            (Agent::SmiDirected, Message::Mad(mad)) if returning => {
                devices.walk_back(packet.from, mad, crosses)
            }
            (Agent::SmiDirected, Message::Mad(mad)) => {
                devices.walk_directed(packet.from, mad, crosses)
            }
            (Agent::SmiDirected, Message::Long(_)) => None,
            (agent, _) => devices.walk_lid(packet.from, packet.to.lid, agent == Agent::Sa, crosses),
        };
        let Some(slot) = arrived else { return };
        if returning {
            return self.response_arrived(slot, packet);
        }
        let from = self.return_address(&packet);
        match (packet.agent, packet.message) {
            (Agent::SmiDirected | Agent::SmiLid, Message::Mad(mad)) => {
                self.smp_arrived(slot, packet.agent, from, mad);
            }
            (agent, message) => {
                self.hand_over(slot, agent, from, message);
            }
        }
    }

    /// Whom an answer to the packet goes to.
    fn return_address(&self, packet: &Packet) -> Address {
        let lid = match packet.agent {
            Agent::SmiDirected => crate::ids::Lid::PERMISSIVE,
            _ => self.devices.port(self.devices.end_port(packet.from)).info.lid(),
        };
        if packet.agent == Agent::Sa { Address::gsi(lid, packet.to.sl) } else { Address::smi(lid) }
    }

    fn response_arrived(&mut self, slot: u32, packet: Packet) {
        let tid = packet.message.header().tid();
        let key = ((tid >> 32) as u32, tid as u32);
        let Some(pending) = self.pending.get(&key) else { return };
        let owner = self.devices.end_port(slot);
        if pending.packet.agent != packet.agent
            || self.devices.end_port(pending.packet.from) != owner
        {
            return;
        }
        let (port, timer) = (pending.port, pending.timer);
        self.pending.remove(&key);
        if let Some(timer) = timer {
            self.events.remove(&timer);
        }
        let from = self.return_address(&packet);
        let Packet { agent, message, .. } = packet;
        self.mail(port, Parcel { agent, from, outcome: Outcome::Arrived, message });
    }

    /// Gives what nobody asked for to an attached program: to the SM of the port, reports to a
    /// client of it.
    fn hand_over(&mut self, slot: u32, agent: Agent, from: Address, message: Message) -> bool {
        let owner = self.devices.end_port(slot);
        let to_sm = Method(message.header().method()) != Method::REPORT;
        let at_port = || {
            let ports = self.attached.iter().enumerate();
            ports.filter_map(|(i, port)| port.as_ref().filter(|p| p.slot == owner).map(|p| (i, p)))
        };
        let wanted = at_port().find(|(_, port)| port.is_sm == to_sm);
        let chosen = wanted.or_else(|| at_port().next().filter(|_| agent == Agent::Sa));
        let Some(port) = chosen.map(|(index, _)| index) else { return false };
        self.mail(port, Parcel { agent, from, outcome: Outcome::Arrived, message });
        true
    }

    fn smp_arrived(&mut self, slot: u32, agent: Agent, from: Address, mut mad: Mad) {
        let node = self.devices.port(slot).node;
        if self.faults.is(node, Misbehaviour::Silent) {
            return;
        }
        let header = mad.header();
        let method = Method(header.method());
        if method == Method::TRAP_REPRESS {
            return self.repress(node, header.tid());
        }
        let for_sm = method == Method::TRAP || header.attr_id() == AttrId::SM_INFO;
        if for_sm
            && (self.hand_over(slot, agent, from, Message::Mad(mad)) || method == Method::TRAP)
        {
            return;
        }
        match method {
            Method::GET => self.requests.entry(header.attr_id()).or_default()[0] += 1,
            Method::SET => self.requests.entry(header.attr_id()).or_default()[1] += 1,
            _ => {}
        }
        match self.devices.answer(slot, &mut mad) {
            Verdict::Drop => {}
            Verdict::BadMKey => self.raise(slot, TrapNumber::BAD_M_KEY),
            Verdict::Respond => {
                self.spoil(node, &mut mad);
                if agent == Agent::SmiDirected {
                    mad.0[4] |= 0x80;
                }
                let message = Message::Mad(mad);
                self.launch(Packet { from: slot, agent, to: from, message });
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

    /// Trap 128 for every switch whose links changed by themselves.
    pub(super) fn tell_changes(&mut self) {
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
        let message = Message::Mad(super::trap::mad(tid, info.m_key(), &notice));
        waiting.push(Trap {
            number,
            tid,
            packet: Packet { from, agent: Agent::SmiLid, to, message },
        });
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

    /// Forgets the traps of a node that starts anew.
    pub(super) fn forget_traps(&mut self, node: u32) {
        self.traps.remove(&node);
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

    /// Takes the attached port out; its requests are forgotten.
    pub(super) fn detach(&mut self, port: usize) {
        if let Some(attached) = self.attached.get_mut(port).and_then(Option::take) {
            attached.mailbox.close();
        }
        self.pending.retain(|_, pending| pending.port != port);
    }
}

/// The agent that MADs of a management class belong to; `None` for classes nobody serves.
pub(super) fn agent_of(class: u8) -> Option<Agent> {
    match class {
        Class::SUBN_DIRECTED => Some(Agent::SmiDirected),
        Class::SUBN_LID => Some(Agent::SmiLid),
        Class::SUBN_ADM => Some(Agent::Sa),
        _ => None,
    }
}
