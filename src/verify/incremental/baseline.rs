//! Planning and verification in one step, based on the verified plan in force.

use super::choose::{Known, PassedFindings, prove_after, verify_with};
use super::engine_choice::{PlanAttempt, Planner, choose};
use crate::fabric::Fabric;
use crate::fabric::difference::Difference;
use crate::plan::adaptive::AdaptiveGroups;
use crate::plan::compute::{PlanError, PlanInput, Planned, compute};
use crate::plan::lids::Memory;
use crate::plan::routing::chain::Chain;
use crate::plan::update::{self, BaselineInputs, PlanBaseline, update};
use crate::plan::{LidTable, Plan};
use crate::verify::adaptive::{self, ProvenGroups};
use crate::verify::proof::Proof;
use crate::verify::verdict::{Checks, Verified, VerifyFailure};
use std::fmt;
use std::sync::Arc;

/// A plan and its verdict, or the reason why there is no plan.
pub type Outcome = Result<PlanVerdict, Box<PlanError>>;

/// The verdict on a new plan.
#[derive(Debug)]
pub struct PlanVerdict {
    pub verdict: Result<Verified, VerifyFailure>,
    /// The LIDs of the plan, whatever the verdict.
    pub lids: Arc<LidTable>,
    /// Memory for the next plan.
    pub memory: Memory,
    /// The baseline of the next plan, unfinished; `None` for a rejected plan.
    pub pending_baseline: Option<PendingBaseline>,
}

/// The plan in force: what the planner needs to update it, and its proof.
#[derive(Debug)]
pub struct VerifiedBaseline {
    plan_baseline: PlanBaseline,
    proof: Option<Proof>,
}

impl VerifiedBaseline {
    /// Plans `input`, which was made from `inputs`, and verifies the plan in full. `None` if there
    /// is no plan or it is rejected. The proof retains the cables and switches that the `last`
    /// baseline has or remembers and that are missing now.
    pub fn compute(
        input: &PlanInput<'_>,
        inputs: BaselineInputs,
        checks: &Checks,
        last: Option<&Self>,
    ) -> Option<Self> {
        let last = last.and_then(Self::proof);
        let fabric = inputs.fabric.clone();
        let mut planner = BaselinePlanner { input, fabric: &fabric, last };
        let (state, verified, proof) = choose(input.chain, checks, &mut planner).ok()??;
        let plan_baseline = PlanBaseline::new(inputs, state, verified.plan().clone());
        Some(Self { plan_baseline, proof })
    }

    /// Verifies another plan, incrementally if possible.
    ///
    /// # Errors
    /// As [`crate::verify::verify`].
    pub fn verify(
        &self,
        fabric: &Fabric,
        plan: Plan,
        checks: &Checks,
    ) -> Result<Verified, VerifyFailure> {
        let difference = Difference::between(&self.plan_baseline.fabric, fabric);
        let known = self.known(difference.as_ref());
        verify_with(fabric, plan, checks, known).map(|(verified, _)| verified)
    }

    /// Proves groups for a plan, with the proof of the baseline if that is one of the same routes. The result is
    /// that of [`adaptive::prove`], apart from the number of dependencies, which may be larger.
    pub fn prove_groups(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        checks: &Checks,
        groups: AdaptiveGroups,
    ) -> ProvenGroups {
        let proof = self.proof.as_ref().filter(|proof| proof.is_about(fabric, plan));
        adaptive::prove_after(fabric, plan, checks, groups, proof.map(Proof::known_triples))
    }

    pub fn plan_baseline(&self) -> &PlanBaseline {
        &self.plan_baseline
    }

    /// The proof of the plan; `None` if it has a credit loop or drops packets.
    pub(super) fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }

    /// Shares equal tables with a new plan: after a repair it mostly is the plan from before the fault.
    fn share_tables(&self, plan: &mut Plan) {
        plan.share_tables(&self.plan_baseline.plan);
        if let Some(fault_free) = self.proof.as_ref().and_then(Proof::fault_free_plan) {
            plan.share_tables(fault_free);
        }
    }

    fn known<'a>(&'a self, difference: Option<&'a Difference>) -> Option<Known<'a>> {
        self.proof.as_ref().map(|proof| Known { proof, difference })
    }
}

/// The result of a planning pass for its baseline, which is completed off the critical path without
/// another check of the plan. After an incremental check the proof of the baseline may contain
/// dependencies that the plan does not have; then a later plan may need a full check unnecessarily.
pub struct PendingBaseline {
    verified: Verified,
    planned: update::BaselineState,
    findings: PassedFindings,
}

impl fmt::Debug for PendingBaseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingBaseline({:?})", self.verified.summary().extent)
    }
}

impl PendingBaseline {
    /// Proves groups for the plan, with the evidence of its check if that was a full one. Arguments are
    /// those of the planning pass.
    pub fn prove_groups(
        &self,
        fabric: &Fabric,
        checks: &Checks,
        groups: AdaptiveGroups,
    ) -> ProvenGroups {
        let plan = self.verified.plan();
        let known = self.findings.evidence().and_then(|found| found.known_triples(fabric));
        adaptive::prove_after(fabric, plan, checks, groups, known)
    }

