//! RMPP messages being received.

use super::rmpp::receiver::{Receiver, SegmentOutcome};
use super::transfer::peer;
use super::{classes, rmpp};
use crate::sim::event_queue::Timer;
use crate::transport::Address;
use crate::wire::mad::{Header, Mad, Method};

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
    pub(in crate::sim) receiver: Receiver,
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
    ) -> (Self, SegmentOutcome) {
        let (receiver, outcome) = Receiver::new(mad, classes::data_offset(header.class()));
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
    pub(in crate::sim) fn matches(&self, header: &Header, from: &Address) -> bool {
        self.has_transaction(header)
            && self.from.qpn == from.qpn
            && self.from.lid == from.lid
            && self.method == header.method()
    }

    /// True if this is the request to which the response with this header is sent.
    pub(in crate::sim) fn is_request_of(&self, response: &Header, to: &Address) -> bool {
        self.has_transaction(response)
            && !Method(self.method).is_response()
            && peer(&self.from) == peer(to)
    }

    fn has_transaction(&self, header: &Header) -> bool {
        self.tid == header.tid()
            && self.class == header.class()
            && self.version == header.class_version()
    }
}

/// The message of these segments of a management class, which arrive in this order; `None` unless
/// the first one begins a message and all of it arrives. Segments beyond the window are lost.
pub fn reassemble(class: u8, segments: &[Mad]) -> Option<Vec<u8>> {
    let (first, rest) = segments.split_first()?;
    if rmpp::header(first).segment() != 1 {
        return None;
    }
    let (mut receiver, mut outcome) = Receiver::new(first, classes::data_offset(class));
    for segment in rest {
        if outcome == SegmentOutcome::Complete {
            break;
        }
        if outcome == SegmentOutcome::Acknowledge {
            receiver.acknowledge();
        }
        outcome = receiver.receive(rmpp::header(segment).segment(), segment);
    }
    receiver.is_complete().then(|| receiver.take())
}
