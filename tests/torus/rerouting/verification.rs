//! Incremental verification of rerouted tori: its verdict equals that of full verification, and it
//! suffices for common failures and repairs.

use super::*;
use torus_sm::fabric::NodeId;
use torus_sm::ids::Lid;
use torus_sm::plan::adaptive::GroupsInput;
use torus_sm::verify::adaptive;

/// Some hosts in one group.
fn group(fabric: &Fabric, mlid: u16, sl: u8, step: usize) -> GroupMembers {
    let hosts = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
    GroupMembers {
        mlid: Mlid(mlid),
        sl: Sl(sl),
        members: hosts.step_by(step).collect(),
        senders: Vec::new(),
    }
}

fn groups(fabric: &Fabric) -> Vec<GroupMembers> {
    vec![group(fabric, 0xC000, 0, 1), group(fabric, 0xC001, 8, 3)]
}

fn inputs(subnet: &Subnet, memory: &Memory) -> BaselineInputs {
    BaselineInputs {
        fabric: Arc::new(subnet.fabric.clone()),
        options: Arc::new(subnet.options.clone()),
        partitions: Arc::new(partitions::default(&subnet.options)),
        observed_pkeys: Arc::default(),
        memory: memory.clone(),
    }
}

/// Groups of parallel cables are proven by the baseline as they are from scratch.
fn assert_same_groups(fabric: &Fabric, plan: &Plan, baseline: &VerifiedBaseline) {
    let checks = Checks::new(true);
    let groups = GroupsInput::new(fabric, plan).groups();
    let whole = adaptive::prove(fabric, plan, &checks, groups.clone());
    let known = baseline.prove_groups(fabric, plan, &checks, groups);
    assert_eq!((&known.groups, &known.notes), (&whole.groups, &whole.notes));
    assert!(known.dependencies >= whole.dependencies);
}

/// A verified plan, the baseline of later ones.
struct VerifiedPlan {
    basis: PlanBaseline,
    proof: Option<Proof>,
}

impl VerifiedPlan {
    fn new(subnet: &Subnet, memory: &Memory, planned: Planned) -> Self {
        let inputs = inputs(subnet, memory);
        let (plan, outcome) = planned.split();
        let (verified, proof) = prove(&inputs.fabric, plan, &Checks::new(true)).unwrap();
        let plan = verified.plan().clone();
        Self { basis: PlanBaseline::new(inputs, outcome, plan), proof }
    }

    fn first(subnet: &Subnet) -> (Self, Memory) {
        let groups = groups(&subnet.fabric);
        let plan = |memory: &Memory| subnet.with_input(memory, &groups, compute).unwrap();
        let memory = plan(&Memory::default()).memory;
        (Self::new(subnet, &memory, plan(&memory)), memory)
    }

    /// The verdict on a plan derived from this one.
    fn verdict_of(
        &self,
        fabric: &Fabric,
        plan: Plan,
        difference: &Difference,
    ) -> Result<Verified, VerifyFailure> {
        let proof = self.proof.as_ref().expect("no credit loop");
        verify_changes(fabric, plan, &Checks::new(true), proof, difference)
    }
}

/// Asserts that verification of the changes gives the verdict of full verification.
fn assert_same_verdict(
    changes: &Result<Verified, VerifyFailure>,
    whole: &Result<Verified, VerifyFailure>,
) {
    let (changes, whole) = match (changes, whole) {
        (Ok(changes), Ok(whole)) => (changes.summary(), whole.summary()),
        (changes, whole) => {
            return assert_eq!(changes.as_ref().err(), whole.as_ref().err());
        }
    };
    assert_eq!((changes.lids, &changes.left_out), (whole.lids, &whole.left_out));
    assert_eq!((&changes.cycle, &changes.notes), (&whole.cycle, &whole.notes));
    assert!(changes.longest_path >= whole.longest_path);
    assert!(changes.dependencies >= whole.dependencies);
}

