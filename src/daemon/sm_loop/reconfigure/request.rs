//! Collects the input of a plan; sends the SA server its part of the configuration.

use super::{Reconfigurer, registry_queries, send};
use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::ids::Mlid;
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
            held_mappings: self.devices.mapping_reader.held.clone(),
        })
    }

    /// Sends changed permanent groups and prefix routes to the SA server.
    pub(super) async fn update_sa_server(
        &mut self,
        context: &ManagerContext,
        options: &Options,
        last: Mlid,
    ) {
        if let Some(specs) = self.config.partitions.resolve(options, last) {
            send(context, SaCommand::SetPermanentGroups { specs, last }).await;
        }
        let routes = &self.config.files.prefix_routes;
        if *routes != self.config.sent_prefix_routes {
            send(context, SaCommand::SetPrefixRoutes(routes.clone())).await;
            self.config.sent_prefix_routes.clone_from(routes);
        }
    }
}
