//! Turns the result of planning and verification into a plan or a rejection with its reasons.

use crate::contained;
use crate::plan::compute::PlanError;
use crate::plan::lids::Memory;
use crate::publish::rejected::PlanRejected;
use crate::verify::baseline::{Outcome, PendingBaseline, PlanVerdict};
use crate::verify::{Verified, VerifyFailure};

/// A plan that may be applied or the reasons why there is none, and the memory for the next plan.
pub(in crate::daemon) type Decision = (Result<Verified, PlanRejected>, Memory);

/// The decision, and the baseline for the next plan, still to be completed.
pub(in crate::daemon) fn decide(outcome: Outcome) -> (Decision, Option<PendingBaseline>) {
    match outcome {
        Ok(PlanVerdict { verdict, memory, pending_baseline, .. }) => {
            let verdict = verdict.map_err(|failure| verification_failed(&failure));
            ((verdict, memory), pending_baseline)
        }
        Err(failure) => (planning_failed(*failure), None),
    }
}

/// The rejection if no routing engine can route the fabric.
fn planning_failed(failure: PlanError) -> Decision {
    let PlanError { mut notes, routing_errors, memory, .. } = failure;
    let engines: Vec<_> = routing_errors.iter().map(|error| error.engine).collect();
    // OpenSM's wording, which operators' scripts match.
    let headline = format!(
        "No routing engine able to successfully configure switch tables on current fabric: {} \
         found no routes",
        engines.join(" and ")
    );
    let mut dumps = Vec::new();
    for error in routing_errors {
        notes.extend(error.notes);
        dumps.extend(error.dump);
    }
    let rejected = PlanRejected::new(notes, dumps, headline).with_failed_engines(engines);
    (Err(rejected), memory)
}

/// The rejection of a plan that fails verification.
fn verification_failed(failure: &VerifyFailure) -> PlanRejected {
    let headline = format!("the plan is faulty and was not applied: {failure}");
    PlanRejected::of(headline)
}

/// Plans by `plan(false)`, incrementally, or, if that panics, by `plan(true)`, in full.
pub(super) fn full_if_incremental_fails<T>(
    plan: impl Fn(bool) -> T,
) -> Result<T, contained::Panic> {
    contained::run(|| plan(false)).or_else(|panic| {
        contained::log("planning", &panic, "everything is planned again, without earlier results");
        contained::run(|| plan(true))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_incremental_planning_is_followed_by_full_planning() {
        assert_eq!(full_if_incremental_fails(incremental), Ok(()));
        let panic = full_if_incremental_fails(|is_full: bool| -> () {
            panic!("planned in full: {is_full}")
        })
        .unwrap_err();
        assert_eq!(panic.to_string(), "planned in full: true");
        assert_eq!(full_if_incremental_fails(|is_full| is_full), Ok(false));
    }

    fn incremental(is_full: bool) {
        assert!(is_full, "a defect");
    }
}
