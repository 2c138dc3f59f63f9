//! A simulated port for a program in this process: [`MadPort`] on the agents of [`super::kernel`],
//! as [`crate::transport::umad`] implements it on a device.

use super::delivery_queue::{DeliveryQueue, PortDeliveries};
use super::kernel::classes::is_smi;
use super::kernel::{AgentRegistration, Owner, RegisterCall};
use super::net::Net;
use super::packet::Packet;
use super::sim_fabric::{Shared, SimFabric};
use super::timers::TimedEvents;
use crate::ids::{Guid, PortNum};
use crate::transport::rmpp::Segmentation;
use crate::transport::umad::UserHeader;
use crate::transport::umad::rmpp;
use crate::transport::{Address, Agent, MadPort, MadSink, Outgoing, PortIdentity, SendError};
use crate::wire::congestion;
use crate::wire::mad::{Class, Header, Mad, Method};
use crate::wire::sa::CLASS_VERSION;
use crate::wire::sa::REQUESTS;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

const AGENTS: [Agent; 5] =
    [Agent::SmiDirected, Agent::SmiLid, Agent::Sa, Agent::Perf, Agent::Congestion];

/// Retries of the segments of an RMPP message if the sender gives none.
const DEFAULT_RMPP_RETRIES: u32 = 3;

/// A port that a program is attached to. Dropping it detaches the program.
pub struct SimPort {
    shared: Arc<Shared>,
    slot: u32,
    identity: PortIdentity,
    is_sm: bool,
    queue: Arc<DeliveryQueue>,
    /// Numbers of the agents, in the order of [`AGENTS`].
    agents: [u32; AGENTS.len()],
    segmentation: Segmentation,
}

/// What the program of a port is.
#[derive(Clone, Copy)]
struct PortRole {
    is_sm: bool,
    segmentation: Segmentation,
}

impl SimFabric {
    /// Attaches a program to port `num` of the node `guid` (port 0 of a switch). A separate task
    /// or thread delivers MADs to `sink`.
    ///
    /// With `is_sm` the port sets IsSM and receives SMInfo requests, traps and SA requests;
    /// without, it receives SA reports. Several programs may attach to one port; the first of them
    /// receives the requests. Requires a running tokio runtime.
    ///
    /// Returns `None` if there is no such end port.
    pub fn attach(
        &self,
        guid: Guid,
        num: PortNum,
        sink: Arc<dyn MadSink>,
        is_sm: bool,
    ) -> Option<SimPort> {
        self.attach_as(guid, num, sink, PortRole { is_sm, segmentation: Segmentation::Device })
    }

    /// Attaches a subnet manager as [`Self::attach`] does, which sends and receives the segments of
    /// messages itself.
    pub fn attach_manager(
        &self,
        guid: Guid,
        num: PortNum,
        sink: Arc<dyn MadSink>,
    ) -> Option<SimPort> {
        self.attach_as(
            guid,
            num,
            sink,
            PortRole { is_sm: true, segmentation: Segmentation::Caller },
        )
    }

    fn attach_as(
        &self,
        guid: Guid,
        num: PortNum,
        sink: Arc<dyn MadSink>,
        role: PortRole,
    ) -> Option<SimPort> {
        let PortRole { is_sm, segmentation } = role;
        let queue = Arc::new(DeliveryQueue::new(self.shared.wakeups.clone()));
        let mut net = self.shared.lock();
        let slot = net.end_port_at(guid, num)?;
        let mut agents = [0; AGENTS.len()];
        for (id, agent) in agents.iter_mut().zip(AGENTS) {
            *id = register(&mut net, slot, &queue, agent, role)?;
        }
        if is_sm {
            net.hold_issm(slot);
        }
        let identity = PortIdentity {
            device: "sim0".to_owned(),
            port: num,
            guid: net.devices.port(slot).guid,
        };
        drop(net);
        self.deliver(PortDeliveries { queue: queue.clone(), sink });
        let shared = self.shared.clone();
        Some(SimPort { shared, slot, identity, is_sm, queue, agents, segmentation })
    }

    /// Delivers MADs until the port is detached: in real time on a thread, as the reader of a device does,
    /// so that those who wait for responses do not share it.
    fn deliver(&self, port: PortDeliveries) {
        if self.start_with_port(&port) {
            return;
        }
        self.start();
        if self.timed_events() == TimedEvents::Task {
            tokio::spawn(port.drain());
            return;
        }
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name("sim-port".to_owned());
        let task = port.clone().drain();
        if thread.spawn(move || runtime.block_on(task)).is_err() {
            tokio::spawn(port.drain());
        }
    }
}

