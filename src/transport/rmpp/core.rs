//! All transfers of a port, without I/O and clock: events go in, transmissions, messages and ended
//! transfers come out.

use super::TransferEnd;
use super::deadlines::Deadlines;
use super::packet::{
    PacketType, RmppStatus, VERSION, abort, abort_reply, ack, headers_of, opposite, rmpp_header,
    stop_reply,
};
use super::receiver::{Receiver, SegmentOutcome};
use super::sender::{AckOutcome, RecordMessage, Sender};
use super::shared_records::SharedRecords;
use crate::ids::{Gid, Lid};
use crate::transport::{Address, GSI_QKEY};
use crate::wire::mad::{Header, Mad};
use crate::wire::sa::{DATA_OFFSET, RmppHeader};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Time to wait for an acknowledgement: for the first one, and after each repetition. A lost packet
/// costs half a second; a receiver that is silent for 7.5 s has given up. Response times in RMPP
/// headers are ignored, as in Linux.
const ACK_TIMEOUTS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
    Duration::from_millis(4000),
];
/// Time that a transfer may take in total, the limit of receivers on Linux.
const MAX_TRANSFER_TIME: Duration = Duration::from_secs(40);
/// Time that a request may take to arrive.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(10);
/// Time for which a complete request is remembered, to acknowledge repeated segments, as in Linux.
const COMPLETED_LIFETIME: Duration = Duration::from_secs(10);
/// Incomplete requests in segments, of all ports and of one: further ones are refused with STOP. Each
/// has 16 KB at most.
const MAX_REQUESTS: usize = 1024;
const MAX_REQUESTS_PER_PORT: usize = 64;
/// Complete requests that are remembered; the oldest are forgotten first. A client may ask as fast as
/// it likes, so that they count towards no quota. Each has 500 bytes.
const MAX_COMPLETED: usize = 4096;

/// Identifies a message: its other end, transaction and method.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Key {
    lid: Lid,
    gid: Option<Gid>,
    tid: u64,
    /// Method of the message.
    method: u8,
}

impl Key {
    fn new(peer: &Address, header: &Header, method: u8) -> Self {
        Self { lid: peer.lid, gid: peer.grh.map(|grh| grh.gid), tid: header.tid(), method }
    }
}

/// A transfer with a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Timed {
    Outbound(Key),
    Inbound(Key),
}

/// A message that is being sent.
#[derive(Debug)]
struct Outbound {
    to: Address,
    sender: Sender,
    started: Instant,
    /// Repetitions since the last progress.
    repetitions: usize,
}

/// A message that is being received or remembered.
#[derive(Debug)]
struct InboundMessage {
    from: Address,
    /// A segment of the message, for an ABORT.
    segment: Box<Mad>,
    receiver: Receiver,
}

/// Size of an outbound message in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferSize {
    pub message: usize,
    /// Bytes of memory that it takes or frees: 0 if another transfer has the same records.
    pub memory: usize,
}

/// Something that the port has to do, or has to report.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all actions send a MAD")]
pub(super) enum RmppAction {
    Send(Address, Mad),
    /// A request is complete.
    Deliver(Address, Vec<u8>),
    /// A message is being sent to the port at this LID.
    Began(Lid, TransferSize),
    /// The port has acknowledged further segments.
    Progressed(Lid),
    /// A transfer has ended.
    Ended {
        to: Lid,
        size: TransferSize,
        end: TransferEnd,
    },
}

/// The transfers of a port.
#[derive(Debug)]
pub(super) struct Core {
    outbound: HashMap<Key, Outbound>,
    inbound: HashMap<Key, InboundMessage>,
    /// Number of incomplete requests of `inbound` by LID.
    inbound_by_lid: HashMap<Lid, usize>,
    /// Complete requests of `inbound`, the oldest first.
    completed: VecDeque<Key>,
    deadlines: Deadlines<Timed>,
    records: SharedRecords,
    actions: Vec<RmppAction>,
}

impl Core {
    pub(super) fn new() -> Self {
        Self {
            outbound: HashMap::new(),
            inbound: HashMap::new(),
            inbound_by_lid: HashMap::new(),
            completed: VecDeque::new(),
            deadlines: Deadlines::new(),
            records: SharedRecords::default(),
            actions: Vec::new(),
        }
    }

    /// The actions that the events so far require, in order.
    pub(super) fn take_actions(&mut self) -> Vec<RmppAction> {
        std::mem::take(&mut self.actions)
    }

    /// Time of the next call of [`Self::expire`].
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    /// Begins to send a whole SA message. If the same message is on its way already, because its
    /// receiver has repeated the request, the first segment is sent again.
    pub(super) fn send(&mut self, to: Address, mad: &[u8], now: Instant) {
        let headers = headers_of(mad);
        let header = Header::read(&headers);
        let key = Key::new(&to, &header, header.method());
        let records = mad.get(DATA_OFFSET..).unwrap_or(&[]);
        if let Some(open) = self.outbound.get_mut(&key) {
            let message = open.sender.message();
            if message.headers == headers && *message.records == *records {
                if open.sender.acknowledged() == 0 {
                    open.sender.rewind();
                    self.send_window(key, now);
                }
                return;
            }
            // The client has used the transaction ID for another request.
            self.end(key, TransferEnd::Aborted);
        }
        let known = self.records.bytes();
        let message = RecordMessage { headers, records: self.records.share(records) };
        let size = TransferSize { message: mad.len(), memory: self.records.bytes() - known };
        let sender = Sender::new(message);
        self.outbound.insert(key, Outbound { to, sender, started: now, repetitions: 0 });
        self.actions.push(RmppAction::Began(to.lid, size));
        self.send_window(key, now);
    }

