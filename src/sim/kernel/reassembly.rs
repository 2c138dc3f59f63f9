//! RMPP messages being received.

use super::rmpp::receiver::{KernelRmppReceiver, KernelSegmentOutcome};
use super::transfer::peer;
use super::{classes, rmpp};
use crate::sim::event_queue::Timer;
use crate::transport::Address;
use crate::wire::mad::{Header, Mad, Method};
use std::collections::HashMap;

/// An RMPP message that is incomplete, or that was completed recently.
pub(in crate::sim) struct Reassembly {
    /// Unique number, for timers.
    pub(in crate::sim) serial: u64,
    tid: u64,
    class: u8,
    version: u8,
    method: u8,
    pub(in crate::sim) from: Address,
    pub(in crate::sim) first_segment: Box<Mad>,
    pub(in crate::sim) receiver: KernelRmppReceiver,
    /// First window of the response, in segments, which the requester has granted.
    pub(in crate::sim) response_window: u32,
    pub(in crate::sim) timer: Option<Timer>,
}

impl Reassembly {
    /// Starts with the first segment.
    pub(in crate::sim) fn new(
        serial: u64,
        from: Address,
        header: &Header,
        mad: &Mad,
    ) -> (Self, KernelSegmentOutcome) {
        let (receiver, outcome) =
            KernelRmppReceiver::new(mad, classes::data_offset(header.class()));
        let reassembly = Self {
            serial,
            tid: header.tid(),
            class: header.class(),
            version: header.class_version(),
            method: header.method(),
            from,
            first_segment: Box::new(*mad),
            receiver,
            response_window: rmpp::INITIAL_WINDOW,
            timer: None,
        };
        (reassembly, outcome)
    }

    /// True if a segment with this header belongs to the message.
    fn matches(&self, header: &Header, from: &Address) -> bool {
        self.has_transaction(header)
            && self.from.qpn == from.qpn
            && self.from.lid == from.lid
            && self.method == header.method()
    }

    /// True if this is the request to which the response with this header is sent.
    fn is_request_of(&self, response: &Header, to: &Address) -> bool {
        self.has_transaction(response)
            && !Method(self.method).is_response()
            && peer(&self.from) == peer(to)
    }

    fn has_transaction(&self, header: &Header) -> bool {
        (self.tid, self.class, self.version) == transaction(header)
    }
}

/// Transaction ID, class and class version, which the segments of a message have in common.
type Transaction = (u64, u8, u8);

fn transaction(header: &Header) -> Transaction {
    (header.tid(), header.class(), header.class_version())
}

/// The messages that an agent receives. They are found by transaction: a client that asks for many
/// tables has thousands of completed ones.
#[derive(Default)]
pub(in crate::sim) struct Reassemblies {
    /// By transaction: messages of several senders, or a request and its response.
    messages: HashMap<Transaction, Vec<Reassembly>>,
    /// The transaction of each message, by serial number.
    transactions: HashMap<u64, Transaction>,
}

impl Reassemblies {
    /// The message to which a segment with this header belongs.
    pub(in crate::sim) fn find(
        &mut self,
        header: &Header,
        from: &Address,
    ) -> Option<&mut Reassembly> {
        let messages = self.messages.get_mut(&transaction(header))?;
        messages.iter_mut().find(|message| message.matches(header, from))
    }

    /// The request to which the response with this header is sent.
    pub(in crate::sim) fn request_of(
        &self,
        response: &Header,
        to: &Address,
    ) -> Option<&Reassembly> {
        let messages = self.messages.get(&transaction(response))?;
        messages.iter().find(|request| request.is_request_of(response, to))
    }

    /// The message with a serial number.
    pub(in crate::sim) fn get_mut(&mut self, serial: u64) -> Option<&mut Reassembly> {
        let messages = self.messages.get_mut(self.transactions.get(&serial)?)?;
        messages.iter_mut().find(|message| message.serial == serial)
    }

    pub(in crate::sim) fn insert(&mut self, message: Reassembly) {
        let transaction = (message.tid, message.class, message.version);
        self.transactions.insert(message.serial, transaction);
        self.messages.entry(transaction).or_default().push(message);
    }

    /// Removes the message with a serial number.
    pub(in crate::sim) fn remove(&mut self, serial: u64) -> Option<Reassembly> {
        let transaction = self.transactions.remove(&serial)?;
        let messages = self.messages.get_mut(&transaction)?;
        let at = messages.iter().position(|message| message.serial == serial)?;
        let message = messages.swap_remove(at);
        if messages.is_empty() {
            self.messages.remove(&transaction);
        }
        Some(message)
    }

    /// The timers of all messages.
    pub(in crate::sim) fn timers(&self) -> impl Iterator<Item = Timer> + '_ {
        self.messages.values().flatten().filter_map(|message| message.timer)
    }

    #[cfg(test)]
    pub(in crate::sim) fn len(&self) -> usize {
        self.transactions.len()
    }
}

/// The message of these segments of a management class, which arrive in this order; `None` unless
/// the first one begins a message and all of it arrives. Segments beyond the window are lost.
pub fn reassemble(class: u8, segments: &[Mad]) -> Option<Vec<u8>> {
    let (first, rest) = segments.split_first()?;
    if rmpp::header(first).segment() != 1 {
        return None;
    }
    let (mut receiver, mut outcome) = KernelRmppReceiver::new(first, classes::data_offset(class));
    for segment in rest {
        if outcome == KernelSegmentOutcome::Complete {
            break;
        }
        if outcome == KernelSegmentOutcome::Acknowledge {
            receiver.acknowledge();
        }
        outcome = receiver.receive(rmpp::header(segment).segment(), segment);
    }
    receiver.is_complete().then(|| receiver.take())
}
