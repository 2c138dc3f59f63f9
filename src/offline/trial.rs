//! One pass through plan and verify.

use super::load::Bench;
use crate::fabric::Fabric;
use crate::notes::{Note, Severity};
use crate::plan::compute::{self, PlanInput};
use crate::plan::lids::Memory;
use crate::plan::routing::Refusal;
use crate::plan::{LidTable, Plan};
use crate::verify::{self, Checks, Verified, VerifyFailure};
use std::sync::Arc;

/// What became of a fabric.
pub struct Trial {
    /// Whether there is a plan.
    pub outcome: Outcome,
    /// The LIDs that were decided.
    pub lids: Arc<LidTable>,
    /// What the next pass is to remember.
    pub memory: Memory,
}

/// Whether there is a plan that could be put into force.
pub enum Outcome {
    /// There is.
    Routed(Verified),
    /// No engine would route the fabric.
    Refused {
        /// What was found before the engines were asked.
        notes: Vec<Note>,
        /// What they said, in order.
        refusals: Vec<Refusal>,
    },
    /// An engine did, but its plan is faulty.
    Faulty(VerifyFailure),
}

/// A plan and what the subnet manager remembers of it.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    /// The plan in force.
    pub plan: &'a Plan,
    /// LIDs to be kept.
    pub memory: &'a Memory,
}

impl Trial {
    /// Plans a fabric and checks the plan.
    pub fn run(bench: &Bench, fabric: &Fabric, before: Option<Before<'_>>) -> Self {
        let nothing = Memory::default();
        let input = PlanInput {
            fabric,
            options: &bench.options,
            memory: before.map_or(&nothing, |before| before.memory),
            torus_config: &bench.torus_config,
            partitions: &bench.partitions,
            observed_pkeys: &[],
            groups: &[],
            previous: before.map(|before| before.plan),
            reregister: &|_| false,
            chain: &bench.chain,
        };
        match compute::compute(&input) {
            Ok(planned) => {
                let lids = Arc::clone(&planned.plan.lids);
                let checks = Checks::new(bench.options.qos);
                let outcome = match verify::verify(fabric, planned.plan, &checks) {
                    Ok(verified) => Outcome::Routed(verified),
                    Err(failure) => Outcome::Faulty(failure),
                };
                Self { outcome, lids, memory: planned.memory }
            }
            Err(failure) => {
                let compute::PlanFailure { notes, refusals, lids, memory } = *failure;
                Self { outcome: Outcome::Refused { notes, refusals }, lids, memory }
            }
        }
    }
}

/// The first of the gravest findings of a refusal.
pub fn first_reason(refusal: &Refusal) -> Option<&Note> {
    let gravest = refusal.notes.iter().map(|note| note.severity).max()?;
    let at_least = gravest.max(Severity::Warning);
    refusal.notes.iter().find(|note| note.severity >= at_least).or(refusal.notes.first())
}
