//! Defects of cables.

use std::time::Duration;

/// Defects of a cable or of one of its plugs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CableFault {
    /// Widths that work, see [`crate::wire::attr::LinkWidth`].
    pub(super) widths: u8,
    /// Speeds that work, as [`crate::fabric::link_rate::LinkSpeed::enabled_mask`] numbers them.
    pub(super) speeds: u8,
    /// Time from the physical state Polling to the port state INIT.
    pub(super) training_time: Duration,
}

impl CableFault {
    pub(super) const NONE: Self =
        Self { widths: u8::MAX, speeds: u8::MAX, training_time: Duration::ZERO };

    /// True if the link cannot use all widths and speeds.
    pub(super) fn is_degraded(&self) -> bool {
        (self.widths, self.speeds) != (Self::NONE.widths, Self::NONE.speeds)
    }

    /// Defects of a cable with the defects of both plugs.
    pub(super) fn combine(self, other: Self) -> Self {
        Self {
            widths: self.widths & other.widths,
            speeds: self.speeds & other.speeds,
            training_time: self.training_time.max(other.training_time),
        }
    }
}
