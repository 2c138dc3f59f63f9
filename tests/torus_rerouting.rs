//! Rerouting after failures and repairs: what is routed with the last success at hand equals what
//! is routed without, SLs never change, and tables that did not change are the very same.

mod common;
mod torus;

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use torus::subnet::{Case, Subnet};
use torus_sm::fabric::PortId;
use torus_sm::ids::{Guid, Mlid, Sl};
use torus_sm::plan::routing::Routing;
use torus_sm::plan::routing::torus::Torus;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// A torus in which switches and cables fail and are repaired.
struct Ward {
    healthy: Case,
    whole: Subnet,
    /// Numbers of the nodes that are switches.
    switches: Vec<usize>,
    /// Numbers of lost nodes and cables.
    lost: (BTreeSet<usize>, BTreeSet<usize>),
}

impl Ward {
    fn new(shape: &Shape) -> Self {
        let healthy = Case::of(shape);
        let nodes = &healthy.topology.nodes;
        let switches = (0..nodes.len()).filter(|&node| nodes[node].kind == NodeKind::Switch);
        let (whole, switches) = (Subnet::new(&healthy), switches.collect());
        Self { healthy, whole, switches, lost: Default::default() }
    }

    /// What is pointed at fails, or is repaired.
    fn toggle(&mut self, is_switch: bool, pick: usize) {
        let (set, number) = match is_switch {
            true => (&mut self.lost.0, self.switches[pick % self.switches.len()]),
            false => (&mut self.lost.1, pick % self.healthy.topology.cables.len()),
        };
        if !set.remove(&number) {
            set.insert(number);
        }
    }

    /// The subnet as it is now, with the LIDs it always had.
    fn subnet(&self) -> Subnet {
        let mut case = self.healthy.clone();
        let (nodes, cables) = &self.lost;
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

/// Everything that an engine decides, by GUID.
#[derive(PartialEq, Eq, Debug)]
struct Decisions {
    placement: Vec<String>,
    lfts: common::Lfts,
    sls: BTreeMap<(Guid, Guid), Sl>,
    trees: Vec<String>,
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rerouting_equals_routing_from_scratch(
        shape in shapes(),
        events in prop::collection::vec((prop::bool::weighted(0.3), any::<usize>()), 1..12),
    ) {
        let mut ward = Ward::new(&shape);
        let mut last = ward.whole.route(None).unwrap();
        let healthy = decisions(&ward.whole, &last);
        for (is_switch, pick) in events {
            ward.toggle(is_switch, pick);
            let subnet = ward.subnet();
            let (scratch, next) = (subnet.route(None), subnet.route(Some(&last)));
            prop_assert_eq!(scratch.is_ok(), next.is_ok());
            let (Ok(scratch), Ok(next)) = (scratch, next) else { continue };
            prop_assert_eq!(&scratch.lfts, &next.lfts);
            let decided = decisions(&subnet, &next);
            let torus = Torus::of(&next).unwrap();
            for (pair, sl) in &decided.sls {
                let place = |guid| {
                    let port = subnet.fabric.port_by_guid(guid).unwrap();
                    torus.coordinates(subnet.fabric.switch_behind(port).unwrap())
                };
                if place(pair.0).is_some() && place(pair.1).is_some() {
                    prop_assert_eq!(healthy.sls[pair], *sl);
                }
            }
            prop_assert_eq!(decisions(&subnet, &scratch), decided);
            last = next;
        }
    }
}

/// Number of switches whose table is not shared with that of the pass before.
fn made_anew(before: &Routing, after: &Routing) -> usize {
    let pairs = before.lfts.iter().zip(&after.lfts);
    pairs.filter(|(old, new)| !Arc::ptr_eq(old, new)).count()
}

#[test]
fn after_a_cable_only_the_tables_of_its_ring_are_made_anew() {
    for axis in 0..3 {
        let shape = Shape { hosts: 2, ..Shape::torus([6, 5, 7]) };
        let mut ward = Ward::new(&shape);
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
        ward.toggle(false, cable);
        let subnet = ward.subnet();
        let after = subnet.route(Some(&before)).unwrap();
        let changed = before.lfts.iter().zip(&after.lfts).filter(|(old, new)| old != new).count();
        assert!((1..=usize::from(shape.radix[axis])).contains(&changed), "{changed}");
        assert_eq!(made_anew(&before, &after), changed);
        ward.toggle(false, cable);
        let repaired = ward.subnet().route(Some(&after)).unwrap();
        assert_eq!(repaired.lfts, before.lfts);
        assert_eq!(made_anew(&after, &repaired), changed);
        let again = ward.subnet().route(Some(&repaired)).unwrap();
        assert_eq!(made_anew(&repaired, &again), 0);
    }
}
