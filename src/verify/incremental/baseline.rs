//! Planning and verification in one step, based on the verified plan in force.

use super::choose::{Findings, Known, prove_after, verify_with};
use super::engine_choice::{Attempt, choose};
use crate::fabric::Fabric;
use crate::fabric::difference::Difference;
use crate::plan::compute::{PlanError, PlanInput, compute};
use crate::plan::lids::Memory;
use crate::plan::update::{self, BaselineInputs, PlanBaseline, update};
use crate::plan::{LidTable, Plan};
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
        let proven = choose(input.chain, checks, |chain, checks| {
            let (mut plan, state) = compute(&PlanInput { chain, ..*input })?.split();
            if let Some(previous) = input.previous {
                plan.share_tables(previous);
            }
            let routing = plan.routing.clone();
            let (findings, result) = match prove_after(&fabric, plan, checks, last) {
                Ok((verified, proof)) => {
                    (Ok(verified.summary.clone()), Some((state, verified, proof)))
                }
                Err(failure) => (Err(failure), None),
            };
            Ok::<_, Box<PlanError>>(Attempt { routing, findings, result })
        });
        let (state, verified, proof) = proven.ok()??;
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

    pub fn plan_baseline(&self) -> &PlanBaseline {
        &self.plan_baseline
    }

    /// The proof of the plan; `None` if it has a credit loop or drops packets.
    pub(super) fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
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
    findings: Findings,
}

impl fmt::Debug for PendingBaseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingBaseline({:?})", self.verified.summary().extent)
    }
}

impl PendingBaseline {
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
    choose(input.chain, checks, |chain, checks| {
        attempt(&PlanInput { chain, ..*input }, baseline, checks, begins)
    })
}

fn attempt(
    input: &PlanInput<'_>,
    baseline: Option<&VerifiedBaseline>,
    checks: &Checks,
    begins: &mut dyn FnMut(Stage),
) -> Result<Attempt<PlanVerdict>, Box<PlanError>> {
    begins(Stage::Planning);
    let (planned, difference) = match baseline {
        None => (compute(input)?, None),
        Some(baseline) => {
            let (planned, difference) = update(input, &baseline.plan_baseline);
            (planned?, difference)
        }
    };
    begins(Stage::Verifying);
    let known = baseline.and_then(|baseline| baseline.known(difference.as_ref()));
    let (lids, memory) = (planned.plan.lids.clone(), planned.memory.clone());
    let routing = planned.plan.routing.clone();
    let (plan, planned) = planned.split();
    let (verdict, pending_baseline) = match verify_with(input.fabric, plan, checks, known) {
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
    let result = PlanVerdict { verdict, lids, memory, pending_baseline };
    Ok(Attempt { routing, findings, result })
}
