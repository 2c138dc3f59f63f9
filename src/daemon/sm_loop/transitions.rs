//! Checks transitions between routings: reports how the tables of an active fabric were changed,
//! and whether a deadlock was possible while old and new routes coexisted.
//!
//! The deadlock check runs on a single thread of its own at the lowest priority, to leave the cores
//! to the next plan. If the fabric changes faster than transitions can be checked, some checks are
//! skipped, which is logged.

use crate::apply::program::report::TransitionReport;
use crate::apply::transition::CommittedRoutes;
use crate::apply::{Acknowledged, ApplyReport};
use crate::daemon::process::priority::{lower_to_idle, spawn_low_priority};
use crate::fabric::Fabric;
use crate::notes::{counted, time_text};
use crate::plan::Plan;
use crate::verify::transition::{self, CoexistenceReport, PlannedFabric};
use crate::verify::{Checks, Verified};
use rayon::ThreadPool;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

/// Maximum time that the end of the daemon waits for checks.
const MAX_LAST_CHECK: Duration = Duration::from_secs(1);

/// A fabric and its plan.
type Routed = (Arc<Fabric>, Arc<Plan>);

/// Checks the transitions of a daemon one after the other.
#[derive(Default)]
pub struct TransitionMonitor {
    /// The routing in force before the present plan is applied.
    before: Option<Routed>,
    /// Queue and task of the checks.
    checker: Option<(mpsc::Sender<TransitionCheck>, JoinHandle<()>)>,
}

/// A transition to check.
struct TransitionCheck {
    before: Routed,
    after: Routed,
    checks: Checks,
    committed_routes: CommittedRoutes,
    /// The new routes have no credit loop by themselves.
    is_clean: bool,
}

impl TransitionMonitor {
    /// Records the routing in force. Must be called before a plan is applied.
    pub fn begin(&mut self, acknowledged: &Acknowledged) {
        self.before = acknowledged.last().cloned();
    }

    /// Logs the order of Sets and starts the check. Must be called after the plan was applied.
    pub fn end(
        &mut self,
        fabric: &Arc<Fabric>,
        verified: &Verified,
        checks: Checks,
        report: &mut ApplyReport,
    ) {
        log_order(report);
        let Some(before) = self.before.take().filter(|_| report.table_sets() > 0) else { return };
        if report.transition.is_some_and(|order| order.is_strict && order.forced == 0) {
            return;
        }
        let was_ordered = report.transition.is_some_and(|order| order.forced == 0);
        let committed_routes = if was_ordered {
            std::mem::take(&mut report.committed_routes)
        } else {
            CommittedRoutes::default()
        };
        self.start_check(TransitionCheck {
            before,
            after: (fabric.clone(), verified.plan().clone()),
            checks,
            committed_routes,
            is_clean: verified.summary().cycle.is_none(),
        });
    }

    /// Queues a check after the one in progress; skips it if one is queued already.
    fn start_check(&mut self, check: TransitionCheck) {
        let (checks, _) = self.checker.get_or_insert_with(|| {
            let (sender, checks) = mpsc::channel(1);
            (sender, tokio::spawn(serve(checks)))
        });
        if checks.try_send(check).is_err() {
            info!(
                "transition: the check for deadlocks while old and new routes coexist is skipped, \
                 because the fabric changes faster than transitions can be checked"
            );
        }
    }

    /// Waits a moment for checks in progress, which log their results.
    pub async fn finish(&mut self) {
        let Some((checks, task)) = self.checker.take() else { return };
        drop(checks);
        match timeout(MAX_LAST_CHECK, task).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => warn!("the check of the last transition failed: {problem}"),
            Err(_) => info!("transition: the last check for deadlocks is not complete"),
        }
    }
}

/// Runs checks one after the other until the sender is dropped.
async fn serve(mut checks: mpsc::Receiver<TransitionCheck>) {
    // Without a thread of its own, the check runs on the planner's threads.
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "transitions".to_owned());
    let pool = pool.start_handler(|_| lower_to_idle()).build();
    let pool = Arc::new(pool.ok());
    while let Some(check) = checks.recv().await {
        let pool = pool.clone();
        if let Err(problem) = spawn_low_priority(move || check.run(pool.as_ref().as_ref())).await {
            warn!("the check of a transition failed: {problem}");
        }
    }
}

