//! Routes on parallel ports generalized fat trees, whole and damaged.

use super::*;
use crate::config::options::Options;
use crate::fabric::synthetic::SyntheticView;
use crate::fabric::topology::{NextPorts, Topology, TopologyNode};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, PortNum};
use crate::plan::compute::{PlanInput, Registrations, compute};
use crate::plan::lids::{self, Memory};
use crate::plan::routing::chain::{Chain, EngineRegistry};
use crate::plan::{LidTable, partitions};
use crate::verify::{Checks, verify};
use crate::wire::attr::NodeKind;
use std::collections::BTreeMap;

/// A tree: hosts and switches by level and digits, with GUIDs in an order of a seed.
struct TestTree {
    children: Vec<usize>,
    parents: Vec<usize>,
    cables: Vec<usize>,
    seed: u64,
    /// Cables and switches to leave out, by a number that the seed draws.
    lost_cables: usize,
    lost_switches: usize,
}

/// A sequence of pseudo-random numbers (splitmix64).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % below.max(1) as u64) as usize
    }
}

impl TestTree {
    fn new(structure: &str) -> Self {
        let lists = structure.split(';').skip(1);
        let mut lists = lists.map(|list| {
            list.split(',').map(|word| word.parse().expect("a number")).collect::<Vec<usize>>()
        });
        let children = lists.next().expect("a list of children");
        let parents = lists.next().expect("a list of parents");
        let cables = lists.next().expect("a list of cables");
        Self { children, parents, cables, seed: 1, lost_cables: 0, lost_switches: 0 }
    }

    /// All digits of the nodes of a level: digit k is a child number above the level, else a
    /// parent number.
    fn digits(&self, level: usize) -> Vec<Vec<usize>> {
        let mut all = vec![Vec::new()];
        for at in 0..self.children.len() {
            let count = if at >= level { self.children[at] } else { self.parents[at] };
            all = all
                .into_iter()
                .flat_map(|digits| (0..count).map(move |digit| [&digits[..], &[digit]].concat()))
                .collect();
        }
        all
    }

    fn build(&self) -> Topology {
        let mut random = SplitMix(self.seed);
        let height = self.children.len();
        let mut topology = Topology::default();
        let mut numbers: BTreeMap<(usize, Vec<usize>), usize> = BTreeMap::new();
        let mut guids: Vec<u64> = (1..=(0..=height).map(|l| self.digits(l).len()).sum::<usize>())
            .map(|number| 0x1_0000 + 16 * number as u64)
            .collect();
        for level in 0..=height {
            for digits in self.digits(level) {
                let at = random.next(guids.len());
                let guid = Guid(guids.swap_remove(at));
                numbers.insert((level, digits.clone()), topology.nodes.len());
                let node = if level == 0 {
                    TopologyNode::new(NodeKind::Ca, guid, 1)
                } else {
                    TopologyNode::new(NodeKind::Switch, guid, 40)
                };
                topology.nodes.push(node.described(format!("{level} {digits:?}")));
            }
        }
        let mut ports = NextPorts::new(topology.nodes.len());
        for level in 0..height {
            for digits in self.digits(level) {
                let child = numbers[&(level, digits.clone())];
                for parent in 0..self.parents[level] {
                    let mut above = digits.clone();
                    above[level] = parent;
                    let parent = numbers[&(level + 1, above)];
                    for _ in 0..self.cables[level] {
                        topology.cables.push([ports.take(child), ports.take(parent)]);
                    }
                }
            }
        }
        self.damage(&mut topology, &mut random);
        topology
    }

    fn damage(&self, topology: &mut Topology, random: &mut SplitMix) {
        let hosts = topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca).count();
        let leaves = hosts / self.children[0];
        for _ in 0..self.lost_switches {
            let others = topology.nodes.len() - hosts - leaves;
            let lost = hosts + leaves + random.next(others);
            topology.cables.retain(|ends| ends.iter().all(|&(node, _)| node != lost));
            topology.nodes.remove(lost);
            for end in topology.cables.iter_mut().flatten().filter(|end| end.0 > lost) {
                end.0 -= 1;
            }
        }
        for _ in 0..self.lost_cables {
            let inner: Vec<usize> = (0..topology.cables.len())
                .filter(|&cable| topology.cables[cable].iter().all(|&(node, _)| node >= hosts))
                .collect();
            if !inner.is_empty() {
                topology.cables.remove(inner[random.next(inner.len())]);
            }
        }
    }

    fn fabric(&self) -> Fabric {
        Fabric::from_topology(&self.build(), 0, &SyntheticView::default()).expect("a fabric")
    }
}

fn lids_of(fabric: &Fabric, options: &Options) -> LidTable {
    lids::assign(fabric, options, &Memory::default()).0
}

