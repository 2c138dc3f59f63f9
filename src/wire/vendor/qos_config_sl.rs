//! QosConfigSL: the bandwidth share and the rate limit of each SL of a port.

use super::facts::{QOS_CONFIG_SL_INDEX, QOS_CONFIG_SL_VPORT, RATE_LIMIT_BITS};
use crate::ids::{PortNum, Sl};
use crate::wire::smp::DATA_SIZE;
use std::fmt;

/// Number of SLs.
pub const SLS: usize = 16;
const WORD_BYTES: usize = 4;
/// The largest rate limit.
pub const MAX_RATE_LIMIT: u32 = (1 << RATE_LIMIT_BITS.value) - 1;

/// QosConfigSL: one word for each SL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QosConfigSl(pub [u8; DATA_SIZE]);

impl Default for QosConfigSl {
    /// No share and no limit.
    fn default() -> Self {
        Self([0; DATA_SIZE])
    }
}

impl QosConfigSl {
    /// No shares, and these limits.
    pub fn with_limits(limits: &[u32; SLS]) -> Self {
        Self::default().with_rate_limits(limits)
    }

    /// The same shares, and these limits.
    #[must_use]
    pub fn with_rate_limits(mut self, limits: &[u32; SLS]) -> Self {
        for (sl, &limit) in (0..).map(Sl).zip(limits) {
            self.set_rate_limit(sl, limit);
        }
        self
    }

    /// The attribute modifier of a physical port.
    pub fn of_port(num: PortNum) -> u32 {
        u32::from(num.0) & QOS_CONFIG_SL_INDEX.value
    }

    /// The attribute modifier of a virtual port.
    pub fn of_vport(index: u16) -> u32 {
        u32::from(index) & QOS_CONFIG_SL_INDEX.value | QOS_CONFIG_SL_VPORT.value
    }

    /// The number in an attribute modifier: of a virtual port, or of a physical one; `None` if it
    /// sets other bits.
    pub fn target(modifier: u32) -> Option<QosTarget> {
        let is_vport = modifier & QOS_CONFIG_SL_VPORT.value != 0;
        let index = modifier & !QOS_CONFIG_SL_VPORT.value;
        let index = u16::try_from(index & QOS_CONFIG_SL_INDEX.value)
            .ok()
            .filter(|&number| u32::from(number) == index)?;
        Some(if is_vport { QosTarget::VirtualPort(index) } else { QosTarget::Port(index) })
    }

    fn word(&self, sl: Sl) -> u32 {
        let at = usize::from(sl.0) % SLS * WORD_BYTES;
        self.0[at..at + WORD_BYTES].iter().fold(0, |word, &byte| word << 8 | u32::from(byte))
    }

    fn set_word(&mut self, sl: Sl, word: u32) {
        let at = usize::from(sl.0) % SLS * WORD_BYTES;
        self.0[at..at + WORD_BYTES].copy_from_slice(&word.to_be_bytes());
    }

    /// The rate limit of an SL.
    pub fn rate_limit(&self, sl: Sl) -> u32 {
        self.word(sl) & MAX_RATE_LIMIT
    }

    /// Sets the rate limit of an SL; its share stays. Bits above [`MAX_RATE_LIMIT`] are dropped.
    pub fn set_rate_limit(&mut self, sl: Sl, limit: u32) {
        self.set_word(sl, self.word(sl) & !MAX_RATE_LIMIT | limit & MAX_RATE_LIMIT);
    }

    /// The bandwidth share of an SL.
    pub fn bandwidth_share(&self, sl: Sl) -> u32 {
        self.word(sl) >> RATE_LIMIT_BITS.value
    }

    /// The rate limits of all SLs.
    pub fn rate_limits(&self) -> [u32; SLS] {
        std::array::from_fn(|sl| self.rate_limit(Sl(sl as u8)))
    }
}

impl fmt::Debug for QosConfigSl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QosConfigSl({:?})", self.rate_limits())
    }
}

/// The port that a QosConfigSL is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QosTarget {
    Port(u16),
    VirtualPort(u16),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sl_is_a_word_with_the_limit_in_the_low_bits() {
        let mut config = QosConfigSl::default();
        config.0[12..16].copy_from_slice(&[0xAB, 0xC0, 0, 0]);
        config.set_rate_limit(Sl(3), 0x1234_5678);
        assert_eq!(config.0[12..16], [0xAB, 0xC4, 0x56, 0x78]);
        assert_eq!(config.rate_limit(Sl(3)), 0x4_5678);
        assert_eq!(config.bandwidth_share(Sl(3)), 0xABC);
        assert!(config.0[..12].iter().chain(&config.0[16..]).all(|&byte| byte == 0));
    }

    #[test]
    fn limits_survive_the_wire() {
        let limits: [u32; SLS] = std::array::from_fn(|sl| MAX_RATE_LIMIT - sl as u32);
        assert_eq!(QosConfigSl::with_limits(&limits).rate_limits(), limits);
    }

    #[test]
    fn the_modifier_names_the_port() {
        assert_eq!(QosConfigSl::target(QosConfigSl::of_port(PortNum(2))), Some(QosTarget::Port(2)));
        assert_eq!(QosConfigSl::target(0x8000_0105), Some(QosTarget::VirtualPort(0x105)));
        assert_eq!(QosConfigSl::target(0x0001_0002), None);
    }
}