    /// Sends the segments that the window permits.
    fn send_segments(&mut self, key: Key) {
        let Some(open) = self.outbound.get_mut(&key) else { return };
        while let Some(mad) = open.sender.next_segment() {
            self.actions.push(RmppAction::Send(open.to, mad));
        }
    }

    /// Sends the segments that the window permits, and waits for an acknowledgement.
    fn send_window(&mut self, key: Key, now: Instant) {
        self.send_segments(key);
        let Some(open) = self.outbound.get(&key) else { return };
        let timeout = ACK_TIMEOUTS[open.repetitions.min(ACK_TIMEOUTS.len() - 1)];
        let deadline = (now + timeout).min(open.started + MAX_TRANSFER_TIME);
        self.deadlines.set(Timed::Outbound(key), deadline);
    }

    /// Ends a transfer of ours.
    fn end(&mut self, key: Key, end: TransferEnd) {
        let Some(Outbound { to, sender, .. }) = self.outbound.remove(&key) else { return };
        self.deadlines.clear(Timed::Outbound(key));
        let records = sender.into_message().records;
        let message = DATA_OFFSET + records.len();
        let memory = self.records.release(records);
        let size = TransferSize { message, memory };
        self.actions.push(RmppAction::Ended { to: to.lid, size, end });
    }

    /// Handles a received MAD with the flag Active.
    pub(super) fn receive(&mut self, from: Address, mad: &Mad, now: Instant) {
        let header = mad.header();
        let rmpp = rmpp_header(mad);
        // The message of ours that the packet is about.
        let own = Key::new(&from, &header, opposite(header.method()));
        let reply_to = Address { qkey: GSI_QKEY, ..from };
        let error = match rmpp.packet_type() {
            _ if rmpp.version() != VERSION => Some(RmppStatus::BAD_VERSION),
            RmppHeader::DATA => return self.receive_data(reply_to, mad, now),
            PacketType::ACK if rmpp.status() != 0 => Some(RmppStatus::BAD_STATUS),
            PacketType::ACK => self.receive_ack(own, &rmpp, now).err(),
            PacketType::STOP if rmpp.status() == RmppStatus::RESOURCES_EXHAUSTED => {
                self.ended_by_peer(own, Key::new(&from, &header, header.method()));
                None
            }
            PacketType::ABORT if RmppStatus::ABORT_REASONS.contains(&rmpp.status()) => {
                self.ended_by_peer(own, Key::new(&from, &header, header.method()));
                None
            }
            PacketType::STOP | PacketType::ABORT => Some(RmppStatus::BAD_STATUS),
            _ => Some(RmppStatus::BAD_TYPE),
        };
        if let Some(status) = error {
            self.end(own, TransferEnd::Aborted);
            self.actions.push(RmppAction::Send(reply_to, abort_reply(mad, status)));
        }
    }

    /// Handles an acknowledgement of our message `key`. Those of unknown messages are late, or grant
    /// the window of a response (segment 0), of which the first segment needs no grant.
    ///
    /// # Errors
    /// The status with which to abort the transfer.
    fn receive_ack(&mut self, key: Key, rmpp: &RmppHeader, now: Instant) -> Result<(), u8> {
        let Some(open) = self.outbound.get_mut(&key) else { return Ok(()) };
        match open.sender.acknowledge(rmpp.segment(), rmpp.payload_length()) {
            AckOutcome::Stale => {}
            // A larger window without progress does not extend the time.
            AckOutcome::Pending { has_progress: false } => self.send_segments(key),
            AckOutcome::Pending { has_progress: true } => {
                open.repetitions = 0;
                self.actions.push(RmppAction::Progressed(key.lid));
                self.send_window(key, now);
            }
            AckOutcome::Complete => self.end(key, TransferEnd::Acknowledged),
            AckOutcome::WindowTooSmall => return Err(RmppStatus::WINDOW_TOO_SMALL),
            AckOutcome::SegmentTooBig => return Err(RmppStatus::SEGMENT_TOO_BIG),
        }
        Ok(())
    }

    /// The other end has aborted one of its messages, or one of ours.
    fn ended_by_peer(&mut self, own: Key, theirs: Key) {
        self.end(own, TransferEnd::Aborted);
        if self.inbound.get(&theirs).is_some_and(|message| !message.receiver.is_complete()) {
            self.forget_request(theirs);
        }
    }

