//! Rerouting after failures and repairs: routing from the last success gives the same result as
//! routing from scratch, SLs never change, and unchanged tables are shared with the previous
//! result.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use testkit::torus::subnet::{Case, Subnet};
use torus_sm::fabric::difference::Difference;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Guid, Mlid, Sl};
use torus_sm::notes::Note;
use torus_sm::plan::compute::{Planned, compute};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::routing::torus::{PortClass, Torus, VlCounts};
use torus_sm::plan::routing::{Dump, PreviousFabric, Routing, RoutingError};
use torus_sm::plan::update::{BaselineInputs, PlanBaseline, update};
use torus_sm::plan::{Plan, partitions};
use torus_sm::sim::generate::Shape;
use torus_sm::verify::baseline::{VerifiedBaseline, plan_and_verify};
use torus_sm::verify::{Checks, Extent, Proof, Verified, VerifyFailure};
use torus_sm::verify::{prove, verify, verify_changes};
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::attr::tables::SlToVl;

/// A torus in which switches and links fail and are repaired.
struct FailingTorus {
    healthy: Case,
    whole: Subnet,
    /// Indexes of the switches.
    switches: Vec<usize>,
    /// Indexes of the hosts that may be lost.
    hosts: Vec<usize>,
    /// Indexes of the links at the switches that the configuration names.
    seeds: Vec<usize>,
    /// Indexes of lost nodes and links.
    lost: (BTreeSet<usize>, BTreeSet<usize>),
    /// Two links that have exchanged their second ends.
    crossed: Option<[usize; 2]>,
}

/// The kind of part that fails or is repaired.
#[derive(Clone, Copy, Debug)]
enum Part {
    Switch,
    /// A host other than that of the subnet manager.
    Host,
    Cable,
    /// A link at a switch that the configuration names.
    SeedCable,
    /// A pair of links is crossed.
    Crossing,
}

/// A sequence of events: kinds of parts, and numbers to pick them by.
fn events(switches: u32) -> impl Strategy<Value = Vec<(Part, usize)>> {
    let part = prop_oneof![
        switches => Just(Part::Switch),
        4 => Just(Part::Host),
        10 => Just(Part::Cable),
        3 => Just(Part::SeedCable),
        1 => Just(Part::Crossing),
    ];
    prop::collection::vec((part, any::<usize>()), 1..=2)
}

impl FailingTorus {
    fn new(shape: &Shape) -> Self {
        let healthy = Case::of(shape);
        let nodes = &healthy.topology.nodes;
        let switches = (0..nodes.len()).filter(|&node| nodes[node].kind == NodeKind::Switch);
        let (whole, switches) = (Subnet::new(&healthy), switches.collect());
        let is_host = |&node: &usize| nodes[node].kind == NodeKind::Ca && node != healthy.local;
        let hosts = (0..nodes.len()).filter(is_host).collect();
        let config = whole.config.as_ref().unwrap();
        let links = config.seeds.iter().flat_map(|seed| seed.links.iter().flatten());
        let named: BTreeSet<Guid> = links.flat_map(|link| [link.origin, link.neighbor]).collect();
        let is_named = |&(node, _): &(usize, _)| named.contains(&nodes[node].guid);
        let cables = &healthy.topology.cables;
        let seeds = (0..cables.len()).filter(|&number| cables[number].iter().any(is_named));
        let seeds = seeds.collect();
        Self { healthy, whole, switches, hosts, seeds, lost: Default::default(), crossed: None }
    }

    fn happen(&mut self, event: &[(Part, usize)]) {
        event.iter().for_each(|&(part, pick)| self.toggle(part, pick));
    }

    /// Fails the part, or repairs it.
    fn toggle(&mut self, part: Part, pick: usize) {
        let count = self.healthy.topology.cables.len();
        let (set, number) = match part {
            Part::Switch => (&mut self.lost.0, self.switches[pick % self.switches.len()]),
            Part::Host => (&mut self.lost.0, self.hosts[pick % self.hosts.len()]),
            Part::Cable => (&mut self.lost.1, pick % count),
            Part::SeedCable => (&mut self.lost.1, self.seeds[pick % self.seeds.len()]),
            Part::Crossing => {
                let pair = [pick % count, pick / count % count];
                self.crossed = if self.crossed.is_none() { Some(pair) } else { None };
                return;
            }
        };
        if !set.remove(&number) {
            set.insert(number);
        }
    }

