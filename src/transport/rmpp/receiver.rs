//! The receiving end of a transfer: requests in segments, such as MultiPathRecord queries with many
//! GIDs.

use super::packet::{SEGMENT_PAYLOAD, rmpp_header};
use crate::wire::mad::{MAD_SIZE, Mad};
use crate::wire::sa::DATA_OFFSET;
use std::collections::BTreeMap;

/// Segments that may be in transit.
const WINDOW: u32 = 16;
/// Segments of a request, 12,800 bytes: twice the longest MultiPathRecord query.
const MAX_SEGMENTS: u32 = 64;

/// Effect of a received segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SegmentOutcome {
    /// No acknowledgement is due.
    NoReply,
    /// An acknowledgement is due.
    Acknowledge,
    /// The message is complete, and an acknowledgement is due.
    Complete,
    /// The message is longer than any request.
    TooLong,
}

/// A message that is being received, or was received before.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// Headers of the first segment, and the records of all segments up to `received`. Empty once
    /// taken.
    message: Vec<u8>,
    /// Number of the last segment received in sequence.
    received: u32,
    /// Number of the last segment that the sender may send.
    window_last: u32,
    /// Number of the last segment in the last acknowledgement.
    acknowledged: u32,
    /// Segments received out of sequence, at most one window.
    out_of_sequence: BTreeMap<u32, Mad>,
    is_complete: bool,
}

impl Receiver {
    /// A receiver that waits for segment 1.
    pub(super) fn new() -> Self {
        Self { window_last: 1, ..Self::default() }
    }

    /// Handles a segment.
    pub(super) fn receive(&mut self, number: u32, mad: &Mad) -> SegmentOutcome {
        if self.is_complete || number <= self.acknowledged {
            return SegmentOutcome::Acknowledge;
        }
        if number > MAX_SEGMENTS {
            return SegmentOutcome::TooLong;
        }
        if number > self.window_last || number <= self.received {
            return SegmentOutcome::NoReply;
        }
        self.out_of_sequence.insert(number, *mad);
        while let Some(next) = self.out_of_sequence.remove(&(self.received + 1)) {
            self.append(&next);
        }
        if self.is_complete {
            self.out_of_sequence.clear();
            return SegmentOutcome::Complete;
        }
        if self.received < self.window_last {
            return SegmentOutcome::NoReply;
        }
        self.window_last += WINDOW;
        SegmentOutcome::Acknowledge
    }

    fn append(&mut self, mad: &Mad) {
        let rmpp = rmpp_header(mad);
        let start = if self.received == 0 { 0 } else { DATA_OFFSET };
        let mut end = MAD_SIZE;
        if rmpp.last() {
            // A length beyond the segment leaves the padding in; none is shorter than the headers.
            let padding = SEGMENT_PAYLOAD.saturating_sub(rmpp.payload_length() as usize);
            end -= padding.min(MAD_SIZE - DATA_OFFSET);
        }
        self.message.extend_from_slice(&mad.0[start..end]);
        debug_assert!(self.received < self.window_last, "others are not accepted");
        self.received += 1;
        self.is_complete |= rmpp.last();
    }

    /// Acknowledges all segments received in sequence: the number of the last one, and of the last
    /// one that the sender may send.
    pub(super) fn acknowledge(&mut self) -> (u32, u32) {
        debug_assert!(self.out_of_sequence.len() < WINDOW as usize, "at most one window is kept");
        self.acknowledged = self.received;
        (self.received, self.window_last)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes the complete message, without padding.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.message)
    }
}
