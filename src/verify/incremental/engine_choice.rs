//! The choice of the engine whose plan is programmed, if that of the first is rejected.
//!
//! An engine that promises routes without credit loops and fails to keep that is followed by those
//! behind it in the list. One of these replaces it only if its routes are better by the same
//! measure: loops of hosts' traffic, and pairs of hosts without a route. If none is, the routes of
//! the rejected engine are used in spite of the loop, since the fabric would gain nothing.

use crate::notes::{Note, Severity};
use crate::plan::routing::Routing;
use crate::plan::routing::chain::Chain;
use crate::verify::verdict::{Checks, Summary, VerifyFailure};
use std::borrow::Cow;
use std::sync::Arc;

/// Plans with a chain of engines, and verifies the plans.
pub(super) trait Planner {
    type Planned;
    type Verdict;
    type Error;

    /// Plans with the first engine of the chain that routes.
    fn plan(&mut self, chain: &Chain) -> Result<Self::Planned, Self::Error>;

    /// Verifies a plan, which may be verified again with other checks.
    fn verify(&mut self, planned: &Self::Planned, checks: &Checks) -> PlanAttempt<Self::Verdict>;
}

/// A verified or rejected plan.
pub(super) struct PlanAttempt<T> {
    pub routing: Arc<Routing>,
    /// The findings of verification, or the faults for which it rejected the plan.
    pub findings: Result<Summary, VerifyFailure>,
    pub verdict: T,
}

/// What follows from an attempt.
enum NextStep {
    /// The plan is used.
    Use,
    /// The engines behind this one are tried, for this reason.
    TryOthers(String),
    /// Other engines would not help.
    Stop,
}

impl<T> PlanAttempt<T> {
    /// `earlier` is the plan of an engine before this one, with a loop.
    fn next_step(&self, earlier: Option<&Self>) -> NextStep {
        match &self.findings {
            Ok(findings) => {
                let before = earlier.and_then(|earlier| earlier.findings.as_ref().ok());
                if before.is_none_or(|before| findings.is_better_than(before)) {
                    return NextStep::Use;
                }
                let reason = "its routes are no better than those of an engine before it";
                NextStep::TryOthers(reason.to_owned())
            }
            Err(failure) => match failure.credit_loop() {
                Some(credit_loop) => {
                    let cause = failure.cause.as_ref();
                    let cause = cause.map_or_else(String::new, |cause| format!("; {cause}"));
                    NextStep::TryOthers(format!("its routes are rejected: {credit_loop}{cause}"))
                }
                None => NextStep::Stop,
            },
        }
    }
}

/// Plans and verifies with the engines of `chain` and, where needed, those behind the first that
/// routes.
///
/// # Errors
/// That of the first plan.
pub(super) fn choose<P: Planner>(
    chain: &Chain,
    checks: &Checks,
    planner: &mut P,
) -> Result<P::Verdict, P::Error> {
    let mut chain = Cow::Borrowed(chain);
    let mut planned = planner.plan(&chain)?;
    let mut attempt = planner.verify(&planned, checks);
    let mut earlier: Option<PlanAttempt<P::Verdict>> = None;
    loop {
        let reason = match attempt.next_step(earlier.as_ref()) {
            NextStep::Use => return Ok(attempt.verdict),
            NextStep::TryOthers(reason) => reason,
            NextStep::Stop => break,
        };
        let note = Note::new(Severity::Error, None, reason);
        let Some(rest) = chain.after(&attempt.routing, note) else { break };
        let Ok(next) = planner.plan(&rest) else { break };
        if earlier.is_none() && !checks.is_strict {
            let accepting = Checks { accepts_loops: true, ..checks.clone() };
            earlier = Some(planner.verify(&planned, &accepting)).filter(|it| it.findings.is_ok());
        }
        attempt = planner.verify(&next, checks);
        chain = Cow::Owned(rest);
        planned = next;
    }
    Ok(earlier.unwrap_or(attempt).verdict)
}
