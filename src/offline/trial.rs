//! One pass through planning and verification.

use super::scenario::OfflineScenario;
use crate::fabric::Fabric;
use crate::notes::Note;
use crate::plan::compute::{self, PlanInput, Registrations};
use crate::plan::lids::Memory;
use crate::plan::routing::RoutingError;
use crate::plan::update::BaselineInputs;
use crate::plan::{LidTable, Plan};
use crate::verify::baseline::{PendingBaseline, PlanVerdict, VerifiedBaseline, plan_and_verify};
use crate::verify::{Checks, Verified, VerifyFailure};
use std::sync::Arc;

/// The result of planning and verifying a fabric.
pub struct OfflineTrial {
    pub outcome: TrialOutcome,
    /// The assigned LIDs.
    pub lids: Arc<LidTable>,
    /// State that the next pass starts from.
    pub memory: Memory,
    /// What verification has found in the plan; `None` without a plan.
    pub findings: Option<PendingBaseline>,
}

/// The verified plan, or the reason why there is none.
pub enum TrialOutcome {
    /// A plan passed verification.
    Routed(Verified),
    /// No engine could route the fabric.
    Unrouted {
        /// Messages from before routing.
        notes: Vec<Note>,
        /// Errors of the engines, in order of trial.
        routing_errors: Vec<RoutingError>,
    },
    /// A plan failed verification.
    Faulty(VerifyFailure),
}

/// The plan in force before a failure.
pub struct PreviousPlan<'a> {
    pub plan: &'a Plan,
    /// Persistent LIDs and P_Key indexes.
    pub memory: &'a Memory,
    /// The verified baseline for incremental planning; `None` if there is none for this plan.
    pub baseline: Option<VerifiedBaseline>,
}

impl<'a> PreviousPlan<'a> {
    /// Prepares for failures in `fabric`, to which `plan` belongs.
    pub fn new(
        scenario: &OfflineScenario,
        fabric: &Fabric,
        plan: &'a Plan,
        memory: &'a Memory,
    ) -> Self {
        let inputs = BaselineInputs {
            fabric: Arc::new(fabric.clone()),
            options: Arc::new(scenario.options.clone()),
            partitions: Arc::new(scenario.partitions.clone()),
            observed_pkeys: Arc::default(),
            memory: memory.clone(),
        };
        let mut before = Self { plan, memory, baseline: None };
        let checks = Checks::of(&scenario.options);
        before.baseline = VerifiedBaseline::compute(
            &input(scenario, fabric, memory, Some(plan)),
            inputs,
            &checks,
            None,
        );
        before
    }
}

fn input<'a>(
    scenario: &'a OfflineScenario,
    fabric: &'a Fabric,
    memory: &'a Memory,
    previous: Option<&'a Plan>,
) -> PlanInput<'a> {
    PlanInput {
        fabric,
        options: &scenario.options,
        memory,
        torus_config: &scenario.torus_config,
        partitions: &scenario.partitions,
        observed_pkeys: &[],
        registrations: Registrations { groups: &scenario.groups, ..Registrations::default() },
        previous,
        reregister: &|_| false,
        chain: &scenario.chain,
        qos_policy: scenario.qos_policy.as_ref(),
    }
}

