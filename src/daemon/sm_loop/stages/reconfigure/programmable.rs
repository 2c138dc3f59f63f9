//! From a snapshot to a plan that may be programmed, and from a programmed plan to the published subnet.
//! If a plan is rejected, the routes of the last accepted one stay in force, and
//! everything that does not depend on new routes is planned with them. Hosts and links that return become ACTIVE, and
//! multicast trees follow their members and the cables.
//!
//! The options and the QoS policy are those of the accepted plan, to which its routes belong.

use super::decision::{decide, full_if_incremental_fails};
use super::log_once::{log_extent, log_failed_sets};
use super::state::AcceptedPlan;
use super::{Reconfigurer, recording, registry_queries, shared_state};
use crate::apply::{ApplyReport, PassDevices, apply_idle_ports};
use crate::config::options::{ActivitySubjects, Options};
use crate::config::qos_policy::QosPolicy;
use crate::contained;
use crate::daemon::process::port_log;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::file_writer::WriteJob;
use crate::daemon::sm_loop::planning::{BaselineComputation, PlanRequest, SharedRegistrations};
use crate::daemon::sm_loop::qos_policy::PolicyInputs;
use crate::fabric::difference::Difference;
use crate::manage::activity::SubnetActivity;
use crate::notes::Note;
use crate::observe::Observation;
use crate::plan::Plan;
use crate::plan::multicast::GroupMembers;
use crate::plan::qos::policy::EffectivePolicy;
use crate::plan::routing::kept_routes::RoutedFabric;
use crate::publish::Subnet;
use crate::publish::device_faults::DeviceFaults;
use crate::publish::rejected::PlanRejected;
use crate::verify::{Extent, Verified};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// A plan that may be programmed.
pub(super) struct ProgrammablePlan {
    pub(super) verified: Verified,
    pub(super) request: PlanRequest,
    /// The plan with new routes, if it was rejected; `verified` keeps those in force then.
    rejected: Option<PlanRejected>,
}

/// The state of the devices that a published subnet shows, apart from its plan.
pub(super) struct ProgrammedState {
    pub(super) qos_policy: Option<Arc<EffectivePolicy>>,
    /// Number of Sets that were not acknowledged.
    pub(super) failed_sets: usize,
}

impl Reconfigurer {
    /// The input of a plan for the observed fabric.
    ///
    /// # Errors
    /// An unknown engine name.
    pub(super) async fn request(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        groups: Vec<GroupMembers>,
    ) -> Result<PlanRequest, String> {
        Ok(PlanRequest {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            options: options.clone(),
            torus_config: self.config.files.torus_config.clone(),
            chain: self.config.chain(options)?,
            partitions: self.config.partitions.current(),
            qos_policy: self.config.qos_policy.current(options),
            registrations: SharedRegistrations {
                groups: Arc::new(groups),
                aliases: Arc::new(registry_queries::aliases(&context.sa_server, observation).await),
            },
            memory: self.plan.memory.clone(),
            reregister: self.master.clients_to_reregister(&observation.fabric, options),
            held_mappings: self.devices.mapping_reader.held.clone(),
        })
    }

    /// Plans the observed fabric; with the routes of the last accepted plan if others are rejected.
    ///
    /// # Errors
    /// The reason why nothing may be programmed, which is logged and published.
    pub(super) async fn programmable(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &mut Observation,
        groups: Vec<GroupMembers>,
    ) -> Result<ProgrammablePlan, String> {
        let planned = match self.request(context, options, observation, groups).await {
            Ok(request) => self.plan_or_keep_routes(context, request, observation).await,
            Err(problem) => Err(PlanRejected::of(problem)),
        };
        let observation = &*observation;
        planned.map_err(|rejected| {
            // Ports that are absent now must be asked when they return.
            let fabric = &observation.fabric;
            self.master.registered.retain(|&guid| fabric.port_by_guid(guid).is_some());
            self.reject(context, options, observation, rejected, None)
        })
    }

    async fn plan_or_keep_routes(
        &mut self,
        context: &ManagerContext,
        request: PlanRequest,
        observation: &mut Observation,
    ) -> Result<ProgrammablePlan, PlanRejected> {
        let planned = self.plan(context, request.clone()).await;
        recording::plan_ended(context, &planned);
        self.report_routing(context, &planned);
        let mut rejected = match planned {
            Ok(verified) => return Ok(ProgrammablePlan { verified, request, rejected: None }),
            Err(rejected) => rejected,
        };
        if self.plan.accepted.is_none() {
            let problem = self.bring_up_idle_ports(context, request, observation).await;
            rejected.notes.extend(problem.err().map(Note::warning));
            return Err(rejected);
        }
        match self.plan_with_kept_routes(request).await {
            Ok((verified, request)) => {
                Ok(ProgrammablePlan { verified, request, rejected: Some(rejected) })
            }
            Err(problem) => {
                rejected.notes.extend(problem);
                Err(rejected)
            }
        }
    }

