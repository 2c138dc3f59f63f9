//! Registered agents of all ports.

use super::classes;
use super::reassembly::Reassemblies;
use super::receive_queue::ReceiveQueue;
use super::registration::{AgentRegistration, RmppMode};
use crate::sim::delivery_queue::{DeliveryQueue, QueuedDelivery};
use crate::sim::packet::Message;
use crate::transport::umad::UserHeader;
use crate::transport::{Address, Agent, Outcome};
use crate::wire::mad::{Header, Mad};
use nix::errno::Errno;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// OUIs that agents of one port may register for in one vendor class and version (`MAX_MGMT_OUI`
/// in Linux).
const MAX_OUIS: usize = 8;
/// Agent numbers, the upper halves of transaction IDs, have 24 bits.
const AGENT_NUMBERS: u32 = 1 << 24;

/// The program that an agent belongs to.
pub(in crate::sim) enum Owner {
    /// A program in this process.
    SimPort { queue: Arc<DeliveryQueue>, agent: Agent },
    /// A program with an open umad device, in which the agent has the number `id`.
    Umad { queue: Arc<ReceiveQueue>, id: u32, header_size: usize },
}

impl Owner {
    /// Delivers a received message.
    pub(in crate::sim) fn deliver(&self, from: Address, message: Message) {
        match self {
            Self::SimPort { queue, agent } => {
                let agent = *agent;
                let outcome = Outcome::Arrived;
                queue.push(QueuedDelivery { agent, from, outcome, message });
            }
            Self::Umad { queue, id, header_size } => {
                let mad = message.bytes();
                let header = UserHeader {
                    id: *id,
                    status: 0,
                    timeout_ms: 0,
                    retries: 0,
                    length: u32::try_from(header_size + mad.len()).unwrap_or(u32::MAX),
                    address: Address { qkey: 0, ..from },
                };
                queue.push(header, *header_size, mad);
            }
        }
    }

    /// Delivers the timeout of the request `mad`, which was sent with the header `sent`.
    pub(in crate::sim) fn deliver_timeout(&self, sent: UserHeader, mad: &[u8]) {
        match self {
            Self::SimPort { queue, agent } => {
                let agent = *agent;
                let from = sent.address;
                let outcome = Outcome::Unanswered;
                queue.push(QueuedDelivery {
                    agent,
                    from,
                    outcome,
                    message: Message::Mad(Mad::read(mad)),
                });
            }
            Self::Umad { queue, id, header_size } => {
                let header = UserHeader { id: *id, status: Errno::ETIMEDOUT as u32, ..sent };
                queue.push(header, *header_size, &mad[..mad.len().min(Header::SIZE)]);
            }
        }
    }
}

pub(in crate::sim) struct MadAgent {
    /// Slot of the agent's end port.
    pub(in crate::sim) slot: u32,
    registration: AgentRegistration,
    pub(in crate::sim) owner: Owner,
    /// RMPP messages being received, and recently completed ones.
    pub(in crate::sim) reassemblies: Reassemblies,
}

impl MadAgent {
    /// True if the kernel implements RMPP for the agent.
    pub(in crate::sim) fn has_kernel_rmpp(&self) -> bool {
        self.registration.rmpp_mode() == RmppMode::Kernel
    }

    pub(in crate::sim) fn has_rmpp_version(&self) -> bool {
        self.registration.rmpp_version != 0
    }

    fn shares_class(&self, other: &AgentRegistration) -> bool {
        let own = &self.registration;
        own.class == other.class && own.class_version == other.class_version
    }
}

/// Registered agents of all ports.
#[derive(Default)]
pub(in crate::sim) struct Agents {
    agents: BTreeMap<u32, MadAgent>,
    by_slot: HashMap<u32, Vec<u32>>,
    last: u32,
}

