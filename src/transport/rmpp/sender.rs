//! The sending end of a transfer.

use super::packet::write_data_header;
use crate::wire::mad::{MAD_SIZE, Mad};
use crate::wire::sa::DATA_OFFSET;
use std::sync::Arc;

/// Bytes of records in a segment.
const SEGMENT_RECORDS: usize = MAD_SIZE - DATA_OFFSET;
/// Segments that may be sent before the first acknowledgement.
const INITIAL_WINDOW: u32 = 1;

/// A message of SA records.
#[derive(Debug)]
pub(super) struct RecordMessage {
    /// The headers that each segment repeats.
    pub(super) headers: [u8; DATA_OFFSET],
    /// Shared by all transfers of the same records.
    pub(super) records: Arc<[u8]>,
}

/// Effect of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckOutcome {
    /// Older than the last acknowledgement.
    Stale,
    /// `has_progress`: more segments are acknowledged than before.
    Pending { has_progress: bool },
    /// All segments are acknowledged.
    Complete,
    /// NewWindowLast is smaller than the segment number.
    WindowTooSmall,
    /// The segment was never sent.
    SegmentTooBig,
}

/// A message that is being sent in segments.
#[derive(Debug)]
pub(super) struct Sender {
    message: RecordMessage,
    segments: u32,
    /// Number of the last segment that was sent since the last rewind.
    sent: u32,
    /// The largest number of a segment that was sent.
    highest_sent: u32,
    acknowledged: u32,
    /// Number of the last segment that the receiver permits.
    window_last: u32,
}

impl Sender {
    pub(super) fn new(message: RecordMessage) -> Self {
        let segments = message.records.len().div_ceil(SEGMENT_RECORDS).max(1);
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        let sent = 0;
        let highest_sent = 0;
        let acknowledged = 0;
        Self { message, segments, sent, highest_sent, acknowledged, window_last: INITIAL_WINDOW }
    }

    pub(super) fn message(&self) -> &RecordMessage {
        &self.message
    }

    /// The message without its sender, which ends.
    pub(super) fn into_message(self) -> RecordMessage {
        self.message
    }

    /// Number of segments that are acknowledged.
    pub(super) fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// The next segment that the window permits.
    pub(super) fn next_segment(&mut self) -> Option<Mad> {
        if self.sent >= self.window_last.min(self.segments) {
            return None;
        }
        debug_assert!(self.acknowledged <= self.sent, "what is acknowledged was sent");
        self.sent += 1;
        self.highest_sent = self.highest_sent.max(self.sent);
        Some(self.segment(self.sent))
    }

    fn segment(&self, number: u32) -> Mad {
        let start = (number as usize - 1) * SEGMENT_RECORDS;
        let records = self.message.records.get(start..).unwrap_or(&[]);
        let records = &records[..records.len().min(SEGMENT_RECORDS)];
        let mut mad = Mad::default();
        mad.0[..DATA_OFFSET].copy_from_slice(&self.message.headers);
        mad.0[DATA_OFFSET..DATA_OFFSET + records.len()].copy_from_slice(records);
        write_data_header(&mut mad, number, self.segments, self.message.records.len());
        mad
    }

    /// Handles the acknowledgement of all segments up to `segment`, which permits segments up to
    /// `window_last`.
    pub(super) fn acknowledge(&mut self, segment: u32, window_last: u32) -> AckOutcome {
        if window_last < segment {
            return AckOutcome::WindowTooSmall;
        }
        if segment > self.highest_sent {
            return AckOutcome::SegmentTooBig;
        }
        if segment < self.acknowledged || window_last < self.window_last {
            return AckOutcome::Stale;
        }
        let has_progress = segment > self.acknowledged;
        self.acknowledged = segment;
        self.window_last = window_last;
        self.sent = self.sent.max(segment);
        if segment == self.segments {
            return AckOutcome::Complete;
        }
        AckOutcome::Pending { has_progress }
    }

    /// Continues with the first segment that is not acknowledged.
    pub(super) fn rewind(&mut self) {
        self.sent = self.acknowledged;
    }
}
