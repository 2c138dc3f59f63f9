//! Long messages that leave: segments and acknowledgements through the fabric, and their timers.
//!
//! Times are those of Linux, which does not use the response times of the headers: 2 s for an
//! acknowledgement (the timeout of the request, if that is shorter), 40 s for a whole message to
//! come in, and 10 s during which late segments of it are still acknowledged.
//!
//! What the protocol sends goes into the backlog and leaves once the packet that caused it was
//! dealt with: long messages need no deep stack.

use super::agents::Owner;
use super::classes;
use super::rmpp::sender::{Ack, Sender};
use super::rmpp::{self, PacketType, Reason};
use super::sends::{Post, RequestKey, own_tid};
use crate::ids::{Gid, Lid};
use crate::sim::net::{Event, Net, Packet, Timer};
use crate::transport::Address;
use crate::transport::umad::UserHeader;
use crate::wire::mad::{Header, Mad};
use crate::wire::sa::RmppHeader;
use nix::errno::Errno;
use std::time::Duration;

/// Longest time to wait for an acknowledgement.
const ACK_TIMEOUT: Duration = Duration::from_millis(2000);

/// The other end of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Peer {
    Lid(Lid),
    Gid(Gid),
}

pub(super) fn peer(address: &Address) -> Peer {
    address.grh.map_or(Peer::Lid(address.lid), |grh| Peer::Gid(grh.gid))
}

/// Names a message that is being sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::sim) struct TransferKey {
    agent: u32,
    tid: u64,
    class: u8,
    /// Whom a response goes to; transaction IDs of requests are unique without.
    peer: Option<Peer>,
}

impl TransferKey {
    pub(super) fn is_of(&self, agent: u32) -> bool {
        self.agent == agent
    }

    /// The long request of `agent` with this header.
    pub(super) fn request(agent: u32, header: &Header) -> Self {
        Self { agent, tid: header.tid(), class: header.class(), peer: None }
    }

    /// The message that the RMPP packet with this header is about.
    fn concerned(agent: u32, header: &Header, from: &Address) -> Self {
        let peer = (!classes::is_response(header)).then(|| peer(from));
        Self { agent, tid: header.tid(), class: header.class(), peer }
    }
}

/// A message that is being sent, or a request that arrived whole and waits for its answer.
pub(in crate::sim) struct Transfer {
    slot: u32,
    sent: UserHeader,
    sender: Sender,
    retries: u32,
    pub(super) timer: Option<Timer>,
}

impl Net {
    /// Sends what the protocol wants to send.
    pub(in crate::sim) fn settle(&mut self) {
        while let Some(packet) = self.kernel.backlog.pop_front() {
            self.launch(packet);
        }
    }

    /// Starts to send a message in segments.
    pub(super) fn post_message(&mut self, post: &Post<'_>, bytes: &[u8]) -> Result<(), Errno> {
        let mut message = bytes.to_vec();
        let mut header = Header::read(bytes);
        let is_response = classes::is_response(&header);
        if !is_response {
            header.set_tid(own_tid(post.agent, &header));
            header.write(&mut message);
        }
        let offset = classes::data_offset(header.class());
        if message.len() < offset {
            return Err(Errno::EINVAL);
        }
        let key = TransferKey {
            agent: post.agent,
            tid: header.tid(),
            class: header.class(),
            peer: is_response.then(|| peer(&post.sent.address)),
        };
        let request = RequestKey::first(post.agent, &header);
        if self.kernel.transfers.contains_key(&key) || self.kernel.requests.contains_key(&request) {
            return Err(Errno::EINVAL);
        }
        let window = match key.peer {
            Some(_) => self.first_window(post.agent, &header, &post.sent.address),
            None => 1,
        };
        let transfer = Transfer {
            slot: post.slot,
            sent: *post.sent,
            sender: Sender::new(message, offset, window),
            retries: post.sent.retries,
            timer: None,
        };
        self.kernel.transfers.insert(key, transfer);
        self.pump(key);
        Ok(())
    }

    /// Sends what the window allows, if anything, and waits for the acknowledgement of it.
    fn pump(&mut self, key: TransferKey) {
        let Some(transfer) = self.kernel.transfers.get_mut(&key) else { return };
        let waiting = self.kernel.backlog.len();
        while let Some(mad) = transfer.sender.next() {
            let packet = Packet { from: transfer.slot, to: transfer.sent.address, mad };
            self.kernel.backlog.push_back(packet);
        }
        if self.kernel.backlog.len() == waiting {
            return;
        }
        let own = Duration::from_millis(transfer.sent.timeout_ms.into());
        let timeout = if own.is_zero() { ACK_TIMEOUT } else { own.min(ACK_TIMEOUT) };
        self.arm_transfer(key, timeout);
    }

    fn arm_transfer(&mut self, key: TransferKey, timeout: Duration) {
        let old = self.kernel.transfers.get_mut(&key).and_then(|transfer| transfer.timer.take());
        self.cancel(old);
        let timer = self.schedule(timeout, Event::Transfer(key));
        if let Some(transfer) = self.kernel.transfers.get_mut(&key) {
            transfer.timer = Some(timer);
        }
    }

