//! The snapshot that the programmer of congestion control publishes.

use chrono::{DateTime, Utc};
use std::time::Duration;

/// Numbers of devices, which are end ports: switches and ports of channel adapters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounts {
    /// All devices of the subnet.
    pub all: usize,
    /// Devices that hold their settings.
    pub configured: usize,
    /// Devices without congestion control.
    pub unsupported: usize,
    /// Devices that do not answer, or refuse requests.
    pub failed: usize,
}

/// A round that has ended: the requests to all devices that needed some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionRound {
    /// Time of the end.
    pub ended: DateTime<Utc>,
    pub duration: Duration,
    /// Devices that got requests.
    pub devices: usize,
    pub gets: u64,
    pub sets: u64,
    /// Devices that did not answer, or refused a request, or do not support the class.
    pub failed: usize,
}

/// The state of congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CongestionStatus {
    /// This SM is master and configures congestion control.
    pub is_enabled: bool,
    /// A round is in progress.
    pub is_busy: bool,
    pub devices: DeviceCounts,
    /// Requests since the start of the daemon.
    pub gets: u64,
    pub sets: u64,
    /// Requests without an answer since the start of the daemon.
    pub unanswered: u64,
    /// Answers with an error status since the start of the daemon.
    pub refused: u64,
    pub last_round: Option<CongestionRound>,
}
