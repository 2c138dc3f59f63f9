//! Plan and verify as the daemon runs them: beside the loop, on what the last plan left.
//!
//! When a plan is in force and nothing happens, the [`VerifiedBaseline`] of the next one is laid: the
//! fabric as the devices acknowledged it is planned and verified as a whole. After a failure only
//! what differs from it is computed and checked, which takes milliseconds where the whole
//! takes the better part of a second; and for a failure that follows at once, what was found is carried
//! forward (see [`crate::daemon::sm_loop::baseline_cache`]).

use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::config::torus::TorusConfig;
use crate::fabric::{Fabric, PortId};
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::aliases::AliasBlock;
use crate::plan::compute::PlanInput;
use crate::plan::lids::Memory;
use crate::plan::multicast::GroupMembers;
use crate::plan::partitions::Partition;
use crate::plan::routing::chain::Chain;
use crate::plan::update::BaselineInputs;
use crate::verify::Checks;
use crate::verify::baseline::{Outcome, PendingBaseline, VerifiedBaseline, plan_and_verify};
use crate::wire::attr::tables::PkeyBlock;
use std::collections::HashSet;
use std::sync::Arc;

/// What a plan is made from.
#[derive(Clone)]
pub struct PlanRequest {
    /// The picture.
    pub fabric: Arc<Fabric>,
    /// By port slot: the blocks of the P_Key table that were read.
    pub pkeys: Arc<Vec<Vec<PkeyBlock>>>,
    /// The configuration.
    pub options: Arc<Options>,
    /// torus-2QoS.conf as it was read.
    pub torus_config: Arc<Result<TorusConfig, Vec<Note>>>,
    /// The engines.
    pub chain: Arc<Chain>,
    /// The partitions.
    pub partitions: Arc<Vec<Partition>>,
    /// The QoS policy, if there is one.
    pub qos_policy: Option<Arc<QosPolicy>>,
    /// Multicast groups.
    pub groups: Arc<Vec<GroupMembers>>,
    /// Blocks of alias GUIDs.
    pub aliases: Arc<Vec<AliasBlock>>,
    /// What must stay as it was.
    pub memory: Memory,
    /// End ports whose clients are to register again.
    pub reregister: HashSet<PortId>,
}

impl PlanRequest {
    /// Plans and verifies; `previous` is the plan in force, `foundation` what is known of it.
    pub fn plan(&self, previous: Option<&Plan>, foundation: Option<&VerifiedBaseline>) -> Outcome {
        let checks = Checks::new(self.options.qos);
        self.with_input(previous, |input| plan_and_verify(input, foundation, &checks))
    }

    /// The foundation that a pass with this order has left.
    pub fn carry(&self, remains: PendingBaseline) -> VerifiedBaseline {
        remains.complete(self.inputs(), &Checks::new(self.options.qos))
    }

    /// Lays the foundation for what comes after `plan`; `last` is taken if it still is one. `None`
    /// if the fabric, as it was acknowledged, cannot be planned again.
    pub fn prepare(
        &self,
        plan: &Plan,
        last: Option<Arc<VerifiedBaseline>>,
    ) -> Option<Arc<VerifiedBaseline>> {
        let inputs = self.inputs();
        let holds = |last: &VerifiedBaseline| last.plan_baseline().still_holds(&inputs, plan);
        if last.as_deref().is_some_and(holds) {
            return last;
        }
        let (checks, last) = (Checks::new(self.options.qos), last.as_deref());
        let lay = |input: &PlanInput<'_>| VerifiedBaseline::compute(input, inputs, &checks, last);
        self.with_input(Some(plan), lay).map(Arc::new)
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
            groups: &self.groups,
            aliases: &self.aliases,
            previous,
            observed_pkeys: &self.pkeys,
            reregister: &|port| self.reregister.contains(&port),
            chain: &self.chain,
            qos_policy: self.qos_policy.as_ref(),
        })
    }
}