impl SimFabric {
    /// Sends a GMP or SMP from an end port as it is, without the kernel model: neither its
    /// transaction ID nor its RMPP header changes. False if there is no such end port.
    pub fn send_raw(&self, guid: Guid, num: PortNum, to: Address, mad: Mad) -> bool {
        self.start();
        let mut net = self.shared.lock();
        let Some(from) = net.end_port_at(guid, num) else { return false };
        net.transmit(Packet { from, to, mad });
        net.send_backlog();
        true
    }
}

/// Registers an agent for requests and responses or, if another agent has the methods, for
/// responses only.
fn register(
    net: &mut Net,
    slot: u32,
    queue: &Arc<DeliveryQueue>,
    agent: Agent,
    role: PortRole,
) -> Option<u32> {
    let requests = registration(agent, role);
    let registered = net.register(slot, &requests, owner_of(queue, agent));
    let responses = AgentRegistration { methods: 0, ..requests };
    registered.or_else(|_| net.register(slot, &responses, owner_of(queue, agent))).ok()
}

fn owner_of(queue: &Arc<DeliveryQueue>, agent: Agent) -> Owner {
    Owner::SimPort { queue: queue.clone(), agent }
}

fn registration(agent: Agent, PortRole { is_sm, segmentation }: PortRole) -> AgentRegistration {
    let smi = [Method::GET, Method::SET, Method::TRAP, Method::TRAP_REPRESS];
    let (class, methods): (u8, &[Method]) = match (agent, is_sm) {
        (Agent::SmiDirected, true) => (Class::SUBN_DIRECTED, &smi),
        (Agent::SmiDirected, false) => (Class::SUBN_DIRECTED, &[]),
        (Agent::SmiLid, true) => (Class::SUBN_LID, &smi),
        (Agent::SmiLid, false) => (Class::SUBN_LID, &[]),
        (Agent::Sa, true) => (Class::SUBN_ADM, &REQUESTS),
        (Agent::Sa, false) => (Class::SUBN_ADM, &[Method::REPORT]),
        (Agent::Perf, _) => (Class::PERF, &[]),
        (Agent::Congestion, _) => (Class::CONGESTION, &[]),
    };
    let is_sa = agent == Agent::Sa;
    AgentRegistration {
        call: RegisterCall::Agent2,
        qpn: (!is_smi(class)).into(),
        class,
        class_version: match agent {
            Agent::Sa => CLASS_VERSION,
            Agent::Congestion => congestion::CLASS_VERSION,
            _ => 1,
        },
        oui: 0,
        rmpp_version: is_sa.into(),
        flags: match segmentation {
            Segmentation::Caller if is_sa => AgentRegistration::USER_RMPP,
            _ => 0,
        },
        methods: methods.iter().fold(0, |mask, method| mask | 1_u128 << method.0),
    }
}

/// The agent for MADs of a management class.
fn agent_of(class: u8) -> Option<Agent> {
    match class {
        Class::SUBN_DIRECTED => Some(Agent::SmiDirected),
        Class::SUBN_LID => Some(Agent::SmiLid),
        Class::SUBN_ADM => Some(Agent::Sa),
        Class::PERF => Some(Agent::Perf),
        Class::CONGESTION => Some(Agent::Congestion),
        _ => None,
    }
}

/// The timeout in milliseconds, at least 1: 0 means that no response is expected.
fn milliseconds(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1)
}

impl SimPort {
    fn io_error(&self, source: std::io::Error) -> SendError {
        SendError::Io { device: self.identity.device.clone(), port: self.identity.port, source }
    }
}

impl MadPort for SimPort {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn segmentation(&self) -> Segmentation {
        self.segmentation
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let class = Header::read(out.mad).class();
        if out.mad.len() < Header::SIZE || agent_of(class) != Some(out.agent) {
            return Err(self.io_error(std::io::ErrorKind::InvalidInput.into()));
        }
        let id = self.agents[out.agent as usize];
        let is_divided = self.segmentation != Segmentation::Caller;
        let is_rmpp = is_divided && out.agent == Agent::Sa && rmpp::is_needed(out.mad);
        let sent = UserHeader {
            id,
            status: 0,
            timeout_ms: out.timeout.map_or(0, milliseconds),
            retries: if is_rmpp && out.retries == 0 { DEFAULT_RMPP_RETRIES } else { out.retries },
            length: 0,
            address: out.to,
        };
        let posted = if is_rmpp {
            let mut message = out.mad.to_vec();
            rmpp::prepare(&mut message);
            self.shared.lock_to_send().post(id, &sent, &message)
        } else {
            self.shared.lock_to_send().post(id, &sent, out.mad)
        };
        posted.map_err(|errno| self.io_error(errno.into()))
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        let mut net = self.shared.lock();
        self.agents.into_iter().for_each(|agent| net.unregister(agent));
        if self.is_sm {
            net.release_issm(self.slot);
        }
        self.queue.close();
    }
}