    /// Reports in the activity report how the engines and the unicast cache fared.
    fn report_routing(&self, context: &ManagerContext, planned: &Result<Verified, PlanRejected>) {
        let report = &context.shared.activity;
        if !report.wants(ActivitySubjects::ROUTING) {
            return;
        }
        let accepted = self.plan.accepted.as_ref();
        let had_cache = accepted.is_some_and(|it| it.subnet.plan.routing.has_cache());
        let routing = planned.as_ref().ok().map(|verified| &verified.plan().routing);
        let is_cached = routing.is_some_and(|routing| routing.is_from_cache());
        if had_cache && !is_cached {
            report.send(SubnetActivity::UnicastCacheInvalidated);
        }
        let failed: Vec<&str> = match planned {
            Ok(_) if is_cached => Vec::new(),
            Ok(verified) => {
                let errors = verified.plan().routing.routing_errors.iter();
                errors.map(|error| error.engine).collect()
            }
            Err(rejected) => rejected.failed_engines.clone(),
        };
        failed.into_iter().for_each(|engine| report.send(SubnetActivity::RoutingFailed(engine)));
        if let Some(routing) = routing {
            report.send(if is_cached {
                SubnetActivity::UnicastCacheRouted
            } else {
                SubnetActivity::RoutingSucceeded(routing.engine)
            });
        }
    }

    /// Plans and verifies with the engines of the request.
    async fn plan(
        &mut self,
        context: &ManagerContext,
        request: PlanRequest,
    ) -> Result<Verified, PlanRejected> {
        let from_scratch = self.plan.from_scratch.take();
        let from_scratch = from_scratch.is_some_and(|it| Arc::ptr_eq(&it, &request.fabric));
        let previous = self.plan.accepted.as_ref().map(|accepted| accepted.subnet.plan.clone());
        recording::plan_begins(context, &request, previous.is_some() && !from_scratch);
        let baseline = self.plan.baselines.latest().await;
        self.plan.request = Some(request.clone());
        let work = move |is_full: bool| {
            let is_full = is_full || from_scratch;
            let previous = previous.as_deref().filter(|_| !is_full);
            let baseline = baseline.as_deref().filter(|_| !is_full);
            let mut verifying = Duration::ZERO;
            let outcome = request.plan_timed(previous, baseline, &mut verifying);
            let (decision, pending) = decide(outcome);
            (decision, (pending.map(|it| (request.clone(), it)), verifying))
        };
        let planned = spawn_low_priority(|| full_if_incremental_fails(work)).await;
        let planned = planned.map_err(|error| error.to_string());
        let planned = planned.and_then(|planned| planned.map_err(|panic| panic.to_string()));
        let ((verified, memory), (pending, verifying)) =
            planned.map_err(|problem| PlanRejected::of(format!("planning failed: {problem}")))?;
        (self.figures.verifying, self.plan.memory) = (verifying, memory);
        if let Some((request, pending)) = pending {
            self.plan.baselines.carry(move || request.complete_baseline(pending));
        }
        let verified = verified?;
        log_extent(verified.summary().extent);
        self.log_notes(&verified);
        Ok(verified)
    }

    /// Computes the baseline for the next plan, on another thread.
    pub(super) fn prepare_baseline(
        &mut self,
        observation: &Observation,
        plan: &Arc<Plan>,
        request: PlanRequest,
    ) {
        let request = PlanRequest {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            memory: self.plan.memory.clone(),
            reregister: HashSet::new(),
            ..request
        };
        self.plan.baselines.compute(BaselineComputation { request, plan: plan.clone() });
    }

