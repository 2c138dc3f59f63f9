//! Wrapper that drops MADs between a port and its users, for tests.
//!
//! A MAD dropped here, sent or delivered, bypasses the timeouts and retries of the port, so tests
//! reach the deadlines of the transactions behind them. Losses on the wire are a fault of the
//! simulated fabric instead.
//!
//! Each MAD takes one number from a seeded generator, so a run is repeatable if the order of MADs
//! is the same.

use super::{Delivery, MadPort, MadSink, Outgoing, PortIdentity, SendError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Decides which MADs are lost, repeatably for the same seed.
#[derive(Debug)]
pub struct LossModel {
    state: AtomicU64,
    /// Probability of a loss in units of 2^-32.
    threshold: u64,
    lost: AtomicU64,
}

impl LossModel {
    /// Drops each MAD with `probability`, 0.0..=1.0.
    pub fn new(seed: u64, probability: f64) -> Arc<Self> {
        let threshold = (probability.clamp(0.0, 1.0) * (1_u64 << 32) as f64) as u64;
        Arc::new(Self { state: AtomicU64::new(seed), threshold, lost: AtomicU64::new(0) })
    }

    /// Number of MADs lost.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns true if the next MAD is lost: one step of SplitMix64.
    fn draw(&self) -> bool {
        const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut word = self.state.fetch_add(INCREMENT, Ordering::Relaxed).wrapping_add(INCREMENT);
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        let lost = word >> 32 < self.threshold;
        if lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        lost
    }
}

/// A port that drops some of the MADs to be sent.
pub struct LossyPort {
    inner: Arc<dyn MadPort>,
    losses: Arc<LossModel>,
}

impl LossyPort {
    pub fn new(inner: Arc<dyn MadPort>, losses: Arc<LossModel>) -> Self {
        Self { inner, losses }
    }
}

impl MadPort for LossyPort {
    fn identity(&self) -> &PortIdentity {
        self.inner.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        if self.losses.draw() { Ok(()) } else { self.inner.post(out) }
    }
}

/// A sink that drops some of the delivered MADs.
pub struct LossySink {
    inner: Arc<dyn MadSink>,
    losses: Arc<LossModel>,
}

impl LossySink {
    pub fn new(inner: Arc<dyn MadSink>, losses: Arc<LossModel>) -> Self {
        Self { inner, losses }
    }
}

impl MadSink for LossySink {
    fn deliver(&self, delivery: Delivery<'_>) {
        if !self.losses.draw() {
            self.inner.deliver(delivery);
        }
    }

    fn idle(&self) {
        self.inner.idle();
    }

    fn closed(&self, reason: &str) {
        self.inner.closed(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::LossModel;

    #[test]
    fn losses_are_repeatable_and_have_their_probability() {
        assert_eq!(draws(7, 0.1), draws(7, 0.1));
        assert_ne!(draws(7, 0.1), draws(8, 0.1));
        let lost = draws(7, 0.1).into_iter().filter(|&lost| lost).count();
        assert!((900..1100).contains(&lost), "{lost} of 10000");
        assert!(draws(7, 1.0).into_iter().all(|lost| lost));
        assert!(!draws(7, 0.0).into_iter().any(|lost| lost));
    }

    fn draws(seed: u64, share: f64) -> Vec<bool> {
        let losses = LossModel::new(seed, share);
        (0..10_000).map(|_| losses.draw()).collect::<Vec<_>>()
    }
}