impl TransitionCheck {
    fn run(&self, pool: Option<&ThreadPool>) {
        let found = match pool {
            Some(pool) => pool.install(|| self.coexistence()),
            None => self.coexistence(),
        };
        log_coexistence(&found, self.is_clean);
    }

    fn coexistence(&self) -> CoexistenceReport {
        let (fabric, plan) = &self.before;
        let before = PlannedFabric { fabric, plan };
        let (fabric, plan) = &self.after;
        let after = PlannedFabric { fabric, plan };
        transition::check(before, after, &self.checks, &|switch, lid| {
            self.committed_routes.holds(switch, lid)
        })
    }
}

fn log_order(report: &ApplyReport) {
    let Some(order) = report.transition.filter(|order| order.sets > 0) else { return };
    if order.is_strict {
        log_strict_order(&order, report.stop.is_some());
    } else {
        log_loop_free_order(&order);
    }
    if order.forced > 0 {
        warn!(
            "transition: {} sent although an earlier one failed; packets may have looped or been \
             dropped for a moment",
            counted(order.forced, "table Set was", "table Sets were")
        );
    }
}

fn log_strict_order(order: &TransitionReport, ended_early: bool) {
    let entries = counted(order.removed_entries, "entry", "entries");
    let were_removed =
        if order.removed_entries == 1 { "that changes was" } else { "that change were" };
    let drained = time_text(order.drained_for);
    if order.removed_entries == 0 {
        info!(
            "transition: strict: {} without removals",
            counted(order.sets, "table Set", "table Sets")
        );
    } else if ended_early {
        info!(
            "transition: strict: {entries} {were_removed} removed, and packets drained for {drained}; \
             new entries come with the next plan, because the fabric has changed meanwhile"
        );
    } else {
        info!(
            "transition: strict: {entries} {were_removed} removed, packets drained for {drained}, \
             and new entries were written; no deadlock was possible"
        );
    }
}

fn log_loop_free_order(order: &TransitionReport) {
    let mut details = vec![format!("order computed in {}", time_text(order.ordering))];
    if order.intermediate > 0 {
        details.insert(
            0,
            counted(order.intermediate, "intermediate version", "intermediate versions"),
        );
    }
    if order.deferred > 0 {
        details.insert(0, format!("{} sent after new links came up", order.deferred));
    }
    let sets = counted(order.sets, "table Set", "table Sets");
    info!("transition: {sets} in a loop-free order; {}", details.join(", "));
    if order.withheld > 0 {
        info!(
            "transition: {} withheld, because the links of the new routes are not ACTIVE yet; the \
             old routes stay in force",
            counted(order.withheld, "table Set is", "table Sets are")
        );
    }
}

fn log_coexistence(found: &CoexistenceReport, is_clean: bool) {
    if found.is_trivial() {
        return;
    }
    let CoexistenceReport { lids, groups, dependencies, .. } = found;
    let mappings = if found.sl_to_vl_differs { ", other SL to VL mappings" } else { "" };
    let what = format!(
        "{} and {} with other routes{mappings}",
        counted(*lids, "LID", "LIDs"),
        counted(*groups, "multicast group", "multicast groups")
    );
    match &found.cycle {
        None => info!(
            "transition: {what}; no deadlock was possible while old and new routes coexisted \
             (no credit loop in {dependencies} dependencies)"
        ),
        // The routing engine is not deadlock-free; a note of the plan warns of it.
        Some(_) if !is_clean => {
            info!("transition: {what}; the new routes have a credit loop by themselves")
        }
        // Not a warning: the transition is over, and most detours around a failed link of a ring
        // have such a cycle.
        Some(cycle) => info!(
            "transition: {what}; while old and new routes coexisted, for the time of these Sets, a \
             deadlock was possible, though neither has a credit loop by itself: {cycle}"
        ),
    }
}
