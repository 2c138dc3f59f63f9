//! The order of programming, as data.
//!
//! Tables come before any port of the fabric goes ARMED, so that no packet is forwarded by a
//! half-written table of a cold fabric; ports go ACTIVE after all that can be are ARMED, because
//! a port may only become ACTIVE when its peer is at least ARMED (IBA vol. 1, 7.2.7).

use std::fmt;

/// A phase. All Sets of a phase are answered before the next begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum Phase {
    /// SwitchInfo, forwarding, SL to VL, VL arbitration and P_Key tables.
    Tables,
    /// PortInfo, and INIT → ARMED.
    Ports,
    /// ARMED → ACTIVE.
    Activation,
}

/// All phases in their order.
pub const ORDER: [Phase; 3] = [Phase::Tables, Phase::Ports, Phase::Activation];

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tables => "tables",
            Self::Ports => "port settings",
            Self::Activation => "activation",
        })
    }
}
