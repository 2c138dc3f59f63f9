//! The snapshot of vendor-specific capabilities that readers get.

use super::adaptive::target::AdaptiveTarget;
use super::adaptive::{AdaptiveCounts, AdaptiveSwitchState};
use super::rates::RateCounts;
use crate::ids::Guid;
use crate::wire::vendor::capabilities::Capabilities;
use std::collections::BTreeMap;

/// The answer of a node to GeneralInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapabilityAnswer {
    Capabilities(Capabilities),
    /// The node does not know the attribute.
    Unsupported,
    Unanswered,
    /// The node answered with this status.
    Refused(u16),
}

impl CapabilityAnswer {
    /// The capabilities of the node; none unless it announced some.
    pub fn capabilities(self) -> Capabilities {
        match self {
            Self::Capabilities(capabilities) => capabilities,
            Self::Unsupported | Self::Unanswered | Self::Refused(_) => Capabilities::NONE,
        }
    }

    /// The answer in a word: `answered`, `unsupported`, `unanswered` or `refused`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Capabilities(_) => "answered",
            Self::Unsupported => "unsupported",
            Self::Unanswered => "unanswered",
            Self::Refused(_) => "refused",
        }
    }
}

/// The state of vendor-specific attributes.
#[derive(Clone, Debug, Default)]
pub struct VendorStatus {
    /// This SM is master and uses vendor-specific attributes.
    pub is_enabled: bool,
    /// Nodes that were not asked yet.
    pub waiting: usize,
    /// The answers by node GUID.
    pub nodes: BTreeMap<Guid, CapabilityAnswer>,
    /// Requests since the start of the daemon.
    pub gets: u64,
    pub rates: RateCounts,
    pub adaptive: AdaptiveCounts,
    /// The switches with adaptive routing.
    pub adaptive_switches: BTreeMap<Guid, AdaptiveSwitchState>,
    /// The groups for adaptive routing; `None` without adaptive routing.
    pub groups: Option<AdaptiveTarget>,
}
