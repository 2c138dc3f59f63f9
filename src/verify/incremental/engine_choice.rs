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

/// The plan of the first engine of a chain that routes.
pub(super) struct Attempt<T> {
    pub routing: Arc<Routing>,
    /// The findings of verification, or the faults for which it rejected the plan.
    pub findings: Result<Summary, VerifyFailure>,
    pub result: T,
}

/// Plans and verifies with `attempt`, with the engines of `chain` and, where needed, those behind
/// them.
///
/// # Errors
/// That of the first attempt.
pub(super) fn choose<T, E>(
    chain: &Chain,
    checks: &Checks,
    mut attempt: impl FnMut(&Chain, &Checks) -> Result<Attempt<T>, E>,
) -> Result<T, E> {
    let mut chain = Cow::Borrowed(chain);
    let mut chosen = attempt(&chain, checks)?;
    let mut earlier: Option<Attempt<T>> = None;
    loop {
        let reason = match (&chosen.findings, &earlier) {
            (Ok(findings), Some(Attempt { findings: Ok(before), .. }))
                if !findings.is_better_than(before) =>
            {
                "its routes are no better than those of an engine before it".to_owned()
            }
            (Ok(_), _) => break,
            (Err(failure), _) => match failure.credit_loop() {
                Some(credit_loop) => format!("its routes are rejected: {credit_loop}"),
                None => break,
            },
        };
        let note = Note::new(Severity::Error, None, reason);
        let Some(rest) = chain.after(&chosen.routing, note) else { break };
        let Ok(next) = attempt(&rest, checks) else { break };
        if earlier.is_none() && !checks.is_strict {
            let accepting = Checks { accepts_loops: true, ..checks.clone() };
            earlier = attempt(&chain, &accepting).ok().filter(|it| it.findings.is_ok());
        }
        chain = Cow::Owned(rest);
        chosen = next;
    }
    let is_better = match (&chosen.findings, &earlier) {
        (Ok(findings), Some(Attempt { findings: Ok(before), .. })) => {
            findings.is_better_than(before)
        }
        (Ok(_), _) => true,
        (Err(_), _) => false,
    };
    Ok(earlier.filter(|_| !is_better).unwrap_or(chosen).result)
}
