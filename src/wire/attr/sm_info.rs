//! SMInfo: IBA vol. 1, 14.2.5.13.

use crate::ids::{Guid, SmKey};
use crate::wire::bits::{Field, record};
use std::fmt;

record! {
    /// SMInfo, IBA vol. 1, 14.2.5.13.
    pub struct SmInfo[21] {
        /// GUID of the port the SM runs at.
        guid, set_guid: Guid = 0, 64;
        /// SM_Key; 0 for untrusted requesters.
        sm_key, set_sm_key: SmKey = 64, 64;
        /// ActCount, which increases while the subnet manager is alive.
        act_count, set_act_count: u32 = 128, 32;
        /// Priority, 0..=15; the highest becomes master.
        priority, set_priority: u8 = 160, 4;
        state, set_state: SmState = 164, 4;
    }
}

/// States of a subnet manager (IBA vol. 1, 14.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SmState {
    /// Disabled by a master.
    NotActive,
    /// Discovering the subnet.
    Discovering,
    /// Polling the master.
    Standby,
    /// Master of the subnet.
    Master,
    /// An undefined code.
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
    /// The names in OpenSM's log.
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
