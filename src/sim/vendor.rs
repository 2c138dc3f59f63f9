//! Vendor-specific profiles of simulated devices, and what they hold.

use super::adaptive_tables::AdaptiveLimits;
use super::vports::SimVports;
use crate::ids::Guid;
use crate::wire::smp::DATA_SIZE;
use crate::wire::vendor::capabilities::Capabilities;
use crate::wire::vendor::qos_config_sl::QosConfigSl;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

/// Sets that the log keeps; the oldest are dropped.
const MAX_LOGGED_SETS: usize = 65_536;

/// The vendor-specific part of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VendorProfile {
    /// What GeneralInfo announces.
    pub capabilities: Capabilities,
}

impl FromStr for VendorProfile {
    type Err = String;

    /// Parses `mlnx`, or `mlnx:` and capabilities by name or number, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let (vendor, list) = text.split_once(':').unwrap_or((text, ""));
        if !vendor.eq_ignore_ascii_case("mlnx") {
            return Err(format!("'{vendor}' is no vendor: expected mlnx or mlnx:CAPABILITIES"));
        }
        let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
        let mut capabilities = Capabilities::NONE;
        for word in words {
            let number = Capabilities::number(word).ok_or_else(|| {
                format!(
                    "'{word}' is no capability: expected 0 to 127, or one of {}",
                    Capabilities::known_names().collect::<Vec<_>>().join(", ")
                )
            })?;
            capabilities = capabilities.with(number);
        }
        Ok(Self { capabilities })
    }
}

impl fmt::Display for VendorProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.capabilities.names().collect();
        let separator = if names.is_empty() { "" } else { ":" };
        write!(f, "mlnx{separator}{}", names.join(","))
    }
}

/// A Set of a vendor-specific attribute that a device received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VendorSet {
    /// Node GUID.
    pub guid: Guid,
    pub attr_id: u16,
    pub attr_mod: u32,
    /// Status of the response.
    pub status: u16,
    pub data: [u8; DATA_SIZE],
}

/// The vendor-specific state of all devices.
#[derive(Default)]
pub(super) struct VendorAgents {
    /// By node.
    profiles: FxHashMap<u32, VendorProfile>,
    /// By port slot; without ports that have no limits.
    configs: FxHashMap<u32, QosConfigSl>,
    /// By port slot.
    virtualized: FxHashMap<u32, SimVports>,
    /// By node; without switches with the default limits.
    adaptive_limits: FxHashMap<u32, AdaptiveLimits>,
    /// Slots of the ports with FDR10 enabled.
    fdr10: FxHashSet<u32>,
    sets: VecDeque<VendorSet>,
}

impl VendorAgents {
    pub(super) fn profile(&self, node: u32) -> Option<VendorProfile> {
        self.profiles.get(&node).copied()
    }

    pub(super) fn config(&self, slot: u32) -> QosConfigSl {
        self.configs.get(&slot).copied().unwrap_or_default()
    }

    pub(super) fn sets(&self) -> impl Iterator<Item = &VendorSet> {
        self.sets.iter()
    }

    pub(super) fn set_profile(&mut self, node: u32, profile: Option<VendorProfile>) {
        match profile {
            Some(profile) => self.profiles.insert(node, profile),
            None => self.profiles.remove(&node),
        };
    }

    pub(super) fn set_config(&mut self, slot: u32, config: QosConfigSl) {
        self.configs.insert(slot, config);
    }

    /// Forgets what a Set has configured at a port.
    pub(super) fn reset(&mut self, slot: u32) {
        self.configs.remove(&slot);
        if let Some(port) = self.virtualized.get_mut(&slot) {
            port.reset();
        }
    }

    /// The vports of a port are not ACTIVE without its link.
    pub(super) fn link_down(&mut self, slot: u32) {
        if let Some(port) = self.virtualized.get_mut(&slot) {
            port.link_down();
        }
    }

    pub(super) fn virtualized(&self, slot: u32) -> Option<&SimVports> {
        self.virtualized.get(&slot)
    }

    pub(super) fn virtualized_mut(&mut self, slot: u32) -> Option<&mut SimVports> {
        self.virtualized.get_mut(&slot)
    }

    pub(super) fn set_virtualized(&mut self, slot: u32, port: SimVports) {
        self.virtualized.insert(slot, port);
    }

    pub(super) fn adaptive_limits(&self, node: u32) -> AdaptiveLimits {
        self.adaptive_limits.get(&node).copied().unwrap_or_default()
    }

    pub(super) fn set_adaptive_limits(&mut self, node: u32, limits: AdaptiveLimits) {
        self.adaptive_limits.insert(node, limits);
    }

    pub(super) fn has_fdr10(&self, slot: u32) -> bool {
        self.fdr10.contains(&slot)
    }

    pub(super) fn set_fdr10(&mut self, slot: u32, is_enabled: bool) {
        if is_enabled {
            self.fdr10.insert(slot);
        } else {
            self.fdr10.remove(&slot);
        }
    }

    pub(super) fn log(&mut self, set: VendorSet) {
        if self.sets.len() == MAX_LOGGED_SETS {
            self.sets.pop_front();
        }
        self.sets.push_back(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_vendor_with_capabilities() {
        assert_eq!(read("mlnx").as_deref(), Ok("mlnx"));
        assert_eq!(read("MLNX:25, 24,99,").as_deref(), Ok("mlnx:rate-limit,vport-rate-limit,99"));
        assert!(read("mlnx:128").is_err_and(|text| text.contains("'128'")));
        assert!(read("intel:1").is_err_and(|text| text.contains("'intel'")));
    }

    fn read(text: &str) -> Result<String, String> {
        text.parse::<VendorProfile>().map(|profile| profile.to_string())
    }
}
