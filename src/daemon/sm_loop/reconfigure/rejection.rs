//! A rejected plan: the routes of the last accepted one stay in force, and everything that does not
//! depend on new routes is planned with them. Hosts and links that return become ACTIVE, and
//! multicast trees follow their members and the cables.
//!
//! The options and the QoS policy are those of the accepted plan, to which its routes belong.

use super::Reconfigurer;
use crate::apply::ApplyReport;
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::contained;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::fabric::difference::Difference;
use crate::notes::{Note, Severity};
use crate::observe::Observation;
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

impl Reconfigurer {
    /// Plans the observed fabric with the routes of the last accepted plan. Without one, and if
    /// trees or tables are faulty, adds the reason to `rejected`.
    pub(super) async fn plan_with_kept_routes(
        &mut self,
        observation: &Observation,
        rejected: &mut PlanRejected,
    ) -> Option<Verified> {
        let accepted = self.plan.accepted.as_ref()?;
        let request = self.plan.request.clone()?;
        if !Arc::ptr_eq(&request.fabric, &observation.fabric) {
            return None;
        }
        let request = PlanRequest {
            options: accepted.subnet.options.clone(),
            qos_policy: accepted.qos_policy.clone(),
            memory: self.plan.memory.clone(),
            ..request
        };
        let (subnet, in_force) = (accepted.subnet.clone(), self.plan.in_force.clone());
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
                self.plan.request = Some(request);
                return Some(verified);
            }
            Ok(Ok(Err(failure))) => failure.to_string(),
            Ok(Err(panic)) => panic.to_string(),
            Err(problem) => problem.to_string(),
        };
        rejected.notes.push(Note::warning(format!(
            "returned hosts and multicast groups cannot be configured with the routes in force: \
             {problem}"
        )));
        None
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

    /// Logs and publishes why there is no plan; returns the last error. `kept` is the plan with the
    /// routes in force, if it was programmed.
    pub(super) fn reject(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        mut rejected: PlanRejected,
        kept: Option<&Verified>,
    ) -> String {
        let mut errors = rejected.notes.iter().filter(|note| note.severity == Severity::Error);
        let headline = errors.next_back().map(ToString::to_string).unwrap_or_default();
        if let Some(kept) = kept {
            rejected.notes.extend(kept.plan().notes.iter().chain(&kept.summary().notes).cloned());
        }
        let routed = self.plan.accepted.as_ref().map(|accepted| &*accepted.subnet);
        let rejected = rejected.with_connectivity(routed, &observation.fabric);
        let notes = self.config.partitions.notes().iter().chain(&rejected.notes);
        self.logged.log_notes(notes.cloned().collect());
        let is_new = context.refused.borrow().as_deref() != Some(&rejected);
        if is_new || kept.is_some() {
            let rejected = Some(Arc::new(rejected));
            if is_new {
                context.refused.send_replace(rejected.clone());
            }
            // The job replaces one with the last snapshot that may not be written yet.
            let subnet = context.subnet.borrow().clone();
            self.write_files(options, subnet, rejected);
        }
        headline
    }
}
