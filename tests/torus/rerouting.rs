//! Rerouting after failures and repairs: routing from the last success gives the same result as
//! routing from scratch, SLs never change, and unchanged tables are shared with the previous
//! result.

mod verification;

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use testkit::torus::random::Random;
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
        let whole = Subnet::new(&healthy);
        let switches = switches.collect();
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
#[derive(Clone, PartialEq, Eq, Debug)]
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
fn diagnostics(result: &Result<Routing, RoutingError>) -> (Vec<Note>, Option<Dump>) {
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

/// Crossed links change the links of a multicast tree even if its switches stay the same.
#[test]
fn crossed_links_change_the_trees() {
    let shape = Shape { hosts: 2, parallel: 2, ..Shape::torus([4, 4, 3]) };
    let count = Case::of(&shape).topology.cables.len();
    // Links of a bundle have neighbouring indexes.
    let neighbors = (0..200).map(|number| number + (number + 1) * count);
    let mut kept = 0;
    let mut changed = 0;
    for pick in neighbors.chain([14_151_902_872_089_465_350]) {
        let mut torus = FailingTorus::new(&shape);
        torus.happen(&[(Part::Crossing, pick)]);
        let last = torus.whole.route(None).expect("a healthy torus");
        let subnet = torus.subnet();
        let difference = Difference::between(&torus.whole.fabric, &subnet.fabric);
        let difference = difference.filter(|difference| difference.nodes.is_empty());
        let since = difference
            .as_ref()
            .map(|difference| PreviousFabric { fabric: &torus.whole.fabric, difference });
        let Ok(next) = subnet.route_since(Some(&last), since) else { continue };
        let trees = [&last, &next].map(|routing| decisions(&subnet, routing).trees);
        let has_trees = next.policy.same_multicast_trees_as(&*last.policy);
        assert!(!has_trees || trees[0] == trees[1], "{pick}");
        kept += usize::from(has_trees);
        changed += usize::from(trees[0] != trees[1]);
    }
    assert!(kept > 0 && changed > 0, "{kept} keep their trees, {changed} do not");
}

/// Faults and repairs in random orders that end in the same damage, around which the torus is routed.
fn orders_end_in_equal_tables(orders: usize) {
    /// Parts that are lost in the end.
    const LOST: [(Part, usize); 4] =
        [(Part::Switch, 7), (Part::Switch, 22), (Part::Cable, 40), (Part::Cable, 90)];
    /// Parts that are lost and repaired.
    const REPAIRED: [(Part, usize); 3] = [(Part::Switch, 15), (Part::Cable, 60), (Part::Cable, 11)];
    let shape = Shape { hosts: 1, ..Shape::torus([6, 6, 1]) };
    let mut random = Random::new(43);
    let mut expected = None;
    for order in 0..orders {
        let mut torus = FailingTorus::new(&shape);
        let mut last = torus.whole.route(None).expect("a healthy torus");
        let mut events: Vec<_> = LOST.into_iter().chain(REPAIRED).chain(REPAIRED).collect();
        random.shuffle(&mut events);
        let mut end = None;
        for event in events {
            torus.happen(&[event]);
            let subnet = torus.subnet();
            let routed = subnet.route(Some(&last));
            end = routed.as_ref().ok().map(|routing| decisions(&subnet, routing));
            last = routed.unwrap_or(last);
        }
        let end = end.expect("the final damage is routed around");
        assert!(*expected.get_or_insert(end.clone()) == end, "order {order}");
    }
}

#[test]
fn any_order_of_faults_and_repairs_ends_in_equal_tables() {
    orders_end_in_equal_tables(20);
}

#[test]
#[ignore = "minutes"]
fn a_thousand_orders_of_faults_and_repairs_end_in_equal_tables() {
    orders_end_in_equal_tables(1000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rerouting_equals_routing_from_scratch(
        shape in shapes(),
        events in prop::collection::vec(events(4), 1..12),
    ) {
        let mut torus = FailingTorus::new(&shape);
        let mut last = torus.whole.route(None).unwrap();
        let healthy = decisions(&torus.whole, &last);
        let mut before = torus.subnet().fabric;
        for event in events {
            torus.happen(&event);
            let subnet = torus.subnet();
            let scratch = subnet.route(None);
            let plain = subnet.route(Some(&last));
            let difference = Difference::between(&before, &subnet.fabric);
            let difference = difference.filter(|difference| difference.nodes.is_empty());
            let since = |difference| PreviousFabric { fabric: &before, difference };
            let next = subnet.route_since(Some(&last), difference.as_ref().map(since));
            prop_assert_eq!(scratch.is_ok(), next.is_ok());
            prop_assert_eq!(diagnostics(&plain), diagnostics(&next));
            let (Ok(scratch), Ok(next)) = (scratch, next) else { continue };
            prop_assert_eq!(&scratch.lfts, &next.lfts);
            let decided = decisions(&subnet, &next);
            let grid = Torus::of(&next).unwrap();
            for (pair, sl) in &decided.sls {
                let place = |guid| {
                    let port = subnet.fabric.port_by_guid(guid).unwrap();
                    grid.coordinates(subnet.fabric.switch_behind(port).unwrap())
                };
                if torus.crossed.is_none() && place(pair.0).is_some() && place(pair.1).is_some() {
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
        let mut torus = FailingTorus::new(&shape);
        let before = torus.whole.route(None).unwrap();
        let ends = &torus.healthy.topology.cables;
        let guid = |place| shape.switch_guid(place);
        let mut up = [3, 3, 3];
        let mut pair = Vec::new();
        up[axis] += 1;
        for place in [[3, 3, 3], up] {
            pair.push(torus.healthy.topology.nodes.iter().position(|n| n.guid == guid(place)));
        }
        let joins = |ends: &[(usize, _); 2]| ends.iter().all(|end| pair.contains(&Some(end.0)));
        let cable = ends.iter().position(joins).unwrap();
        torus.toggle(Part::Cable, cable);
        let subnet = torus.subnet();
        let after = subnet.route(Some(&before)).unwrap();
        let changed = before.lfts.iter().zip(&after.lfts).filter(|(old, new)| old != new).count();
        assert!((1..=usize::from(shape.radix[axis])).contains(&changed), "{changed}");
        assert_eq!(made_anew(&before, &after), changed);
        torus.toggle(Part::Cable, cable);
        let repaired = torus.subnet().route(Some(&after)).unwrap();
        assert_eq!(repaired.lfts, before.lfts);
        assert_eq!(made_anew(&after, &repaired), changed);
        let again = torus.subnet().route(Some(&repaired)).unwrap();
        assert_eq!(made_anew(&repaired, &again), 0);
    }
}
