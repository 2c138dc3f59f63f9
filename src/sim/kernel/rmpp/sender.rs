//! The sending end of a transfer.

use super::{PAYLOAD, VERSION};
use crate::wire::mad::{MAD_SIZE, Mad};
use crate::wire::sa::{RMPP_OFFSET, RmppHeader};

/// What an acknowledgement comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim::kernel) enum Ack {
    /// It tells nothing new.
    Old,
    /// The transfer goes on; `true`: more has arrived there than was known before.
    Goes(bool),
    /// Everything arrived.
    Complete,
    /// Everything had arrived before.
    Repeated,
    /// It acknowledges what was never sent.
    TooBig,
}

/// A message under way in segments.
#[derive(Debug)]
pub(in crate::sim::kernel) struct Sender {
    /// Headers, and all data behind them.
    message: Vec<u8>,
    /// Where the data start.
    offset: usize,
    segments: u32,
    sent: u32,
    acknowledged: u32,
    /// The last segment that may be sent.
    window: u32,
}

impl Sender {
    /// Prepares `message`, whose data start at `offset`; the first `window` segments may go. The
    /// RMPP header is written anew.
    pub(in crate::sim::kernel) fn new(message: Vec<u8>, offset: usize, window: u32) -> Self {
        let data = message.len().saturating_sub(offset);
        let segments = data.div_ceil(MAD_SIZE - offset).max(1);
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        Self { message, offset, segments, sent: 0, acknowledged: 0, window }
    }

    /// The headers of the message.
    pub(in crate::sim::kernel) fn head(&self) -> &[u8] {
        &self.message[..self.message.len().min(MAD_SIZE)]
    }

    /// The next segment, if the window lets it go.
    pub(in crate::sim::kernel) fn next(&mut self) -> Option<Mad> {
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
        let data = self.message.get(start..end).unwrap_or_default();
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

    /// Of the whole message in the first segment, else of the last one in that.
    fn payload_length(&self, number: u32) -> u32 {
        let segments = self.segments as usize;
        let data = self.message.len().saturating_sub(self.offset);
        let padding = segments * (MAD_SIZE - self.offset) - data;
        let length = match number {
            _ if number == self.segments => PAYLOAD - padding,
            1 => segments * PAYLOAD - padding,
            _ => 0,
        };
        length as u32
    }

    /// True once the other end has everything.
    pub(in crate::sim::kernel) fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.segments
    }

    /// Takes an acknowledgement of all segments up to `segment`, which lets those up to `window`
    /// go. `window` is not below `segment`.
    pub(in crate::sim::kernel) fn ack(&mut self, segment: u32, window: u32) -> Ack {
        if self.is_acknowledged() {
            return Ack::Repeated;
        }
        if segment > self.segments || segment > self.window {
            return Ack::TooBig;
        }
        if window < self.window || segment < self.acknowledged {
            return Ack::Old;
        }
        let news = segment > self.acknowledged;
        self.acknowledged = segment;
        self.sent = self.sent.max(segment);
        self.window = window;
        if self.is_acknowledged() { Ack::Complete } else { Ack::Goes(news) }
    }

    /// Starts again behind what was acknowledged.
    pub(in crate::sim::kernel) fn rewind(&mut self) {
        self.sent = self.acknowledged;
    }
}
