//! An incident: what happened, what it takes away, and what to repair first.

use super::fact::Reroute;
use serde::{Deserialize, Serialize};

/// Names that an incident lists; further ones are counted.
pub const MAX_NAMES: usize = 16;
/// Lines of evidence and risks that an incident lists.
pub const MAX_LINES: usize = 12;

/// The kind of an incident.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    LostSwitch,
    LostHost,
    LostCable,
    /// Several switches behind few cables.
    LostPart,
    SilentSwitch,
    SilentHost,
    /// Devices that never answered this SM.
    SilentDevice,
    /// So many devices are silent that SMPs are lost near this SM.
    MassSilence,
    FlappingCable,
    DegradedCable,
    ErroringCable,
    /// Two cables with exchanged plugs.
    SwappedCables,
    UnexpectedCable,
    DuplicateGuid,
    RefusingDevice,
    ForeignManager,
    RejectedRouting,
    RepairedRouting,
    FallbackRouting,
    CreditLoop,
    UnroutedPairs,
    FullTable,
    FloodingClient,
    OwnResource,
}

impl Kind {
    /// The name in interfaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::LostSwitch => "lost_switch",
            Self::LostHost => "lost_host",
            Self::LostCable => "lost_cable",
            Self::LostPart => "lost_part",
            Self::SilentSwitch => "silent_switch",
            Self::SilentHost => "silent_host",
            Self::SilentDevice => "silent_device",
            Self::MassSilence => "mass_silence",
            Self::FlappingCable => "flapping_cable",
            Self::DegradedCable => "degraded_cable",
            Self::ErroringCable => "erroring_cable",
            Self::SwappedCables => "swapped_cables",
            Self::UnexpectedCable => "unexpected_cable",
            Self::DuplicateGuid => "duplicate_guid",
            Self::RefusingDevice => "refusing_device",
            Self::ForeignManager => "foreign_manager",
            Self::RejectedRouting => "rejected_routing",
            Self::RepairedRouting => "repaired_routing",
            Self::FallbackRouting => "fallback_routing",
            Self::CreditLoop => "credit_loop",
            Self::UnroutedPairs => "unrouted_pairs",
            Self::FullTable => "full_table",
            Self::FloodingClient => "flooding_client",
            Self::OwnResource => "own_resource",
        }
    }

    /// True if routes lead around what is missing, so that a reconfiguration answers the incident.
    pub fn is_rerouted(self) -> bool {
        matches!(
            self,
            Self::LostSwitch
                | Self::LostHost
                | Self::LostCable
                | Self::LostPart
                | Self::FlappingCable
                | Self::SwappedCables
        )
    }

    /// True if events within a time tell of it, not the state of the fabric.
    pub fn is_seen_over_time(self) -> bool {
        matches!(self, Self::FlappingCable | Self::ErroringCable | Self::FloodingClient)
    }

    /// True if detours, fallback engines and unrouted pairs may follow from it.
    pub fn affects_routing(self) -> bool {
        self.is_rerouted()
            || matches!(
                self,
                Self::SilentSwitch
                    | Self::UnexpectedCable
                    | Self::DuplicateGuid
                    | Self::MassSilence
            )
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Severity"))]
#[serde(rename_all = "snake_case")]
pub enum IncidentSeverity {
    /// The fabric works, with less capacity or redundancy.
    Warning,
    /// Something does not work, or the next failure may be fatal.
    Critical,
}

impl IncidentSeverity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What an incident takes away.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Losses {
    pub switches: u32,
    pub hosts: u32,
    pub lids: u32,
    /// Cables.
    pub links: u32,
    /// Names of the switches and hosts; at most 16.
    pub names: Vec<String>,
}

/// An incident.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Incident {
    /// The same for each incident of this cause, on each instance.
    pub id: String,
    pub kind: Kind,
    pub severity: IncidentSeverity,
    /// Milliseconds since 1970.
    pub opened: u64,
    /// Milliseconds since 1970; null while it is open.
    pub closed: Option<u64>,
    /// How often this cause has opened an incident.
    pub openings: u32,
    /// What happened, in one sentence.
    pub headline: String,
    /// Why this is known.
    pub evidence: Vec<String>,
    pub takes: Losses,
    /// The reconfiguration that led routes around it; null if there was none.
    pub rerouted: Option<Reroute>,
    /// What is worse until it is repaired.
    pub risks: Vec<String>,
    /// What to repair first.
    pub repair: String,
}

/// Begins the lines of evidence with the headlines of earlier kinds.
const EARLIER: &str = "earlier: ";
/// Such lines that are kept, the first ones.
const MAX_EARLIER: usize = 4;

impl Incident {
    /// Lines of evidence about what was known before it has the kind `now`.
    pub(super) fn earlier_headlines(&self, now: Kind) -> Vec<String> {
        let kept = self.evidence.iter().filter(|line| line.starts_with(EARLIER)).cloned();
        let mut lines: Vec<String> = kept.collect();
        let line = format!("{EARLIER}{}", self.headline);
        if self.kind != now && lines.len() < MAX_EARLIER && !lines.contains(&line) {
            lines.push(line);
        }
        lines
    }

    /// Orders incidents: the first one is to be repaired first.
    pub(super) fn urgency(&self) -> (std::cmp::Reverse<(IncidentSeverity, u32, u32)>, u64, &str) {
        let Losses { switches, hosts, links, .. } = self.takes;
        (std::cmp::Reverse((self.severity, switches + hosts, links)), self.opened, &self.id)
    }
}
