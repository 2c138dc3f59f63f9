//! RMPP messages being sent: segments, acknowledgements and their timers.
//!
//! Timeouts are those of Linux, which ignores the response times in RMPP headers: 2 s for an
//! acknowledgement, or the timeout of the request if that is shorter.

use super::Net;
use super::send::SendRequest;
use crate::sim::events::FabricEvent;
use crate::sim::kernel::rmpp::sender::{KernelAckOutcome, KernelRmppSender};
use crate::sim::kernel::rmpp::{self, KernelRmppStatus, KernelRmppType};
use crate::sim::kernel::{Owner, PendingKey, Transfer, TransferKey, agent_tid, classes};
use crate::sim::packet::Packet;
use crate::transport::Address;
use crate::wire::mad::{Header, Mad};
use crate::wire::sa::RmppHeader;
use nix::errno::Errno;
use std::time::Duration;

/// Longest time to wait for an acknowledgement, as in Linux.
const MAX_ACK_TIMEOUT: Duration = Duration::from_millis(2000);

impl Net {
    /// Sends the RMPP packets in the backlog.
    pub(in crate::sim) fn send_backlog(&mut self) {
        while let Some(packet) = self.kernel.backlog.pop_front() {
            self.transmit(packet);
        }
    }

    /// Starts to send a message in segments.
    pub(super) fn post_rmpp_message(
        &mut self,
        request: &SendRequest<'_>,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let mut message = bytes.to_vec();
        let mut header = Header::read(bytes);
        let is_response = classes::is_response(&header);
        if !is_response {
            header.set_tid(agent_tid(request.agent, &header));
            header.write(&mut message);
        }
        let offset = classes::data_offset(header.class());
        if message.len() < offset {
            return Err(Errno::EINVAL);
        }
        let key = if is_response {
            TransferKey::response(request.agent, &header, &request.sent.address)
        } else {
            TransferKey::request(request.agent, &header)
        };
        let same_tid = PendingKey::first(request.agent, &header);
        if self.kernel.transfers.contains_key(&key) || self.kernel.requests.contains_key(&same_tid)
        {
            return Err(Errno::EINVAL);
        }
        let window = if key.is_response() {
            self.response_window(request.agent, &header, &request.sent.address)
        } else {
            rmpp::INITIAL_WINDOW
        };
        let transfer = Transfer {
            slot: request.slot,
            sent: *request.sent,
            sender: KernelRmppSender::new(message, offset, window),
            retries: request.sent.retries,
            timer: None,
        };
        self.kernel.transfers.insert(key, transfer);
        self.send_window(key);
        Ok(())
    }

    /// Sends the segments that the window allows, if any, and starts the acknowledgement timer.
    fn send_window(&mut self, key: TransferKey) {
        let Some(transfer) = self.kernel.transfers.get_mut(&key) else { return };
        let before = self.kernel.backlog.len();
        while let Some(mad) = transfer.sender.next_segment() {
            let packet = Packet { from: transfer.slot, to: transfer.sent.address, mad };
            self.kernel.backlog.push_back(packet);
        }
        if self.kernel.backlog.len() == before {
            return;
        }
        let requested = Duration::from_millis(transfer.sent.timeout_ms.into());
        let timeout =
            if requested.is_zero() { MAX_ACK_TIMEOUT } else { requested.min(MAX_ACK_TIMEOUT) };
        self.restart_transfer_timer(key, timeout);
    }

    fn restart_transfer_timer(&mut self, key: TransferKey, timeout: Duration) {
        let old = self.kernel.transfers.get_mut(&key).and_then(|transfer| transfer.timer.take());
        self.cancel(old);
        let timer = self.schedule(timeout, FabricEvent::TransferTimeout(key));
        if let Some(transfer) = self.kernel.transfers.get_mut(&key) {
            transfer.timer = Some(timer);
        }
    }

    /// Resends unacknowledged segments, or completes the message with a timeout.
    pub(super) fn transfer_timed_out(&mut self, key: TransferKey) {
        let Some(transfer) = self.kernel.transfers.get_mut(&key) else { return };
        transfer.timer = None;
        if transfer.retries > 0 && !transfer.sender.is_acknowledged() {
            transfer.retries -= 1;
            transfer.sender.rewind();
            return self.send_window(key);
        }
        self.time_out_transfer(key);
    }

    /// Removes a transfer and completes it with a timeout.
    fn time_out_transfer(&mut self, key: TransferKey) {
        let Some(transfer) = self.remove_transfer(key) else { return };
        if let Some(agent) = self.kernel.agents.get(key.agent) {
            agent.owner.deliver_timeout(transfer.sent, transfer.sender.first_bytes());
        }
    }

    fn remove_transfer(&mut self, key: TransferKey) -> Option<Transfer> {
        let transfer = self.kernel.transfers.remove(&key)?;
        self.cancel(transfer.timer);
        Some(transfer)
    }

