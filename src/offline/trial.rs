//! One pass through plan and verify.

use super::load::Bench;
use crate::fabric::Fabric;
use crate::notes::{Note, Severity};
use crate::plan::compute::{self, PlanInput};
use crate::plan::lids::Memory;
use crate::plan::routing::RoutingError;
use crate::plan::update::BaselineInputs;
use crate::plan::{LidTable, Plan};
use crate::verify::baseline::{PlanVerdict, VerifiedBaseline, plan_and_verify};
use crate::verify::{Checks, Verified, VerifyFailure};
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
        refusals: Vec<RoutingError>,
    },
    /// An engine did, but its plan is faulty.
    Faulty(VerifyFailure),
}

/// A plan and what the subnet manager remembers of it.
pub struct Before<'a> {
    /// The plan in force.
    pub plan: &'a Plan,
    /// LIDs to be kept.
    pub memory: &'a Memory,
    /// What is known of the plan.
    pub foundation: Option<VerifiedBaseline>,
}

impl<'a> Before<'a> {
    /// What precedes failures in `fabric`, whose plan this is.
    pub fn new(bench: &Bench, fabric: &Fabric, plan: &'a Plan, memory: &'a Memory) -> Self {
        let inputs = BaselineInputs {
            fabric: Arc::new(fabric.clone()),
            options: Arc::new(bench.options.clone()),
            partitions: Arc::new(bench.partitions.clone()),
            observed_pkeys: Arc::default(),
            memory: memory.clone(),
        };
        let mut before = Self { plan, memory, foundation: None };
        let checks = Checks::new(bench.options.qos);
        before.foundation = VerifiedBaseline::compute(
            &input(bench, fabric, memory, Some(plan)),
            inputs,
            &checks,
            None,
        );
        before
    }
}

fn input<'a>(
    bench: &'a Bench,
    fabric: &'a Fabric,
    memory: &'a Memory,
    previous: Option<&'a Plan>,
) -> PlanInput<'a> {
    PlanInput {
        fabric,
        options: &bench.options,
        memory,
        torus_config: &bench.torus_config,
        partitions: &bench.partitions,
        observed_pkeys: &[],
        groups: &[],
        aliases: &[],
        previous,
        reregister: &|_| false,
        chain: &bench.chain,
        qos_policy: bench.qos_policy.as_ref(),
    }
}

impl Trial {
    /// Plans a fabric and checks the plan.
    pub fn run(bench: &Bench, fabric: &Fabric, before: Option<&Before<'_>>) -> Self {
        let nothing = Memory::default();
        let memory = before.map_or(&nothing, |before| before.memory);
        let input = input(bench, fabric, memory, before.map(|before| before.plan));
        let foundation = before.and_then(|before| before.foundation.as_ref());
        match plan_and_verify(&input, foundation, &Checks::new(bench.options.qos)) {
            Ok(PlanVerdict { verdict, lids, memory, .. }) => {
                let outcome = verdict.map_or_else(Outcome::Faulty, Outcome::Routed);
                Self { outcome, lids, memory }
            }
            Err(failure) => {
                let compute::PlanError { notes, routing_errors: refusals, lids, memory } = *failure;
                Self { outcome: Outcome::Refused { notes, refusals }, lids, memory }
            }
        }
    }
}

/// The first of the gravest findings of a refusal.
pub fn first_reason(refusal: &RoutingError) -> Option<&Note> {
    let gravest = refusal.notes.iter().map(|note| note.severity).max()?;
    let at_least = gravest.max(Severity::Warning);
    refusal.notes.iter().find(|note| note.severity >= at_least).or(refusal.notes.first())
}