    /// Brings up the ports that carry no data, while there is no accepted plan: after a start, the
    /// routes that the switches hold and their service levels are not known.
    ///
    /// # Errors
    /// The reason why nothing was sent.
    async fn bring_up_idle_ports(
        &mut self,
        context: &ManagerContext,
        request: PlanRequest,
        observation: &mut Observation,
    ) -> Result<(), String> {
        let request = PlanRequest { memory: self.plan.memory.clone(), ..request };
        let work = spawn_low_priority(move || contained::run(|| request.plan_idle_ports()));
        let planned = match work.await {
            Ok(Ok(planned)) => planned,
            Ok(Err(panic)) => Err(panic.to_string()),
            Err(problem) => Err(problem.to_string()),
        };
        let (plan, memory) = planned.map_err(|problem| {
            format!("hosts and links that are not ACTIVE cannot be configured: {problem}")
        })?;
        self.plan.memory = memory;
        let devices = PassDevices {
            client: &context.client,
            observation,
            acknowledged: &mut self.devices.acknowledged,
            keys: &self.devices.m_keys,
        };
        let report = apply_idle_ports(devices, &plan).await;
        self.devices.m_keys.learn(&observation.fabric);
        self.logged.log_unknown_keys(&observation.fabric, &self.devices.m_keys, &report);
        log_failed_sets(observation, &report);
        recording::applied(context, &report);
        self.figures.sets = report.sets();
        Ok(())
    }

    /// Plans the fabric of `request`, and whatever of it does not belong to the routes, with the
    /// last accepted plan. Returns the plan with its own request.
    ///
    /// # Errors
    /// The reason why trees or tables are faulty; `None` without an accepted plan.
    async fn plan_with_kept_routes(
        &mut self,
        request: PlanRequest,
    ) -> Result<(Verified, PlanRequest), Option<Note>> {
        let accepted = self.plan.accepted.as_ref().ok_or(None)?;
        let request = PlanRequest {
            options: accepted.subnet.options.clone(),
            qos_policy: accepted.qos_policy.clone(),
            memory: self.plan.memory.clone(),
            ..request
        };
        let subnet = accepted.subnet.clone();
        let in_force = self.plan.in_force.clone();
        let work = {
            let request = request.clone();
            move || {
                let Subnet { fabric, plan, .. } = &*subnet;
                let routed = RoutedFabric { fabric, lids: &plan.lids, routing: &plan.routing };
                contained::run(|| request.plan_with_kept_routes(&routed, in_force.as_deref()))
            }
        };
        let problem = match spawn_low_priority(work).await {
            Ok(Ok(Ok((verified, memory)))) => {
                self.plan.memory = memory;
                return Ok((verified, request));
            }
            Ok(Ok(Err(failure))) => failure.to_string(),
            Ok(Err(panic)) => panic.to_string(),
            Err(problem) => problem.to_string(),
        };
        Err(Some(Note::warning(format!(
            "returned hosts and multicast groups cannot be configured with the routes in force: \
             {problem}"
        ))))
    }

    /// Records that a plan was programmed and published as `subnet`. Returns the reason why the one
    /// with new routes was rejected, if it was.
    pub(super) fn conclude(
        &mut self,
        context: &ManagerContext,
        observation: &Observation,
        plan: &ProgrammablePlan,
        subnet: Arc<Subnet>,
    ) -> Option<String> {
        let ProgrammablePlan { verified, request, rejected } = plan;
        let Some(rejected) = rejected else {
            self.accept(context, &subnet, request.qos_policy.clone());
            self.write_files(&request.options, Some(subnet), None);
            return None;
        };
        let rejected = rejected.clone();
        Some(self.reject(context, &request.options, observation, rejected, Some(verified)))
    }

    /// Records the plan of a published subnet as accepted.
    pub(super) fn accept(
        &mut self,
        context: &ManagerContext,
        subnet: &Arc<Subnet>,
        qos_policy: Option<Arc<QosPolicy>>,
    ) {
        self.plan.accepted = Some(AcceptedPlan { subnet: subnet.clone(), qos_policy });
        context.published.refused.send_replace(None);
    }

    /// Records that groups of the accepted plan were changed.
    pub(super) fn accept_groups(&mut self, context: &ManagerContext, subnet: &Arc<Subnet>) {
        let qos_policy = self.plan.accepted.take().and_then(|accepted| accepted.qos_policy);
        self.accept(context, subnet, qos_policy);
    }

    /// The published subnet, if a plan with kept routes changes nothing in it.
    pub(super) fn unchanged_subnet(
        &self,
        context: &ManagerContext,
        observation: &Observation,
        verified: &Verified,
        report: &ApplyReport,
    ) -> Option<Arc<Subnet>> {
        let subnet = context.published.subnet.borrow().clone()?;
        let is_quiet = report.sets() == 0
            && verified.summary().extent == Extent::KeptRoutes
            && subnet.summary.extent == Extent::KeptRoutes
            && subnet.failed_sets == report.failures() + report.unacknowledged.delayed_essential
            && subnet.rate_limits == self.config.files.enhanced_qos
            && subnet.plan.multicast == verified.plan().multicast;
        if !is_quiet {
            return None;
        }
        let difference = Difference::between(&subnet.fabric, &observation.fabric)?;
        difference.is_empty().then_some(subnet)
    }

