//! Executes the manager's commands.

use super::SaServer;
use crate::daemon::messages::SaCommand;
use crate::ids::{Gid, Mlid};
use crate::notes::counted;
use crate::sa::registry::UnmetGroups;
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
                self.registered.alias_generation = registry.aliases().generation();
                let _ = reply.send(registry.alias_blocks(&fabric));
            }
            SaCommand::SetPrefixRoutes(routes) => self.responder.get().set_prefix_routes(routes),
            SaCommand::SetPermanentGroups { specs, last } => {
                let registry = self.responder.get().registry_mut();
                let unmet = registry.set_permanent(&specs, last);
                log_unmet(&unmet, last);
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

/// Number of groups that a warning names.
const MAX_NAMED_GROUPS: usize = 3;

/// Warns of groups of partitions.conf that do not exist, and of members that use old parameters.
fn log_unmet(unmet: &UnmetGroups, last: Mlid) {
    let missing = unmet.without_mlid.len();
    if missing > 0 {
        let entries = last.0 - Mlid::FIRST.0 + 1;
        warn!(
            "{} of partitions.conf {} not created, such as {}: the switches have room for {entries} \
             multicast LIDs, all of which are in use. Joins to them are refused; \
             configure fewer groups",
            counted(missing, "group", "groups"),
            if missing == 1 { "is" } else { "are" },
            group_names(&mut unmet.without_mlid.iter().copied())
        );
    }
    let members: usize = unmet.changed.iter().map(|(_, members)| members).sum();
    if members > 0 {
        warn!(
            "{} of partitions.conf with new parameters, such as {}, {} {}, which have joined with the \
             old ones and use these until they join again",
            counted(unmet.changed.len(), "group", "groups"),
            group_names(&mut unmet.changed.iter().map(|(mgid, _)| *mgid)),
            if unmet.changed.len() == 1 { "has" } else { "have" },
            counted(members, "member", "members"),
        );
    }
}

fn group_names(mgids: &mut dyn Iterator<Item = Gid>) -> String {
    let named: Vec<String> = mgids.take(MAX_NAMED_GROUPS).map(|mgid| mgid.to_string()).collect();
    named.join(", ")
}
