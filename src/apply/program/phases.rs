//! The phases of programming, as data.
//!
//! All tables are written before any port becomes ARMED, so that a cold fabric never forwards by
//! incomplete tables. P_Keys that move within their table take several rounds (see
//! [`crate::plan::partitions::steps`]); the later rounds follow the tables. A switch gets another
//! M_Key while no other Set to it is in flight. Ports become ACTIVE after all possible ports are
//! ARMED, because a port may only become ACTIVE if its peer is at least ARMED (IBA vol. 1, 7.2.7).
//! On a fabric that carries traffic, entries that move packets from a working route to links
//! activated by this plan come last, and then changes of the VLs of links in use. The order within
//! the tables is that of [`crate::apply::transition`].

use crate::plan::partitions::steps;
use std::fmt;

/// A phase. All its Sets are answered before the next phase begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum Phase {
    /// SwitchInfo, forwarding, SL to VL, VL arbitration and P_Key tables.
    Tables,
    /// The remaining rounds of P_Key tables that take several.
    Keys,
    /// PortInfo, and INIT → ARMED.
    Ports,
    /// PortInfo of ports 0 of switches that get another M_Key.
    SwitchKeys,
    /// ARMED → ACTIVE.
    Activation,
    /// Forwarding table entries that lead to ports activated by this plan, and SL to VL mappings of
    /// links in use.
    Moves,
}

/// All phases, in order.
pub const PHASES: [Phase; 6] =
    [Phase::Tables, Phase::Keys, Phase::Ports, Phase::SwitchKeys, Phase::Activation, Phase::Moves];

impl Phase {
    /// Maximum number of rounds of the phase; it ends earlier when nothing is left to send.
    pub fn max_rounds(self) -> usize {
        if self == Self::Keys { steps::MAX_ROUNDS } else { 1 }
    }

    /// Name that stays the same when the wording of messages changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tables => "tables",
            Self::Keys => "moved_pkeys",
            Self::Ports => "ports",
            Self::SwitchKeys => "switch_m_keys",
            Self::Activation => "activation",
            Self::Moves => "moves",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tables => "tables",
            Self::Keys => "moved P_Keys",
            Self::Ports => "port settings",
            Self::SwitchKeys => "M_Keys of switches",
            Self::Activation => "activation",
            Self::Moves => "moves to new links",
        })
    }
}
