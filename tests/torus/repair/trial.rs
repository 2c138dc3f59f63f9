//! A damaged torus, its repaired routes, and what they must be: compared with the undamaged torus, and
//! proved by `verify`.

use std::collections::{BTreeMap, HashSet};
use testkit::torus::random::Random;
use testkit::torus::subnet::{Case, Subnet};
use torus_sm::fabric::{PortId, SwitchId};
use torus_sm::ids::{Guid, Mlid, PortNum, Sl};
use torus_sm::plan::compute::compute;
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::routing::Routing;
use torus_sm::plan::routing::torus::Torus;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, verify};

/// Number of seeds of a configuration.
const SEEDS: usize = 16;

/// The result of routing a damaged torus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// torus-2QoS routes it without a repair.
    Itself,
    Complete,
    /// This many ordered pairs of switches have no route.
    Partial(usize),
    /// The last message of the engine.
    Refused(String),
}

/// A torus to be damaged.
pub(super) struct Undamaged {
    pub(super) shape: Shape,
    /// Every how many destinations paths are compared.
    step: usize,
    config: String,
    subnet: Subnet,
    routing: Routing,
}

/// A path of switch GUIDs.
type Hops = Vec<u64>;

impl Undamaged {
    pub(super) fn new(shape: &Shape) -> Self {
        Self::sampled(shape, 1)
    }

    /// Compares the paths to every `step`th destination only.
    pub(super) fn sampled(shape: &Shape, step: usize) -> Self {
        let config = shape.torus_conf() + &further_seeds(shape);
        let subnet = Subnet::new(&Case { config: config.clone(), ..Case::of(shape) });
        let routing = subnet.route(None).expect("a torus without damage");
        Self { shape: shape.clone(), step, config, subnet, routing }
    }

    /// The case of the torus with damage.
    pub(super) fn case(&self, damaged: &Shape) -> Case {
        Case { config: self.config.clone(), ..Case::of(damaged) }
    }

    /// Routes the torus with damage, and asserts that the plan holds what a repair promises.
    pub(super) fn trial(&self, damaged: &Shape) -> Outcome {
        let name = format!("{:?} {:?}", damaged.missing_switches, damaged.missing_links);
        let mut subnet = Subnet::new(&self.case(damaged));
        subnet.options.torus_repair = false;
        let itself = subnet.route(None).ok();
        subnet.options.torus_repair = true;
        if let Some(before) = itself {
            let routing = subnet.route(None).expect("routed without a repair");
            assert_eq!(routing.lfts, before.lfts, "{name}: routed without a repair");
            assert_eq!(routing.notes, before.notes, "{name}: routed without a repair");
            return Outcome::Itself;
        }
        let routing = match subnet.route(None) {
            Ok(routing) => routing,
            Err(error) => {
                let refusal =
                    error.notes.iter().rev().find(|note| note.text.contains("torus_repair"));
                let text = refusal.or(error.reason()).map(|note| note.text.clone());
                return Outcome::Refused(text.unwrap_or_default());
            }
        };
        self.assert_placement(&subnet, &routing, &name);
        let unrouted = self.assert_routes(&subnet, &routing, &name);
        assert_no_loop(&subnet, unrouted, &name);
        match unrouted {
            0 => Outcome::Complete,
            count => Outcome::Partial(count),
        }
    }

    /// Number of switches of the fabric that the routed torus lacks.
    pub(super) fn unplaced(&self, damaged: &Shape) -> Option<usize> {
        let subnet = Subnet::new(&self.case(damaged));
        let routing = subnet.route(None).ok()?;
        let torus = Torus::of(&routing).expect("routed by torus-2QoS");
        Some(subnet.fabric.switches().len() - torus.switches().count())
    }

    /// No switch is placed at another position than without damage.
    fn assert_placement(&self, subnet: &Subnet, routing: &Routing, name: &str) {
        let before = self.subnet.coordinates(&self.routing);
        for (guid, at) in subnet.coordinates(routing) {
            assert_eq!(before[&guid], at, "{name}: switch {guid:#x}");
        }
    }