    /// Ends a transfer that the peer has aborted. As in Linux, a program with an open device is
    /// not notified; for a [`crate::sim::SimPort`] a request always completes, with a timeout.
    fn abort_transfer(&mut self, key: TransferKey) {
        let Some(transfer) = self.kernel.transfers.get(&key) else { return };
        if transfer.sender.is_acknowledged() {
            return;
        }
        let agent = self.kernel.agents.get(key.agent);
        let is_sim_port = agent.is_some_and(|agent| matches!(agent.owner, Owner::SimPort { .. }));
        if is_sim_port && transfer.sent.timeout_ms > 0 {
            self.time_out_transfer(key);
        } else {
            self.remove_transfer(key);
        }
    }

    /// Removes the RMPP request that the response answers; false if there is none.
    pub(super) fn complete_transfer(
        &mut self,
        agent: u32,
        header: &Header,
        from: &Address,
    ) -> bool {
        let key = TransferKey::of_received(agent, header, from);
        let Some(transfer) = self.kernel.transfers.get(&key) else { return false };
        if !self.devices.is_return_path(transfer.slot, &transfer.sent.address, from) {
            return false;
        }
        self.remove_transfer(key);
        true
    }

    /// Handles an RMPP packet; returns the message that it completes.
    pub(super) fn receive_rmpp(
        &mut self,
        id: u32,
        from: Address,
        header: &Header,
        mad: &Mad,
    ) -> Option<Vec<u8>> {
        let rmpp = rmpp::header(mad);
        let key = TransferKey::of_received(id, header, &from);
        let error = match rmpp.packet_type() {
            _ if rmpp.version() != rmpp::VERSION => Some(KernelRmppStatus::BAD_VERSION),
            RmppHeader::DATA => return self.receive_segment(id, from, header, mad),
            KernelRmppType::ACK => self.receive_ack(key, from, header, mad).err(),
            KernelRmppType::STOP if rmpp.status() == KernelRmppStatus::RESOURCES_EXHAUSTED => {
                self.abort_transfer(key);
                None
            }
            KernelRmppType::ABORT if KernelRmppStatus::ABORT_REASONS.contains(&rmpp.status()) => {
                self.abort_transfer(key);
                None
            }
            KernelRmppType::STOP | KernelRmppType::ABORT => Some(KernelRmppStatus::BAD_STATUS),
            _ => Some(KernelRmppStatus::BAD_TYPE),
        };
        if let Some(status) = error {
            self.abort_transfer(key);
            self.queue_reply(id, from, rmpp::abort(mad, status));
        }
        None
    }

    /// Appends a packet of the agent's port to the backlog.
    pub(super) fn queue_reply(&mut self, id: u32, to: Address, mad: Mad) {
        if let Some(agent) = self.kernel.agents.get(id) {
            self.kernel.backlog.push_back(Packet { from: agent.slot, to, mad });
        }
    }

    /// Handles an acknowledgement.
    ///
    /// # Errors
    /// Status with which to abort the transfer.
    fn receive_ack(
        &mut self,
        key: TransferKey,
        from: Address,
        header: &Header,
        mad: &Mad,
    ) -> Result<(), u8> {
        let rmpp = rmpp::header(mad);
        let segment = rmpp.segment();
        let window = rmpp.payload_length();
        if rmpp.status() != 0 {
            return Err(KernelRmppStatus::BAD_STATUS);
        }
        if window < segment {
            return Err(KernelRmppStatus::WINDOW_TOO_SMALL);
        }
        let Some(transfer) = self.kernel.transfers.get_mut(&key) else {
            if segment == 0 {
                self.grant_response_window(key.agent, from, header, window);
            }
            return Ok(());
        };
        let outcome = transfer.sender.acknowledge(segment, window);
        let expects_response = transfer.sent.timeout_ms > 0;
        match outcome {
            KernelAckOutcome::Stale => {}
            KernelAckOutcome::TooBig => return Err(KernelRmppStatus::SEGMENT_TOO_BIG),
            KernelAckOutcome::Pending { has_progress } => {
                if has_progress {
                    transfer.retries = transfer.sent.retries;
                }
                self.send_window(key);
            }
            // Double-sided transfer (IBA vol. 1, 13.6): acknowledging the last acknowledgement
            // lets the peer start its response.
            KernelAckOutcome::Complete if expects_response => {
                let timeout = Duration::from_millis(transfer.sent.timeout_ms.into());
                self.restart_transfer_timer(key, timeout);
                self.queue_reply(key.agent, from, rmpp::ack(mad, 0, rmpp::INITIAL_WINDOW));
            }
            KernelAckOutcome::Duplicate => {
                self.queue_reply(key.agent, from, rmpp::ack(mad, 0, rmpp::INITIAL_WINDOW));
            }
            KernelAckOutcome::Complete => {
                self.remove_transfer(key);
            }
        }
        Ok(())
    }
}
