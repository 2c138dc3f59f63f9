//! Fault injection. The same seed gives the same sequence of faults.

use std::collections::HashMap;
use std::time::Duration;

/// Pseudo-random number generator (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// True with this probability (0.0 to 1.0).
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A duration from zero to `longest`, exclusive.
    fn duration_below(&mut self, longest: Duration) -> Duration {
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 { Duration::ZERO } else { Duration::from_nanos(self.next() % nanos) }
    }

    /// Fills `bytes` with random bits.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Misbehaviour of a node's management agents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misbehaviour {
    /// Sends no response and no trap; packets are still forwarded.
    Silent,
    /// The attribute data of responses is random.
    Garbage,
    /// Responses carry another transaction ID than the request.
    WrongTid,
    /// Set(SLtoVLMappingTable) is answered with an error status, contrary to the capabilities in
    /// PortInfo.
    RefusesSlToVl,
}

/// Faults in force.
pub(super) struct Faults {
    pub(super) random: Random,
    /// Probability that a MAD is lost, on whatever route.
    pub(super) loss: f64,
    /// Probability that a MAD sent through a port is lost on its link, by port slot.
    pub(super) link_loss: HashMap<u32, f64>,
    /// Probability by port slot that a received MAD is corrupted and dropped; with an attribute
    /// ID, that a request for this attribute is ignored instead.
    pub(super) errors: HashMap<u32, (f64, Option<u16>)>,
    /// Probability of bit errors that no CRC detects.
    pub(super) corruption: Corruption,
    /// One-way delay of a MAD.
    pub(super) delay: Duration,
    /// Upper bound of a random additional delay, which reorders MADs.
    pub(super) jitter: Duration,
    /// Probability that a MAD arrives twice.
    pub(super) duplication: f64,
    pub(super) nodes: HashMap<u32, Misbehaviour>,
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
            loss: 0.0,
            link_loss: HashMap::new(),
            errors: HashMap::new(),
            corruption: Corruption::default(),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            duplication: 0.0,
            nodes: HashMap::new(),
        }
    }

    /// True if no fault affects packets of the whole fabric.
    pub(super) fn are_none(&self) -> bool {
        self.loss <= 0.0
            && self.duplication <= 0.0
            && self.delay.is_zero()
            && self.jitter.is_zero()
            && self.corruption == Corruption::default()
    }

    /// Draws the delay of each copy of a packet that arrives; none if the packet is lost.
    pub(super) fn draw_copies(&mut self) -> Vec<Duration> {
        if self.random.chance(self.loss) {
            return Vec::new();
        }
        let copies = if self.random.chance(self.duplication) { 2 } else { 1 };
        (0..copies).map(|_| self.delay + self.random.duration_below(self.jitter)).collect()
    }

    /// False if a packet sent through `slot` is lost on the link.
    pub(super) fn survives_link(&mut self, slot: u32) -> bool {
        if self.link_loss.is_empty() {
            return true;
        }
        let chance = self.link_loss.get(&slot).copied().unwrap_or(0.0);
        !self.random.chance(chance)
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

    pub(super) fn node_has(&self, node: u32, misbehaviour: Misbehaviour) -> bool {
        !self.nodes.is_empty() && self.nodes.get(&node) == Some(&misbehaviour)
    }
}
