//! Groups of ports for adaptive routing, and their proof, against an exhaustive walk in which each switch
//! makes every choice.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use testkit::fabrics::{Family, random};
use testkit::planning::{PlanSetup, options};
use testkit::torus::random::{Random, case};
use torus_sm::fabric::{Fabric, PortId, SwitchId};
use torus_sm::ids::{Lid, PortNum, Sl};
use torus_sm::plan::Plan;
use torus_sm::plan::adaptive::{AdaptiveGroups, EquivalenceRule, GroupsInput};
use torus_sm::plan::routing::PortMask;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::Checks;
use torus_sm::verify::adaptive::{ProvenGroups, prove};

/// Number of random fabrics of each kind.
const RANDOM_FABRICS: &str = "TORUS_ADAPTIVE_FABRICS";
const DEFAULT_FABRICS: u64 = 4;

/// A cable in one direction, named by the port that sends, and a VL.
type Lane = (PortId, u8);

/// The findings of an exhaustive walk.
#[derive(Default)]
struct Walked {
    /// LIDs that some packets do not reach, or only by an endless way.
    lost: BTreeSet<Lid>,
    dependencies: BTreeSet<(Lane, Lane)>,
}

/// A walk of the packets with one SL to one LID.
struct Walk<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    groups: &'a AdaptiveGroups,
    lid: Lid,
    sl: Sl,
    /// Switch and input of each step, true while the walk is behind it.
    seen: BTreeMap<(SwitchId, PortId), bool>,
    walked: &'a mut Walked,
}

impl Walk<'_> {
    /// Follows a packet that enters a switch through a port, after it left the one before on a lane.
    fn enter(&mut self, switch: SwitchId, input: PortId, before: Option<Lane>, length: usize) {
        let fixed = self.plan.routing.lft(switch).entry(self.lid);
        let ports = self.groups.ports(switch, self.lid, fixed);
        assert!(ports.contains(fixed), "the static port is a member");
        let outputs = ports.iter().map(|num| self.fabric.switch_port(switch, PortNum(num)));
        let outputs: Vec<PortId> = outputs.flatten().collect();
        for &output in &outputs {
            if let (Some(before), Some(lane)) = (before, self.lane(input, output)) {
                self.walked.dependencies.insert((before, lane));
            }
        }
        match self.seen.get(&(switch, input)) {
            Some(true) => {
                self.walked.lost.insert(self.lid);
                return;
            }
            Some(false) => return,
            None => self.seen.insert((switch, input), true),
        };
        if length > 64 || outputs.is_empty() {
            self.walked.lost.insert(self.lid);
        }
        for &output in outputs.iter().filter(|_| length <= 64) {
            self.leave(input, output, length);
        }
        self.seen.insert((switch, input), false);
    }

    fn leave(&mut self, input: PortId, output: PortId, length: usize) {
        if self.fabric.port(output).num == PortNum::ZERO {
            self.arrive(output);
            return;
        }
        let Some(peer) = self.fabric.port(output).peer else {
            self.walked.lost.insert(self.lid);
            return;
        };
        match self.fabric.node_of(peer).switch {
            Some(next) => self.enter(next, peer, self.lane(input, output), length + 1),
            None => self.arrive(peer),
        }
    }

    fn arrive(&mut self, at: PortId) {
        if self.plan.lids.port(self.lid) != Some(at) {
            self.walked.lost.insert(self.lid);
        }
    }

    /// The lane of an output port, if a switch is behind it.
    fn lane(&self, input: PortId, output: PortId) -> Option<Lane> {
        let peer = self.fabric.port(output).peer?;
        self.fabric.node_of(peer).switch?;
        let ports = (self.fabric.port(input).num.0, self.fabric.port(output).num.0);
        let rows = self.plan.qos.sl_to_vl_of(self.fabric.port(output).node);
        let row = rows.iter().find(|row| (row.0, row.1) == ports).expect("a mapping");
        Some((output, row.2.vl(self.sl).0))
    }
}

