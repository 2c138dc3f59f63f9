//! Faults in force. The same seed gives the same sequence of faults.

use super::node_faults::FaultyNodes;
use super::random::Random;
use super::transit_faults::{FaultsByKind, LinkFaults};
use std::collections::HashMap;

/// Faults in force, except those of cables.
pub(super) struct Faults {
    pub(super) random: Random,
    /// Faults of MADs on whatever route.
    pub(super) transit: FaultsByKind,
    /// Faults of MADs by the ports through which they are sent.
    pub(super) links: LinkFaults,
    /// Probability by port slot that a received MAD is corrupted and dropped; with an attribute
    /// ID, that a request for this attribute is ignored instead.
    pub(super) errors: HashMap<u32, (f64, Option<u16>)>,
    /// Probability of bit errors that no CRC detects.
    pub(super) corruption: Corruption,
    pub(super) nodes: FaultyNodes,
}

/// Probabilities of undetected bit errors.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Corruption {
    /// In requests and all other MADs that are not responses.
    pub(super) requests: f64,
    pub(super) responses: f64,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            transit: FaultsByKind::default(),
            links: LinkFaults::default(),
            errors: HashMap::new(),
            corruption: Corruption::default(),
            nodes: FaultyNodes::default(),
        }
    }

    /// True if no fault affects packets of the whole fabric.
    pub(super) fn are_none(&self) -> bool {
        self.transit.are_none() && self.corruption == Corruption::default()
    }

    /// False if a packet received through `slot` is corrupted.
    pub(super) fn survives_entry(&mut self, slot: u32) -> bool {
        if self.errors.is_empty() {
            return true;
        }
        match self.errors.get(&slot) {
            Some(&(chance, None)) => !self.random.chance(chance),
            _ => true,
        }
    }

    /// False if a request for the attribute, received through `slot`, is ignored.
    pub(super) fn accepts_request(&mut self, slot: u32, attr_id: u16) -> bool {
        if self.errors.is_empty() {
            return true;
        }
        match self.errors.get(&slot) {
            Some(&(chance, Some(ignored))) if ignored == attr_id => !self.random.chance(chance),
            _ => true,
        }
    }

    /// Flips one to four bits of the message, with the probability of undetected bit errors.
    pub(super) fn corrupt(&mut self, bytes: &mut [u8], is_response: bool) {
        let Corruption { requests, responses } = self.corruption;
        let chance = if is_response { responses } else { requests };
        if bytes.is_empty() || !self.random.chance(chance) {
            return;
        }
        for _ in 0..=self.random.next() % 4 {
            let word = self.random.next();
            let at = (word >> 8) as usize % bytes.len();
            bytes[at] ^= 1 << (word & 7);
        }
    }

    /// Ends all faults, without restarting the sequence of random numbers.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.random.0);
    }
}
