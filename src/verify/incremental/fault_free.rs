//! The last proof of a fault-free fabric, retained until the faults are repaired.
//!
//! The plan after a repair is mostly the plan from before the fault, or similar to it. A check
//! against the plan in force would be inconclusive: when a ring is closed again, old routes the
//! long way round and new routes across the repaired cable form a cycle together. So the last
//! [`Proof`] of a fabric without faults is kept beside the proof of the plan in force, as long as
//! it has each switch and cable of the fabric. A plan that passes against it is free of credit
//! loops, but not necessarily together with the plan in force ([`Extent::FaultFree`]).

use super::check::Additions;
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::verify::network::{SwitchNetwork, SwitchRenumbering};
use crate::verify::proof::Proof;
use crate::verify::verdict::{Checks, Extent, Summary};

/// True if a proof knows all switches and cables of `fabric`, and also some that are missing there.
pub(super) fn is_more_complete(proof: &Proof, fabric: &Fabric) -> bool {
    let renumbering = SwitchRenumbering::between(&proof.network, &proof.fabric, fabric);
    let renumbered =
        renumbering.and_then(|renumbering| proof.network.renumbered(&renumbering, fabric));
    renumbered.is_some_and(|(_, cables)| !cables.ports.is_empty())
}

/// [`Proof::check_changed_nodes`] with the last proof of a fault-free fabric before `proof`.
pub(super) fn check_against_fault_free(
    proof: &Proof,
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
) -> Option<(Proof, Summary, Additions)> {
    let fault_free = proof.fault_free.as_ref()?;
    let (proof, summary, additions) = fault_free.check_changed_nodes(fabric, plan, checks)?;
    Some((proof, Summary { extent: Extent::FaultFree, ..summary }, additions))
}

/// The network of a fabric. It retains switches and cables of the `last` proof that are missing
/// now, unless there are switches or cables that the proof does not know.
pub(super) fn network_after(last: Option<&Proof>, fabric: &Fabric) -> SwitchNetwork {
    let known = last.and_then(|last| last.network.for_snapshot(&last.fabric, fabric));
    known.unwrap_or_else(|| SwitchNetwork::new(fabric))
}
