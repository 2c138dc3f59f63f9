//! A rejected plan: the routes of the last accepted one stay in force, and everything that does not
//! depend on new routes is planned with them. Hosts and links that return become ACTIVE, and
//! multicast trees follow their members and the cables.
//!
//! The options and the QoS policy are those of the accepted plan, to which its routes belong.

use super::log_once::log_failed_sets;
use super::{Reconfigurer, recording};
use crate::apply::{ApplyReport, Devices, apply_idle_ports};
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::contained;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::fabric::difference::Difference;
use crate::notes::Note;
use crate::observe::Observation;
use crate::plan::multicast::GroupMembers;
use crate::plan::routing::kept_routes::RoutedFabric;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::verify::{Extent, Verified};
use std::sync::Arc;

/// The last accepted plan.
pub(super) struct AcceptedPlan {
    /// The subnet with the plan, as last published.
    pub(super) subnet: Arc<Subnet>,
    /// The contents of qos-policy.conf.
    qos_policy: Option<Arc<QosPolicy>>,
}

/// A plan that may be programmed.
pub(super) struct ProgrammablePlan {
    pub(super) verified: Verified,
    pub(super) request: PlanRequest,
    /// The plan with new routes, if it was rejected; `verified` keeps those in force then.
    rejected: Option<PlanRejected>,
}

impl Reconfigurer {
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
        let work = move || contained::run(|| request.plan_idle_ports());
        let planned = match spawn_low_priority(work).await {
            Ok(Ok(planned)) => planned,
            Ok(Err(panic)) => Err(panic.to_string()),
            Err(problem) => Err(problem.to_string()),
        };
        let (plan, memory) = planned.map_err(|problem| {
            format!("hosts and links that are not ACTIVE cannot be configured: {problem}")
        })?;
        self.plan.memory = memory;
        let devices = Devices {
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
        context.refused.send_replace(None);
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
        let subnet = context.subnet.borrow().clone()?;
        let is_quiet = report.sets() == 0
            && verified.summary().extent == Extent::KeptRoutes
            && subnet.summary.extent == Extent::KeptRoutes
            && subnet.failed_sets == report.failures() + report.delayed_essential
            && subnet.plan.multicast == verified.plan().multicast;
        let difference = || Difference::between(&subnet.fabric, &observation.fabric);
        let is_same = is_quiet && difference().is_some_and(|difference| difference.is_empty());
        is_same.then_some(subnet)
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
        let is_new = context.refused.borrow().as_deref() != Some(&rejected);
        if is_new {
            context.refused.send_replace(Some(rejected.clone()));
        }
        if is_new || kept.is_some() {
            // The job replaces one with the last snapshot that may not be written yet.
            let subnet = context.subnet.borrow().clone();
            self.write_files(options, subnet, Some(rejected));
        }
        headline
    }
}
