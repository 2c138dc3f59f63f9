//! Tells what it took to change the tables of a fabric at work, and what could have happened
//! meanwhile. The latter is found out on one thread of its own while the daemon goes on, so that
//! the next plan has the cores to itself. A fabric that changes faster than that is told of, and
//! not examined in between: no work piles up.

use crate::apply::transition::CommittedRoutes;
use crate::apply::{Acknowledged, ApplyReport};
use crate::daemon::process::priority::{lower_thread_priority, spawn_low_priority};
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::verify::transition::{self, PlannedFabric, TransitionReport};
use crate::verify::{Checks, Verified};
use rayon::ThreadPool;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// A plan and the fabric it was made for.
type Routed = (Arc<Fabric>, Arc<Plan>);

/// Follows the transitions of a daemon.
#[derive(Default)]
pub struct TransitionMonitor {
    /// What the devices held before the present application.
    before: Option<Routed>,
    /// The way to what is examined, and the task that does it.
    examiner: Option<(mpsc::Sender<TransitionCheck>, JoinHandle<()>)>,
}

/// A transition to be examined.
struct TransitionCheck {
    before: Routed,
    after: Routed,
    checks: Checks,
    committed_routes: CommittedRoutes,
    /// The routes after it have no credit loop.
    is_clean: bool,
}

impl TransitionMonitor {
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
        let was_ordered = report.transition.is_some_and(|order| order.forced == 0);
        let committed_routes = match was_ordered {
            true => std::mem::take(&mut report.committed_routes),
            false => CommittedRoutes::default(),
        };
        self.examine(TransitionCheck {
            before,
            after: (fabric.clone(), verified.plan().clone()),
            checks,
            committed_routes,
            is_clean: verified.summary().cycle.is_none(),
        });
    }

    /// Has a transition examined after the one that is being; one more is left out.
    fn examine(&mut self, case: TransitionCheck) {
        let (cases, _) = self.examiner.get_or_insert_with(|| {
            let (sender, cases) = mpsc::channel(1);
            (sender, tokio::spawn(serve(cases)))
        });
        if cases.try_send(case).is_err() {
            info!(
                "transition: whether a deadlock was possible while old and new routes coexisted \
                 is not examined: the fabric changes too fast"
            );
        }
    }

    /// Waits for what is to be told.
    pub async fn finish(&mut self) {
        let Some((cases, task)) = self.examiner.take() else { return };
        drop(cases);
        if let Err(problem) = task.await {
            warn!("the check of the last transition failed: {problem}");
        }
    }
}

/// Examines one case after the other until there are no more to come.
async fn serve(mut cases: mpsc::Receiver<TransitionCheck>) {
    let name = |_| "transitions".to_owned();
    // Without a thread of its own it is done by those that plan.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(name);
    let pool = pool.start_handler(|_| lower_thread_priority()).build();
    let pool = Arc::new(pool.ok());
    while let Some(case) = cases.recv().await {
        let pool = pool.clone();
        if let Err(problem) = spawn_low_priority(move || case.tell(pool.as_ref().as_ref())).await {
            warn!("the check of a transition failed: {problem}");
        }
    }
}

impl TransitionCheck {
    fn tell(&self, pool: Option<&ThreadPool>) {
        let examine =
            || coexistence(&self.before, &self.after, &self.checks, &self.committed_routes);
        let found = pool.map_or_else(examine, |pool| pool.install(examine));
        tell_coexistence(&found, self.is_clean);
    }
}

fn coexistence(
    before: &Routed,
    after: &Routed,
    checks: &Checks,
    committed_routes: &CommittedRoutes,
) -> TransitionReport {
    let commits = |switch, lid| committed_routes.holds(switch, lid);
    transition::check(
        PlannedFabric { fabric: &before.0, plan: &before.1 },
        PlannedFabric { fabric: &after.0, plan: &after.1 },
        checks,
        &commits,
    )
}

fn tell_order(report: &ApplyReport) {
    let Some(order) = report.transition.filter(|order| order.sets > 0) else { return };
    info!(
        "transition: {} Sets of tables in order, {} of them versions in between, {} after new \
         links came up; order found in {:?}",
        order.sets, order.intermediate, order.deferred, order.ordering
    );
    if order.withheld > 0 {
        info!(
            "transition: {} Sets stay back because links they lead to are not ACTIVE yet; the old \
             routes stay in force",
            order.withheld
        );
    }
    if order.forced > 0 {
        warn!(
            "transition: {} Sets went out although one that had to come before them failed; \
             packets may have circled or got lost for a moment",
            order.forced
        );
    }
}

fn tell_coexistence(found: &TransitionReport, is_clean: bool) {
    if found.is_trivial() {
        return;
    }
    let TransitionReport { lids, groups, dependencies, .. } = found;
    let lanes = if found.sl_to_vl_differs { ", other SL to VL mappings" } else { "" };
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
