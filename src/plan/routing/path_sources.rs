//! The first ends of many paths, prepared for questions about their SLs.

use super::RoutingPolicy;
use crate::fabric::PortId;

/// End ports from which paths start, each with what the engine has to know of it for the SLs of its paths, so
/// that nothing is looked up for one destination after the other.
#[derive(Default, Debug)]
pub struct PathSources {
    ports: Vec<PortId>,
    keys: Vec<u64>,
}

impl PathSources {
    /// Adds an end port. The policy must be the same for all.
    pub fn add(&mut self, policy: &dyn RoutingPolicy, port: PortId) {
        self.ports.push(port);
        self.keys.push(policy.source_key(port));
    }

    pub fn ports(&self) -> &[PortId] {
        &self.ports
    }

    /// What [`RoutingPolicy::source_key`] tells of each of [`Self::ports`].
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }
}
