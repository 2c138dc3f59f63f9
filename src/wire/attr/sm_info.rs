//! SMInfo: IBA vol. 1, 14.2.5.13.

use crate::ids::Guid;
use crate::wire::bits::{Field, record};
use std::fmt;

record! {
    /// SMInfo, IBA vol. 1, 14.2.5.13.
    pub struct SmInfo[21] {
        /// GUID of the port the SM runs at.
        guid, set_guid: Guid = 0, 64;
        /// Key of the SM; 0 unless the asker is trusted.
        sm_key, set_sm_key: u64 = 64, 64;
        /// Counter that moves while the SM lives.
        act_count, set_act_count: u32 = 128, 32;
        /// Priority, 0..=15; the highest becomes master.
        priority, set_priority: u8 = 160, 4;
        /// State of the SM.
        state, set_state: SmState = 164, 4;
    }
}

/// States of a subnet manager (IBA vol. 1, 14.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SmState {
    /// Switched off by a master.
    NotActive,
    /// Looking for other SMs.
    Discovering,
    /// Waiting for the master to vanish.
    Standby,
    /// Managing the subnet.
    Master,
    /// A code without a name.
    Unknown(u8),
}

impl Field for SmState {
    fn from_bits(bits: u64) -> Self {
        match bits as u8 {
            0 => Self::NotActive,
            1 => Self::Discovering,
            2 => Self::Standby,
            3 => Self::Master,
            other => Self::Unknown(other),
        }
    }

    fn to_bits(self) -> u64 {
        match self {
            Self::NotActive => 0,
            Self::Discovering => 1,
            Self::Standby => 2,
            Self::Master => 3,
            Self::Unknown(other) => other.into(),
        }
    }
}

impl fmt::Display for SmState {
    /// The words of OpenSM's log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotActive => "NOT-ACTIVE",
            Self::Discovering => "DISCOVERING",
            Self::Standby => "STANDBY",
            Self::Master => "MASTER",
            Self::Unknown(_) => "UNKNOWN",
        })
    }
}
