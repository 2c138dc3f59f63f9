//! Before plain tables of a live fabric change: switches adaptive routing off where old groups and new tables
//! together may let packets circle or get lost ([`crate::verify::adaptive::coexistence`] has the argument).

use crate::apply::Acknowledged;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::{Guid, Lid};
use crate::notes::counted;
use crate::plan::Plan;
use crate::plan::routing::{Lft, PortMask};
use crate::vendor::adaptive::running::RunningTables;
use crate::verify::adaptive::coexistence::CoexistingTables;
use std::sync::Arc;
use tracing::{info, warn};

/// A change of the plain tables of a live fabric.
pub(super) struct PlainChange {
    /// The tables that the switches have.
    old: (Arc<Fabric>, Arc<Plan>),
    fabric: Arc<Fabric>,
    plan: Arc<Plan>,
    /// All adaptive routing must be off meanwhile.
    is_strict: bool,
}

impl PlainChange {
    /// `None` if no table changes.
    pub(super) fn new(
        acknowledged: &Acknowledged,
        fabric: &Arc<Fabric>,
        plan: &Arc<Plan>,
        has_strict_transitions: bool,
    ) -> Option<Self> {
        let old = acknowledged.last()?.clone();
        // Either version of a block may be in force.
        let is_in_doubt = acknowledged.pending_by_node().iter().any(|&(guid, _)| {
            fabric.node_by_guid(guid).is_some_and(|node| fabric.node(node).is_switch())
        });
        let is_strict = has_strict_transitions || is_in_doubt;
        let change = Self { old, fabric: fabric.clone(), plan: plan.clone(), is_strict };
        change.tables(&|_, _| None).has_changes().then_some(change)
    }

    fn tables<'a>(
        &'a self,
        choices: &'a (dyn Fn(SwitchId, Lid) -> Option<PortMask> + Sync),
    ) -> CoexistingTables<'a> {
        let (old_fabric, old_plan) = &self.old;
        let before = self.fabric.switch_ids().map(|switch| {
            let node = old_fabric.node_by_guid(self.fabric.switch(switch).guid())?;
            let table: &Lft = old_plan.routing.lft(old_fabric.node(node).switch?);
            Some(table)
        });
        CoexistingTables::new(&self.fabric, before.collect(), &self.plan.routing.lfts, choices)
    }

    /// The switches that must forward by their plain tables meanwhile.
    fn to_switch_off(&self, running: &RunningTables) -> Vec<Guid> {
        if self.is_strict {
            return running
                .guids()
                .filter(|&guid| self.fabric.node_by_guid(guid).is_some())
                .collect();
        }
        let by_switch = running.of(&self.fabric);
        let choices = |switch, lid| by_switch.choices(switch, lid);
        let tables = self.tables(&choices);
        let mut lids = tables.changed_lids();
        // Nothing is sent to a LID without a port before or afterwards.
        lids.retain(|&lid| has_port(&self.old.1, lid) && has_port(&self.plan, lid));
        let found = tables.to_switch_off(&lids);
        found.into_iter().map(|switch| self.fabric.switch(switch).guid()).collect()
    }

    /// Holds the writing of groups, and switches adaptive routing off where it must be.
    pub(super) async fn prepare(self, context: &ManagerContext) {
        let Some(running) = context.adaptive.hold().await else {
            warn!(
                "adaptive routing: the groups in force are not known in time: packets may loop or get lost while \
                 routes change"
            );
            return;
        };
        if running.is_empty() {
            return;
        }
        let fabric = self.fabric.clone();
        let all: Vec<Guid> = running.guids().collect();
        let found = spawn_low_priority(move || self.to_switch_off(&running)).await;
        let switches = found.unwrap_or_else(|problem| {
            warn!("adaptive routing is switched off, because a check failed: {problem}");
            all
        });
        if switches.is_empty() {
            return;
        }
        info!(
            "adaptive routing: {} by static tables while routes change",
            counted(switches.len(), "switch forwards", "switches forward")
        );
        let left = context.adaptive.switch_off(fabric.clone(), switches).await;
        if let Some(&first) = left.first() {
            let node = fabric.node_by_guid(first).map(|node| fabric.node(node).name().to_string());
            let name = node.unwrap_or_else(|| first.to_string());
            warn!(
                "adaptive routing: {}, such as \"{}\", did not acknowledge that it is switched off: packets may \
                 loop or get lost there until new groups are written",
                counted(left.len(), "switch", "switches"),
                name
            );
        }
    }
}

fn has_port(plan: &Plan, lid: Lid) -> bool {
    plan.lids.port(lid).is_some()
}
