//! Plan and verify in one go, on what the last plan left.

use super::{Checks, Proof, Verified, VerifyFailure, prove, verify, verify_changes};
use crate::plan::LidTable;
use crate::plan::compute::{PlanFailure, PlanInput, compute};
use crate::plan::lids::Memory;
use crate::plan::update::{Basis, Inputs, update};
use std::sync::Arc;

/// What planning brought, or why there is no plan.
pub type Outcome = Result<Judged, Box<PlanFailure>>;

/// A plan that was made, and the verdict on it.
#[derive(Debug)]
pub struct Judged {
    /// The verdict.
    pub verdict: Result<Verified, VerifyFailure>,
    /// The LIDs that were decided, whatever the verdict.
    pub lids: Arc<LidTable>,
    /// Memory for the next plan.
    pub memory: Memory,
}

/// A plan in force with all that is known of it.
#[derive(Debug)]
pub struct Foundation {
    basis: Basis,
    proof: Option<Proof>,
}

impl Foundation {
    /// The plan of `input`, which is made from `inputs`, with all that is known of it. `None` if
    /// there is no plan, or it is faulty.
    pub fn lay(input: &PlanInput<'_>, inputs: Inputs, checks: &Checks) -> Option<Self> {
        let (plan, outcome) = compute(input).ok()?.split();
        let (verified, proof) = prove(&inputs.fabric, plan, checks).ok()?;
        let basis = Basis::new(inputs, outcome, verified.plan().clone());
        Some(Self { basis, proof })
    }

    /// The plan.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// What the plan was found to be; `None` if it has a credit loop.
    pub(super) fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
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
            (planned?, proof.as_ref().zip(difference))
        }
    };
    let (lids, memory) = (planned.plan.lids.clone(), planned.memory);
    let verdict = match known {
        Some((proof, difference)) => {
            verify_changes(input.fabric, planned.plan, checks, proof, &difference)
        }
        None => verify(input.fabric, planned.plan, checks),
    };
    Ok(Judged { verdict, lids, memory })
}
