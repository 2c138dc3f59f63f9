//! Updates of multicast groups between full reconfigurations.
//!
//! Routes, partitions and the QoS policy stay as they are: only the trees of changed groups are
//! planned, verified and written. If that is not possible (no plan in force, another fabric
//! snapshot, a plan that fails verification), a full reconfiguration follows, which also logs the
//! reasons.

use super::log_once::log_failed_sets;
use super::multicast_state::{MulticastUpdateState, QUIET_TIME};
use super::programmable::ProgrammedState;
use super::state::{DeviceState, PlanState};
use super::{Reconfigured, Reconfigurer, outcome, registry_queries, send};
use crate::apply::{ApplyControl, ApplyReport, PassDevices, apply_groups};
use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::files::LOG_ROUTING;
use crate::fabric::Fabric;
use crate::manage::loop_status::{ReconfigureFigures, ReconfigureResult};
use crate::notes::{counted, time_text};
use crate::observe::Observation;
use crate::plan::Plan;
use crate::plan::multicast::MulticastDelta;
use crate::plan::multicast_update::update_multicast;
use crate::verify::kept_routes::verify_kept_routes;
use crate::verify::multicast_delta::MulticastVerifier;
use crate::verify::{Checks, Extent, Verified, verify_shared};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, info};

/// The part of an update that runs on another thread.
struct UpdateJob {
    fabric: Arc<Fabric>,
    options: Arc<Options>,
    in_force: Arc<Plan>,
    change: MulticastDelta,
    verifier: Option<MulticastVerifier>,
    /// The plan in force keeps the routes of an earlier one.
    keeps_routes: bool,
    checks: Checks,
}

struct UpdateResult {
    /// `None` if the plan fails verification.
    verified: Option<Verified>,
    change: MulticastDelta,
    verifier: Option<MulticastVerifier>,
}

impl UpdateJob {
    fn run(self) -> UpdateResult {
        let Self { fabric, options, in_force, change, mut verifier, keeps_routes, checks } = self;
        let plan = Arc::new(update_multicast(&fabric, &options, &in_force, &change));
        let incremental = verifier.as_mut().and_then(|known| known.check(&fabric, &plan, &checks));
        let full = if keeps_routes { verify_kept_routes } else { verify_shared };
        let verified = incremental.or_else(|| full(&fabric, &plan, &checks).ok());
        UpdateResult { verified, change, verifier }
    }
}

impl Reconfigurer {
    /// Waits until [`Self::update_multicast`] has no need to wait for a baseline, which threads of low
    /// priority compute: a busy machine may keep them waiting for long. May be cancelled.
    pub async fn update_prepared(&mut self) {
        let multicast = self.plan.multicast.as_ref();
        if multicast.is_some_and(MulticastUpdateState::needs_verifier) {
            self.plan.baselines.until_computed().await;
        }
    }

    /// Plans the changed groups and programs the fabric. `None` if that needs a full
    /// reconfiguration.
    pub async fn update_multicast(
        &mut self,
        context: &ManagerContext,
        observation: &mut Observation,
    ) -> Option<Reconfigured> {
        let start = Instant::now();
        let in_force = self.plan.in_force.clone()?;
        self.update_verifier(observation, &in_force).await;
        let multicast = self.plan.multicast.as_mut()?;
        if context.published.subnet.borrow().is_none() {
            return None;
        }
        if !Arc::ptr_eq(&multicast.fabric, &observation.fabric) {
            return None;
        }
        let changes =
            registry_queries::group_changes(&context.sa_server, observation, multicast.generation);
        let (generation, change) = changes.await?;
        let verifier = multicast.verifier.take();
        let keeps_routes = multicast.keeps_routes;
        // The options of the plan in force, also if later plans were rejected.
        let options = multicast.request.options.clone();
        let job = UpdateJob {
            fabric: observation.fabric.clone(),
            options: options.clone(),
            in_force,
            change,
            verifier,
            keeps_routes,
            checks: Checks::of(&options).with_held(self.devices.mapping_reader.held.clone()),
        };
        let done = spawn_low_priority(|| job.run()).await.ok()?;
        let verified = done.verified?;
        let mlids = done.change.mlids.len();
        multicast.verifier = done.verifier;
        multicast.apply_delta(done.change);
        multicast.generation = generation;
        self.log_verified_groups(&verified);
        let planning = start.elapsed();
        self.figures = ReconfigureFigures { multicast_only: true, planning, ..Default::default() };
        let report = self.apply_groups(context, &options, observation, &verified).await;
        log_groups_applied(observation, mlids, &report, planning, start.elapsed());
        self.figures.sets = report.sets();
        self.publish_groups(context, &options, observation, &verified)?;
        send(context, SaCommand::GroupsProgrammed).await;
        let mut outcome = outcome(&observation.fabric, &report);
        outcome.needs_heavy_sweep = report.transition.is_some_and(|order| order.withheld > 0);
        if keeps_routes
            && outcome.result == ReconfigureResult::Up
            && let Some(rejected) = &*context.published.refused.borrow()
        {
            outcome.result = ReconfigureResult::Rejected(rejected.headline.clone());
        }
        outcome.figures = std::mem::take(&mut self.figures);
        Some(outcome)
    }

