//! The receiving end of a transfer.

use super::{PAYLOAD, WINDOW, header};
use crate::wire::mad::{MAD_SIZE, Mad};
use std::collections::BTreeMap;

/// What a segment comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim::kernel) enum Step {
    /// Nothing is to be said.
    Quiet,
    /// It is to be acknowledged with [`Receiver::position`].
    Ack,
    /// The message is complete and its end to be acknowledged.
    Complete,
}

/// A message of which not everything is there, or one that was complete a while ago.
#[derive(Debug)]
pub(in crate::sim::kernel) struct Receiver {
    /// Headers of the first segment, and the data up to `arrived`. Empty when taken.
    message: Vec<u8>,
    offset: usize,
    /// All segments up to this one are there.
    arrived: u32,
    /// The last segment that may come.
    window: u32,
    acknowledged: u32,
    /// Segments that came before their turn: at most a window full.
    early: BTreeMap<u32, Mad>,
    complete: bool,
    /// Bytes of the message that are padding of the segment `arrived`.
    padding: usize,
}

impl Receiver {
    /// Starts with the first segment of a message whose data start at `offset`.
    pub(in crate::sim::kernel) fn new(first: &Mad, offset: usize) -> (Self, Step) {
        let mut receiver = Self {
            message: first.0[..offset].to_vec(),
            offset,
            arrived: 0,
            window: 1,
            acknowledged: 0,
            early: BTreeMap::new(),
            complete: false,
            padding: 0,
        };
        if receiver.append(first) {
            receiver.complete = true;
            return (receiver, Step::Complete);
        }
        receiver.window += WINDOW;
        (receiver, Step::Ack)
    }

    /// Adds the next segment; true if it is marked the last.
    fn append(&mut self, mad: &Mad) -> bool {
        let rmpp = header(mad);
        self.message.extend_from_slice(&mad.0[self.offset..MAD_SIZE]);
        self.arrived += 1;
        self.padding = PAYLOAD.saturating_sub(rmpp.payload_length() as usize);
        rmpp.last()
    }

    /// Takes any segment but the first one of a new message.
    pub(in crate::sim::kernel) fn segment(&mut self, number: u32, mad: &Mad) -> Step {
        if number > self.window {
            return Step::Quiet;
        }
        if self.complete || number <= self.acknowledged {
            return Step::Ack;
        }
        if number <= self.arrived || self.early.contains_key(&number) {
            return Step::Quiet;
        }
        if number != self.arrived + 1 {
            self.early.insert(number, *mad);
            return Step::Quiet;
        }
        let mut last = self.append(mad);
        while let Some(next) = self.early.remove(&(self.arrived + 1)) {
            last = self.append(&next);
        }
        if last {
            self.complete = true;
            self.early.clear();
            return Step::Complete;
        }
        if self.arrived < self.window {
            return Step::Quiet;
        }
        self.window += WINDOW;
        Step::Ack
    }

    /// True once the message was complete.
    pub(in crate::sim::kernel) fn is_complete(&self) -> bool {
        self.complete
    }

    /// What is acknowledged from now on: the last segment of those that are there, and the last
    /// that may come.
    pub(in crate::sim::kernel) fn position(&mut self) -> (u32, u32) {
        self.acknowledged = self.arrived;
        (self.arrived, self.window)
    }

    /// The message: once, when it is complete.
    pub(in crate::sim::kernel) fn take(&mut self) -> Vec<u8> {
        let mut message = std::mem::take(&mut self.message);
        message.truncate(message.len().saturating_sub(self.padding));
        message
    }
}
