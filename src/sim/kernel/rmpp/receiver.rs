//! Receiving end of an RMPP transfer.

use super::{INITIAL_WINDOW, RECEIVE_WINDOW, SEGMENT_PAYLOAD, header};
use crate::wire::mad::{MAD_SIZE, Mad};
use std::collections::BTreeMap;

/// Effect of a received segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) enum KernelSegmentOutcome {
    /// No acknowledgement is due.
    NoReply,
    /// An acknowledgement is due.
    Acknowledge,
    /// The message is complete, and an acknowledgement is due.
    Complete,
}

/// A message that is being reassembled or was completed before.
#[derive(Debug)]
pub(in crate::sim) struct KernelRmppReceiver {
    /// Headers of the first segment, and the data of all segments up to `received`. Empty once
    /// taken.
    message: Vec<u8>,
    offset: usize,
    /// Number of the last segment received in sequence.
    received: u32,
    /// Number of the last segment that the sender may send.
    window: u32,
    acknowledged: u32,
    /// Segments received out of sequence: at most one window.
    out_of_order: BTreeMap<u32, Mad>,
    complete: bool,
    /// Bytes of padding at the end of `message`, from the segment `received`.
    padding: usize,
}

impl KernelRmppReceiver {
    /// Starts with the first segment of a message with data from `offset`.
    pub(in crate::sim) fn new(first: &Mad, offset: usize) -> (Self, KernelSegmentOutcome) {
        let mut receiver = Self {
            message: first.0[..offset].to_vec(),
            offset,
            received: 0,
            window: INITIAL_WINDOW,
            acknowledged: 0,
            out_of_order: BTreeMap::new(),
            complete: false,
            padding: 0,
        };
        if receiver.append(first) {
            receiver.complete = true;
            return (receiver, KernelSegmentOutcome::Complete);
        }
        receiver.window += RECEIVE_WINDOW;
        (receiver, KernelSegmentOutcome::Acknowledge)
    }

    /// Appends the next segment; true if it is the last.
    fn append(&mut self, mad: &Mad) -> bool {
        let rmpp = header(mad);
        self.message.extend_from_slice(&mad.0[self.offset..MAD_SIZE]);
        self.received += 1;
        self.padding = SEGMENT_PAYLOAD.saturating_sub(rmpp.payload_length() as usize);
        rmpp.last()
    }

    /// Handles a segment, except the first segment of a new message.
    pub(in crate::sim) fn receive(&mut self, number: u32, mad: &Mad) -> KernelSegmentOutcome {
        if number > self.window {
            return KernelSegmentOutcome::NoReply;
        }
        if self.complete || number <= self.acknowledged {
            return KernelSegmentOutcome::Acknowledge;
        }
        if number <= self.received || self.out_of_order.contains_key(&number) {
            return KernelSegmentOutcome::NoReply;
        }
        if number != self.received + 1 {
            self.out_of_order.insert(number, *mad);
            return KernelSegmentOutcome::NoReply;
        }
        let mut last = self.append(mad);
        while let Some(next) = self.out_of_order.remove(&(self.received + 1)) {
            last = self.append(&next);
        }
        if last {
            self.complete = true;
            self.out_of_order.clear();
            return KernelSegmentOutcome::Complete;
        }
        if self.received < self.window {
            return KernelSegmentOutcome::NoReply;
        }
        self.window += RECEIVE_WINDOW;
        KernelSegmentOutcome::Acknowledge
    }

    pub(in crate::sim) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Acknowledges all segments received in sequence. Returns the number of the last one, and of
    /// the last segment that the sender may send.
    pub(in crate::sim) fn acknowledge(&mut self) -> (u32, u32) {
        self.acknowledged = self.received;
        (self.received, self.window)
    }

    /// Takes the complete message, without padding.
    pub(in crate::sim) fn take(&mut self) -> Vec<u8> {
        let mut message = std::mem::take(&mut self.message);
        message.truncate(message.len().saturating_sub(self.padding));
        message
    }
}
