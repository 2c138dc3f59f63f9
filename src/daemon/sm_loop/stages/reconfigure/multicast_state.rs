//! The state that updates of multicast groups start from.

use crate::daemon::sm_loop::planning::PlanRequest;
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::observe::Observation;
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use crate::verify::multicast_delta::MulticastVerifier;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time without changes of groups after which the baseline of the next plan is computed again.
pub(super) const QUIET_TIME: Duration = Duration::from_secs(1);

/// The plan in force, as far as multicast updates use it.
pub(super) struct MulticastUpdateState {
    /// The generation of the registry that is planned.
    pub(super) generation: u64,
    /// The fabric snapshot of the plan in force.
    pub(super) fabric: Arc<Fabric>,
    /// The input of that plan, except its groups.
    pub(super) request: PlanRequest,
    /// The groups of the plan in force.
    pub(super) groups: BTreeMap<Mlid, Vec<GroupMembers>>,
    pub(super) verifier: Option<MulticastVerifier>,
    /// The plan keeps the routes of an earlier one, because those with new routes are rejected.
    pub(super) keeps_routes: bool,
    /// Time at which the baseline, whose groups are outdated, is computed again.
    pub(super) renewal: Option<Instant>,
}

impl MulticastUpdateState {
    /// The state after a full reconfiguration.
    pub(super) fn new(
        generation: u64,
        observation: &Observation,
        request: &PlanRequest,
        keeps_routes: bool,
    ) -> Self {
        let mut groups: BTreeMap<Mlid, Vec<GroupMembers>> = BTreeMap::new();
        for group in &*request.registrations.groups {
            groups.entry(group.mlid).or_default().push(group.clone());
        }
        Self {
            generation,
            fabric: observation.fabric.clone(),
            request: request.clone(),
            groups,
            verifier: None,
            keeps_routes,
            renewal: None,
        }
    }

    /// True if the next update has to wait for a baseline. There is none for kept routes.
    pub(super) fn needs_verifier(&self) -> bool {
        self.verifier.is_none() && !self.keeps_routes
    }

    pub(super) fn apply_delta(&mut self, change: MulticastDelta) {
        for mlid in &change.mlids {
            self.groups.remove(mlid);
        }
        for group in change.groups {
            self.groups.entry(group.mlid).or_default().push(group);
        }
    }
}