impl Agents {
    /// Registers an agent at the end port `slot`; returns its number.
    ///
    /// # Errors
    /// EINVAL if the request is invalid, or another agent of the port has one of the methods;
    /// ENOMEM if the vendor class has too many OUIs; ENOSPC if all numbers are in use.
    pub(in crate::sim) fn register(
        &mut self,
        slot: u32,
        registration: &AgentRegistration,
        owner: Owner,
    ) -> Result<u32, Errno> {
        registration.validate()?;
        self.check_conflicts(slot, registration)?;
        let id = self.free_number().ok_or(Errno::ENOSPC)?;
        let reassemblies = Reassemblies::default();
        self.agents.insert(id, MadAgent { slot, registration: *registration, owner, reassemblies });
        self.by_slot.entry(slot).or_default().push(id);
        Ok(id)
    }

    /// Number of agents by end port.
    pub(in crate::sim) fn count(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for agent in self.agents.values() {
            *counts.entry(agent.slot).or_default() += 1;
        }
        counts
    }

    fn at(&self, slot: u32) -> impl Iterator<Item = (u32, &MadAgent)> {
        let ids = self.by_slot.get(&slot).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.agents.get(id)?)))
    }

    fn check_conflicts(&self, slot: u32, wanted: &AgentRegistration) -> Result<(), Errno> {
        if wanted.class == 0 {
            return Ok(());
        }
        let others = self.at(slot).map(|(_, agent)| agent).filter(|a| a.shares_class(wanted));
        let mut ouis = vec![];
        for agent in others {
            let own = &agent.registration;
            let same = !classes::has_oui(wanted.class) || own.oui == wanted.oui;
            if same && own.methods & wanted.methods != 0 {
                return Err(Errno::EINVAL);
            }
            if !ouis.contains(&own.oui) {
                ouis.push(own.oui);
            }
        }
        let full =
            classes::has_oui(wanted.class) && ouis.len() >= MAX_OUIS && !ouis.contains(&wanted.oui);
        if full { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// The next unused number. Numbers are reused as late as possible, so that late responses to
    /// an unregistered agent do not reach a new one.
    fn free_number(&mut self) -> Option<u32> {
        let id = (self.last + 1..AGENT_NUMBERS)
            .chain(1..=self.last)
            .find(|id| *id != 0 && !self.agents.contains_key(id))?;
        self.last = id;
        Some(id)
    }

    pub(in crate::sim) fn remove(&mut self, id: u32) -> Option<MadAgent> {
        let agent = self.agents.remove(&id)?;
        if let Some(ids) = self.by_slot.get_mut(&agent.slot) {
            ids.retain(|&other| other != id);
        }
        Some(agent)
    }

    pub(in crate::sim) fn get(&self, id: u32) -> Option<&MadAgent> {
        self.agents.get(&id)
    }

    pub(in crate::sim) fn get_mut(&mut self, id: u32) -> Option<&mut MadAgent> {
        self.agents.get_mut(&id)
    }

    /// Number of RMPP messages being received or remembered.
    #[cfg(test)]
    pub(in crate::sim) fn reassembly_count(&self) -> usize {
        self.agents.values().map(|agent| agent.reassemblies.len()).sum()
    }

    /// The agent that receives a MAD which arrived at the end port `slot`: for a response, the one
    /// whose number is the upper half of the transaction ID; else the one that registered for it.
    pub(in crate::sim) fn recipient(&self, slot: u32, header: &Header, mad: &Mad) -> Option<u32> {
        if classes::is_response(header) {
            let id = (header.tid() >> 32) as u32;
            return self.get(id).filter(|agent| agent.slot == slot).map(|_| id);
        }
        let class = header.class();
        let version = header.class_version();
        let oui = classes::has_oui(class).then(|| classes::oui(&mad.0));
        let method = 1_u128 << (header.method() & 0x7F);
        self.at(slot)
            .find(|(_, agent)| accepts(&oui, &agent.registration, class, version, method))
            .map(|(id, _)| id)
    }
}

fn accepts(
    oui: &Option<u32>,
    own: &AgentRegistration,
    class: u8,
    version: u8,
    method: u128,
) -> bool {
    class != 0
        && own.class == class
        && own.class_version == version
        && oui.is_none_or(|oui| own.oui == oui)
        && own.methods & method != 0
}