fn route(fabric: &Fabric, lids: &LidTable, options: &Options) -> Result<Routing, String> {
    let input = RoutingInput {
        fabric,
        lids,
        options,
        torus_config: &Err(Vec::new()),
        previous: None,
        previous_fabric: None,
    };
    let routed = Pqft::default().route(&input);
    routed.map_err(|error| error.reason().expect("a reason").text.clone())
}

/// The output ports of switches on the path from a host to another.
fn walk(
    fabric: &Fabric,
    lids: &LidTable,
    routing: &Routing,
    ends: [PortId; 2],
) -> Option<Vec<PortId>> {
    let lid = lids.base(ends[1])?;
    let mut at = fabric.switch_behind(ends[0])?;
    let mut path = Vec::new();
    loop {
        let out = fabric.switch_port(at, PortNum(routing.lft(at).out(lid)?))?;
        path.push(out);
        let peer = fabric.port(out).peer?;
        match fabric.node_of(peer).switch {
            Some(next) => at = next,
            None => return (peer == ends[1]).then_some(path),
        }
        assert!(path.len() < 20, "a routing loop");
    }
}

/// The hosts in the order of their numbers.
fn numbered_hosts(fabric: &Fabric, lids: &LidTable) -> Vec<PortId> {
    let graph = SwitchGraph::new(fabric, &[]);
    let lists = GuidLists::default();
    let hosts = levels::hosts(fabric, lids, &lists);
    let levels = Levels::new(fabric, &graph, &hosts, None).expect("a tree");
    let numbering = Numbering::new(fabric, &levels);
    let mut numbered: Vec<(u64, PortId)> = Vec::new();
    for leaf in levels.leaves() {
        for (host, slot) in levels.hosts[leaf.index()].iter().zip(&numbering.slots[leaf.index()]) {
            let port = lids.port(host.base).expect("an owner");
            numbered.push((numbering.first[leaf.index()] + slot, port));
        }
    }
    numbered.sort_unstable();
    assert!(numbered.windows(2).all(|pair| pair[0].0 < pair[1].0));
    numbered.into_iter().map(|(_, port)| port).collect()
}

const WHOLE_TREES: [&str; 6] = [
    "2;4,6;1,4;1,1",
    "2;6,4;1,3;1,2",
    "2;8,2;1,2;1,4",
    "3;4,4,4;1,4,4;1,1,1",
    "3;4,4,3;1,2,4;1,2,2",
    "3;2,3,2;1,2,3;1,1,1",
];

/// Each shift of hosts to hosts uses each cable between switches at most once, on trees whose
/// switches have as many cables up as down.
#[test]
fn shifts_share_no_cable() {
    for structure in WHOLE_TREES {
        for seed in 1..4 {
            let tree = TestTree { seed, ..TestTree::new(structure) };
            let fabric = tree.fabric();
            let lids = lids_of(&fabric, &Options::default());
            let routing = route(&fabric, &lids, &Options::default()).expect("it is routed");
            let hosts = numbered_hosts(&fabric, &lids);
            for shift in 1..hosts.len() {
                let mut used = vec![0; fabric.ports().len()];
                for (from, host) in hosts.iter().enumerate() {
                    let to = hosts[(from + shift) % hosts.len()];
                    let path = walk(&fabric, &lids, &routing, [*host, to]).expect("a path");
                    path.iter().for_each(|port| used[port.index()] += 1);
                }
                assert_eq!(used.iter().max(), Some(&1), "{structure}, shift {shift}");
            }
        }
    }
}

#[test]
fn whole_trees_have_the_structure_of_their_kind() {
    for structure in WHOLE_TREES {
        let fabric = TestTree::new(structure).fabric();
        let lids = lids_of(&fabric, &Options::default());
        let routed = route(&fabric, &lids, &asserted(structure)).expect("it fits");
        assert!(routed.notes[0].text.contains(structure), "{:?}", routed.notes);
        assert!(refused(&fabric, &lids, "1;4;1;1").contains("1 levels of switches, the fabric"));
        assert!(refused(&fabric, &lids, "x").contains("'x' is not a number"));
        let more = structure.replacen(";1,", ";1,9", 1);
        let said = refused(&fabric, &lids, &more);
        assert!(said.contains("parents of each child at level 2"), "{said}");
    }
}

fn refused(fabric: &Fabric, lids: &LidTable, text: &str) -> String {
    route(fabric, lids, &asserted(text)).map(|_| ()).unwrap_err()
}

fn asserted(text: &str) -> Options {
    Options { pqft_structure: Some(text.to_owned()), ..Options::default() }
}

