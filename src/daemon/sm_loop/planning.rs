//! The input of planning and verification, as the daemon runs them on its own threads.
//!
//! Once the devices hold a plan, the [`VerifiedBaseline`] of the next one is computed: the
//! acknowledged fabric is planned and verified in full. After a failure, only the differences from
//! the baseline are computed and verified, which takes milliseconds instead of the better part of
//! a second. A failure that follows at once uses the carried baseline
//! ([`crate::daemon::sm_loop::baseline_cache`]).

use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::config::torus::TorusConfig;
use crate::daemon::sm_loop::baseline_cache::Computation;
use crate::fabric::{Fabric, PortId};
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::aliases::AliasBlock;
use crate::plan::compute::{PlanInput, Planned, Registrations, compute_with_kept_routes};
use crate::plan::idle_ports::compute_idle_ports;
use crate::plan::lids::Memory;
use crate::plan::multicast::GroupMembers;
use crate::plan::partitions::Partition;
use crate::plan::routing::chain::Chain;
use crate::plan::routing::kept_routes::RoutedFabric;
use crate::plan::update::BaselineInputs;
use crate::verify::baseline::{
    Outcome, PendingBaseline, Stage, VerifiedBaseline, plan_and_verify_in_stages,
};
use crate::verify::held_mappings::HeldMappings;
use crate::verify::idle_ports::{IdlePorts, verify_idle_ports};
use crate::verify::kept_routes::verify_kept_routes;
use crate::verify::{Checks, Verified, VerifyFailure};
use crate::wire::attr::tables::PkeyTable;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The input of a plan.
#[derive(Clone)]
pub struct PlanRequest {
    pub fabric: Arc<Fabric>,
    /// P_Key table blocks as read by the sweep. Index: port slot.
    pub pkeys: Arc<Vec<PkeyTable>>,
    pub options: Arc<Options>,
    /// torus-2QoS.conf, or the errors in it.
    pub torus_config: Arc<Result<TorusConfig, Vec<Note>>>,
    /// The routing engines, in the order in which they are tried.
    pub chain: Arc<Chain>,
    pub partitions: Arc<Vec<Partition>>,
    pub qos_policy: Option<Arc<QosPolicy>>,
    pub registrations: SharedRegistrations,
    /// LIDs, MLIDs and P_Key indexes to keep.
    pub memory: Memory,
    /// End ports to set ClientReregister for.
    pub reregister: HashSet<PortId>,
    /// SL to VL mappings that the switches hold, for plans that write none.
    pub held_mappings: Arc<HeldMappings>,
}

/// As [`Registrations`].
#[derive(Clone)]
pub struct SharedRegistrations {
    pub groups: Arc<Vec<GroupMembers>>,
    pub aliases: Arc<Vec<AliasBlock>>,
}

impl PlanRequest {
    /// Plans and verifies; `previous` is the plan in force, `baseline` the one to start from.
    pub fn plan(&self, previous: Option<&Plan>, baseline: Option<&VerifiedBaseline>) -> Outcome {
        self.plan_timed(previous, baseline, &mut Duration::default())
    }

    /// As [`Self::plan`]; adds the time of verification to `verifying`.
    pub fn plan_timed(
        &self,
        previous: Option<&Plan>,
        baseline: Option<&VerifiedBaseline>,
        verifying: &mut Duration,
    ) -> Outcome {
        let checks = self.checks();
        let mut began: Option<Instant> = None;
        let outcome = self.with_input(previous, |input| {
            plan_and_verify_in_stages(input, baseline, &checks, &mut |stage| match stage {
                Stage::Verifying => *verifying += elapsed(began.replace(Instant::now())),
                // Another routing engine is tried.
                Stage::Planning => *verifying += elapsed(began.take()),
            })
        });
        *verifying += elapsed(began);
        outcome
    }

    /// Plans with the routes of an earlier plan, and verifies the rest.
    ///
    /// # Errors
    /// As [`verify_kept_routes`].
    pub fn plan_with_kept_routes(
        &self,
        routed: &RoutedFabric<'_>,
        in_force: Option<&Plan>,
    ) -> Result<(Verified, Memory), VerifyFailure> {
        let Planned { mut plan, memory, .. } =
            self.with_input(None, |input| compute_with_kept_routes(input, routed));
        if let Some(in_force) = in_force {
            plan.share_tables(in_force);
        }
        let verified = verify_kept_routes(&self.fabric, &Arc::new(plan), &self.checks())?;
        Ok((verified, memory))
    }

    /// Plans and verifies the ports that carry no data, while there is no acceptable plan.
    ///
    /// # Errors
    /// As [`verify_idle_ports`].
    pub fn plan_idle_ports(&self) -> Result<(IdlePorts, Memory), String> {
        let (plan, memory) = self.with_input(None, compute_idle_ports);
        Ok((verify_idle_ports(&self.fabric, plan)?, memory))
    }

    /// The carried baseline, from the results of planning this request.
    pub fn complete_baseline(&self, pending: PendingBaseline) -> VerifiedBaseline {
        pending.complete(self.inputs(), &self.checks())
    }

    /// The checks of the plan.
    pub fn checks(&self) -> Checks {
        Checks::of(&self.options).with_held(self.held_mappings.clone())
    }

    fn inputs(&self) -> BaselineInputs {
        BaselineInputs {
            fabric: self.fabric.clone(),
            options: self.options.clone(),
            partitions: self.partitions.clone(),
            observed_pkeys: self.pkeys.clone(),
            memory: self.memory.clone(),
        }
    }

    fn with_input<T>(&self, previous: Option<&Plan>, work: impl FnOnce(&PlanInput<'_>) -> T) -> T {
        work(&PlanInput {
            fabric: &self.fabric,
            options: &self.options,
            memory: &self.memory,
            torus_config: &self.torus_config,
            partitions: &self.partitions,
            registrations: Registrations {
                groups: &self.registrations.groups,
                aliases: &self.registrations.aliases,
            },
            previous,
            observed_pkeys: &self.pkeys,
            reregister: &|port| self.reregister.contains(&port),
            chain: &self.chain,
            qos_policy: self.qos_policy.as_ref(),
        })
    }
}

/// Computes the baseline for the plan after `plan`.
pub struct BaselineComputation {
    /// The acknowledged fabric.
    pub request: PlanRequest,
    pub plan: Arc<Plan>,
}

impl Computation<VerifiedBaseline> for BaselineComputation {
    fn is_still_valid(&self, earlier: &VerifiedBaseline) -> bool {
        earlier.plan_baseline().still_holds(&self.request.inputs(), &self.plan)
    }

    /// `None` if the acknowledged fabric cannot be planned again.
    fn compute(&self, last: Option<&VerifiedBaseline>) -> Option<VerifiedBaseline> {
        let Self { request, plan } = self;
        let checks = request.checks();
        request.with_input(Some(plan), |input| {
            VerifiedBaseline::compute(input, request.inputs(), &checks, last)
        })
    }
}

/// The time since `start`; 0 without one.
fn elapsed(start: Option<Instant>) -> Duration {
    start.map_or(Duration::ZERO, |start| start.elapsed())
}
