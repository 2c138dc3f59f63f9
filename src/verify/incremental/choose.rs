//! The choice between an incremental check and the full one.

use super::check::Additions;
use super::fault_free::network_after;
use super::fault_free::{check_against_fault_free, is_more_complete};
use crate::fabric::Fabric;
use crate::fabric::difference::Difference;
use crate::plan::Plan;
use crate::verify::full::{self, CheckEvidence};
use crate::verify::proof::Proof;
use crate::verify::verdict::{Checks, Summary, Verified, VerifyFailure};
use std::sync::Arc;

/// Checks a plan in full and returns its proof for later plans; there is no [`Proof`] of a plan
/// that has a credit loop or drops packets.
///
/// # Errors
/// As [`crate::verify::verify`].
pub fn prove(
    fabric: &Arc<Fabric>,
    plan: Plan,
    checks: &Checks,
) -> Result<(Verified, Option<Proof>), VerifyFailure> {
    prove_after(fabric, plan, checks, None)
}

/// [`prove`], with a proof that retains the cables and switches of the `last` one that are missing
/// now: their repair needs no full check.
pub(super) fn prove_after(
    fabric: &Arc<Fabric>,
    plan: Plan,
    checks: &Checks,
    last: Option<&Proof>,
) -> Result<(Verified, Option<Proof>), VerifyFailure> {
    let network = network_after(last, fabric);
    let (summary, evidence) = full::check(fabric, &plan, checks, network)?;
    let verified = Verified { plan: Arc::new(plan), summary };
    let fault_free = last.map(Proof::fault_free_proof);
    let findings = PassedFindings::Full(Box::new(FullFindings { evidence, fault_free }));
    let proof = findings.into_proof(fabric, &verified, checks);
    Ok((verified, proof))
}

/// Checks a plan for a fabric that differs from that of `proof` by `difference`: incrementally, or
/// in full if that is inconclusive.
///
/// # Errors
/// As [`crate::verify::verify`].
pub fn verify_changes(
    fabric: &Fabric,
    plan: Plan,
    checks: &Checks,
    proof: &Proof,
    difference: &Difference,
) -> Result<Verified, VerifyFailure> {
    let known = Known { proof, difference: Some(difference) };
    verify_with(fabric, plan, checks, Some(known)).map(|(verified, _)| verified)
}

/// An earlier proof, and the difference of its fabric if that has the same nodes.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub proof: &'a Proof,
    pub difference: Option<&'a Difference>,
}

/// Checks a plan incrementally if a proof is known and conclusive, else in full.
pub(super) fn verify_with(
    fabric: &Fabric,
    plan: Plan,
    checks: &Checks,
    known: Option<Known<'_>>,
) -> Result<(Verified, PassedFindings), VerifyFailure> {
    let incremental = known.and_then(|known| check_incrementally(fabric, &plan, checks, known));
    let (summary, findings) = match incremental {
        Some(found) => found,
        None => {
            let last = known.map(|known| known.proof);
            let (summary, evidence) =
                full::check(fabric, &plan, checks, network_after(last, fabric))?;
            let fault_free = last.map(Proof::fault_free_proof);
            (summary, PassedFindings::Full(Box::new(FullFindings { evidence, fault_free })))
        }
    };
    Ok((Verified { plan: Arc::new(plan), summary }, findings))
}

fn check_incrementally(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    known: Known<'_>,
) -> Option<(Summary, PassedFindings)> {
    let proof = known.proof;
    // The old and new routes around a returned switch mostly form a cycle together.
    let has_returned_switch = fabric.switches().len() > proof.fabric.switches().len();
    let (base, summary, additions) = if has_returned_switch {
        check_against_fault_free(proof, fabric, plan, checks)
            .or_else(|| check_against_plan_in_force(fabric, plan, checks, known))?
    } else {
        check_against_plan_in_force(fabric, plan, checks, known)
            .or_else(|| check_against_fault_free(proof, fabric, plan, checks))?
    };
    let base = Proof { fault_free: Some(proof.fault_free_proof()), ..base };
    Some((summary, PassedFindings::Incremental(Box::new((base, additions)))))
}

fn check_against_plan_in_force(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    known: Known<'_>,
) -> Option<(Proof, Summary, Additions)> {
    let proof = known.proof;
    // Vports may get LIDs and lose them while all nodes stay.
    let has_same_lids = Arc::ptr_eq(&proof.plan.lids, &plan.lids) || proof.plan.lids == plan.lids;
    match known.difference.filter(|_| has_same_lids) {
        Some(difference) => proof.check_changes(fabric, plan, checks, difference),
        None => proof.check_changed_nodes(fabric, plan, checks),
    }
}

/// The findings in a plan that passed. The proof is made from them later, off the critical path.
pub(super) enum PassedFindings {
    Full(Box<FullFindings>),
    /// The earlier proof, and the additions of the plan.
    Incremental(Box<(Proof, Additions)>),
}

/// The findings of a full check.
pub(super) struct FullFindings {
    evidence: CheckEvidence,
    /// The last proof of a fault-free fabric.
    fault_free: Option<Arc<Proof>>,
}

impl PassedFindings {
    /// The evidence of a full check.
    pub(super) fn evidence(&self) -> Option<&CheckEvidence> {
        match self {
            Self::Full(found) => Some(&found.evidence),
            Self::Incremental(_) => None,
        }
    }

    pub(super) fn into_proof(
        self,
        fabric: &Arc<Fabric>,
        verified: &Verified,
        checks: &Checks,
    ) -> Option<Proof> {
        match self {
            Self::Full(found) => {
                let FullFindings { evidence, fault_free } = *found;
                let proof = evidence.into_proof(fabric, verified, checks)?;
                let fault_free = fault_free.filter(|known| is_more_complete(known, fabric));
                Some(Proof { fault_free, ..proof })
            }
            Self::Incremental(found) => found.1.added_to(&found.0, fabric, verified),
        }
    }
}
