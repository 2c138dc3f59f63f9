//! A damaged torus, its repaired routes, and what they must be: judged from coordinates, and proved by
//! `verify`.

use super::judge::Judge;
use testkit::torus::random::Random;
use testkit::torus::subnet::{Case, Subnet};
use torus_sm::fabric::PortId;
use torus_sm::ids::{Mlid, Sl};
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
    /// LMC of end ports.
    lmc: u8,
    config: String,
    pub(super) subnet: Subnet,
    pub(super) routing: Routing,
    pub(super) judge: Judge,
}

impl Undamaged {
    pub(super) fn new(shape: &Shape) -> Self {
        Self::configured(shape, 1, 0)
    }

    /// A torus with this torus-2QoS.conf.
    pub(super) fn with_config(shape: &Shape, config: String) -> Self {
        Self::built(shape, 1, 0, config)
    }

    /// Compares the paths to every `step`th destination only.
    pub(super) fn sampled(shape: &Shape, step: usize) -> Self {
        Self::configured(shape, step, 0)
    }

    pub(super) fn with_lmc(shape: &Shape, lmc: u8) -> Self {
        Self::configured(shape, 1, lmc)
    }

    fn configured(shape: &Shape, step: usize, lmc: u8) -> Self {
        Self::built(shape, step, lmc, shape.torus_conf() + &further_seeds(shape))
    }

    fn built(shape: &Shape, step: usize, lmc: u8, config: String) -> Self {
        let subnet = Subnet::new(&Case { config: config.clone(), lmc, ..Case::of(shape) });
        let routing = subnet.route(None).expect("a torus without damage");
        let judge = Judge::new(shape);
        assert_eq!(judge.check(&subnet, &routing, step, "without damage"), 0);
        Self { shape: shape.clone(), step, lmc, config, subnet, routing, judge }
    }

    /// The case of the torus with damage.
    pub(super) fn case(&self, damaged: &Shape) -> Case {
        Case { config: self.config.clone(), lmc: self.lmc, ..Case::of(damaged) }
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
        let found = self.judge.check(&subnet, &routing, self.step, &name);
        let unrouted = routing.policy.unrouted_switches().expect("a list").len();
        assert!(found == unrouted || self.step > 1, "{name}: {found} pairs, {unrouted} listed");
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

/// Seeds all over the torus, with the coordinates of the first one.
fn further_seeds(shape: &Shape) -> String {
    let radix = shape.radix.map(usize::from);
    let count: usize = radix.iter().product();
    let mut text = String::new();
    for index in 1..SEEDS {
        // A stride without a common factor with usual radices.
        let place = index * 37 % count;
        let at = [place % radix[0], place / radix[0] % radix[1], place / radix[0] / radix[1]];
        text += &format!("next_seed\n{}", seed_at(shape, at));
    }
    text
}

/// A seed with all links of a switch.
pub(super) fn seed_at(shape: &Shape, at: [usize; 3]) -> String {
    let mut text = String::new();
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