    /// Completes the baseline. `inputs` and `checks` are those of the planning pass.
    pub fn complete(self, inputs: BaselineInputs, checks: &Checks) -> VerifiedBaseline {
        let Self { verified, planned, findings } = self;
        let proof = findings.into_proof(&inputs.fabric, &verified, checks);
        let plan_baseline = PlanBaseline::new(inputs, planned, verified.plan().clone());
        VerifiedBaseline { plan_baseline, proof }
    }
}

/// A stage of [`plan_and_verify_in_stages`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Planning,
    Verifying,
}

/// Plans a fabric and verifies the plan. With a `baseline`, both steps reuse its results where
/// possible; plan and verdict do not depend on it. If an engine promises routes without credit
/// loops and fails to keep that, the engines behind it are tried ([`super::engine_choice`]).
///
/// # Errors
/// As [`compute`]. A rejected plan is a verdict, not an error.
pub fn plan_and_verify(
    input: &PlanInput<'_>,
    baseline: Option<&VerifiedBaseline>,
    checks: &Checks,
) -> Outcome {
    plan_and_verify_in_stages(input, baseline, checks, &mut |_| ())
}

/// As [`plan_and_verify`]; calls `begins` with each stage that begins.
///
/// # Errors
/// As [`plan_and_verify`].
pub fn plan_and_verify_in_stages(
    input: &PlanInput<'_>,
    baseline: Option<&VerifiedBaseline>,
    checks: &Checks,
    begins: &mut dyn FnMut(Stage),
) -> Outcome {
    choose(input.chain, checks, &mut StagedPlanner { input, baseline, begins })
}

/// Plans and verifies incrementally where possible.
struct StagedPlanner<'a, 'i> {
    input: &'a PlanInput<'i>,
    baseline: Option<&'a VerifiedBaseline>,
    begins: &'a mut dyn FnMut(Stage),
}

impl Planner for StagedPlanner<'_, '_> {
    /// The plan, and the difference of the fabric from that of the baseline if it has the same
    /// nodes.
    type Planned = (Planned, Option<Difference>);
    type Verdict = PlanVerdict;
    type Error = Box<PlanError>;

    fn plan(&mut self, chain: &Chain) -> Result<Self::Planned, Self::Error> {
        (self.begins)(Stage::Planning);
        let input = PlanInput { chain, ..*self.input };
        let Some(baseline) = self.baseline else { return Ok((compute(&input)?, None)) };
        let (planned, difference) = update(&input, &baseline.plan_baseline);
        let mut planned = planned?;
        baseline.share_tables(&mut planned.plan);
        Ok((planned, difference))
    }

    fn verify(&mut self, planned: &Self::Planned, checks: &Checks) -> PlanAttempt<PlanVerdict> {
        (self.begins)(Stage::Verifying);
        let (planned, difference) = planned;
        let known = self.baseline.and_then(|baseline| baseline.known(difference.as_ref()));
        let lids = planned.plan.lids.clone();
        let memory = planned.memory.clone();
        let routing = planned.plan.routing.clone();
        let (plan, planned) = planned.clone().split();
        let (verdict, pending_baseline) = match verify_with(self.input.fabric, plan, checks, known)
        {
            Ok((verified, findings)) => {
                let pending = PendingBaseline { verified: verified.clone(), planned, findings };
                (Ok(verified), Some(pending))
            }
            Err(failure) => (Err(failure), None),
        };
        let findings = match &verdict {
            Ok(verified) => Ok(verified.summary.clone()),
            Err(failure) => Err(failure.clone()),
        };
        let verdict = PlanVerdict { verdict, lids, memory, pending_baseline };
        PlanAttempt { routing, findings, verdict }
    }
}

/// Plans and verifies in full, with a proof.
struct BaselinePlanner<'a, 'i> {
    input: &'a PlanInput<'i>,
    fabric: &'a Arc<Fabric>,
    /// The proof of the last baseline.
    last: Option<&'a Proof>,
}

impl Planner for BaselinePlanner<'_, '_> {
    type Planned = Planned;
    /// `None` if the plan is rejected.
    type Verdict = Option<(update::BaselineState, Verified, Option<Proof>)>;
    type Error = Box<PlanError>;

    fn plan(&mut self, chain: &Chain) -> Result<Planned, Self::Error> {
        let mut planned = compute(&PlanInput { chain, ..*self.input })?;
        if let Some(previous) = self.input.previous {
            planned.plan.share_tables(previous);
        }
        Ok(planned)
    }

    fn verify(&mut self, planned: &Planned, checks: &Checks) -> PlanAttempt<Self::Verdict> {
        let (plan, state) = planned.clone().split();
        let routing = plan.routing.clone();
        let (findings, verdict) = match prove_after(self.fabric, plan, checks, self.last) {
            Ok((verified, proof)) => (Ok(verified.summary.clone()), Some((state, verified, proof))),
            Err(failure) => (Err(failure), None),
        };
        PlanAttempt { routing, findings, verdict }
    }
}