    /// The current subnet, with its original LIDs.
    fn subnet(&self) -> Subnet {
        let mut case = self.healthy.clone();
        let (nodes, cables) = &self.lost;
        if let Some([one, two]) = self.crossed {
            let all = &mut case.topology.cables;
            (all[one][1], all[two][1]) = (all[two][1], all[one][1]);
        }
        let mut number = 0..;
        case.topology.cables.retain(|ends| {
            let number = number.next().expect("it has no end");
            !cables.contains(&number) && !ends.iter().any(|(node, _)| nodes.contains(node))
        });
        let mut subnet = Subnet::new(&case);
        subnet.take_lids_of(&self.whole);
        subnet
    }
}

/// All decisions of an engine, by GUID.
#[derive(PartialEq, Eq, Debug)]
struct Decisions {
    placement: Vec<String>,
    lfts: testkit::dumps::Lfts,
    sls: BTreeMap<(Guid, Guid), Sl>,
    trees: Vec<String>,
    /// Port classes by port slot.
    classes: Vec<PortClass>,
    vls: VlCounts,
}

fn decisions(subnet: &Subnet, routing: &Routing) -> Decisions {
    let torus = Torus::of(routing).expect("a torus");
    let ports: Vec<PortId> = subnet.fabric.end_ports().collect();
    let guid = |port: PortId| subnet.fabric.port(port).guid;
    let mut sls = BTreeMap::new();
    for &from in &ports {
        for &to in &ports {
            sls.insert((guid(from), guid(to)), routing.policy.path_sl(from, to, Sl(8)));
        }
    }
    let trees = (0xC000..0xC003u16).map(|mlid| {
        let members: Vec<PortId> = ports.iter().copied().skip(1).step_by(3).collect();
        format!("{:?}", routing.policy.multicast_tree(Mlid(mlid), &members))
    });
    Decisions {
        placement: torus.placement_order().map(|at| at.to_string()).collect(),
        lfts: subnet.lfts(routing),
        sls,
        trees: trees.collect(),
        classes: subnet.fabric.port_ids().map(|port| torus.class(port)).collect(),
        vls: torus.vls(),
    }
}

