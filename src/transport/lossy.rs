//! Any port, with losses: for finding out how the layers above live with a port that does not
//! keep its promise.
//!
//! A lost MAD is gone without a word, on its way out or in. The port's own timeouts and retries
//! do not see it, so that this tests the deadlines behind them; losses on the wire, which they
//! do see, are a fault of the simulated fabric.
//!
//! LossModel are drawn from a seed, one draw per MAD in the order in which they pass, so that a run
//! repeats as far as that order does.

use super::{Delivery, MadPort, MadSink, Outgoing, PortIdentity, SendError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Decides what is lost, the same way for the same seed.
#[derive(Debug)]
pub struct LossModel {
    state: AtomicU64,
    /// Of 2^32.
    threshold: u64,
    lost: AtomicU64,
}

impl LossModel {
    /// LossModel with the probability `share`, 0.0..=1.0.
    pub fn new(seed: u64, share: f64) -> Arc<Self> {
        let threshold = (share.clamp(0.0, 1.0) * (1_u64 << 32) as f64) as u64;
        Arc::new(Self { state: AtomicU64::new(seed), threshold, lost: AtomicU64::new(0) })
    }

    /// How many MADs were lost so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether the next MAD is lost: one step of SplitMix64.
    fn draw(&self) -> bool {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut word = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
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

/// Loses what is sent.
pub struct LossyPort {
    inner: Arc<dyn MadPort>,
    losses: Arc<LossModel>,
}

impl LossyPort {
    /// `inner`, sending only part of what it is given.
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

/// Loses what is delivered.
pub struct LossySink {
    inner: Arc<dyn MadSink>,
    losses: Arc<LossModel>,
}

impl LossySink {
    /// `inner`, hearing only part of what arrives.
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
    fn losses_repeat_and_have_their_share() {
        let draws = |seed, share| {
            let losses = LossModel::new(seed, share);
            (0..10_000).map(|_| losses.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draws(7, 0.1), draws(7, 0.1));
        assert_ne!(draws(7, 0.1), draws(8, 0.1));
        let lost = draws(7, 0.1).into_iter().filter(|&lost| lost).count();
        assert!((900..1100).contains(&lost), "{lost} of 10000");
        assert!(draws(7, 1.0).into_iter().all(|lost| lost));
        assert!(!draws(7, 0.0).into_iter().any(|lost| lost));
    }
}