    /// Logs and publishes why there is no plan with new routes; returns the reason in one sentence.
    /// `kept`: the plan with the routes in force, if it was programmed.
    fn reject(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        mut rejected: PlanRejected,
        kept: Option<&Verified>,
    ) -> String {
        if let Some(kept) = kept {
            rejected.notes.extend(kept.plan().notes.iter().chain(&kept.summary().notes).cloned());
        }
        let routed = self.plan.accepted.as_ref().map(|accepted| &*accepted.subnet);
        let rejected = Arc::new(rejected.with_connectivity(routed, &observation.fabric));
        let notes = self.config.partitions.notes().iter().chain(&rejected.notes);
        self.logged.log_notes(notes.cloned().collect());
        let headline = rejected.headline.clone();
        let is_new = context.published.refused.borrow().as_deref() != Some(&rejected);
        if is_new {
            context.published.refused.send_replace(Some(rejected.clone()));
        }
        if is_new || kept.is_some() {
            // The job replaces one with the last snapshot that may not be written yet.
            let subnet = context.published.subnet.borrow().clone();
            self.write_files(options, subnet, Some(rejected));
        }
        headline
    }

    /// Publishes the subnet that was programmed. Returns the reason why the plan with new routes was
    /// rejected, if it was.
    pub(super) async fn publish_programmed(
        &mut self,
        context: &ManagerContext,
        observation: &Observation,
        plan: &ProgrammablePlan,
        report: &ApplyReport,
    ) -> Option<String> {
        let verified = &plan.verified;
        let options = &plan.request.options;
        let policy = self.effective_policy(context, options, observation, verified).await;
        self.devices.record_restarts(observation, self.plan.generation + 1, report);
        context.shared.m_keys.store(Arc::new(self.devices.m_keys.clone()));
        let subnet = match self.unchanged_subnet(context, observation, verified, report) {
            Some(subnet) => subnet,
            None => {
                let failed = report.failures() + report.unacknowledged.delayed_essential;
                let programmed = ProgrammedState { qos_policy: policy, failed_sets: failed };
                self.publish(context, options, observation, verified, programmed)
            }
        };
        let headline = self.conclude(context, observation, plan, subnet);
        shared_state::provide_files(context, &self.plan, &self.devices.m_keys);
        headline
    }

    async fn effective_policy(
        &mut self,
        context: &ManagerContext,
        options: &Options,
        observation: &Observation,
        verified: &Verified,
    ) -> Option<Arc<EffectivePolicy>> {
        let own_port = context.published.sm_status.borrow().guid;
        let inputs = PolicyInputs {
            fabric: observation.fabric.clone(),
            plan: verified.plan().clone(),
            partitions: self.config.partitions.current(),
            own_port,
        };
        self.config.qos_policy.effective(options, inputs).await
    }

    pub(super) fn publish(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        verified: &Verified,
        programmed: ProgrammedState,
    ) -> Arc<Subnet> {
        self.plan.generation += 1;
        self.figures.generation = self.plan.generation;
        let plan = verified.plan().clone();
        self.plan.in_force = Some(plan.clone());
        let subnet = Arc::new(Subnet {
            generation: self.plan.generation,
            fabric: observation.fabric.clone(),
            plan,
            options: options.clone(),
            qos_policy: programmed.qos_policy,
            summary: Arc::new(verified.summary().clone()),
            failed_sets: programmed.failed_sets,
            devices: Arc::new(DeviceFaults::new(
                self.devices.acknowledged.failures(),
                self.devices.quarantined.clone(),
            )),
            restarts: self.devices.restarts.clone(),
            rate_limits: self.config.files.enhanced_qos.clone(),
            repair_view: Arc::default(),
        });
        debug_assert!(
            context
                .published
                .subnet
                .borrow()
                .as_ref()
                .is_none_or(|last| last.generation < subnet.generation),
            "generations increase"
        );
        port_log::changes(
            context.published.subnet.send_replace(Some(subnet.clone())).as_deref(),
            &subnet,
        );
        subnet
    }

    pub(super) fn write_files(
        &mut self,
        options: &Arc<Options>,
        subnet: Option<Arc<Subnet>>,
        rejected: Option<Arc<PlanRejected>>,
    ) {
        self.file_writer.write(WriteJob {
            memory: self.plan.memory.clone(),
            m_keys: self.devices.m_keys.clone(),
            options: options.clone(),
            subnet,
            rejected,
        });
    }
}