/// A plan of the engine alone on a damaged tree: every host reaches every other without a credit loop,
/// or two leaf switches have no common ancestor.
#[test]
fn damaged_trees_keep_all_paths_or_are_refused() {
    let mut refused = 0;
    for (structure, seed) in WHOLE_TREES.iter().flat_map(|it| (1..9).map(move |seed| (it, seed))) {
        let lost = (seed % 4) as usize;
        let lost_switches = usize::from(seed > 4);
        let tree =
            TestTree { seed, lost_cables: 3 * lost, lost_switches, ..TestTree::new(structure) };
        let fabric = tree.fabric();
        let options = Options { lmc: (seed % 3) as u8, ..Options::default() };
        let chain = Chain::parse("pqft,no_fallback", &EngineRegistry::standard(Default::default()));
        let input = PlanInput {
            fabric: &fabric,
            options: &options,
            memory: &Memory::default(),
            torus_config: &Err(Vec::new()),
            partitions: &partitions::default(&options),
            observed_pkeys: &[],
            registrations: Registrations::default(),
            previous: None,
            reregister: &|_| false,
            chain: &chain.expect("an engine"),
            qos_policy: None,
        };
        let planned = match compute(&input) {
            Ok(planned) => planned.plan,
            Err(error) => {
                let reason = error.routing_errors[0].reason().expect("a reason");
                let text = &reason.text;
                assert!(
                    text.contains("no common switch above") || text.contains("level"),
                    "{text}"
                );
                refused += 1;
                continue;
            }
        };
        let hosts: Vec<PortId> =
            fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect();
        for &from in &hosts {
            for &to in hosts.iter().filter(|&&to| to != from) {
                assert!(walk(&fabric, &planned.lids, &planned.routing, [from, to]).is_some());
            }
        }
        let verified = verify(&fabric, planned, &Checks::new(false));
        assert!(verified.is_ok(), "{structure} {seed}: {:?}", verified.err());
    }
    assert!((1..40).contains(&refused), "{refused}");
}

/// Trees whose switches of a level differ are routed, and a note says what that costs.
#[test]
fn uneven_trees_are_told() {
    for structure in WHOLE_TREES {
        assert_eq!(told(&TestTree::new(structure)), None, "{structure}");
    }
    let damaged = TestTree { lost_cables: 1, ..TestTree::new("2;6,4;1,3;1,2") };
    let said = told(&damaged).expect("a note");
    // The spine has one cable less, and both ends keep all neighbours.
    assert!(said.starts_with("pqft: 1 switch has fewer"), "{said}");
    let damaged = TestTree { lost_cables: 1, ..TestTree::new("2;4,6;1,4;1,1") };
    let said = told(&damaged).expect("a note");
    assert!(said.starts_with("pqft: 2 switches have fewer"), "{said}");
}

fn told(tree: &TestTree) -> Option<String> {
    let fabric = tree.fabric();
    let lids = lids_of(&fabric, &Options::default());
    let routed = route(&fabric, &lids, &Options::default()).expect("it is routed");
    routed.notes.get(1).map(|note| note.text.clone())
}

#[test]
fn other_fabrics_are_refused_with_the_reason() {
    let ring = reason(&crate::plan::tests::ring(4, &[]));
    assert!(ring.contains("are cabled to each other, and both have hosts"), "{ring}");
    let mut siblings = TestTree::new("2;4,6;1,4;1,1").build();
    let spines: Vec<usize> = (0..siblings.nodes.len())
        .filter(|&node| siblings.nodes[node].description.starts_with('2'))
        .collect();
    siblings.cables.push([(spines[0], PortNum(40)), (spines[1], PortNum(40))]);
    let said = reason(&siblings);
    assert!(said.contains("at levels 1 and 1 above the leaf switches"), "{said}");
    // A row of leaf switches, each with a switch above it and its neighbour.
    let mut row = TestTree::new("2;1,4;1,3;1,1").build();
    let neighbours = ["2 [0, 0]", "2 [0, 1]", "2 [0, 2]"].map(|spine| {
        let first: usize = spine[6..7].parse().expect("a digit");
        (spine, [first, first + 1].map(|leaf| format!("1 [0, {leaf}]")))
    });
    let named = row.clone();
    row.cables.retain(|&[(child, _), (parent, _)]| {
        let above = neighbours.iter().find(|(spine, _)| *spine == name(&named, parent));
        above.is_none_or(|(_, leaves)| leaves.contains(&name(&named, child)))
    });
    let said = reason(&row);
    assert!(said.contains("have hosts and no common switch above them"), "{said}");
}

fn reason(topology: &Topology) -> String {
    let fabric = Fabric::from_topology(topology, 0, &SyntheticView::default());
    let fabric = fabric.expect("a fabric");
    let lids = lids_of(&fabric, &Options::default());
    route(&fabric, &lids, &Options::default()).map(|_| ()).expect_err("no tree")
}

fn name(topology: &Topology, node: usize) -> String {
    topology.nodes[node].description.clone()
}
