//! Incremental verification of rerouted tori: its verdict equals that of full verification, and it
//! suffices for common failures and repairs.

use super::*;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn incremental_plans_and_verdicts_equal_full_ones(
        shape in shapes(),
        events in prop::collection::vec(events(3), 1..8),
    ) {
        let mut ward = FailingTorus::new(&shape);
        let (mut ground, mut memory) = VerifiedPlan::first(&ward.whole);
        for event in events {
            ward.happen(&event);
            let subnet = ward.subnet();
            let groups = groups(&subnet.fabric);
            let (updated, difference) =
                subnet.with_input(&memory, &groups, |input| update(input, &ground.basis));
            let scratch = subnet.with_input(&memory, &groups, compute);
            prop_assert_eq!(updated.is_ok(), scratch.is_ok());
            let (Ok(updated), Ok(scratch)) = (updated, scratch) else { continue };
            // The events missed since the last success differ from pass to pass.
            let whole = verify(&subnet.fabric, updated.plan.clone(), &Checks::new(true));
            if let Some(difference) = difference.as_ref().filter(|_| ground.proof.is_some()) {
                let plan = updated.plan.clone();
                let changes = ground.verdict_of(&subnet.fabric, plan, difference);
                assert_same_verdict(&changes, &whole);
            }
            let notes = scratch.plan.notes.clone();
            assert_same_plan(&Plan { notes, ..updated.plan.clone() }, &scratch.plan);
            prop_assert_eq!(&updated.memory, &scratch.memory);
            let next = VerifiedPlan::new(&subnet, &memory, updated);
            memory = scratch.memory;
            ground = next;
        }
    }

    #[test]
    fn carried_baselines_equal_recomputed_ones(
        shape in shapes(),
        events in prop::collection::vec((events(4), any::<bool>()), 2..10),
        corrupt in prop::collection::vec((any::<usize>(), any::<usize>(), 0u8..12), 1..4),
    ) {
        let checks = Checks::new(true);
        let mut ward = FailingTorus::new(&shape);
        let (mut foundation, mut memory) = (None, Memory::default());
        for (event, is_laid_anew) in std::iter::once((Vec::new(), false)).chain(events) {
            ward.happen(&event);
            let subnet = ward.subnet();
            let groups = groups(&subnet.fabric);
            let scratch = subnet.with_input(&memory, &groups, compute);
            let judged = subnet.with_input(&memory, &groups, |input| {
                plan_and_verify(input, foundation.as_ref(), &checks)
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
            let laid = match is_laid_anew {
                false => remains.complete(inputs, &checks),
                true => subnet.with_input(&memory, &groups, |input| {
                    VerifiedBaseline::compute(input, inputs, &checks, foundation.as_ref()).unwrap()
                }),
            };
            // Leftovers of a clean plan do not let a faulty one pass.
            let mut plan = scratch.plan;
            let mut routing = (*plan.routing).clone();
            for &(switch, lid, port) in &corrupt {
                let table = &mut Arc::make_mut(&mut routing.lfts[switch % subnet.fabric.switches().len()]).0;
                let lid = 1 + lid % plan.lids.max().index();
                table[lid] = port;
            }
            plan.routing = Arc::new(routing);
            let whole = verify(&subnet.fabric, plan.clone(), &checks);
            assert_same_verdict(&laid.verify(&subnet.fabric, plan, &checks), &whole);
            (foundation, memory) = (Some(laid), judged.memory);
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
        let mut ward = FailingTorus::new(&shape);
        let (ground, memory) = VerifiedPlan::first(&ward.whole);
        cable.into_iter().for_each(|pick| ward.toggle(Part::Cable, pick));
        let subnet = ward.subnet();
        let groups = groups(&subnet.fabric);
        let (updated, difference) =
            subnet.with_input(&memory, &groups, |input| update(input, &ground.basis));
        let (Ok(updated), Some(difference)) = (updated, difference) else { return Ok(()) };
        let mut plan = updated.plan;
        let mut routing = (*plan.routing).clone();
        for (switch, lid, port, count) in entries {
            let switch = switch % routing.lfts.len();
            let table = &mut Arc::make_mut(&mut routing.lfts[switch]).0;
            let first = lid % plan.lids.max().index();
            let port = if port == 15 { 0xFF } else { port };
            table.iter_mut().skip(first).take(count).for_each(|entry| *entry = port);
        }
        plan.routing = Arc::new(routing);
        if let Some((node, vl)) = vls {
            let node = node % plan.qos.sl_to_vl.len();
            for (_, _, map) in &mut plan.qos.sl_to_vl[node] {
                *map = SlToVl::new([vl; 16]);
            }
        }
        if let Some((entry, port)) = port {
            let tables = &mut Arc::make_mut(&mut plan.multicast).by_switch;
            let count = tables.iter().flatten().count();
            let mut all = tables.iter_mut().flatten();
            all.nth(entry % count).unwrap().1.insert(port);
        }
        let whole = verify(&subnet.fabric, plan.clone(), &Checks::new(true));
        assert_same_verdict(&ground.verdict_of(&subnet.fabric, plan, &difference), &whole);
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
        let mut ward = FailingTorus::new(&shape);
        let (mut foundation, mut memory) = (None, Memory::default());
        let events = picks.iter().map(|&pick| vec![(Part::Switch, pick)]);
        for event in std::iter::once(Vec::new()).chain(events.clone()).chain(events.rev()) {
            ward.happen(&event);
            let subnet = ward.subnet();
            let groups = groups(&subnet.fabric);
            let judged = subnet.with_input(&memory, &groups, |input| {
                plan_and_verify(input, foundation.as_ref(), &checks)
            });
            let Ok(judged) = judged else { continue };
            let verified = judged.verdict.expect("a clean plan");
            let mut plan = (**verified.plan()).clone();
            let mut routing = (*plan.routing).clone();
            for &(switch, lid, port, count) in &entries {
                let switch = switch % routing.lfts.len();
                let table = &mut Arc::make_mut(&mut routing.lfts[switch]).0;
                let first = lid % plan.lids.max().index();
                let port = if port == 15 { 0xFF } else { port };
                table.iter_mut().skip(first).take(count).for_each(|entry| *entry = port);
            }
            plan.routing = Arc::new(routing);
            if let Some((node, vl)) = vls {
                let node = node % plan.qos.sl_to_vl.len();
                for (_, _, map) in &mut plan.qos.sl_to_vl[node] {
                    *map = SlToVl::new([vl; 16]);
                }
            }
            let whole = verify(&subnet.fabric, plan.clone(), &checks);
            if let Some(foundation) = &foundation {
                let foundation: &VerifiedBaseline = foundation;
                assert_same_verdict(&foundation.verify(&subnet.fabric, plan, &checks), &whole);
            }
            let remains = judged.pending_baseline.expect("a clean plan");
            (foundation, memory) =
                (Some(remains.complete(inputs(&subnet, &memory), &checks)), judged.memory);
        }
    }
}

/// Verification of the changes suffices for every single link, and for tables that stay the same.
#[test]
fn single_links_need_no_full_verification() {
    let shape = Shape { hosts: 1, ..Shape::torus([6, 5, 4]) };
    let mut ward = FailingTorus::new(&shape);
    let (ground, memory) = VerifiedPlan::first(&ward.whole);
    for cable in (0..ward.healthy.topology.cables.len()).step_by(7) {
        let ends = ward.healthy.topology.cables[cable];
        if ends.iter().any(|(node, _)| !ward.switches.contains(node)) {
            continue;
        }
        ward.toggle(Part::Cable, cable);
        let subnet = ward.subnet();
        let groups = groups(&subnet.fabric);
        let (updated, difference) =
            subnet.with_input(&memory, &groups, |input| update(input, &ground.basis));
        let plan = updated.unwrap().plan;
        let verified = ground.verdict_of(&subnet.fabric, plan, &difference.unwrap()).unwrap();
        assert_eq!(verified.summary().extent, Extent::Incremental, "cable {cable}");
        ward.toggle(Part::Cable, cable);
    }
}

/// The extent of verification for each plan of a sequence of events, and the final torus. With
/// `anew` the baseline is recomputed after each event.
fn looks(shape: &Shape, events: &[Vec<(Part, usize)>], anew: bool) -> (Vec<Extent>, FailingTorus) {
    let (checks, mut ward) = (Checks::new(true), FailingTorus::new(shape));
    let (mut foundation, mut memory): (Option<VerifiedBaseline>, _) = (None, Memory::default());
    let mut looks = Vec::new();
    for event in std::iter::once(&Vec::new()).chain(events) {
        ward.happen(event);
        let subnet = ward.subnet();
        let groups = groups(&subnet.fabric);
        let judged = subnet.with_input(&memory, &groups, |input| {
            plan_and_verify(input, foundation.as_ref(), &checks)
        });
        let judged = judged.expect("it is routed");
        let verified = judged.verdict.expect("a clean plan");
        looks.push(verified.summary().extent);
        let remains = judged.pending_baseline.expect("a clean plan");
        let inputs = inputs(&subnet, &memory);
        foundation = match foundation.filter(|_| anew) {
            None => Some(remains.complete(inputs, &checks)),
            Some(last) => subnet.with_input(&memory, &groups, |input| {
                VerifiedBaseline::compute(input, inputs, &checks, Some(&last))
            }),
        };
        memory = judged.memory;
    }
    (looks, ward)
}

fn assert_only_the_first_is_whole(looks: &[Extent]) {
    assert_eq!(looks[0], Extent::Full);
    let whole = looks.iter().filter(|&&extent| extent == Extent::Full).count();
    assert_eq!(whole, 1, "{looks:?}");
}

/// Some links between switches, one after the other.
fn cables(shape: &Shape) -> Vec<Vec<(Part, usize)>> {
    let ward = FailingTorus::new(shape);
    let cables = &ward.healthy.topology.cables;
    let is_inside =
        |&cable: &usize| cables[cable].iter().all(|(node, _)| ward.switches.contains(node));
    let inside = (0..cables.len()).step_by(23).filter(is_inside);
    inside.take(8).map(|cable| vec![(Part::Cable, cable)]).collect()
}

#[test]
fn links_lost_in_a_row_need_no_full_verification() {
    let shape = Shape { hosts: 1, ..Shape::torus([6, 5, 4]) };
    for anew in [false, true] {
        assert_only_the_first_is_whole(&looks(&shape, &cables(&shape), anew).0);
    }
}

/// A bundle that has lost a link keeps the ring closed, so that old and new routes together have no
/// credit loop.
#[test]
fn repaired_links_of_a_bundle_need_no_full_verification() {
    let shape = Shape { hosts: 1, parallel: 2, ..Shape::torus([5, 4, 3]) };
    let lost = cables(&shape);
    for anew in [false, true] {
        let events: Vec<_> = lost.iter().chain(&lost).cloned().collect();
        let (looks, ward) = looks(&shape, &events, anew);
        assert_only_the_first_is_whole(&looks);
        assert!(ward.lost.1.is_empty());
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
                let (looks, ward) = looks(&shape, &events, true);
                assert_only_the_first_is_whole(&looks);
                assert!(ward.lost.0.is_empty());
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
        let (looks, _) = looks(&shape, &vec![vec![(Part::Switch, switch)]; 2], true);
        assert_ne!(looks[2], Extent::Full, "{switch}: {looks:?}");
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
            let (looks, ward) = looks(&shape, &events, true);
            assert_only_the_first_is_whole(&looks);
            assert!(ward.lost.1.is_empty());
        }
    }
}

#[test]
fn hosts_lost_and_repaired_need_no_full_verification() {
    for (hosts, parallel) in [(1, 1), (2, 1), (2, 2)] {
        let shape = Shape { hosts, parallel, ..Shape::torus([5, 4, 3]) };
        let picks = [7, 8, 40, 8, 3, 7, 40, 3, 1];
        let events: Vec<_> = picks.iter().map(|&pick| vec![(Part::Host, pick)]).collect();
        let (looks, ward) = looks(&shape, &events, parallel == 2);
        assert_only_the_first_is_whole(&looks);
        assert_eq!(ward.lost.0.len(), 1);
    }
}