    /// Paths over switches with a position and over present cables are those of before, and all SLs and
    /// SL to VL mappings, too. Returns the number of pairs of switches without a route.
    fn assert_routes(&self, subnet: &Subnet, routing: &Routing, name: &str) -> usize {
        let torus = Torus::of(routing).expect("routed by torus-2QoS");
        let placed: Vec<SwitchId> = torus.switches().map(|(_, switch)| switch).collect();
        let guid = |switch| subnet.fabric.switch(switch).guid();
        let links = links(subnet, torus);
        let mut unrouted = 0;
        for (&to, &from) in placed
            .iter()
            .step_by(self.step)
            .flat_map(|to| placed.iter().map(move |from| (to, from)))
        {
            if from != to {
                let [start, end] = [guid(from), guid(to)];
                let before = path(&self.subnet, &self.routing, start, end).expect("a path");
                let now = path(subnet, routing, start, end);
                let is_intact = before.windows(2).all(|hop| links.contains(&(hop[0], hop[1])));
                match now {
                    Some(now) if is_intact => assert_eq!(now, before, "{name}: an intact path"),
                    Some(_) => {}
                    None => {
                        assert!(!is_intact, "{name}: an intact path has no route");
                        unrouted += 1;
                    }
                }
                for level in [0, 8] {
                    let sl = |subnet: &Subnet, routing: &Routing| {
                        let [from, to] = [start, end].map(|guid| management_port(subnet, guid));
                        routing.policy.path_sl(from, to, Sl(level))
                    };
                    let before = sl(&self.subnet, &self.routing);
                    assert_eq!(sl(subnet, routing), before, "{name}: SL {start} {end}");
                }
            }
        }
        self.assert_mappings(subnet, routing, &placed, name);
        let listed = routing.policy.unrouted_switches().expect("a list").len();
        assert!(unrouted == listed || self.step > 1, "{name}: {unrouted} pairs, {listed} listed");
        listed
    }

    /// The SL to VL mapping of each pair of cabled ports is that of before.
    fn assert_mappings(&self, subnet: &Subnet, routing: &Routing, placed: &[SwitchId], name: &str) {
        for &switch in placed {
            let node = subnet.fabric.switch(switch);
            let mappings = |subnet: &Subnet, routing: &Routing| -> BTreeMap<(u8, u8), String> {
                let id = subnet.fabric.node_by_guid(node.guid()).expect("a switch");
                let port = |num| subnet.fabric.port_of(id, PortNum(num)).expect("a port");
                let ports = || 1..=node.num_ports();
                let pairs = ports().flat_map(|input| ports().map(move |output| (input, output)));
                let map = |(input, output)| {
                    let mapping = routing.policy.sl_to_vl(port(input), port(output));
                    ((input, output), format!("{mapping:?}"))
                };
                pairs.map(map).collect()
            };
            let is_cabled = |&num: &u8| {
                let port = subnet.fabric.switch_port(switch, PortNum(num)).expect("a port");
                subnet.fabric.port(port).peer.is_some()
            };
            let before = mappings(&self.subnet, &self.routing);
            for (ports, mapping) in mappings(subnet, routing) {
                if is_cabled(&ports.0) && is_cabled(&ports.1) {
                    assert_eq!(mapping, before[&ports], "{name}: {} {ports:?}", node.name());
                }
            }
        }
    }
}

/// Neither unicast packets nor multicast groups of both QoS levels close a credit loop.
fn assert_no_loop(subnet: &Subnet, unrouted: usize, name: &str) {
    let members: Vec<PortId> = subnet.fabric.end_ports().collect();
    let group = |(mlid, sl)| GroupMembers { mlid, sl, members: members.clone(), senders: vec![] };
    let groups = [(Mlid(0xC000), Sl(0)), (Mlid(0xC001), Sl(8))].map(group);
    let planned = subnet.with_input(&Memory::default(), &groups, compute).expect("a plan");
    let planned = planned.plan;
    let verified = verify(&subnet.fabric, planned, &Checks::new(true));
    let verified = verified.unwrap_or_else(|fault| panic!("{name}: {fault}"));
    let summary = verified.summary();
    assert!(summary.cycle.is_none(), "{name}: {:?}", summary.cycle);
    assert_eq!(summary.unrouted.is_empty(), unrouted == 0, "{name}");
}

fn management_port(subnet: &Subnet, switch: Guid) -> PortId {
    let id = subnet.fabric.node_by_guid(switch).expect("a switch");
    subnet.fabric.node(id).first_port
}

/// Pairs of switches of the torus with a cable.
fn links(subnet: &Subnet, torus: &Torus) -> HashSet<(u64, u64)> {
    let fabric = &subnet.fabric;
    let cabled = fabric.ports().iter().filter_map(|port| {
        let (here, there) = (fabric.node(port.node), fabric.node_of(port.peer?));
        let is_placed = |switch: Option<SwitchId>| torus.coordinates(switch?).map(|_| ());
        is_placed(here.switch)?;
        is_placed(there.switch)?;
        Some((here.guid().0, there.guid().0))
    });
    cabled.collect()
}

