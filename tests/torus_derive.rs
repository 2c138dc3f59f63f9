//! Deriving torus-2QoS.conf from bare cables: what comes out must describe the torus that went
//! in, up to names of axes, reflection and rotation.

use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::torus::{TorusConfig, TorusSize};
use torus_sm::fabric::Fabric;
use torus_sm::fabric::picture::View;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::plan::lids::{self, Memory};
use torus_sm::plan::routing::torus::derive::{Derived, NoTorus, derive};
use torus_sm::plan::routing::torus::{Torus, Torus2Qos};
use torus_sm::plan::routing::{Engine, Refusal, Routing, RoutingInput};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// SplitMix64: the same fabrics on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In 0..sides.
    fn below(&mut self, sides: usize) -> usize {
        (self.next() % sides as u64) as usize
    }

    fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
        items
    }
}

/// A fabric whose truth is known.
struct Case {
    shape: Shape,
    fabric: Fabric,
    truth: TorusConfig,
    /// By switch.
    at: Vec<[u32; 3]>,
}

impl Case {
    /// The fabric of `shape`, all GUIDs and port numbers dealt anew.
    fn new(shape: Shape, dice: &mut Dice) -> Self {
        let mut topology = shape.build().unwrap();
        let old: Vec<Guid> = topology.nodes.iter().map(|node| node.guid).collect();
        rename(&mut topology, dice);
        let name = |guid: Guid| {
            let node = old.iter().position(|&known| known == guid);
            node.map_or(guid, |node| topology.nodes[node].guid)
        };
        let mut truth = TorusConfig::parse(Path::new("truth"), &shape.torus_conf()).unwrap();
        for link in truth.seeds.iter_mut().flat_map(|seed| seed.links.iter_mut().flatten()) {
            link.origin = name(link.origin);
            link.neighbor = name(link.neighbor);
        }
        let local = topology.nodes.iter().position(|node| node.kind == NodeKind::Switch).unwrap();
        let fabric = Fabric::from_topology(&topology, local, &View::default()).unwrap();
        let place = |description: String| -> [u32; 3] {
            let numbers = description.trim_start_matches("sw ").split(',');
            numbers.map(|n| n.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap()
        };
        let at = fabric.switch_ids().map(|id| place(fabric.switch(id).description.to_string()));
        let at = at.collect();
        Self { shape, fabric, truth, at }
    }

    fn route(&self, config: TorusConfig) -> Result<Routing, Refusal> {
        let options = Options { qos: true, ..Options::default() };
        let (lids, ..) = lids::assign(&self.fabric, &options, &Memory::default());
        Torus2Qos.route(&RoutingInput {
            fabric: &self.fabric,
            lids: &lids,
            options: &options,
            torus_config: &Ok(config),
            previous: None,
        })
    }

    /// Coordinates by switch under a routing.
    fn coordinates(&self, routing: &Routing) -> Vec<Option<[u32; 3]>> {
        let torus = Torus::of(routing).unwrap();
        self.fabric.switch_ids().map(|id| torus.coordinates(id).map(|at| at.0)).collect()
    }

    fn size(&self) -> TorusSize {
        self.truth.size.unwrap()
    }

    /// How many factors of two the torus has; with two of them other readings are as good.
    fn twos(&self) -> usize {
        let size = self.size();
        let twos = |axis: usize| match (size.radix[axis], size.looped[axis]) {
            (2, _) => 1,
            (4, true) => 2,
            _ => 0,
        };
        (0..3).map(twos).sum()
    }
}

fn rename(topology: &mut Topology, dice: &mut Dice) {
    let ports: Vec<Vec<u8>> =
        topology.nodes.iter().map(|node| dice.shuffled((1..=node.num_ports).collect())).collect();
    for (node, index) in topology.nodes.iter_mut().zip(0..) {
        node.guid = Guid(0x2_c900_0000_0000 + (dice.next() % 0x1_0000_0000) * 0x1_0000 + index);
        node.system_guid = node.guid;
    }
    for end in topology.cables.iter_mut().flatten() {
        end.1 = PortNum(ports[end.0][usize::from(end.1.0) - 1]);
    }
    topology.normalize();
}

/// A random shape that is no single long ring or line, which the engine cannot place.
fn random_shape(dice: &mut Dice) -> Shape {
    loop {
        let mut shape = Shape::torus([0; 3].map(|_| 1 + dice.below(7) as u16));
        if dice.below(3) == 0 {
            shape.radix[dice.below(3)] = 1;
        }
        shape.looped = [0; 3].map(|_| dice.below(4) > 0);
        shape.hosts = dice.below(3) as u8;
        shape.parallel = 1 + dice.below(3) as u8;
        let active = shape.radix.iter().filter(|&&radix| radix > 1).count();
        if active > 1 {
            return shape;
        }
    }
}

/// Axes, radices and openness in an order that does not depend on names.
fn sorted(size: TorusSize) -> Vec<(u32, bool)> {
    let mut axes: Vec<(u32, bool)> = size
        .radix
        .into_iter()
        .zip(size.looped)
        .filter(|axis| axis.0 > 1)
        .map(|(radix, looped)| (radix, looped && radix > 2))
        .collect();
    axes.sort_unstable();
    axes
}

/// True if one axis is another after reflection and rotation (reflection alone if open).
fn is_same_axis(pairs: &[(u32, u32)], radix: u32, looped: bool) -> bool {
    let shifts = if looped { 0..radix } else { 0..1 };
    shifts.into_iter().any(|shift| {
        pairs.iter().all(|&(a, b)| (a + shift) % radix == b)
            || pairs.iter().all(|&(a, b)| (2 * radix - 1 - a + shift) % radix == b)
    })
}

/// True if two placements are the same up to names of axes, reflection and rotation.
fn is_same_map((a, b): (TorusSize, TorusSize), pairs: &[([u32; 3], [u32; 3])]) -> bool {
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    ORDERS.iter().any(|order| {
        (0..3).all(|axis| {
            let other = order[axis];
            let radix = a.radix[axis];
            let looped = a.looped[axis] && radix > 2;
            if radix != b.radix[other] || (radix > 2 && a.looped[axis] != b.looped[other]) {
                return false;
            }
            let along: Vec<_> = pairs.iter().map(|(a, b)| (a[axis], b[other])).collect();
            is_same_axis(&along, radix, looped)
        })
    })
}

/// Each seed alone grows to the same coordinates, and no two share a switch.
fn check_seeds(case: &Case, derived: &Derived, coordinates: &[Option<[u32; 3]>]) {
    let mut used: Vec<Guid> = Vec::new();
    for seed in &derived.config.seeds {
        let mut own: Vec<Guid> =
            seed.links.iter().flatten().flat_map(|link| [link.origin, link.neighbor]).collect();
        own.sort();
        own.dedup();
        assert!(own.iter().all(|guid| !used.contains(guid)), "{:?}", case.shape);
        used.extend(own);
        let alone = TorusConfig { seeds: vec![*seed], ..derived.config.clone() };
        let routing = case.route(alone).unwrap_or_else(|no| panic!("{:?}: {no:?}", case.shape));
        assert_eq!(case.coordinates(&routing), coordinates, "{:?}", case.shape);
    }
}

/// The derived torus is the true one, or where the graph leaves a choice, as good.
fn check_equivalence(case: &Case, derived: &Derived, ours: &Routing, theirs: &Routing) {
    let context = || format!("{:?}\n{:?}", case.shape, derived.config);
    let (here, there) = (case.coordinates(ours), case.coordinates(theirs));
    let size = derived.config.size.unwrap();
    let choices: Vec<_> =
        [size].into_iter().chain(derived.alternatives.iter().copied()).map(sorted).collect();
    assert!(choices.contains(&sorted(case.size())), "{}", context());
    let (ours, theirs) = (Torus::of(ours).unwrap(), Torus::of(theirs).unwrap());
    assert!(ours.switches().count() >= theirs.switches().count(), "{}", context());
    if case.twos() >= 2 {
        assert!(ours.missing().count() <= theirs.missing().count(), "{}", context());
        return;
    }
    let pairs: Vec<_> = there.iter().zip(&here).filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
    assert!(is_same_map((case.size(), size), &pairs), "{}", context());
    let truth: Vec<_> = case.at.iter().zip(&here).filter_map(|(a, b)| Some((*a, (*b)?))).collect();
    assert!(is_same_map((case.size(), size), &truth), "{}", context());
}

fn whole(case: &Case) -> Derived {
    derive(&case.fabric).unwrap_or_else(|error| panic!("{:?}: {error}", case.shape))
}

#[test]
fn healthy_fabrics_are_read_exactly() {
    let mut dice = Dice(1);
    for _ in 0..200 {
        let case = Case::new(random_shape(&mut dice), &mut dice);
        let derived = whole(&case);
        let ours = case.route(derived.config.clone());
        let ours = ours.unwrap_or_else(|no| panic!("{:?}: {no:?}", case.shape));
        let theirs = case.route(case.truth.clone()).unwrap();
        assert!(derived.missing.is_empty() && derived.gaps.is_empty(), "{:?}", case.shape);
        assert!(derived.strays.is_empty() && derived.outside().count() == 0, "{:?}", case.shape);
        assert_eq!(Torus::of(&ours).unwrap().switches().count(), case.at.len());
        check_equivalence(&case, &derived, &ours, &theirs);
        check_seeds(&case, &derived, &case.coordinates(&ours));
    }
}

/// One switch, or up to three bundles of cables, are not there; the true seed stays whole.
fn damage(shape: &mut Shape, dice: &mut Dice) {
    let place = |dice: &mut Dice, shape: &Shape| shape.radix.map(|r| dice.below(r.into()) as u16);
    if dice.below(2) == 0 {
        loop {
            let at = place(dice, shape);
            let steps: u16 = (0..3).map(|axis| at[axis].min(shape.radix[axis] - at[axis])).sum();
            if steps > 1 {
                shape.missing_switches.push(at);
                return;
            }
        }
    }
    for _ in 0..3 {
        let at = place(dice, shape);
        shape.missing_links.push((at, dice.below(3)));
    }
}

/// In two dimensions several missing cables, and in a radix of 2 any, may leave too few faces to
/// tell the dimensions by.
fn is_thin(shape: &Shape) -> bool {
    let active = shape.radix.iter().filter(|&&radix| radix > 1).count();
    shape.radix.contains(&2) || (active < 3 && !shape.missing_links.is_empty())
}

#[test]
fn damaged_fabrics_keep_their_coordinates() {
    let mut compared = 0;
    for number in 0..500 {
        let mut dice = Dice(1000 + number);
        let mut shape = random_shape(&mut dice);
        if shape.radix.iter().map(|&radix| u32::from(radix)).product::<u32>() < 9 {
            continue;
        }
        damage(&mut shape, &mut dice);
        if is_thin(&shape) || compared == 60 {
            continue;
        }
        let case = Case::new(shape, &mut dice);
        let Ok(theirs) = case.route(case.truth.clone()) else { continue };
        if Torus::of(&theirs).unwrap().switches().count() < case.at.len() {
            continue;
        }
        let derived = whole(&case);
        let ours = case.route(derived.config.clone());
        let ours = ours.unwrap_or_else(|no| panic!("{:?}\n{no:?}", case.shape));
        check_equivalence(&case, &derived, &ours, &theirs);
        check_seeds(&case, &derived, &case.coordinates(&ours));
        compared += 1;
    }
    assert!(compared >= 50, "{compared}");
}

fn refusal(text: &str) -> NoTorus {
    let topology = torus_sm::fabric::ibnet::parse(Path::new("net"), text).unwrap();
    let fabric = Fabric::from_topology(&topology, 0, &View::default()).unwrap();
    derive(&fabric).unwrap_err()
}

#[test]
fn what_is_no_torus_is_told_why() {
    assert_eq!(
        refusal("Ca 1 \"a\"\n[1] \"b\"[1]\n\nCa 1 \"b\"\n[1] \"a\"[1]\n"),
        NoTorus::NoSwitches
    );
    assert_eq!(
        refusal("Switch 2 \"s\"\n[1] \"a\"[1]\n\nCa 1 \"a\"\n[1] \"s\"[1]\n"),
        NoTorus::NoCables(1)
    );
    // Four leaves below three spines.
    let mut text = String::new();
    for leaf in 1..=4 {
        text += &format!("Switch 8 \"l{leaf}\"\n");
        (1..=3).for_each(|spine| text += &format!("[{spine}] \"s{spine}\"[{leaf}]\n"));
        text += "\n";
    }
    for spine in 1..=3 {
        text += &format!("Switch 8 \"s{spine}\"\n");
        (1..=4).for_each(|leaf| text += &format!("[{leaf}] \"l{leaf}\"[{spine}]\n"));
        text += "\n";
    }
    assert!(matches!(refusal(&text), NoTorus::TooMuchInCommon { common: 4, .. }));
}
