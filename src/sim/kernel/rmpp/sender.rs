//! Sending end of an RMPP transfer.

use super::{SEGMENT_PAYLOAD, VERSION};
use crate::wire::mad::{MAD_SIZE, Mad};
use crate::wire::sa::{RMPP_OFFSET, RmppHeader};

/// Effect of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) enum KernelAckOutcome {
    /// Older than the last acknowledgement.
    Stale,
    /// The transfer is not complete. `has_progress`: more segments are acknowledged than before.
    Pending { has_progress: bool },
    /// All segments are acknowledged.
    Complete,
    /// All segments were acknowledged before.
    Duplicate,
    /// The acknowledgement is for segments that were never sent.
    TooBig,
}

/// A message that is being sent in segments.
#[derive(Debug)]
pub(in crate::sim) struct KernelRmppSender {
    /// Headers and all data.
    message: Vec<u8>,
    /// Offset of the data in `message`.
    offset: usize,
    segments: u32,
    sent: u32,
    acknowledged: u32,
    /// Number of the last segment that may be sent.
    window: u32,
}

impl KernelRmppSender {
    /// Prepares `message`, with data from `offset`, for sending; the first `window` segments may be
    /// sent at once. The RMPP header in `message` is ignored.
    pub(in crate::sim) fn new(message: Vec<u8>, offset: usize, window: u32) -> Self {
        let data = message.len().saturating_sub(offset);
        let segments = data.div_ceil(MAD_SIZE - offset).max(1);
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        Self { message, offset, segments, sent: 0, acknowledged: 0, window }
    }

    /// The first 256 bytes of the message at most.
    pub(in crate::sim) fn first_bytes(&self) -> &[u8] {
        &self.message[..self.message.len().min(MAD_SIZE)]
    }

    /// The next segment, if the window allows it.
    pub(in crate::sim) fn next_segment(&mut self) -> Option<Mad> {
        if self.sent >= self.window.min(self.segments) {
            return None;
        }
        self.sent += 1;
        Some(self.segment(self.sent))
    }

    fn segment(&self, number: u32) -> Mad {
        let capacity = MAD_SIZE - self.offset;
        let start = self.offset + (number as usize - 1) * capacity;
        let end = self.message.len().min(start + capacity);
        let data = self.message.get(start..end).unwrap_or(&[]);
        let mut mad = Mad::read(&self.message[..self.offset.min(self.message.len())]);
        mad.0[self.offset..self.offset + data.len()].copy_from_slice(data);
        let mut rmpp = RmppHeader::default();
        rmpp.set_version(VERSION);
        rmpp.set_packet_type(RmppHeader::DATA);
        rmpp.set_active(true);
        rmpp.set_first(number == 1);
        rmpp.set_last(number == self.segments);
        rmpp.set_segment(number);
        rmpp.set_payload_length(self.payload_length(number));
        rmpp.write(&mut mad.0[RMPP_OFFSET..]);
        mad
    }

    /// PayloadLength: of the whole message in the first segment, of the segment in the last one,
    /// else 0.
    fn payload_length(&self, number: u32) -> u32 {
        let segments = self.segments as usize;
        let data = self.message.len().saturating_sub(self.offset);
        let padding = segments * (MAD_SIZE - self.offset) - data;
        let length = match number {
            _ if number == self.segments => SEGMENT_PAYLOAD - padding,
            1 => segments * SEGMENT_PAYLOAD - padding,
            _ => 0,
        };
        length as u32
    }

    /// True once all segments are acknowledged.
    pub(in crate::sim) fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.segments
    }

    /// Handles an acknowledgement of all segments up to `segment`, which allows segments up to
    /// `window`. `window` must not be less than `segment`.
    pub(in crate::sim) fn acknowledge(&mut self, segment: u32, window: u32) -> KernelAckOutcome {
        if self.is_acknowledged() {
            return KernelAckOutcome::Duplicate;
        }
        if segment > self.segments || segment > self.window {
            return KernelAckOutcome::TooBig;
        }
        if window < self.window || segment < self.acknowledged {
            return KernelAckOutcome::Stale;
        }
        let has_progress = segment > self.acknowledged;
        self.acknowledged = segment;
        self.sent = self.sent.max(segment);
        self.window = window;
        if self.is_acknowledged() {
            KernelAckOutcome::Complete
        } else {
            KernelAckOutcome::Pending { has_progress }
        }
    }

    /// Continues with the first unacknowledged segment.
    pub(in crate::sim) fn rewind(&mut self) {
        self.sent = self.acknowledged;
    }
}
