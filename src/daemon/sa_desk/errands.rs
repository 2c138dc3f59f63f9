//! What the manager wants from the desk.

use super::SaDesk;
use crate::config::prefix_routes::PrefixRoute;
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::plan::aliases::AliasBlock;
use crate::plan::multicast::{GroupMembers, Regrouping};
use crate::sa::registry::GroupSpec;
use crate::wire::attr::SmInfo;
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::warn;

/// What the manager wants from the desk. Errands are run in the order in which they were sent.
#[derive(Debug)]
pub enum Errand {
    /// The multicast groups, as ports of this fabric: they are going to be planned.
    Groups {
        /// The fabric the answer is to be in terms of.
        fabric: Arc<Fabric>,
        /// Where the answer goes, with the generation of the registry.
        reply: oneshot::Sender<(u64, Vec<GroupMembers>)>,
    },
    /// What changed about the groups since a generation of the registry, as ports of this fabric: it is
    /// going to be planned.
    Regrouping {
        /// The generation.
        since: u64,
        /// The fabric the answer is to be in terms of.
        fabric: Arc<Fabric>,
        /// Where the answer goes, with the generation of the registry.
        reply: oneshot::Sender<(u64, Regrouping)>,
    },
    /// The alias GUIDs, as ports of this fabric: they are going to be planned.
    Aliases {
        /// The fabric the answer is to be in terms of.
        fabric: Arc<Fabric>,
        /// Where the answer goes.
        reply: oneshot::Sender<Vec<AliasBlock>>,
    },
    /// The multicast groups of the configuration.
    PermanentGroups(Vec<GroupSpec>),
    /// Which routers lead to other subnets.
    PrefixRoutes(Vec<PrefixRoute>),
    /// The groups that were asked for last are planned, programmed and published.
    Planned,
    /// A sweep ended.
    Swept {
        /// The other subnet managers that it met.
        managers: Vec<SmInfo>,
        /// What it found, if it looked everywhere: ports that are not there have left.
        whole: Option<Arc<Fabric>>,
        /// Subscriptions of ports that left end at once (`drop_event_subscriptions`).
        drop_subscriptions: bool,
    },
}

impl SaDesk {
    /// Runs an errand.
    pub(super) fn run(&mut self, errand: Errand) {
        match errand {
            Errand::Groups { fabric, reply } => {
                let registry = self.responder.get().registry();
                let generation = registry.generation();
                let _ = reply.send((generation, registry.groups(&fabric)));
                self.joins.asked(generation);
            }
            Errand::Regrouping { since, fabric, reply } => {
                let registry = self.responder.get().registry();
                let generation = registry.generation();
                let _ = reply.send((generation, registry.regrouping(since, &fabric)));
                self.joins.asked(generation);
            }
            Errand::Aliases { fabric, reply } => {
                let registry = self.responder.get().registry();
                self.aliases = registry.aliases().generation();
                let _ = reply.send(registry.alias_blocks(&fabric));
            }
            Errand::PrefixRoutes(routes) => self.responder.get().set_prefix_routes(routes),
            Errand::PermanentGroups(specs) => {
                let registry = self.responder.get().registry_mut();
                if let Err(without) = registry.set_permanent(&specs, Mlid::LAST) {
                    let names: Vec<String> = without.iter().map(ToString::to_string).collect();
                    warn!("no MLID is left for the groups {}", names.join(", "));
                }
                // The pass under way asks for the groups anyway.
                self.joins.known(registry.generation());
            }
            Errand::Planned => self.joins.planned(),
            Errand::Swept { managers, whole, drop_subscriptions } => {
                self.others = managers;
                self.portrait.mark_changed();
                if let Some(fabric) = whole {
                    let registry = self.responder.get().registry_mut();
                    registry.forget_absent(&fabric, drop_subscriptions);
                    // The pass that follows the sweep asks for the groups anyway.
                    self.joins.known(registry.generation());
                    self.wrote();
                }
            }
        }
    }
}
