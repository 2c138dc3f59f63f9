//! What was known before something was lost, kept until it is back.
//!
//! The plan for a fabric that is repaired is mostly the one from before the failure, or like it. The plan
//! in force tells little of it: where a ring is closed again, old ways the long way round and new
//! ones close a cycle together. So the last [`Proof`] for a fabric in which nothing was missing is
//! kept beside the proof of the plan in force, as long as it knows all that there is. What passes by it is
//! free of credit loops, but not together with the plan in force ([`Extent::Earlier`]).

use super::proof::{News, Proof};
use super::wiring::{Numbering, Wiring};
use super::{Checks, Extent, Summary};
use crate::fabric::Fabric;
use crate::plan::Plan;
use std::sync::Arc;

impl Proof {
    /// The proof from before something was lost; itself if nothing is.
    pub(super) fn healthiest(&self) -> Arc<Self> {
        self.healthy.clone().unwrap_or_else(|| Arc::new(self.clone()))
    }

    /// The proof if it knows of all switches and cables of a fabric, and some are missing there.
    pub(super) fn if_healthier(self: Arc<Self>, fabric: &Fabric) -> Option<Arc<Self>> {
        let numbering = Numbering::between(&self.wiring, &self.fabric, fabric)?;
        let (_, cables) = self.wiring.renumbered(&numbering, fabric)?;
        (!cables.ports.is_empty()).then_some(self)
    }

    /// As [`Proof::covers_other_nodes`], by what was known before something was lost.
    pub(super) fn covers_as_before(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        checks: &Checks,
    ) -> Option<(Self, Summary, News)> {
        let healthy = self.healthy.as_ref()?;
        let (proof, summary, news) = healthy.covers_other_nodes(fabric, plan, checks)?;
        Some((proof, Summary { extent: Extent::Earlier, ..summary }, news))
    }
}

/// The wiring of a fabric, in which what is lost since the `last` proof is kept in mind if that can be.
pub(super) fn wiring_after(last: Option<&Proof>, fabric: &Fabric) -> Wiring {
    let known = last.and_then(|last| last.wiring.in_picture(&last.fabric, fabric));
    known.unwrap_or_else(|| Wiring::new(fabric))
}