/// Follows every packet through every port of the groups.
fn walk_all(fabric: &Fabric, plan: &Plan, groups: &AdaptiveGroups) -> Walked {
    let mut walked = Walked::default();
    let policy = &*plan.routing.policy;
    for (lid, to) in plan.lids.iter() {
        let mut by_sl: BTreeMap<u8, Vec<PortId>> = BTreeMap::new();
        for source in fabric.end_ports().filter(|&source| source != to) {
            let Some(switch) = fabric.switch_behind(source) else { continue };
            if plan.routing.lft(switch).out(lid).is_some() {
                for hint in Checks::new(true).hints {
                    by_sl.entry(policy.path_sl(source, to, hint).0).or_default().push(source);
                }
            }
        }
        for (sl, sources) in by_sl {
            let seen = BTreeMap::new();
            let walked = &mut walked;
            let mut walk = Walk { fabric, plan, groups, lid, sl: Sl(sl), seen, walked };
            for source in sources {
                let switch = fabric.switch_behind(source).expect("a switch");
                let is_switch = fabric.node_of(source).is_switch();
                let input = if is_switch { Some(source) } else { fabric.port(source).peer };
                walk.enter(switch, input.expect("a cable"), None, 1);
            }
        }
    }
    walked
}

/// True if the dependencies have a cycle.
fn has_cycle(dependencies: &BTreeSet<(Lane, Lane)>) -> bool {
    let mut after: BTreeMap<Lane, Vec<Lane>> = BTreeMap::new();
    let mut waiting: BTreeMap<Lane, usize> = BTreeMap::new();
    for &(from, to) in dependencies {
        after.entry(from).or_default().push(to);
        waiting.entry(from).or_default();
        *waiting.entry(to).or_default() += 1;
    }
    let mut free: Vec<Lane> =
        waiting.iter().filter(|(_, count)| **count == 0).map(|(&lane, _)| lane).collect();
    let mut left = waiting.len();
    while let Some(lane) = free.pop() {
        left -= 1;
        for next in after.get(&lane).into_iter().flatten() {
            let count = waiting.get_mut(next).expect("it waits");
            *count -= 1;
            if *count == 0 {
                free.push(*next);
            }
        }
    }
    left > 0
}

/// A fabric, its plan and the groups.
struct Case {
    setup: PlanSetup,
    plan: Plan,
    groups: AdaptiveGroups,
}

impl Case {
    /// `None` if the engine cannot route the fabric without credit loops.
    fn new(setup: PlanSetup) -> Option<Self> {
        let verified = setup.verdict().ok()?.verdict.ok()?;
        if verified.summary().cycle.is_some() || verified.summary().has_cut_off_paths {
            return None;
        }
        let plan = Plan::clone(verified.plan());
        let groups = GroupsInput::new(&setup.fabric, &plan).groups();
        Some(Self { setup, plan, groups })
    }

    fn generated(shape: &Shape, engine: &str) -> Self {
        Self::new(PlanSetup::generated(shape, engine, true)).expect("a plan")
    }

    fn prove(&self) -> ProvenGroups {
        let checks = Checks::of(&self.setup.options);
        prove(&self.setup.fabric, &self.plan, &checks, self.groups.clone())
    }

    fn walk(&self, groups: &AdaptiveGroups) -> Walked {
        walk_all(&self.setup.fabric, &self.plan, groups)
    }

    /// Asserts that the proof and the walk agree. Returns the numbers of groups and of static LIDs.
    fn check(&self, name: &str) -> [usize; 2] {
        let proven = self.prove();
        let all = self.walk(&self.groups);
        let is_safe = all.lost.is_empty() && !has_cycle(&all.dependencies);
        assert_eq!(proven.groups.masked().is_empty(), is_safe, "{name}: {:?}", proven.notes);
        let safe = self.walk(&proven.groups);
        assert!(safe.lost.is_empty(), "{name}: {:?}", safe.lost);
        assert!(!has_cycle(&safe.dependencies), "{name}");
        for lid in &all.lost {
            assert!(proven.groups.masked().contains(lid), "{name}: LID {lid}");
        }
        if self.groups.count() > 0 && is_safe {
            // Entries with one cable stand for others in the quick proof of parallel cables.
            let is_exact = proven.dependencies == safe.dependencies.len();
            assert!(is_exact || self.groups.are_by_port(), "{name}: {}", proven.dependencies);
            assert!(proven.dependencies >= safe.dependencies.len(), "{name}");
        }
        [self.groups.count(), proven.groups.masked().len()]
    }
}