    /// Repeats what was not acknowledged, or gives the message up.
    pub(in crate::sim) fn transfer_timed_out(&mut self, key: TransferKey) {
        let Some(transfer) = self.kernel.transfers.get_mut(&key) else { return };
        transfer.timer = None;
        if transfer.retries > 0 && !transfer.sender.is_acknowledged() {
            transfer.retries -= 1;
            transfer.sender.rewind();
            return self.pump(key);
        }
        self.give_up(key);
    }

    /// Ends a transfer and tells its agent that there is no answer.
    fn give_up(&mut self, key: TransferKey) {
        let Some(transfer) = self.kernel.transfers.remove(&key) else { return };
        self.cancel(transfer.timer);
        if let Some(agent) = self.kernel.agents.get(key.agent) {
            agent.owner.unanswered(transfer.sent, transfer.sender.head());
        }
    }

    /// The other end wants no more of this. The kernel tells its programs nothing of that; to
    /// those in this process a request comes back in any case.
    fn aborted(&mut self, key: TransferKey) {
        let Some(transfer) = self.kernel.transfers.get(&key) else { return };
        if transfer.sender.is_acknowledged() {
            return;
        }
        let agent = self.kernel.agents.get(key.agent);
        let tells = agent.is_some_and(|agent| matches!(agent.owner, Owner::Port { .. }));
        if tells && transfer.sent.timeout_ms > 0 {
            return self.give_up(key);
        }
        let timer = transfer.timer;
        self.kernel.transfers.remove(&key);
        self.cancel(timer);
    }

    /// Ends the long request that the response answers; false if there is none.
    pub(super) fn end_transfer(&mut self, agent: u32, header: &Header, from: &Address) -> bool {
        let key = TransferKey::concerned(agent, header, from);
        let Some(transfer) = self.kernel.transfers.get(&key) else { return false };
        if !self.devices.is_way_back(transfer.slot, &transfer.sent.address, from) {
            return false;
        }
        let timer = transfer.timer;
        self.kernel.transfers.remove(&key);
        self.cancel(timer);
        true
    }

    /// Takes a packet of the protocol; gives the message that it completes.
    pub(super) fn rmpp_arrived(
        &mut self,
        id: u32,
        from: Address,
        header: &Header,
        mad: &Mad,
    ) -> Option<Vec<u8>> {
        let rmpp = rmpp::header(mad);
        let key = TransferKey::concerned(id, header, &from);
        let fault = match rmpp.packet_type() {
            _ if rmpp.version() != rmpp::VERSION => Some(Reason::BAD_VERSION),
            RmppHeader::DATA => return self.data_arrived(id, from, header, mad),
            PacketType::ACK => self.ack_arrived(key, from, header, mad).err(),
            PacketType::STOP if rmpp.status() == Reason::RESOURCES => return self.ended(key),
            PacketType::ABORT if (Reason::TOO_LONG..=Reason::LAST).contains(&rmpp.status()) => {
                return self.ended(key);
            }
            PacketType::STOP | PacketType::ABORT => Some(Reason::BAD_STATUS),
            _ => Some(Reason::BAD_TYPE),
        };
        if let Some(reason) = fault {
            self.aborted(key);
            self.reply(id, from, rmpp::abort(mad, reason));
        }
        None
    }

    fn ended(&mut self, key: TransferKey) -> Option<Vec<u8>> {
        self.aborted(key);
        None
    }

    pub(super) fn reply(&mut self, id: u32, to: Address, mad: Mad) {
        if let Some(agent) = self.kernel.agents.get(id) {
            self.kernel.backlog.push_back(Packet { from: agent.slot, to, mad });
        }
    }

    /// Takes an acknowledgement; the error is why the transfer ends.
    fn ack_arrived(
        &mut self,
        key: TransferKey,
        from: Address,
        header: &Header,
        mad: &Mad,
    ) -> Result<(), u8> {
        let rmpp = rmpp::header(mad);
        let (segment, window) = (rmpp.segment(), rmpp.payload_length());
        if rmpp.status() != 0 {
            return Err(Reason::BAD_STATUS);
        }
        if window < segment {
            return Err(Reason::WINDOW_TOO_SMALL);
        }
        let Some(transfer) = self.kernel.transfers.get_mut(&key) else {
            if segment == 0 {
                self.turn_round(key.agent, from, header, window);
            }
            return Ok(());
        };
        let ack = transfer.sender.ack(segment, window);
        let expects_answer = transfer.sent.timeout_ms > 0;
        match ack {
            Ack::Old => {}
            Ack::TooBig => return Err(Reason::SEGMENT_TOO_BIG),
            Ack::Goes(news) => {
                if news {
                    transfer.retries = transfer.sent.retries;
                }
                self.pump(key);
            }
            // Where a request was long, its answer may begin when this is acknowledged in turn
            // (double-sided transfers, IBA vol. 1, 13.6).
            Ack::Complete if expects_answer => {
                let timeout = Duration::from_millis(transfer.sent.timeout_ms.into());
                self.arm_transfer(key, timeout);
                self.reply(key.agent, from, rmpp::ack(mad, 0, 1));
            }
            Ack::Repeated => self.reply(key.agent, from, rmpp::ack(mad, 0, 1)),
            Ack::Complete => {
                let transfer = self.kernel.transfers.remove(&key);
                self.cancel(transfer.and_then(|transfer| transfer.timer));
            }
        }
        Ok(())
    }
}