    /// Handles a segment of a request.
    fn receive_data(&mut self, from: Address, mad: &Mad, now: Instant) {
        let header = mad.header();
        let rmpp = rmpp_header(mad);
        let number = rmpp.segment();
        let key = Key::new(&from, &header, header.method());
        let error = match number {
            _ if rmpp.status() != 0 => Some(RmppStatus::BAD_STATUS),
            0 => Some(RmppStatus::BAD_SEGMENT),
            _ => (rmpp.first() != (number == 1)).then_some(RmppStatus::BAD_SEGMENT),
        };
        if let Some(status) = error {
            return self.actions.push(RmppAction::Send(from, abort_reply(mad, status)));
        }
        if !self.inbound.contains_key(&key) {
            // The first segment is lost: the sender repeats it.
            if number != 1 {
                return;
            }
            let of_port = self.inbound_by_lid.get(&from.lid).copied().unwrap_or(0);
            let incomplete = self.inbound.len() - self.completed.len();
            if incomplete >= MAX_REQUESTS || of_port >= MAX_REQUESTS_PER_PORT {
                return self.actions.push(RmppAction::Send(from, stop_reply(mad)));
            }
            let receiver = Receiver::new();
            self.inbound.insert(key, InboundMessage { from, segment: Box::new(*mad), receiver });
            *self.inbound_by_lid.entry(from.lid).or_default() += 1;
            self.deadlines.set(Timed::Inbound(key), now + MAX_REQUEST_TIME);
        }
        let Some(message) = self.inbound.get_mut(&key) else { return };
        let outcome = message.receiver.receive(number, mad);
        match outcome {
            SegmentOutcome::NoReply => return,
            SegmentOutcome::TooLong => {
                self.forget_request(key);
                return self.actions.push(RmppAction::Send(from, stop_reply(mad)));
            }
            SegmentOutcome::Acknowledge | SegmentOutcome::Complete => {}
        }
        let (segment, window_last) = message.receiver.acknowledge();
        self.actions.push(RmppAction::Send(from, ack(mad, segment, window_last)));
        if outcome == SegmentOutcome::Complete {
            let bytes = message.receiver.take();
            self.deadlines.set(Timed::Inbound(key), now + COMPLETED_LIFETIME);
            self.count_ended_request(key.lid);
            self.completed.push_back(key);
            if self.completed.len() > MAX_COMPLETED
                && let Some(&oldest) = self.completed.front()
            {
                self.forget_request(oldest);
            }
            self.actions.push(RmppAction::Deliver(from, bytes));
        }
    }

    fn forget_request(&mut self, key: Key) {
        self.deadlines.clear(Timed::Inbound(key));
        let Some(message) = self.inbound.remove(&key) else { return };
        if !message.receiver.is_complete() {
            self.count_ended_request(key.lid);
        } else if let Some(at) = self.completed.iter().position(|&other| other == key) {
            self.completed.remove(at);
        }
    }

    /// Takes an incomplete request of a port from its quota.
    fn count_ended_request(&mut self, lid: Lid) {
        if let Some(count) = self.inbound_by_lid.get_mut(&lid) {
            *count -= 1;
            if *count == 0 {
                self.inbound_by_lid.remove(&lid);
            }
        }
    }

    /// Handles all deadlines up to `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(due) = self.deadlines.take_due(now) {
            match due {
                Timed::Outbound(key) => self.ack_timed_out(key, now),
                Timed::Inbound(key) => self.request_timed_out(key),
            }
        }
    }

    /// Sends the segments that are not acknowledged again, or ends the transfer.
    fn ack_timed_out(&mut self, key: Key, now: Instant) {
        let Some(open) = self.outbound.get_mut(&key) else { return };
        let status = if now >= open.started + MAX_TRANSFER_TIME {
            RmppStatus::TOTAL_TIME_TOO_LONG
        } else if open.repetitions + 1 == ACK_TIMEOUTS.len() {
            RmppStatus::TOO_MANY_RETRIES
        } else {
            open.repetitions += 1;
            open.sender.rewind();
            return self.send_window(key, now);
        };
        let packet = abort(&open.sender.message().headers, status);
        self.actions.push(RmppAction::Send(open.to, packet));
        self.end(key, TransferEnd::Unacknowledged);
    }

    /// Forgets a complete request, or aborts an incomplete one.
    fn request_timed_out(&mut self, key: Key) {
        let Some(message) = self.inbound.get(&key) else { return };
        if !message.receiver.is_complete() {
            let packet = abort_reply(&message.segment, RmppStatus::TOTAL_TIME_TOO_LONG);
            self.actions.push(RmppAction::Send(message.from, packet));
        }
        self.forget_request(key);
    }

    /// Ends all transfers without a packet: the port is lost.
    pub(super) fn clear(&mut self) {
        let keys: Vec<Key> = self.outbound.keys().copied().collect();
        keys.into_iter().for_each(|key| self.end(key, TransferEnd::Aborted));
        *self = Self { actions: self.take_actions(), ..Self::new() };
    }

    /// True if no transfer is in progress or remembered.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.outbound.is_empty()
            && self.inbound.is_empty()
            && self.inbound_by_lid.is_empty()
            && self.completed.is_empty()
            && self.deadlines.first().is_none()
            && self.records.len() == 0
            && self.records.bytes() == 0
    }
}
