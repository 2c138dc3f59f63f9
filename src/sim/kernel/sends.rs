//! What agents send: single MADs, and the requests among them that wait for an answer.
//!
//! A request comes back exactly once, as its answer or as news of its timeout, unless its agent
//! goes before that.

use super::agents::Owner;
use super::classes;
use super::registration::Registration;
use super::rmpp;
use super::transfers::TransferKey;
use crate::sim::net::{Event, Net, Packet, Timer};
use crate::transport::Address;
use crate::transport::umad::UserHeader;
use crate::wire::mad::{Class, Header, MAD_SIZE, Mad};
use crate::wire::sa::{RMPP_OFFSET, SA_OFFSET};
use nix::errno::Errno;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Requests of an agent that does RMPP itself may share a transaction ID and a class, up to this
/// many.
const NAMESAKES: u8 = 16;

/// Names a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) struct RequestKey {
    /// Answers that wait for an answer themselves have the transaction ID of another agent.
    agent: u32,
    tid: u64,
    class: u8,
    /// Tells requests of the same name apart.
    nth: u8,
}

/// The transaction ID tells nearly all apart.
impl Hash for RequestKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.tid);
    }
}

impl RequestKey {
    /// The first of its name.
    pub(super) fn first(agent: u32, header: &Header) -> Self {
        Self { agent, tid: header.tid(), class: header.class(), nth: 0 }
    }
}

/// A request without an answer so far.
pub(in crate::sim) struct Request {
    sent: UserHeader,
    packet: Packet,
    retries: u32,
    timer: Option<Timer>,
}

/// A send that an agent asks for.
pub(super) struct Post<'a> {
    pub(super) agent: u32,
    pub(super) slot: u32,
    /// The header in front of the MAD: address, timeout and retries.
    pub(super) sent: &'a UserHeader,
}

impl Net {
    /// Registers an agent at the end port `slot`.
    pub(in crate::sim) fn register(
        &mut self,
        slot: u32,
        registration: &Registration,
        owner: Owner,
    ) -> Result<u32, Errno> {
        self.kernel.agents.register(slot, registration, owner)
    }

    /// Sends for `agent` what write(2) takes: a MAD, or a whole RMPP message.
    ///
    /// # Errors
    /// EINVAL for what cannot be sent, among it a request that is under way already.
    pub(in crate::sim) fn post(
        &mut self,
        agent: u32,
        sent: &UserHeader,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let holder = self.kernel.agents.get(agent).ok_or(Errno::EINVAL)?;
        let header = Header::read(bytes);
        let has_rmpp = classes::has_rmpp(header.class());
        let does_rmpp = has_rmpp && holder.does_rmpp();
        let long = does_rmpp && rmpp::is_active(bytes);
        let unfit = holder.has_rmpp_version() && !has_rmpp;
        if unfit || bytes.len() < Header::SIZE || (bytes.len() > MAD_SIZE && !long) {
            return Err(Errno::EINVAL);
        }
        let post = Post { agent, slot: holder.slot, sent };
        if long {
            self.post_message(&post, bytes)?;
        } else {
            let mut mad = Mad::read(bytes);
            if does_rmpp {
                mad.0[RMPP_OFFSET..SA_OFFSET].fill(0);
            }
            let namesakes = if has_rmpp && rmpp::is_active(bytes) { NAMESAKES } else { 1 };
            self.post_mad(&post, mad, namesakes)?;
        }
        self.settle();
        Ok(())
    }

    fn post_mad(&mut self, post: &Post<'_>, mut mad: Mad, namesakes: u8) -> Result<(), Errno> {
        let mut header = mad.header();
        if !classes::is_response(&header) {
            header.set_tid(own_tid(post.agent, &header));
            mad.set_header(&header);
        }
        let packet = Packet { from: post.slot, to: post.sent.address, mad };
        if post.sent.timeout_ms == 0 {
            self.launch(packet);
            return Ok(());
        }
        let long = TransferKey::request(post.agent, &header);
        if !self.kernel.transfers.is_empty() && self.kernel.transfers.contains_key(&long) {
            return Err(Errno::EINVAL);
        }
        let mut key = RequestKey::first(post.agent, &header);
        while key.nth + 1 < namesakes && self.kernel.requests.contains_key(&key) {
            key.nth += 1;
        }
        let Entry::Vacant(place) = self.kernel.requests.entry(key) else {
            return Err(Errno::EINVAL);
        };
        place.insert(Request {
            sent: *post.sent,
            packet: packet.clone(),
            retries: post.sent.retries,
            timer: None,
        });
        self.launch(packet);
        self.arm_request(key);
        Ok(())
    }

    fn arm_request(&mut self, key: RequestKey) {
        let Some(request) = self.kernel.requests.get(&key) else { return };
        let timeout = Duration::from_millis(request.sent.timeout_ms.into());
        let timer = self.schedule(timeout, Event::Request(key));
        if let Some(request) = self.kernel.requests.get_mut(&key) {
            request.timer = Some(timer);
        }
    }

    /// Repeats the request, or gives it up.
    pub(in crate::sim) fn request_timed_out(&mut self, key: RequestKey) {
        let Some(request) = self.kernel.requests.get_mut(&key) else { return };
        if request.retries > 0 {
            request.retries -= 1;
            request.timer = None;
            let again = request.packet.clone();
            self.launch(again);
            return self.arm_request(key);
        }
        let Some(request) = self.kernel.requests.remove(&key) else { return };
        if let Some(agent) = self.kernel.agents.get(key.agent) {
            agent.owner.unanswered(request.sent, &request.packet.mad.0);
        }
    }

    /// Ends the request of `agent` that the response with this header from `from` answers; false
    /// if there is none.
    pub(super) fn end_request(&mut self, agent: u32, header: &Header, from: &Address) -> bool {
        let first = RequestKey::first(agent, header);
        for key in (0..NAMESAKES).map(|nth| RequestKey { nth, ..first }) {
            let Entry::Occupied(place) = self.kernel.requests.entry(key) else { continue };
            let Packet { from: slot, to, .. } = &place.get().packet;
            let is_directed = header.class() == Class::SUBN_DIRECTED;
            if is_directed || self.devices.is_way_back(*slot, to, from) {
                let timer = place.remove().timer;
                self.cancel(timer);
                return true;
            }
        }
        false
    }

    /// Takes the agent out: what it waits for is forgotten.
    pub(in crate::sim) fn unregister(&mut self, id: u32) {
        let Some(agent) = self.kernel.agents.remove(id) else { return };
        let mut timers: Vec<Timer> = agent.receives.iter().filter_map(|r| r.timer).collect();
        self.kernel.requests.retain(|key, request| {
            let stays = key.agent != id;
            timers.extend(request.timer.filter(|_| !stays));
            stays
        });
        self.kernel.transfers.retain(|key, transfer| {
            let stays = !key.is_of(id);
            timers.extend(transfer.timer.filter(|_| !stays));
            stays
        });
        timers.into_iter().for_each(|timer| self.cancel(Some(timer)));
    }
}

/// The transaction ID of a request: the lower half is the sender's.
pub(super) fn own_tid(agent: u32, header: &Header) -> u64 {
    u64::from(agent) << 32 | header.tid() & 0xFFFF_FFFF
}
