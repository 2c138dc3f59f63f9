//! What the manager wants from the desk.

use super::SaServer;
use crate::daemon::messages::SaCommand;
use crate::ids::Mlid;
use tracing::warn;

impl SaServer {
    /// Runs an errand.
    pub(super) fn run(&mut self, command: SaCommand) {
        match command {
            SaCommand::GetGroups { fabric, reply } => {
                let registry = self.responder.get().registry();
                let generation = registry.generation();
                let _ = reply.send((generation, registry.groups(&fabric)));
                self.joins.asked(generation);
            }
            SaCommand::GetGroupChanges { since, fabric, reply } => {
                let registry = self.responder.get().registry();
                let generation = registry.generation();
                let _ = reply.send((generation, registry.multicast_delta(since, &fabric)));
                self.joins.asked(generation);
            }
            SaCommand::GetAliases { fabric, reply } => {
                let registry = self.responder.get().registry();
                self.aliases = registry.aliases().generation();
                let _ = reply.send(registry.alias_blocks(&fabric));
            }
            SaCommand::SetPrefixRoutes(routes) => self.responder.get().set_prefix_routes(routes),
            SaCommand::SetPermanentGroups(specs) => {
                let registry = self.responder.get().registry_mut();
                if let Err(without) = registry.set_permanent(&specs, Mlid::LAST) {
                    let names: Vec<String> = without.iter().map(ToString::to_string).collect();
                    warn!("no MLID is left for the groups {}", names.join(", "));
                }
                // The pass under way asks for the groups anyway.
                self.joins.known(registry.generation());
            }
            SaCommand::GroupsProgrammed => self.joins.planned(),
            SaCommand::SweepFinished { managers, whole, drop_subscriptions } => {
                self.others = managers;
                self.sm_status.mark_changed();
                if let Some(fabric) = whole {
                    let registry = self.responder.get().registry_mut();
                    registry.remove_absent_ports(&fabric, drop_subscriptions);
                    // The pass that follows the sweep asks for the groups anyway.
                    self.joins.known(registry.generation());
                    self.wrote();
                }
            }
        }
    }
}