fn assert_same_plan(one: &Plan, two: &Plan) {
    assert_eq!(one.lids, two.lids);
    assert_eq!(one.routing.lfts, two.routing.lfts);
    assert!(one.ports == two.ports && one.switch_infos == two.switch_infos);
    assert!(one.qos == two.qos);
    assert_eq!(one.partitions, two.partitions);
    assert_eq!(one.multicast, two.multicast);
    assert_eq!(one.notes, two.notes);
}

/// Overwrites `count` forwarding table entries from each (switch, LID) with a port, and all SL to
/// VL mappings of a node with a VL. Indexes wrap around; port 15 stands for no path.
fn corrupt(plan: &mut Plan, entries: &[(usize, usize, u8, usize)], vls: Option<(usize, u8)>) {
    let mut routing = (*plan.routing).clone();
    for &(switch, lid, port, count) in entries {
        let switch = switch % routing.lfts.len();
        let table = Arc::make_mut(&mut routing.lfts[switch]);
        let first = lid % plan.lids.max().index();
        let port = if port == 15 { 0xFF } else { port };
        let lids = (first..table.len()).take(count);
        lids.for_each(|lid| table.set(Lid(lid as u16), port));
    }
    plan.routing = Arc::new(routing);
    if let Some((node, vl)) = vls {
        let node = node % plan.qos.sl_to_vl.len();
        let map = SlToVl::new([vl; 16]);
        let rows = plan.qos.sl_to_vl_of(NodeId(node as u32));
        let changed = rows.iter().map(|&(input, output, _)| (input, output, map)).collect();
        plan.qos.sl_to_vl[node] = changed;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn incremental_plans_and_verdicts_equal_full_ones(
        shape in shapes(),
        events in prop::collection::vec(events(3), 1..8),
    ) {
        let mut torus = FailingTorus::new(&shape);
        let (mut previous, mut memory) = VerifiedPlan::first(&torus.whole);
        for event in events {
            torus.happen(&event);
            let subnet = torus.subnet();
            let groups = groups(&subnet.fabric);
            let (updated, difference) =
                subnet.with_input(&memory, &groups, |input| update(input, &previous.basis));
            let scratch = subnet.with_input(&memory, &groups, compute);
            prop_assert_eq!(updated.is_ok(), scratch.is_ok());
            let (Ok(updated), Ok(scratch)) = (updated, scratch) else { continue };
            // The events missed since the last success differ from pass to pass.
            let whole = verify(&subnet.fabric, updated.plan.clone(), &Checks::new(true));
            if let Some(difference) = difference.as_ref().filter(|_| previous.proof.is_some()) {
                let plan = updated.plan.clone();
                let changes = previous.verdict_of(&subnet.fabric, plan, difference);
                assert_same_verdict(&changes, &whole);
            }
            let notes = scratch.plan.notes.clone();
            assert_same_plan(&Plan { notes, ..updated.plan.clone() }, &scratch.plan);
            prop_assert_eq!(&updated.memory, &scratch.memory);
            let next = VerifiedPlan::new(&subnet, &memory, updated);
            memory = scratch.memory;
            previous = next;
        }
    }

    #[test]
    fn carried_baselines_equal_recomputed_ones(
        shape in shapes(),
        events in prop::collection::vec((events(4), any::<bool>()), 2..10),
        corrupt in prop::collection::vec((any::<usize>(), any::<usize>(), 0u8..12), 1..4),
    ) {
        let checks = Checks::new(true);
        let mut torus = FailingTorus::new(&shape);
        let mut baseline = None;
        let mut memory = Memory::default();
        for (event, is_recomputed) in std::iter::once((Vec::new(), false)).chain(events) {
            torus.happen(&event);
            let subnet = torus.subnet();
            let groups = groups(&subnet.fabric);
            let scratch = subnet.with_input(&memory, &groups, compute);
            let judged = subnet.with_input(&memory, &groups, |input| {
                plan_and_verify(input, baseline.as_ref(), &checks)
            });
            prop_assert_eq!(judged.is_ok(), scratch.is_ok());
            let (Ok(judged), Ok(scratch)) = (judged, scratch) else { continue };
            let verified = judged.verdict.as_ref().expect("a clean plan");
            let notes = scratch.plan.notes.clone();
            assert_same_plan(&Plan { notes, ..(**verified.plan()).clone() }, &scratch.plan);
            prop_assert_eq!(&judged.memory, &scratch.memory);
            let whole = verify(&subnet.fabric, scratch.plan.clone(), &checks);
            assert_same_verdict(&judged.verdict, &whole);
            let remains = judged.pending_baseline.expect("a clean plan");
            let inputs = inputs(&subnet, &memory);
            let next = if is_recomputed {
subnet.with_input(&memory, &groups, |input| {
                    VerifiedBaseline::compute(input, inputs, &checks, baseline.as_ref()).unwrap()
                })
} else {
remains.complete(inputs, &checks)
};
            assert_same_groups(&subnet.fabric, verified.plan(), &next);
            // Leftovers of a clean plan do not let a faulty one pass.
            let mut plan = scratch.plan;
            let mut routing = (*plan.routing).clone();
            for &(switch, lid, port) in &corrupt {
                let table = Arc::make_mut(&mut routing.lfts[switch % subnet.fabric.switches().len()]);
                let lid = 1 + lid % plan.lids.max().index();
                table.set(Lid(lid as u16), port);
            }
            plan.routing = Arc::new(routing);
            let whole = verify(&subnet.fabric, plan.clone(), &checks);
            assert_same_verdict(&next.verify(&subnet.fabric, plan, &checks), &whole);
            (baseline, memory) = (Some(next), judged.memory);
        }
    }

    #[test]
    fn corrupt_plans_are_found_by_incremental_verification(
        shape in shapes(),
        cable in prop::option::of(any::<usize>()),
        entries in prop::collection::vec((any::<usize>(), any::<usize>(), 0u8..16, 1usize..40), 0..6),
        vls in prop::option::weighted(0.2, (any::<usize>(), 0u8..16)),
        port in prop::option::weighted(0.3, (any::<usize>(), 0u8..12)),
    ) {
        let mut torus = FailingTorus::new(&shape);
        let (previous, memory) = VerifiedPlan::first(&torus.whole);
        cable.into_iter().for_each(|pick| torus.toggle(Part::Cable, pick));
        let subnet = torus.subnet();
        let groups = groups(&subnet.fabric);
        let (updated, difference) =
            subnet.with_input(&memory, &groups, |input| update(input, &previous.basis));
        let (Ok(updated), Some(difference)) = (updated, difference) else { return Ok(()) };
        let mut plan = updated.plan;
        corrupt(&mut plan, &entries, vls);
        if let Some((entry, port)) = port {
            let tables = &mut Arc::make_mut(&mut plan.multicast).by_switch;
            let count = tables.iter().flatten().count();
            let mut all = tables.iter_mut().flatten();
            all.nth(entry % count).unwrap().1.insert(port);
        }
        let whole = verify(&subnet.fabric, plan.clone(), &Checks::new(true));
        assert_same_verdict(&previous.verdict_of(&subnet.fabric, plan, &difference), &whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn corrupt_plans_after_loss_or_return_of_a_switch_are_found(
        shape in shapes(),
        picks in prop::collection::vec(any::<usize>(), 1..3),
        entries in prop::collection::vec((any::<usize>(), any::<usize>(), 0u8..16, 1usize..40), 0..6),
        vls in prop::option::weighted(0.2, (any::<usize>(), 0u8..16)),
    ) {
        let checks = Checks::new(true);
        let mut torus = FailingTorus::new(&shape);
        let mut baseline = None;
        let mut memory = Memory::default();
        let events = picks.iter().map(|&pick| vec![(Part::Switch, pick)]);
        for event in std::iter::once(Vec::new()).chain(events.clone()).chain(events.rev()) {
            torus.happen(&event);
            let subnet = torus.subnet();
            let groups = groups(&subnet.fabric);
            let judged = subnet.with_input(&memory, &groups, |input| {
                plan_and_verify(input, baseline.as_ref(), &checks)
            });
            let Ok(judged) = judged else { continue };
            let verified = judged.verdict.expect("a clean plan");
            let mut plan = (**verified.plan()).clone();
            corrupt(&mut plan, &entries, vls);
            let whole = verify(&subnet.fabric, plan.clone(), &checks);
            if let Some(baseline) = &baseline {
                let baseline: &VerifiedBaseline = baseline;
                assert_same_verdict(&baseline.verify(&subnet.fabric, plan, &checks), &whole);
            }
            let remains = judged.pending_baseline.expect("a clean plan");
            (baseline, memory) =
                (Some(remains.complete(inputs(&subnet, &memory), &checks)), judged.memory);
        }
    }
}

/// Verification of the changes suffices for every single link, and for tables that stay the same.
#[test]
fn single_links_need_no_full_verification() {
    let shape = Shape { hosts: 1, ..Shape::torus([6, 5, 4]) };
    let mut torus = FailingTorus::new(&shape);
    let (previous, memory) = VerifiedPlan::first(&torus.whole);
    for cable in (0..torus.healthy.topology.cables.len()).step_by(7) {
        let ends = torus.healthy.topology.cables[cable];
        if ends.iter().any(|(node, _)| !torus.switches.contains(node)) {
            continue;
        }
        torus.toggle(Part::Cable, cable);
        let subnet = torus.subnet();
        let groups = groups(&subnet.fabric);
        let (updated, difference) =
            subnet.with_input(&memory, &groups, |input| update(input, &previous.basis));
        let plan = updated.unwrap().plan;
        let verified = previous.verdict_of(&subnet.fabric, plan, &difference.unwrap()).unwrap();
        assert_eq!(verified.summary().extent, Extent::Incremental, "cable {cable}");
        torus.toggle(Part::Cable, cable);
    }
}

/// The extent of verification for each plan of a sequence of events, and the final torus. With
/// `recomputes` the baseline is recomputed after each event.
fn extents(
    shape: &Shape,
    events: &[Vec<(Part, usize)>],
    recomputes: bool,
) -> (Vec<Extent>, FailingTorus) {
    let checks = Checks::new(true);
    let mut torus = FailingTorus::new(shape);
    let (mut baseline, mut memory): (Option<VerifiedBaseline>, _) = (None, Memory::default());
    let mut extents = Vec::new();
    for event in std::iter::once(&Vec::new()).chain(events) {
        torus.happen(event);
        let subnet = torus.subnet();
        let groups = groups(&subnet.fabric);
        let judged = subnet.with_input(&memory, &groups, |input| {
            plan_and_verify(input, baseline.as_ref(), &checks)
        });
        let judged = judged.expect("it is routed");
        let verified = judged.verdict.expect("a clean plan");
        extents.push(verified.summary().extent);
        let remains = judged.pending_baseline.expect("a clean plan");
        let inputs = inputs(&subnet, &memory);
        baseline = match baseline.filter(|_| recomputes) {
            None => Some(remains.complete(inputs, &checks)),
            Some(last) => subnet.with_input(&memory, &groups, |input| {
                VerifiedBaseline::compute(input, inputs, &checks, Some(&last))
            }),
        };
        memory = judged.memory;
    }
    (extents, torus)
}

fn assert_only_the_first_is_full(extents: &[Extent]) {
    assert_eq!(extents[0], Extent::Full);
    let whole = extents.iter().filter(|&&extent| extent == Extent::Full).count();
    assert_eq!(whole, 1, "{extents:?}");
}

/// Some links between switches, one after the other.
fn cables(shape: &Shape) -> Vec<Vec<(Part, usize)>> {
    let torus = FailingTorus::new(shape);
    let cables = &torus.healthy.topology.cables;
    let is_inside =
        |&cable: &usize| cables[cable].iter().all(|(node, _)| torus.switches.contains(node));
    let inside = (0..cables.len()).step_by(23).filter(is_inside);
    inside.take(8).map(|cable| vec![(Part::Cable, cable)]).collect()
}

#[test]
fn links_lost_in_a_row_need_no_full_verification() {
    let shape = Shape { hosts: 1, ..Shape::torus([6, 5, 4]) };
    for recomputes in [false, true] {
        assert_only_the_first_is_full(&extents(&shape, &cables(&shape), recomputes).0);
    }
}

/// A bundle that has lost a link keeps the ring closed, so that old and new routes together have no
/// credit loop.
#[test]
fn repaired_links_of_a_bundle_need_no_full_verification() {
    let shape = Shape { hosts: 1, parallel: 2, ..Shape::torus([5, 4, 3]) };
    let lost = cables(&shape);
    for recomputes in [false, true] {
        let events: Vec<_> = lost.iter().chain(&lost).cloned().collect();
        let (extents, torus) = extents(&shape, &events, recomputes);
        assert_only_the_first_is_full(&extents);
        assert!(torus.lost.1.is_empty());
    }
}

/// The baseline from before the failures suffices when repaired switches close their rings again.
#[test]
fn switches_lost_and_repaired_need_no_full_verification() {
    let cases = [([5, 4, 3], [20, 21, 35, 36, 50, 51]), ([7, 6, 1], [24, 25, 29, 30, 34, 40])];
    for (radix, switches) in cases {
        let shape = Shape { hosts: 2, ..Shape::torus(radix) };
        for pair in switches.chunks_exact(2) {
            for order in [[0, 0, 1, 1], [0, 0, 0, 0]] {
                let events = order.map(|number| vec![(Part::Switch, pair[number])]);
                let (extents, torus) = extents(&shape, &events, true);
                assert_only_the_first_is_full(&extents);
                assert!(torus.lost.0.is_empty());
            }
        }
    }
}

/// Old routes and the routes round a lost switch may close a cycle together, which requires full
/// verification; when the switch is back, they do not.
#[test]
fn switches_that_come_back_need_no_full_verification() {
    let shape = Shape { hosts: 2, ..Shape::torus([5, 4, 3]) };
    let named = [0, 1, 3, 9, 12];
    for switch in (0..5 * 4 * 3).filter(|switch| !named.contains(switch)).step_by(2) {
        let (extents, _) = extents(&shape, &vec![vec![(Part::Switch, switch)]; 2], true);
        assert_ne!(extents[2], Extent::Full, "{switch}: {extents:?}");
    }
}

/// Two links are repaired in the order in which they were lost, and in reverse order.
#[test]
fn repaired_links_need_no_full_verification() {
    let shape = Shape { hosts: 1, ..Shape::torus([6, 5, 4]) };
    let lost = cables(&shape);
    for pair in lost.chunks_exact(2) {
        for order in [[0, 1, 0, 1], [0, 1, 1, 0]] {
            let events = order.map(|number| pair[number].clone());
            let (extents, torus) = extents(&shape, &events, true);
            assert_only_the_first_is_full(&extents);
            assert!(torus.lost.1.is_empty());
        }
    }
}

#[test]
fn hosts_lost_and_repaired_need_no_full_verification() {
    for (hosts, parallel) in [(1, 1), (2, 1), (2, 2)] {
        let shape = Shape { hosts, parallel, ..Shape::torus([5, 4, 3]) };
        let picks = [7, 8, 40, 8, 3, 7, 40, 3, 1];
        let events: Vec<_> = picks.iter().map(|&pick| vec![(Part::Host, pick)]).collect();
        let (extents, torus) = extents(&shape, &events, parallel == 2);
        assert_only_the_first_is_full(&extents);
        assert_eq!(torus.lost.0.len(), 1);
    }
}
