//! Plan and verify in one go, on what the last plan left.

use super::{Checks, Findings, Proof, Verified, VerifyFailure, judge, prove_after};
use crate::fabric::Fabric;
use crate::fabric::difference::Difference;
use crate::plan::compute::{PlanError, PlanInput, compute};
use crate::plan::lids::Memory;
use crate::plan::update::{self, BaselineInputs, PlanBaseline, update};
use crate::plan::{LidTable, Plan};
use std::fmt;
use std::sync::Arc;

/// What planning brought, or why there is no plan.
pub type Outcome = Result<Judged, Box<PlanError>>;

/// A plan that was made, and the verdict on it.
#[derive(Debug)]
pub struct Judged {
    /// The verdict.
    pub verdict: Result<Verified, VerifyFailure>,
    /// The LIDs that were decided, whatever the verdict.
    pub lids: Arc<LidTable>,
    /// Memory for the next plan.
    pub memory: Memory,
    /// What the next plan can build on; `None` if the plan is faulty.
    pub remains: Option<Remains>,
}

/// A plan in force with all that is known of it.
#[derive(Debug)]
pub struct Foundation {
    basis: PlanBaseline,
    proof: Option<Proof>,
}

impl Foundation {
    /// The plan of `input`, which is made from `inputs`, with all that is known of it. `None` if
    /// there is no plan, or it is faulty. Cables and switches that were there in the `last` foundation, or
    /// known to it as lost, are kept in mind.
    pub fn lay(
        input: &PlanInput<'_>,
        inputs: BaselineInputs,
        checks: &Checks,
        last: Option<&Self>,
    ) -> Option<Self> {
        let (plan, outcome) = compute(input).ok()?.split();
        let last = last.and_then(Self::proof);
        let (verified, proof) = prove_after(&inputs.fabric, plan, checks, last).ok()?;
        let basis = PlanBaseline::new(inputs, outcome, verified.plan().clone());
        Some(Self { basis, proof })
    }

    /// The verdict on some plan for a fabric; what is known of this one helps if it can.
    ///
    /// # Errors
    /// As [`super::verify`].
    pub fn verify(
        &self,
        fabric: &Fabric,
        plan: Plan,
        checks: &Checks,
    ) -> Result<Verified, VerifyFailure> {
        let difference = Difference::between(&self.basis.fabric, fabric);
        let known = self.proof.as_ref().map(|proof| (proof, difference.as_ref()));
        judge(fabric, plan, checks, known).map(|(verified, _)| verified)
    }

    /// The plan.
    pub fn basis(&self) -> &PlanBaseline {
        &self.basis
    }

    /// What the plan was found to be; `None` if it has a credit loop.
    pub(super) fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }
}

/// What is left of a pass, of which a foundation is made when there is time: it takes no second look
/// at the plan. If the plan was verified in its changes, the foundation may know of more dependencies than
/// there are, and send a plan to a check of the whole that one laid anew would have proven.
pub struct Remains {
    verified: Verified,
    planned: update::BaselineState,
    findings: Findings,
}

impl fmt::Debug for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remains({:?})", self.verified.summary().extent)
    }
}

impl Remains {
    /// The foundation; `inputs` and `checks` are those of the pass.
    pub fn into_foundation(self, inputs: BaselineInputs, checks: &Checks) -> Foundation {
        let Self { verified, planned, findings } = self;
        let proof = findings.into_proof(&inputs.fabric, &verified, checks);
        Foundation { basis: PlanBaseline::new(inputs, planned, verified.plan().clone()), proof }
    }
}

/// Plans a fabric and verifies the plan: where it differs from `foundation` if that is enough,
/// and as a whole otherwise. Plan and verdict are the same either way.
///
/// # Errors
/// As [`compute`]; the verdict is inside.
pub fn plan_and_verify(
    input: &PlanInput<'_>,
    foundation: Option<&Foundation>,
    checks: &Checks,
) -> Outcome {
    let (planned, known) = match foundation {
        None => (compute(input)?, None),
        Some(Foundation { basis, proof }) => {
            let (planned, difference) = update(input, basis);
            (planned?, proof.as_ref().map(|proof| (proof, difference)))
        }
    };
    let (lids, memory) = (planned.plan.lids.clone(), planned.memory.clone());
    let (plan, planned) = planned.split();
    let known = known.as_ref().map(|(proof, difference)| (*proof, difference.as_ref()));
    let (verdict, remains) = match judge(input.fabric, plan, checks, known) {
        Ok((verified, findings)) => {
            let remains = Remains { verified: verified.clone(), planned, findings };
            (Ok(verified), Some(remains))
        }
        Err(failure) => (Err(failure), None),
    };
    Ok(Judged { verdict, lids, memory, remains })
}
