//! Tells what it took to change the tables of a fabric at work, and what could have happened
//! meanwhile. The latter is found out on a thread of its own while the daemon goes on.

use crate::apply::transition::Commitments;
use crate::apply::{Acknowledged, ApplyReport};
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::verify::transition::{self, Coexistence, Stage};
use crate::verify::{Checks, Verified};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// A plan and the fabric it was made for.
type Routed = (Arc<Fabric>, Arc<Plan>);

/// Follows the transitions of a daemon.
#[derive(Default)]
pub struct Transitions {
    /// What the devices held before the present application.
    before: Option<Routed>,
    /// The check that is under way.
    check: Option<JoinHandle<()>>,
}

impl Transitions {
    /// A plan is about to be applied to devices that hold what they acknowledged.
    pub fn begin(&mut self, acknowledged: &Acknowledged) {
        self.before = acknowledged.last().cloned();
    }

    /// It was applied.
    pub fn end(
        &mut self,
        fabric: &Arc<Fabric>,
        verified: &Verified,
        checks: Checks,
        report: &mut ApplyReport,
    ) {
        tell_order(report);
        let Some(before) = self.before.take().filter(|_| report.table_sets() > 0) else { return };
        let after = (fabric.clone(), verified.plan().clone());
        let is_clean = verified.summary().cycle.is_none();
        let was_ordered = report.transition.is_some_and(|order| order.hasty == 0);
        let commitments = match was_ordered {
            true => std::mem::take(&mut report.commitments),
            false => Commitments::default(),
        };
        self.check = Some(tokio::task::spawn_blocking(move || {
            tell_coexistence(&coexistence(&before, &after, &checks, &commitments), is_clean);
        }));
    }

    /// Waits for what is to be told.
    pub async fn finish(&mut self) {
        if let Some(check) = self.check.take()
            && let Err(problem) = check.await
        {
            warn!("the check of the last transition failed: {problem}");
        }
    }
}

fn coexistence(
    before: &Routed,
    after: &Routed,
    checks: &Checks,
    commitments: &Commitments,
) -> Coexistence {
    let commits = |switch, lid| commitments.holds(switch, lid);
    transition::check(
        Stage { fabric: &before.0, plan: &before.1 },
        Stage { fabric: &after.0, plan: &after.1 },
        checks,
        &commits,
    )
}

fn tell_order(report: &ApplyReport) {
    let Some(order) = report.transition.filter(|order| order.sets > 0) else { return };
    info!(
        "transition: {} Sets of tables in order, {} of them versions in between, {} after new \
         links came up; order found in {:?}",
        order.sets, order.intermediate, order.late, order.ordering
    );
    if order.stayed_back > 0 {
        info!(
            "transition: {} Sets stay back because links they lead to are not ACTIVE yet; the old \
             routes stay in force",
            order.stayed_back
        );
    }
    if order.hasty > 0 {
        warn!(
            "transition: {} Sets went out although one that had to come before them failed; \
             packets may have circled or got lost for a moment",
            order.hasty
        );
    }
}

fn tell_coexistence(found: &Coexistence, is_clean: bool) {
    if found.is_trivial() {
        return;
    }
    let Coexistence { lids, groups, dependencies, .. } = found;
    let lanes = if found.lanes_differ { ", other SL to VL mappings" } else { "" };
    let what = format!("{lids} LIDs and {groups} multicast groups with other routes{lanes}");
    match &found.cycle {
        None => info!(
            "transition: {what}; no deadlock was possible while old and new routes coexisted \
             (no credit loop in {dependencies} dependencies)"
        ),
        // The engine promises no better, which was told with the plan.
        Some(_) if !is_clean => info!("transition: {what}; these routes have a credit loop anyway"),
        // Nobody can do anything about it any more, and most detours around a ring have it.
        Some(cycle) => info!(
            "transition: {what}; while old and new routes coexisted, for the time of these Sets, a \
             deadlock was possible, though neither has a credit loop by itself: {cycle}"
        ),
    }
}