fn fabrics() -> u64 {
    let number = env::var(RANDOM_FABRICS).ok().and_then(|text| text.parse().ok());
    number.unwrap_or(DEFAULT_FABRICS)
}

/// Checks random fabrics of a family with an engine.
fn check_family(family: Family, engine: &str) -> [usize; 2] {
    let mut sums = [0; 2];
    for seed in 0..fabrics() {
        let fabric = random(family, &mut Random::new(seed));
        let options = options(&format!("{engine},no_fallback"), true);
        let setup = PlanSetup::new(&fabric.topology, fabric.local, options, String::new());
        let Some(case) = Case::new(setup) else { continue };
        let found = case.check(&format!("{family} {seed} with {engine}"));
        sums = [sums[0] + found[0], sums[1] + found[1]];
    }
    println!("{family} with {engine}: {} groups, {} LIDs static", sums[0], sums[1]);
    sums
}

#[test]
fn groups_of_trees_keep_the_direction() {
    for family in [Family::FatTree2, Family::FatTree3, Family::Irregular] {
        let [groups, masked] = check_family(family, "updn");
        assert!(groups > 0 || family == Family::Irregular, "{family}");
        // Static routes of other shortest paths may turn where groups do not.
        assert!(masked * 50 <= groups, "{family}: {masked}");
    }
    for family in [Family::FatTree2, Family::FatTree3] {
        assert!(check_family(family, "ftree")[0] > 0);
    }
}

#[test]
fn groups_of_shortest_paths_are_proven_or_static() {
    let mut sums = [0; 2];
    for family in [Family::FatTree2, Family::FatTree3, Family::Mesh, Family::Irregular] {
        let found = check_family(family, "minhop");
        sums = [sums[0] + found[0], sums[1] + found[1]];
    }
    assert!(sums[0] > 0, "groups");
    assert!(sums[1] > 0, "some close a loop");
}

#[test]
fn parallel_cables_add_no_loop() {
    for family in [Family::Mesh, Family::Hypercube] {
        check_family(family, "dor");
    }
    let mut groups = 0;
    for seed in 1..=fabrics() * 4 {
        let case = case(seed);
        let options = options("torus-2QoS,no_fallback", true);
        let setup = PlanSetup::new(&case.topology, case.local, options, case.config.clone());
        let Some(case) = Case::new(setup) else { continue };
        let found = case.check(&format!("torus {seed}"));
        assert_eq!(found[1], 0, "torus {seed}");
        groups += found[0];
    }
    assert!(groups > 0);
}

fn ports(mask: PortMask) -> Vec<u8> {
    mask.iter().collect()
}

#[test]
fn groups_of_a_torus_are_the_cables_to_each_neighbour() {
    let shape = Shape { hosts: 1, parallel: 3, ..Shape::torus([3, 3, 1]) };
    let case = Case::generated(&shape, "torus-2QoS");
    assert_eq!(case.groups.rule, EquivalenceRule::ParallelCables);
    assert_eq!(case.groups.count(), 9 * 4, "one for each neighbour");
    for switch in case.setup.fabric.switch_ids() {
        for number in case.groups.of(switch).used() {
            let members = ports(case.groups.of(switch).masks()[usize::from(number)]);
            assert_eq!(members.len(), 3);
            assert_eq!(members[0], number as u8, "numbered by the lowest port");
        }
    }
    assert_eq!(case.check("torus"), [36, 0]);
}

