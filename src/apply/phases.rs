//! The order of programming, as data.
//!
//! Tables come before any port of the fabric goes ARMED, so that no packet is forwarded by a
//! half-written table of a cold fabric; P_Keys that move within their table take several steps
//! (see [`crate::plan::partitions::steps`]), of which the later ones come next; ports go ACTIVE
//! after all that can be are ARMED, because a port may only become ACTIVE when its peer is at
//! least ARMED (IBA vol. 1, 7.2.7). Last, in a fabric that is at work, come the entries that lead
//! packets from a route that works to links that only now work too. The order within the tables is
//! that of [`super::transition`].

use crate::plan::partitions::steps;
use std::fmt;

/// A phase. All Sets of a phase are answered before the next begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum Phase {
    /// SwitchInfo, forwarding, SL to VL, VL arbitration and P_Key tables.
    Tables,
    /// P_Key tables that could not be written in one go.
    Keys,
    /// PortInfo, and INIT → ARMED.
    Ports,
    /// ARMED → ACTIVE.
    Activation,
    /// Forwarding tables once more: routes over the ports that are ACTIVE now.
    Moves,
}

/// All phases in their order.
pub const PHASES: [Phase; 5] =
    [Phase::Tables, Phase::Keys, Phase::Ports, Phase::Activation, Phase::Moves];

impl Phase {
    /// How often the phase is gone through, as long as there is something to be sent.
    pub fn max_rounds(self) -> usize {
        if self == Self::Keys { steps::MAX_ROUNDS } else { 1 }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tables => "tables",
            Self::Keys => "moved P_Keys",
            Self::Ports => "port settings",
            Self::Activation => "activation",
            Self::Moves => "moves to new links",
        })
    }
}
