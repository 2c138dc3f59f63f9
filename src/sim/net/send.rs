//! MADs that agents send, and requests among them that wait for a response.
//!
//! A request completes exactly once, with its response or a timeout, unless its agent is
//! unregistered before.

use super::Net;
use crate::sim::event_queue::Timer;
use crate::sim::events::FabricEvent;
use crate::sim::kernel::{
    AgentRegistration, Owner, PendingKey, PendingRequest, TransferKey, agent_tid, classes, rmpp,
};
use crate::sim::packet::Packet;
use crate::transport::Address;
use crate::transport::umad::UserHeader;
use crate::wire::mad::{Class, Header, MAD_SIZE, Mad};
use crate::wire::sa::{RMPP_OFFSET, SA_OFFSET};
use nix::errno::Errno;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// Requests with the same transaction ID and class that an agent may have outstanding if it
/// implements RMPP itself.
const MAX_SAME_TID: u8 = 16;

/// A send request of an agent.
pub(super) struct SendRequest<'a> {
    pub(super) agent: u32,
    pub(super) slot: u32,
    /// Header in front of the MAD: address, timeout and retries.
    pub(super) sent: &'a UserHeader,
}

impl Net {
    /// Registers an agent at the end port `slot`; returns its number.
    pub(in crate::sim) fn register(
        &mut self,
        slot: u32,
        registration: &AgentRegistration,
        owner: Owner,
    ) -> Result<u32, Errno> {
        self.kernel.agents.register(slot, registration, owner)
    }

    /// Sends `bytes`, a MAD or a whole RMPP message, for `agent`.
    ///
    /// # Errors
    /// EINVAL for an invalid length or class, and for a request with the transaction ID of an
    /// outstanding one.
    pub(in crate::sim) fn post(
        &mut self,
        agent: u32,
        sent: &UserHeader,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let sender = self.kernel.agents.get(agent).ok_or(Errno::EINVAL)?;
        let header = Header::read(bytes);
        let has_rmpp = classes::has_rmpp(header.class());
        let kernel_rmpp = has_rmpp && sender.has_kernel_rmpp();
        let is_rmpp_message = kernel_rmpp && rmpp::is_active(bytes);
        let wrong_class = sender.has_rmpp_version() && !has_rmpp;
        let too_long = bytes.len() > MAD_SIZE && !is_rmpp_message;
        if wrong_class || bytes.len() < Header::SIZE || too_long {
            return Err(Errno::EINVAL);
        }
        let request = SendRequest { agent, slot: sender.slot, sent };
        if is_rmpp_message {
            self.post_rmpp_message(&request, bytes)?;
        } else {
            let mut mad = Mad::read(bytes);
            if kernel_rmpp {
                mad.0[RMPP_OFFSET..SA_OFFSET].fill(0);
            }
            let max_same_tid = if has_rmpp && rmpp::is_active(bytes) { MAX_SAME_TID } else { 1 };
            self.post_mad(&request, mad, max_same_tid)?;
        }
        self.send_backlog();
        Ok(())
    }

    fn post_mad(
        &mut self,
        request: &SendRequest<'_>,
        mut mad: Mad,
        max_same_tid: u8,
    ) -> Result<(), Errno> {
        let mut header = mad.header();
        if !classes::is_response(&header) {
            header.set_tid(agent_tid(request.agent, &header));
            mad.set_header(&header);
        }
        let packet = Packet { from: request.slot, to: request.sent.address, mad };
        if request.sent.timeout_ms == 0 {
            self.transmit(packet);
            return Ok(());
        }
        let transfer = TransferKey::request(request.agent, &header);
        if !self.kernel.transfers.is_empty() && self.kernel.transfers.contains_key(&transfer) {
            return Err(Errno::EINVAL);
        }
        let mut key = PendingKey::first(request.agent, &header);
        while key.nth + 1 < max_same_tid && self.kernel.requests.contains_key(&key) {
            key.nth += 1;
        }
        let Entry::Vacant(entry) = self.kernel.requests.entry(key) else {
            return Err(Errno::EINVAL);
        };
        entry.insert(PendingRequest {
            sent: *request.sent,
            packet: packet.clone(),
            retries: request.sent.retries,
            timer: None,
        });
        self.transmit(packet);
        self.start_request_timer(key);
        Ok(())
    }

    /// Starts the timer of a request, unless its response has arrived already.
    fn start_request_timer(&mut self, key: PendingKey) {
        let Some(request) = self.kernel.requests.get(&key) else { return };
        let timeout = Duration::from_millis(request.sent.timeout_ms.into());
        let timer = self.schedule(timeout, FabricEvent::RequestTimeout(key));
        if let Some(request) = self.kernel.requests.get_mut(&key) {
            request.timer = Some(timer);
        }
    }

    /// Retries the request, or completes it with a timeout.
    pub(super) fn request_timed_out(&mut self, key: PendingKey) {
        let Some(request) = self.kernel.requests.get_mut(&key) else { return };
        if request.retries > 0 {
            request.retries -= 1;
            request.timer = None;
            let retry = request.packet.clone();
            self.transmit(retry);
            return self.start_request_timer(key);
        }
        let Some(request) = self.kernel.requests.remove(&key) else { return };
        if let Some(agent) = self.kernel.agents.get(key.agent) {
            agent.owner.deliver_timeout(request.sent, &request.packet.mad.0);
        }
    }

    /// Removes the request of `agent` that the response with this header answers; false if there
    /// is none.
    pub(super) fn complete_request(&mut self, agent: u32, header: &Header, from: &Address) -> bool {
        let first = PendingKey::first(agent, header);
        for key in (0..MAX_SAME_TID).map(|nth| PendingKey { nth, ..first }) {
            let Entry::Occupied(entry) = self.kernel.requests.entry(key) else { continue };
            let Packet { from: slot, to, .. } = &entry.get().packet;
            let is_directed = header.class() == Class::SUBN_DIRECTED;
            if is_directed || self.devices.is_return_path(*slot, to, from) {
                let timer = entry.remove().timer;
                self.cancel(timer);
                return true;
            }
        }
        false
    }

    /// Unregisters an agent and cancels its requests and transfers, without completions.
    pub(in crate::sim) fn unregister(&mut self, id: u32) {
        let Some(agent) = self.kernel.agents.remove(id) else { return };
        let mut timers: Vec<Timer> = agent.reassemblies.timers().collect();
        self.kernel.requests.retain(|key, request| {
            let stays = key.agent != id;
            timers.extend(request.timer.filter(|_| !stays));
            stays
        });
        self.kernel.transfers.retain(|key, transfer| {
            let stays = key.agent != id;
            timers.extend(transfer.timer.filter(|_| !stays));
            stays
        });
        timers.into_iter().for_each(|timer| self.cancel(Some(timer)));
    }
}