/// The lost cable of a bundle changes the group, not its number, nor any other group.
#[test]
fn numbers_survive_a_lost_cable() {
    let shape = Shape { hosts: 1, parallel: 3, ..Shape::torus([3, 3, 1]) };
    let before = Case::generated(&shape, "torus-2QoS");
    let mut topology = shape.build().expect("a fabric");
    let first = topology.cables[9];
    topology.cables.remove(9);
    let options = options("torus-2QoS", true);
    let setup = PlanSetup::new(&topology, 0, options, shape.torus_conf());
    let after = Case::new(setup).expect("a plan");
    let masks = |switch: SwitchId| before.groups.of(switch).masks().to_vec();
    let input =
        GroupsInput { before: &masks, ..GroupsInput::new(&after.setup.fabric, &after.plan) };
    let groups = input.groups();
    let mut changed = 0;
    for switch in after.setup.fabric.switch_ids() {
        let old = before.groups.of(switch);
        let new = groups.of(switch);
        assert!(old.used().eq(new.used()), "{:?}", new.masks());
        for number in old.used().map(usize::from) {
            if old.masks()[number] != new.masks()[number] {
                changed += 1;
                assert_eq!(ports(new.masks()[number]).len(), 2);
            }
        }
    }
    assert_eq!(changed, 2, "both ends of {first:?}");
}

#[test]
fn the_most_used_groups_fit_small_tables() {
    let shape = Shape { hosts: 2, parallel: 2, ..Shape::torus([4, 4, 1]) };
    let case = Case::generated(&shape, "torus-2QoS");
    let input = GroupsInput::new(&case.setup.fabric, &case.plan);
    let groups = GroupsInput { capacity: &|_| 3, ..input }.groups();
    assert_eq!(groups.limited.len(), 16);
    for switch in case.setup.fabric.switch_ids() {
        let lft = case.plan.routing.lft(switch);
        let uses = |mask: &PortMask| {
            case.plan.lids.iter().filter(|&(lid, _)| mask.contains(lft.entry(lid))).count()
        };
        let kept: Vec<PortMask> =
            groups.of(switch).used().map(|n| groups.of(switch).masks()[usize::from(n)]).collect();
        assert_eq!(kept.len(), 2);
        let all = case.groups.of(switch);
        let others = all.used().map(|n| all.masks()[usize::from(n)]).filter(|m| !kept.contains(m));
        let least = kept.iter().map(uses).min().expect("two groups");
        assert!(others.into_iter().all(|other| uses(&other) <= least));
        assert!(groups.of(switch).used().all(|number| number <= 2), "{:?}", groups.of(switch));
    }
    let without = GroupsInput { capacity: &|_| 0, ..input }.groups();
    assert_eq!(without.count(), 0);
}

#[test]
fn masked_lids_are_static() {
    let shape = Shape { hosts: 1, parallel: 2, ..Shape::torus([3, 3, 1]) };
    let mut case = Case::generated(&shape, "torus-2QoS");
    let lids: Vec<Lid> = case.plan.lids.iter().map(|(lid, _)| lid).collect();
    let is_static = |case: &Case| {
        let entries = case.setup.fabric.switch_ids().flat_map(|switch| {
            lids.iter().map(move |&lid| (switch, lid, case.plan.routing.lft(switch).entry(lid)))
        });
        let mut alone = entries.map(|(switch, lid, port)| {
            case.groups.ports(switch, lid, port) == PortMask::only(port)
        });
        alone.all(|is_alone| is_alone)
    };
    assert!(!is_static(&case));
    lids.iter().for_each(|&lid| case.groups.mask(lid));
    assert!(is_static(&case));
    let walked = case.walk(&case.groups);
    assert_eq!(walked.dependencies.len(), {
        let verified = case.setup.verdict().expect("a plan").verdict.expect("accepted");
        verified.summary().dependencies
    });
}

/// Engines that keep paths apart by SLs need SL to VL mappings.
#[test]
fn without_sl_to_vl_mappings_no_group_is_safe() {
    let shape = Shape { hosts: 1, parallel: 2, ..Shape::torus([5, 1, 1]) };
    let setup = PlanSetup::generated(&shape, "lash,no_fallback", false);
    let plan = setup.plan(&[]).expect("routes");
    let groups = GroupsInput::new(&setup.fabric, &plan).groups();
    assert_eq!(groups.count(), 10);
    let proven = prove(&setup.fabric, &plan, &Checks::of(&setup.options), groups);
    assert_eq!(proven.groups.masked().len(), 10);
    assert!(proven.notes[0].text.contains("qos TRUE"), "{}", proven.notes[0]);
}
