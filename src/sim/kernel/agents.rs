//! The agents of all ports: who registered for what, and who gets what arrives.

use super::classes;
use super::queue::Queue;
use super::reassembly::Reassembly;
use super::registration::{Registration, RmppMode};
use crate::sim::mailbox::{Mailbox, Parcel};
use crate::sim::message::Message;
use crate::transport::umad::UserHeader;
use crate::transport::{Address, Agent, Outcome};
use crate::wire::mad::{Header, Mad};
use nix::errno::Errno;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// OUIs that agents of one port may register for in one vendor class and version.
const OUIS: usize = 8;
/// Agents' numbers, the upper halves of their transaction IDs, have 24 bits.
const NUMBERS: u32 = 1 << 24;

/// Who gets what an agent receives.
pub(in crate::sim) enum Owner {
    /// A program in this process.
    Port { mailbox: Arc<Mailbox>, agent: Agent },
    /// An open `umad`, in which the agent has the number `id`.
    File { queue: Arc<Queue>, id: u32, header_size: usize },
}

impl Owner {
    /// Hands over what arrived.
    pub(super) fn deliver(&self, from: Address, message: Message) {
        match self {
            Self::Port { mailbox, agent } => {
                let (agent, outcome) = (*agent, Outcome::Arrived);
                mailbox.put(Parcel { agent, from, outcome, message });
            }
            Self::File { queue, id, header_size } => {
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

    /// Tells that `mad`, sent with the header `sent`, was not answered.
    pub(super) fn unanswered(&self, sent: UserHeader, mad: &[u8]) {
        match self {
            Self::Port { mailbox, agent } => {
                let (agent, from, outcome) = (*agent, sent.address, Outcome::Unanswered);
                mailbox.put(Parcel { agent, from, outcome, message: Message::Mad(Mad::read(mad)) });
            }
            Self::File { queue, id, header_size } => {
                let header = UserHeader { id: *id, status: Errno::ETIMEDOUT as u32, ..sent };
                queue.push(header, *header_size, &mad[..mad.len().min(Header::SIZE)]);
            }
        }
    }
}

/// An agent.
pub(in crate::sim) struct MadAgent {
    /// The end port it sits at.
    pub(super) slot: u32,
    registration: Registration,
    pub(super) owner: Owner,
    /// RMPP messages that come in.
    pub(super) receives: Vec<Reassembly>,
}

impl MadAgent {
    /// True if RMPP is done here and not by the program.
    pub(super) fn does_rmpp(&self) -> bool {
        self.registration.rmpp_mode() == RmppMode::Kernel
    }

    pub(super) fn has_rmpp_version(&self) -> bool {
        self.registration.rmpp_version != 0
    }

    /// True if both want MADs of one kind of which there are many.
    fn shares_class(&self, other: &Registration) -> bool {
        let own = &self.registration;
        own.class == other.class && own.class_version == other.class_version
    }
}

/// All agents.
#[derive(Default)]
pub(in crate::sim) struct Agents {
    agents: BTreeMap<u32, MadAgent>,
    by_slot: HashMap<u32, Vec<u32>>,
    last: u32,
}

impl Agents {
    /// Registers an agent at the end port `slot` and gives its number.
    ///
    /// # Errors
    /// EINVAL if the request makes no sense, or another agent of the port has one of the
    /// methods; ENOMEM if there are too many OUIs in this class.
    pub(in crate::sim) fn register(
        &mut self,
        slot: u32,
        registration: &Registration,
        owner: Owner,
    ) -> Result<u32, Errno> {
        registration.check()?;
        self.check_free(slot, registration)?;
        let id = self.free_number().ok_or(Errno::ENOSPC)?;
        let receives = Vec::new();
        self.agents.insert(id, MadAgent { slot, registration: *registration, owner, receives });
        self.by_slot.entry(slot).or_default().push(id);
        Ok(id)
    }

    /// How many agents there are, by end port.
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

    fn check_free(&self, slot: u32, wanted: &Registration) -> Result<(), Errno> {
        if wanted.class == 0 {
            return Ok(());
        }
        let rivals = self.at(slot).map(|(_, agent)| agent).filter(|a| a.shares_class(wanted));
        let mut ouis = vec![];
        for agent in rivals {
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
            classes::has_oui(wanted.class) && ouis.len() >= OUIS && !ouis.contains(&wanted.oui);
        if full { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// A number that was not used for as long as possible, so that late answers meet nobody.
    fn free_number(&mut self) -> Option<u32> {
        let free = |id: &u32| *id != 0 && !self.agents.contains_key(id);
        let id = (self.last + 1..NUMBERS).chain(1..=self.last).find(free)?;
        self.last = id;
        Some(id)
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<MadAgent> {
        let agent = self.agents.remove(&id)?;
        if let Some(ids) = self.by_slot.get_mut(&agent.slot) {
            ids.retain(|&other| other != id);
        }
        Some(agent)
    }

    pub(super) fn get(&self, id: u32) -> Option<&MadAgent> {
        self.agents.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut MadAgent> {
        self.agents.get_mut(&id)
    }

    /// Messages of which something is remembered.
    #[cfg(test)]
    pub(super) fn messages_coming_in(&self) -> usize {
        self.agents.values().map(|agent| agent.receives.len()).sum()
    }

    /// Whom a MAD is for that arrived at the end port `slot`: answers for the agent whose number
    /// is the upper half of the transaction ID, all else for the one that registered for it.
    pub(super) fn recipient(&self, slot: u32, header: &Header, mad: &Mad) -> Option<u32> {
        if classes::is_response(header) {
            let id = (header.tid() >> 32) as u32;
            return self.get(id).filter(|agent| agent.slot == slot).map(|_| id);
        }
        let (class, version) = (header.class(), header.class_version());
        let oui = classes::has_oui(class).then(|| classes::oui(&mad.0));
        let method = 1_u128 << (header.method() & 0x7F);
        let wants = |own: &Registration| {
            class != 0
                && own.class == class
                && own.class_version == version
                && oui.is_none_or(|oui| own.oui == oui)
                && own.methods & method != 0
        };
        self.at(slot).find(|(_, agent)| wants(&agent.registration)).map(|(id, _)| id)
    }
}
