//! Collects the input of a plan.

use super::{Reconfigurer, registry_queries};
use crate::config::options::Options;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::observe::Observation;
use crate::plan::multicast::GroupMembers;
use std::sync::Arc;

impl Reconfigurer {
    /// The input of a plan for the observed fabric.
    ///
    /// # Errors
    /// An unknown engine name.
    pub(super) async fn request(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        groups: Vec<GroupMembers>,
    ) -> Result<PlanRequest, String> {
        Ok(PlanRequest {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            options: options.clone(),
            torus_config: self.config.files.torus_config.clone(),
            chain: self.config.chain(options)?,
            partitions: self.config.partitions.current(),
            qos_policy: self.config.qos_policy.current(options),
            groups: Arc::new(groups),
            memory: self.plan.memory.clone(),
            aliases: Arc::new(registry_queries::aliases(&context.sa_server, observation).await),
            reregister: self.clients_to_reregister(&observation.fabric, options),
        })
    }
}