    /// Publishes the groups that were programmed; `None` if no groups are in force any more.
    fn publish_groups(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        verified: &Verified,
    ) -> Option<()> {
        let multicast = self.plan.multicast.as_mut()?;
        let keeps_routes = multicast.keeps_routes;
        multicast.fabric = observation.fabric.clone();
        multicast.renewal = (!keeps_routes).then(|| Instant::now() + QUIET_TIME);
        let qos_policy = context.published.subnet.borrow().as_ref()?.qos_policy.clone();
        let failed_sets = self.devices.essential_pending();
        let programmed = ProgrammedState { qos_policy, failed_sets };
        let subnet = self.publish(context, options, observation, verified, programmed);
        if !keeps_routes {
            self.accept_groups(context, &subnet);
        }
        if options.log_flags & LOG_ROUTING != 0 {
            self.write_files(options, Some(subnet), None);
        }
        Some(())
    }

    /// Time at which [`Self::renew_baseline`] is due.
    pub fn next_renewal(&self) -> Option<Instant> {
        self.plan.multicast.as_ref().and_then(|multicast| multicast.renewal)
    }

    /// Computes the baseline of the next plan again, with the present groups.
    pub fn renew_baseline(&mut self, observation: &Observation) {
        let PlanState { multicast: Some(multicast), in_force: Some(plan), .. } = &mut self.plan
        else {
            return;
        };
        let plan = plan.clone();
        multicast.renewal = None;
        let groups = multicast.groups.values().flatten().cloned().collect();
        let mut request = multicast.request.clone();
        request.registrations.groups = Arc::new(groups);
        // The present verifier stays in use until the new baseline is complete.
        self.prepare_baseline(observation, &plan, request);
    }

    /// Builds the verifier on a new baseline, if one is complete. Waits for it only if there is no
    /// verifier yet.
    async fn update_verifier(&mut self, observation: &Observation, plan: &Plan) {
        let Some(multicast) = self.plan.multicast.as_mut() else { return };
        if multicast.keeps_routes {
            return;
        }
        let baseline = self.plan.baselines.computed(multicast.needs_verifier()).await;
        let verifier =
            baseline.and_then(|known| MulticastVerifier::new(known, &observation.fabric, plan));
        if verifier.is_some() {
            multicast.verifier = verifier;
        }
    }

    fn log_verified_groups(&mut self, verified: &Verified) {
        if verified.summary().extent == Extent::Incremental {
            debug!("verified the changed trees: no credit loop together with all other routes");
        }
        self.log_notes(verified);
    }

    async fn apply_groups(
        &mut self,
        context: &ManagerContext,
        options: &Options,
        observation: &mut Observation,
        verified: &Verified,
    ) -> ApplyReport {
        // Incremental verification covers old and new trees together.
        let needs_check = verified.summary().extent != Extent::Incremental;
        let DeviceState { acknowledged, transitions, m_keys, .. } = &mut self.devices;
        if needs_check {
            transitions.begin(acknowledged);
        }
        let devices =
            PassDevices { client: &context.client, observation, acknowledged, keys: &*m_keys };
        let mut report = apply_groups(devices, verified, ApplyControl::to_the_end()).await;
        if needs_check {
            let checks = Checks::of(options);
            transitions.end(&observation.fabric, verified, checks, &mut report);
        }
        report
    }
}

fn log_groups_applied(
    observation: &Observation,
    mlids: usize,
    report: &ApplyReport,
    planning: Duration,
    total: Duration,
) {
    log_failed_sets(observation, report);
    info!(
        "multicast: {} planned in {}, programmed with {}, all in {}",
        counted(mlids, "MLID", "MLIDs"),
        time_text(planning),
        counted(report.sets(), "Set", "Sets"),
        time_text(total)
    );
}