/// The diagnostics of a pass, successful or not.
fn told(result: &Result<Routing, RoutingError>) -> (Vec<Note>, Option<Dump>) {
    match result {
        Ok(routing) => (routing.notes.clone(), None),
        Err(refusal) => (refusal.notes.clone(), refusal.dump.clone()),
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let radix = (3..=6u16, 3..=5u16, 1..=3u16);
    (radix, prop::bool::weighted(0.8), 1..=2u8, 1..=3u8).prop_map(
        |((x, y, z), looped, hosts, parallel)| Shape {
            looped: [true, looped, true],
            hosts,
            parallel,
            ..Shape::torus([x, y, z])
        },
    )
}

/// A tree that keeps its switches may change its links.
#[test]
fn crossed_links_change_the_trees() {
    let shape = Shape { hosts: 2, parallel: 2, ..Shape::torus([4, 4, 3]) };
    let count = Case::of(&shape).topology.cables.len();
    // Links of a bundle have neighbouring indexes.
    let neighbors = (0..200).map(|number| number + (number + 1) * count);
    let (mut told, mut others) = (0, 0);
    for pick in neighbors.chain([14_151_902_872_089_465_350]) {
        let mut ward = FailingTorus::new(&shape);
        ward.happen(&[(Part::Crossing, pick)]);
        let last = ward.whole.route(None).expect("a healthy torus");
        let subnet = ward.subnet();
        let difference = Difference::between(&ward.whole.fabric, &subnet.fabric);
        let difference = difference.filter(|difference| difference.nodes.is_empty());
        let since = difference
            .as_ref()
            .map(|difference| PreviousFabric { fabric: &ward.whole.fabric, difference });
        let Ok(next) = subnet.route_since(Some(&last), since) else { continue };
        let trees = [&last, &next].map(|routing| decisions(&subnet, routing).trees);
        let has_trees = next.policy.same_multicast_trees_as(&*last.policy);
        assert!(!has_trees || trees[0] == trees[1], "{pick}");
        told += usize::from(has_trees);
        others += usize::from(trees[0] != trees[1]);
    }
    assert!(told > 0 && others > 0, "{told} have the trees of before, {others} have others");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rerouting_equals_routing_from_scratch(
        shape in shapes(),
        events in prop::collection::vec(events(4), 1..12),
    ) {
        let mut ward = FailingTorus::new(&shape);
        let mut last = ward.whole.route(None).unwrap();
        let healthy = decisions(&ward.whole, &last);
        let mut before = ward.subnet().fabric;
        for event in events {
            ward.happen(&event);
            let subnet = ward.subnet();
            let (scratch, plain) = (subnet.route(None), subnet.route(Some(&last)));
            let difference = Difference::between(&before, &subnet.fabric);
            let difference = difference.filter(|difference| difference.nodes.is_empty());
            let since = |difference| PreviousFabric { fabric: &before, difference };
            let next = subnet.route_since(Some(&last), difference.as_ref().map(since));
            prop_assert_eq!(scratch.is_ok(), next.is_ok());
            prop_assert_eq!(told(&plain), told(&next));
            let (Ok(scratch), Ok(next)) = (scratch, next) else { continue };
            prop_assert_eq!(&scratch.lfts, &next.lfts);
            let decided = decisions(&subnet, &next);
            let torus = Torus::of(&next).unwrap();
            for (pair, sl) in &decided.sls {
                let place = |guid| {
                    let port = subnet.fabric.port_by_guid(guid).unwrap();
                    torus.coordinates(subnet.fabric.switch_behind(port).unwrap())
                };
                if ward.crossed.is_none() && place(pair.0).is_some() && place(pair.1).is_some() {
                    prop_assert_eq!(healthy.sls[pair], *sl);
                }
            }
            prop_assert_eq!(decisions(&subnet, &scratch), decided);
            if difference.is_some() {
                let changes = |routing: &Routing| routing.policy.changes_since(&*last.policy);
                prop_assert_eq!(changes(&plain.unwrap()), changes(&next));
            }
            if next.policy.same_multicast_trees_as(&*last.policy) {
                let trees = |routing: &Routing| decisions(&subnet, routing).trees;
                prop_assert_eq!(trees(&last), trees(&next));
            }
            (last, before) = (next, subnet.fabric);
        }
    }
}

/// Number of switches whose table is not shared with the previous result.
fn made_anew(before: &Routing, after: &Routing) -> usize {
    let pairs = before.lfts.iter().zip(&after.lfts);
    pairs.filter(|(old, new)| !Arc::ptr_eq(old, new)).count()
}

#[test]
fn a_lost_link_changes_only_the_tables_of_its_ring() {
    for axis in 0..3 {
        let shape = Shape { hosts: 2, ..Shape::torus([6, 5, 7]) };
        let mut ward = FailingTorus::new(&shape);
        let before = ward.whole.route(None).unwrap();
        let ends = &ward.healthy.topology.cables;
        let guid = |place| shape.switch_guid(place);
        let (mut up, mut pair) = ([3, 3, 3], Vec::new());
        up[axis] += 1;
        for place in [[3, 3, 3], up] {
            pair.push(ward.healthy.topology.nodes.iter().position(|n| n.guid == guid(place)));
        }
        let joins = |ends: &[(usize, _); 2]| ends.iter().all(|end| pair.contains(&Some(end.0)));
        let cable = ends.iter().position(joins).unwrap();
        ward.toggle(Part::Cable, cable);
        let subnet = ward.subnet();
        let after = subnet.route(Some(&before)).unwrap();
        let changed = before.lfts.iter().zip(&after.lfts).filter(|(old, new)| old != new).count();
        assert!((1..=usize::from(shape.radix[axis])).contains(&changed), "{changed}");
        assert_eq!(made_anew(&before, &after), changed);
        ward.toggle(Part::Cable, cable);
        let repaired = ward.subnet().route(Some(&after)).unwrap();
        assert_eq!(repaired.lfts, before.lfts);
        assert_eq!(made_anew(&after, &repaired), changed);
        let again = ward.subnet().route(Some(&repaired)).unwrap();
        assert_eq!(made_anew(&repaired, &again), 0);
    }
}

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

/// The extent of verification for each plan of a sequence of events, with the baseline recomputed
/// in between or not; and the final torus.
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

/// Old and new routes together have no credit loop; on a ring that is closed again they have one.
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

/// When a ring is closed again, the baseline from before its break suffices.
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

/// A ring that is closed again, by a link that was lost before others or after them.
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
