//! Off-sweep balancing (`offsweep_balancing_enabled`): balances the routes in force again, between
//! sweeps.
//!
//! minhop, updn and dor keep routes while the fabric only loses links and nodes, which changes few
//! tables but leaves the remaining links unevenly loaded. Once the subnet has been without a change
//! for `offsweep_balancing_window` seconds, the same fabric is planned and verified from scratch.
//! If the busiest link then carries fewer LIDs, the next reconfiguration uses these routes, and
//! writes them in safe order like any others.

use crate::config::options::Options;
use crate::contained;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::fabric::Fabric;
use crate::notes::counted;
use crate::plan::Plan;
use crate::plan::routing::{dor, minhop, updn};
use crate::publish::report::{link_loads, worst_link};
use std::time::Duration;
use tracing::{info, warn};

/// The engines whose routes are balanced again.
const ENGINES: [&str; 3] = [minhop::NAME, updn::NAME, dor::NAME];

/// Time without a change after which the routes of a plan are balanced again; `None` if they are not.
pub(super) fn window(options: &Options, plan: &Plan) -> Option<Duration> {
    let is_balanced = options.offsweep_balancing_enabled && ENGINES.contains(&plan.routing.engine);
    is_balanced.then(|| Duration::from_secs(options.offsweep_balancing_window.into()))
}

/// Plans the fabric from scratch. True if the busiest link would carry fewer LIDs than with the plan
/// in force.
pub(super) async fn is_better(request: PlanRequest, in_force: &Plan) -> bool {
    let fabric = request.fabric.clone();
    let Some(before) = Busiest::of(&fabric, in_force) else { return false };
    let planned = spawn_low_priority(move || contained::run(|| request.plan(None, None))).await;
    let outcome = match planned {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => {
            contained::log("off-sweep balancing", &panic, "the routes in force stay");
            return false;
        }
        Err(problem) => {
            warn!("off-sweep balancing failed, the routes in force stay: {problem}");
            return false;
        }
    };
    let verdict = outcome.ok().and_then(|outcome| outcome.verdict.ok());
    let Some(balanced) = verdict.filter(|new| is_alike(new.plan(), in_force)) else {
        info!("off-sweep balancing: no valid routes from scratch, those in force stay");
        return false;
    };
    let Some(after) = Busiest::of(&fabric, balanced.plan()) else { return false };
    let is_better = after.lids < before.lids;
    if is_better {
        info!("off-sweep balancing: the busiest link carried {before}, and will carry {after}");
    } else {
        info!(
            "off-sweep balancing: the routes stay: the busiest link carries {before}, and \
             would carry {after}"
        );
    }
    is_better
}

/// True if a plan has the engine and the LIDs of the one in force.
fn is_alike(plan: &Plan, in_force: &Plan) -> bool {
    plan.routing.engine == in_force.routing.engine && plan.lids.iter().eq(in_force.lids.iter())
}

/// The link between switches through which the most LIDs are forwarded.
struct Busiest {
    port: String,
    lids: usize,
}

impl Busiest {
    fn of(fabric: &Fabric, plan: &Plan) -> Option<Self> {
        let (port, lids) = worst_link(fabric, &link_loads(fabric, plan))?;
        Some(Self { port: fabric.describe(port), lids })
    }
}

impl std::fmt::Display for Busiest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", counted(self.lids, "LID", "LIDs"), self.port)
    }
}