impl OfflineTrial {
    /// Plans a fabric and verifies the plan, incrementally after `before`.
    pub fn run(
        scenario: &OfflineScenario,
        fabric: &Fabric,
        before: Option<&PreviousPlan<'_>>,
    ) -> Self {
        let nothing = Memory::default();
        let memory = before.map_or(&nothing, |before| before.memory);
        let input = input(scenario, fabric, memory, before.map(|before| before.plan));
        let baseline = before.and_then(|before| before.baseline.as_ref());
        match plan_and_verify(&input, baseline, &Checks::of(&scenario.options)) {
            Ok(PlanVerdict { verdict, lids, memory, pending_baseline: findings }) => {
                let outcome = verdict.map_or_else(TrialOutcome::Faulty, TrialOutcome::Routed);
                Self { outcome, lids, memory, findings }
            }
            Err(failure) => {
                let compute::PlanError { notes, routing_errors, lids, memory } = *failure;
                let outcome = TrialOutcome::Unrouted { notes, routing_errors };
                Self { outcome, lids, memory, findings: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::config::torus::TorusConfig;
    use crate::fabric::topology::Topology;
    use crate::ids::{Guid, Lid};
    use crate::offline::scenario::snapshot;
    use crate::plan::partitions;
    use crate::plan::routing::chain::{Chain, EngineRegistry};
    use crate::sim::generate::Shape;
    use crate::wire::attr::NodeKind;
    use std::path::Path;

    fn scenario(shape: &Shape, engine: &str, lmc: u8) -> OfflineScenario {
        let options = Options { qos: true, lmc, ..Options::default() };
        let chain =
            Chain::parse(engine, &EngineRegistry::standard(Arc::default())).expect("an engine");
        let conf = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
        OfflineScenario {
            topology: shape.build().expect("a valid shape"),
            sm_location: (0, None),
            partitions: partitions::default(&options),
            torus_config: conf,
            qos_policy: None,
            groups: Vec::new(),
            notes: Vec::new(),
            options,
            chain,
        }
    }

    /// The last node of a kind, by its index.
    fn last(topology: &Topology, kind: NodeKind) -> usize {
        topology.nodes.iter().rposition(|node| node.kind == kind).expect("a node of that kind")
    }

    fn without(topology: &Topology, lost: usize) -> Topology {
        let mut left = topology.clone();
        left.cables.retain(|ends| ends.iter().all(|&(node, _)| node != lost));
        left
    }

    /// Plans `topology` after `before` and from scratch. Both plans must pass verification, and
    /// torus-2QoS must make the same forwarding tables either way.
    fn follow(
        scenario: &OfflineScenario,
        topology: &Topology,
        before: &(Fabric, OfflineTrial),
    ) -> (Fabric, OfflineTrial) {
        let (old, whole) = before;
        let fabric = snapshot(topology, scenario.sm_location).expect("a node");
        let TrialOutcome::Routed(verified) = &whole.outcome else { panic!("no plan before") };
        let plan = verified.plan();
        let basis = PreviousPlan::new(scenario, old, plan, &whole.memory);
        let trial = OfflineTrial::run(scenario, &fabric, Some(&basis));
        let TrialOutcome::Routed(verified) = &trial.outcome else { panic!("no plan after") };
        let lfts = &verified.plan().routing.lfts;
        let scratch = compute::compute(&input(scenario, &fabric, &whole.memory, None));
        let scratch = scratch.unwrap_or_else(|_| panic!("no plan from scratch"));
        assert!(lfts.iter().zip(&scratch.plan.routing.lfts).all(|(a, b)| a.len() == b.len()));
        if verified.plan().routing.engine == crate::plan::routing::torus::NAME {
            assert_eq!(*lfts, scratch.plan.routing.lfts);
        }
        (fabric, trial)
    }

    /// A multiple of 64 above all LIDs of 32 nodes, 16 of them with 2^`lmc` LIDs; 0 for LMC 0,
    /// whose 32 LIDs end before the first block edge.
    fn above_others(lmc: u8) -> u16 {
        if lmc == 0 { 0 } else { 64 << lmc }
    }

    /// A node with the highest LID, at and around the edges of 64-entry blocks, is lost and comes
    /// back: forwarding tables shrink by blocks and grow again.
    #[test]
    fn tables_shrink_and_grow_with_the_highest_lid() {
        let shape = Shape::torus([4, 4, 1]);
        let engines = ["torus-2QoS,no_fallback", "minhop"];
        let kinds = [NodeKind::Switch, NodeKind::Ca];
        for (engine, kind) in
            engines.into_iter().flat_map(|engine| kinds.map(|kind| (engine, kind)))
        {
            for (lmc, highest) in [0, 2, 7]
                .into_iter()
                .flat_map(|lmc| [63, 64, 65, 127, 128, 1023, 1024].map(|lid| (lmc, lid)))
            {
                let mut scenario = scenario(&shape, engine, lmc);
                // The range lies above the LIDs of the other nodes, by whole blocks.
                let lost = last(&scenario.topology, kind);
                let count = if kind == NodeKind::Ca { 1 << lmc } else { 1 };
                let first = highest / count * count + above_others(lmc);
                let node = &scenario.topology.nodes[lost];
                let guid: Guid =
                    node.port_guid(crate::ids::PortNum(u8::from(kind == NodeKind::Ca)));
                let range = (Lid(first), Lid(first + count - 1));
                let memory = Memory::new([(guid, range)].into_iter().collect());
                scenario.sm_location = (last(&scenario.topology, NodeKind::Ca) - 1, None);
                let topology = scenario.topology.clone();
                let fabric = snapshot(&topology, scenario.sm_location).expect("a node");
                let planned = compute::compute(&input(&scenario, &fabric, &memory, None));
                let planned = planned.unwrap_or_else(|_| panic!("no plan"));
                assert_eq!(planned.plan.lids.max(), range.1, "{engine} {lmc} {highest}");
                let known = PreviousPlan { plan: &planned.plan, memory: &memory, baseline: None };
                let whole = (fabric.clone(), OfflineTrial::run(&scenario, &fabric, Some(&known)));
                let reduced = follow(&scenario, &without(&topology, lost), &whole);
                assert!(reduced.1.lids.max() < range.1);
                let restored = follow(&scenario, &topology, &reduced);
                assert_eq!(restored.1.lids.max(), range.1);
            }
        }
    }
}
