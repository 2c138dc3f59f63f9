//! Fabrics with known coordinates: healthy, damaged, and with stray parts.

use std::collections::BTreeSet;
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::torus::{TorusConfig, TorusSize};
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::plan::lids::{self, Memory};
use torus_sm::plan::routing::torus::{Torus, Torus2Qos};
use torus_sm::plan::routing::{Engine, Routing, RoutingError, RoutingInput};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// Pseudo-random numbers (SplitMix64): the same fabrics on every machine.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in 0..sides.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        (self.next() % sides as u64) as usize
    }

    pub(crate) fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
        items
    }
}

/// A fabric with known coordinates.
pub(crate) struct Case {
    pub shape: Shape,
    pub fabric: Fabric,
    pub truth: TorusConfig,
    /// Coordinates by switch; `None` for stray switches.
    pub at: Vec<Option<[u32; 3]>>,
}

impl Case {
    /// The fabric of `shape` with `strays`, with new random GUIDs and port numbers.
    pub(crate) fn new(shape: Shape, strays: Strays, dice: &mut Dice) -> Self {
        let mut topology = shape.build().unwrap();
        strays.add(&mut topology, dice);
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
        let fabric = Fabric::from_topology(&topology, local, &SyntheticView::default()).unwrap();
        let place = |description: String| -> Option<[u32; 3]> {
            let numbers = description.strip_prefix("sw ")?.split(',');
            numbers.map(|n| n.parse().unwrap()).collect::<Vec<_>>().try_into().ok()
        };
        let at = fabric.switch_ids().map(|id| place(fabric.switch(id).description.to_string()));
        let at = at.collect();
        Self { shape, fabric, truth, at }
    }

    pub(crate) fn route(&self, config: TorusConfig) -> Result<Routing, RoutingError> {
        // Readings of a fabric are compared by whether torus-2QoS itself routes them.
        let options = Options { qos: true, torus_repair: false, ..Options::default() };
        let (lids, ..) = lids::assign(&self.fabric, &options, &Memory::default());
        Torus2Qos.route(&RoutingInput {
            fabric: &self.fabric,
            lids: &lids,
            options: &options,
            torus_config: &Ok(config),
            previous: None,
            previous_fabric: None,
        })
    }

    /// Coordinates by switch under a routing.
    pub(crate) fn coordinates(&self, routing: &Routing) -> Vec<Option<[u32; 3]>> {
        let torus = Torus::of(routing).unwrap();
        self.fabric.switch_ids().map(|id| torus.coordinates(id).map(|at| at.0)).collect()
    }

    /// Pairs of different switches with links between them, by index, lower first.
    pub(crate) fn pairs(&self) -> BTreeSet<(usize, usize)> {
        let fabric = &self.fabric;
        let ports = fabric.switch_ids().flat_map(|id| {
            let peers = fabric.ports_of(fabric.switches()[id.index()]);
            peers.filter_map(move |port| Some((id.index(), fabric.node_of(port.peer?).switch?)))
        });
        ports.map(|(a, b)| (a.min(b.index()), a.max(b.index()))).filter(|(a, b)| a != b).collect()
    }

    /// The true size.
    pub(crate) fn size(&self) -> TorusSize {
        self.truth.size.unwrap()
    }
}

pub(crate) fn rename(topology: &mut Topology, dice: &mut Dice) {
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
pub(crate) fn random_shape(dice: &mut Dice) -> Shape {
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

/// Removes one switch, or up to three bundles of links; the true seed stays intact.
pub(crate) fn damage(shape: &mut Shape, dice: &mut Dice) {
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

/// Numbers of parts that do not belong to the torus.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Strays {
    /// Links between any two of its switches.
    pub cables: usize,
    /// Switches with one to three links to any of its switches.
    pub switches: usize,
}

impl Strays {
    fn add(self, topology: &mut Topology, dice: &mut Dice) {
        let nodes = topology.nodes.iter().enumerate();
        let switches: Vec<usize> =
            nodes.filter(|(_, node)| node.kind == NodeKind::Switch).map(|(n, _)| n).collect();
        for _ in 0..self.cables {
            let a = dice.below(switches.len());
            let b = (a + 1 + dice.below(switches.len() - 1)) % switches.len();
            join(topology, switches[a], switches[b]);
        }
        for number in 0..self.switches {
            let stray = topology.nodes.len();
            let mut node = topology.nodes[switches[0]].clone();
            node.guid = Guid(0x50_0000 + number as u64);
            node.description = format!("stray {number}");
            node.num_ports = 1;
            topology.nodes.push(node);
            for _ in 0..=dice.below(3) {
                join(topology, switches[dice.below(switches.len())], stray);
            }
        }
    }
}

/// A link between new ports of two switches.
fn join(topology: &mut Topology, a: usize, b: usize) {
    let mut port = |node: usize| {
        topology.nodes[node].num_ports += 1;
        (node, PortNum(topology.nodes[node].num_ports))
    };
    let cable = [port(a), port(b)];
    topology.cables.push(cable);
}
