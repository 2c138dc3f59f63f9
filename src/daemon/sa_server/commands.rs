//! Executes the manager's commands.

use super::SaServer;
use crate::daemon::messages::SaCommand;
use crate::ids::Mlid;
use tracing::warn;

impl SaServer {
    pub(super) fn execute(&mut self, command: SaCommand) {
        match command {
            SaCommand::GetGroups { fabric, reply } => {
                let registry = self.responder.get().registry();
                let generation = registry.generation();
                let _ = reply.send((generation, registry.groups(&fabric)));
                self.joins.planning_started(generation);
            }
            SaCommand::GetGroupChanges { since, fabric, reply } => {
                let registry = self.responder.get().registry();
                let generation = registry.generation();
                let _ = reply.send((generation, registry.multicast_delta(since, &fabric)));
                self.joins.planning_started(generation);
            }
            SaCommand::GetAliases { fabric, reply } => {
                let registry = self.responder.get().registry();
                self.alias_generation = registry.aliases().generation();
                let _ = reply.send(registry.alias_blocks(&fabric));
            }
            SaCommand::SetPrefixRoutes(routes) => self.responder.get().set_prefix_routes(routes),
            SaCommand::SetPermanentGroups(specs) => {
                let registry = self.responder.get().registry_mut();
                if let Err(without) = registry.set_permanent(&specs, Mlid::LAST) {
                    let names: Vec<String> = without.iter().map(ToString::to_string).collect();
                    warn!(
                        "all multicast LIDs are in use: these groups of partitions.conf are not \
                         created: {}",
                        names.join(", ")
                    );
                }
                // The reconfiguration in progress reads the groups anyway.
                self.joins.will_be_planned(registry.generation());
            }
            SaCommand::Query(query) => self.answer_query(query),
            SaCommand::Replica(request) => self.replicate(request),
            SaCommand::GroupsProgrammed => self.joins.planning_finished(),
            SaCommand::SweepFinished { managers, whole, drop_subscriptions } => {
                self.other_managers = managers;
                self.sm_status.mark_changed();
                if let Some(fabric) = whole {
                    let registry = self.responder.get().registry_mut();
                    registry.remove_absent_ports(&fabric, drop_subscriptions);
                    // The reconfiguration after the sweep reads the groups anyway.
                    self.joins.will_be_planned(registry.generation());
                    self.registry_changed();
                }
            }
        }
    }
}
