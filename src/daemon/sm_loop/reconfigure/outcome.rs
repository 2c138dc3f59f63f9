//! What a planning came to, in the words that the operator is to hear.

use crate::fabric::Fabric;
use crate::plan::compute::PlanError;
use crate::plan::lids::Memory;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::verify::baseline::{Outcome, PendingBaseline, PlanVerdict};
use crate::verify::{Verified, VerifyFailure};

/// What a planning came to: a plan that may be applied, or why there is none.
pub(super) type Decision = (Result<Verified, PlanRejected>, Memory);

/// The decision, and what the planning left for the next.
pub(super) fn decide(
    outcome: Outcome,
    last: Option<&Subnet>,
    fabric: &Fabric,
) -> (Decision, Option<PendingBaseline>) {
    match outcome {
        Ok(PlanVerdict { verdict, memory, pending_baseline: remains, .. }) => {
            let verdict = verdict.map_err(|failure| unverified(&failure, last, fabric));
            ((verdict, memory), remains)
        }
        Err(failure) => (unplanned(*failure, last, fabric), None),
    }
}

/// No engine could route the fabric.
fn unplanned(failure: PlanError, last: Option<&Subnet>, fabric: &Fabric) -> Decision {
    let PlanError { mut notes, routing_errors: refusals, memory, .. } = failure;
    let engines: Vec<_> = refusals.iter().map(|refusal| refusal.engine).collect();
    // OpenSM's words, for which operators' scripts look.
    let headline = format!(
        "No routing engine able to successfully configure switch tables on current fabric: {} \
         refused",
        engines.join(" and ")
    );
    let mut dumps = Vec::new();
    for refusal in refusals {
        notes.extend(refusal.notes);
        dumps.extend(refusal.dump);
    }
    (Err(PlanRejected::new(notes, dumps, headline, last, fabric)), memory)
}

/// An engine did, but its plan is faulty.
fn unverified(failure: &VerifyFailure, last: Option<&Subnet>, fabric: &Fabric) -> PlanRejected {
    let headline = format!("the plan is faulty and was not applied: {failure}");
    PlanRejected::new(Vec::new(), Vec::new(), headline, last, fabric)
}
