//! What IS: sweeps that look at the fabric, and the intake of traps that say it changed.
//!
//! * [`discovery_state`]: nodes and cables while they are being collected, and how they become a
//!   [`Fabric`];
//! * [`heavy`]: the heavy sweep, which asks everything anew;
//! * [`focused`]: the sweep after a trap, which asks only the switches that changed and takes
//!   the rest from the last picture. A heavy sweep follows it, but rerouting need not wait;
//! * [`light`]: the periodic query to every switch whether anything changed;
//! * [`traps`]: which traps are news, and which are repetitions.
//!
//! Sweeps only send Gets. A node that does not answer or answers nonsense is a
//! [`DiscoveryFault`](crate::fabric::DiscoveryFault) of the picture, never the end of a sweep.

mod discovery_queries;
pub mod discovery_state;
pub mod focused;
pub mod heavy;
pub mod light;
pub mod traps;

use crate::fabric::{Fabric, PortId};
use crate::ids::Guid;
use crate::wire::attr::SmInfo;
use crate::wire::attr::tables::PkeyBlock;
use std::sync::Arc;

/// What a sweep brings home.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The fabric.
    pub fabric: Arc<Fabric>,
    /// By port slot: the P_Key tables as the devices hold them, for end ports and for ports of
    /// switches that face them; empty elsewhere and where the device did not answer.
    pub pkeys: Arc<Vec<Vec<PkeyBlock>>>,
    /// Other subnet managers: their ports and what they said of themselves.
    pub managers: Vec<(PortId, SmInfo)>,
    /// GUIDs of switches whose PortStateChange bit was found set: apply clears it.
    pub changed_switches: Vec<Guid>,
}

/// A sweep found nothing to look at.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SweepError {
    /// The own node does not answer.
    #[error("the local port does not answer NodeInfo: {0}")]
    LocalUnresponsive(String),
    /// The own node answers nonsense.
    #[error("the local port answers NodeInfo with {0}")]
    LocalInvalidAnswer(String),
    /// The own port is down.
    #[error("the link of the local port is down")]
    LocalDown,
}
