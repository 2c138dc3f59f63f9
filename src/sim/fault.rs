//! What goes wrong in a fabric, by seed: the same seed gives the same faults.

use std::collections::HashMap;
use std::time::Duration;

/// A small deterministic generator (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// True with the probability `chance` (0.0 to 1.0).
    pub(super) fn happens(&mut self, chance: f64) -> bool {
        chance > 0.0 && ((self.next() >> 11) as f64) < chance * (1u64 << 53) as f64
    }

    /// A time from nothing to `longest`.
    fn up_to(&mut self, longest: Duration) -> Duration {
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 { Duration::ZERO } else { Duration::from_nanos(self.next() % nanos) }
    }

    /// Fills `bytes` with noise.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// How a node misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misbehaviour {
    /// It answers nothing and sends nothing; it still forwards.
    Silent,
    /// The attribute data of its answers is noise.
    Garbage,
    /// Its answers carry a transaction ID that nobody used.
    WrongTid,
    /// It answers Sets of SL to VL mappings with a status, though it says that it has them.
    RefusesSlToVl,
}

/// The faults in force.
pub(super) struct Faults {
    pub(super) random: Random,
    /// Chance that a MAD is lost on its way, whatever the way.
    pub(super) loss: f64,
    /// Chance by port slot, for each crossing of that link in this direction.
    pub(super) link_loss: HashMap<u32, f64>,
    /// Chance by port slot that what comes in there is damaged; with an attribute, that a
    /// request for it is not heard instead.
    pub(super) errors: HashMap<u32, (f64, Option<u16>)>,
    /// Chance that bits of a MAD are turned over and nobody notices.
    pub(super) corruption: Corruption,
    /// Travel time of a MAD one way.
    pub(super) delay: Duration,
    /// Up to so much longer it may take: MADs overtake each other.
    pub(super) jitter: Duration,
    /// Chance that a MAD arrives twice.
    pub(super) duplication: f64,
    pub(super) nodes: HashMap<u32, Misbehaviour>,
}

/// Chances of undetected damage.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Corruption {
    /// Of requests and other MADs that are no answers.
    pub(super) requests: f64,
    /// Of answers.
    pub(super) answers: f64,
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

    /// True if nothing happens to packets between the ports.
    pub(super) fn are_none(&self) -> bool {
        self.loss <= 0.0
            && self.duplication <= 0.0
            && self.delay.is_zero()
            && self.jitter.is_zero()
            && self.corruption == Corruption::default()
    }

    /// What becomes of a packet: the travel time of each copy that arrives, if any does.
    pub(super) fn fates(&mut self) -> Vec<Duration> {
        if self.random.happens(self.loss) {
            return Vec::new();
        }
        let copies = if self.random.happens(self.duplication) { 2 } else { 1 };
        (0..copies).map(|_| self.delay + self.random.up_to(self.jitter)).collect()
    }

    /// True if a packet survives the crossing of the link at `slot`.
    pub(super) fn crosses(&mut self, slot: u32) -> bool {
        if self.link_loss.is_empty() {
            return true;
        }
        let chance = self.link_loss.get(&slot).copied().unwrap_or(0.0);
        !self.random.happens(chance)
    }

    /// True if a packet survives coming in at `slot`.
    pub(super) fn enters(&mut self, slot: u32) -> bool {
        if self.errors.is_empty() {
            return true;
        }
        match self.errors.get(&slot) {
            Some(&(chance, None)) => !self.random.happens(chance),
            _ => true,
        }
    }

    /// True if the agent behind `slot` hears a request for the attribute.
    pub(super) fn hears(&mut self, slot: u32, attr_id: u16) -> bool {
        if self.errors.is_empty() {
            return true;
        }
        match self.errors.get(&slot) {
            Some(&(chance, Some(deaf_to))) if deaf_to == attr_id => !self.random.happens(chance),
            _ => true,
        }
    }

    /// Turns up to four bits of the message over, if it so happens.
    pub(super) fn corrupt(&mut self, bytes: &mut [u8], is_answer: bool) {
        let Corruption { requests, answers } = self.corruption;
        let chance = if is_answer { answers } else { requests };
        if bytes.is_empty() || !self.random.happens(chance) {
            return;
        }
        for _ in 0..=self.random.next() % 4 {
            let word = self.random.next();
            let at = (word >> 8) as usize % bytes.len();
            bytes[at] ^= 1 << (word & 7);
        }
    }

    /// Ends all faults; the draws go on.
    pub(super) fn end(&mut self) {
        *self = Self::new(self.random.0);
    }

    pub(super) fn is(&self, node: u32, misbehaviour: Misbehaviour) -> bool {
        !self.nodes.is_empty() && self.nodes.get(&node) == Some(&misbehaviour)
    }
}