/// The switches from one to another, by the forwarding tables; `None` without a route.
fn path(subnet: &Subnet, routing: &Routing, from: Guid, to: Guid) -> Option<Hops> {
    let fabric = &subnet.fabric;
    let lid = subnet.lids.base(management_port(subnet, to)).expect("a LID");
    let mut hops = vec![from.0];
    let mut here = fabric.node(fabric.node_by_guid(from)?).switch?;
    while hops.last() != Some(&to.0) {
        assert!(hops.len() < 64, "a path from {from} to {to} does not end");
        let out = match routing.lft(here).out(lid) {
            Some(out) => out,
            None if hops.len() == 1 => return None,
            None => panic!("the path from {from} to {to} ends at {:#x}", hops[hops.len() - 1]),
        };
        let port = fabric.switch_port(here, PortNum(out)).expect("a port");
        let peer = fabric.port(port).peer.expect("a cable");
        let node = fabric.node_of(peer);
        hops.push(node.guid().0);
        here = node.switch.expect("a switch");
    }
    Some(hops)
}

/// Seeds all over the torus, with the coordinates of the first one.
fn further_seeds(shape: &Shape) -> String {
    let radix = shape.radix.map(usize::from);
    let count: usize = radix.iter().product();
    let mut text = String::new();
    for index in 1..SEEDS {
        // A stride without a common factor with usual radices.
        let place = index * 37 % count;
        let at = [place % radix[0], place / radix[0] % radix[1], place / radix[0] / radix[1]];
        text += &seed_at(shape, at);
    }
    text
}

fn seed_at(shape: &Shape, at: [usize; 3]) -> String {
    let mut text = String::from("next_seed\n");
    let guid = |at: [usize; 3]| shape.switch_guid(at.map(|c| c as u16)).0;
    for (axis, name) in ['x', 'y', 'z'].into_iter().enumerate() {
        let radix = usize::from(shape.radix[axis]);
        if radix == 1 {
            continue;
        }
        let is_open = !shape.looped[axis] || radix == 2;
        for (sign, step, edge) in [('p', 1, radix - 1), ('m', radix - 1, 0)] {
            if is_open && at[axis] == edge {
                continue;
            }
            let mut next = at;
            next[axis] = (at[axis] + step) % radix;
            text += &format!("{name}{sign}_link {:#x} {:#x}\n", guid(at), guid(next));
        }
        text += &format!("{name}_dateline -{}\n", at[axis]);
    }
    text
}

/// All positions of a torus, z running fastest.
pub(super) fn places(shape: &Shape) -> Vec<[u16; 3]> {
    let [rx, ry, rz] = shape.radix;
    (0..rx).flat_map(|x| (0..ry).flat_map(move |y| (0..rz).map(move |z| [x, y, z]))).collect()
}

/// All cables of a torus.
pub(super) fn cables(shape: &Shape) -> Vec<([u16; 3], usize)> {
    let is_cable = |&(at, axis): &([u16; 3], usize)| {
        let radix = shape.radix[axis];
        radix > 1 && (shape.looped[axis] && radix > 2 || at[axis] + 1 < radix)
    };
    let all = places(shape).into_iter().flat_map(|at| (0..3).map(move |axis| (at, axis)));
    all.filter(is_cable).collect()
}

/// A torus without random switches and cables.
pub(super) fn random_damage(
    shape: &Shape,
    random: &mut Random,
    switches: usize,
    lost: usize,
) -> Shape {
    let mut places = places(shape);
    random.shuffle(&mut places);
    places.truncate(switches);
    let mut cables = cables(shape);
    random.shuffle(&mut cables);
    cables.truncate(lost);
    Shape { missing_switches: places, missing_links: cables, ..shape.clone() }
}

/// A torus without a box of switches at a random place, such as a block of 2x2x2 or a row.
pub(super) fn without_box(shape: &Shape, random: &mut Random, size: [u16; 3]) -> Shape {
    let origin = shape.radix.map(|radix| random.below(radix.into()) as u16);
    let inside = Shape { radix: size, ..shape.clone() };
    let at = |offset: [u16; 3]| {
        std::array::from_fn(|axis| (origin[axis] + offset[axis]) % shape.radix[axis])
    };
    Shape { missing_switches: places(&inside).into_iter().map(at).collect(), ..shape.clone() }
}
