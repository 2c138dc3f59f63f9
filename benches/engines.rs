//! Time of each routing engine from a snapshot to all forwarding tables, beside OpenSM's:
//! `cargo bench --bench engines [-- NAME]` runs the cases whose name contains NAME.
//!
//! OpenSM's times are the CPU seconds of its routing thread, version 3.3.23, on a 3-level fat tree
//! of the same size, taken once by the time stamps of its log. They are constants here, because
//! OpenSM needs minutes over ibsim for each of these fabrics.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::torus::random::Random;
use torus_sm::config::guid_lists::GuidLists;
use torus_sm::config::options::Options;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::{Hardware, SyntheticView};
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::ids::{Guid, Lid, PortNum};
use torus_sm::plan::LidTable;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::routing::{RoutingError, RoutingInput};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// Runs per case, of which the shortest counts.
const RUNS: usize = 5;

/// Milliseconds of OpenSM on the fat tree.
const OPENSM: [(&str, f64); 9] = [
    ("ftree", 135.0),
    ("sssp", 216.0),
    ("dor", 245.0),
    ("minhop", 276.0),
    ("dnup", 289.0),
    ("updn", 295.0),
    ("nue", 820.0),
    ("dfsssp", 3500.0),
    ("lash", 11_500.0),
];

/// The engines that route the irregular fabric with many further links.
const DENSE: &[&str] = &["minhop", "updn", "dnup", "sssp", "dor", "nue"];

/// A fabric on which engines are measured.
struct BenchFabric {
    name: &'static str,
    topology: Topology,
    /// The root switch of updn; it finds its own if there is none.
    root: Option<Guid>,
    /// VLCap of all ports: 4 stands for 8 data VLs, 5 for 15.
    vl_cap: u8,
    /// True if OpenSM was measured on a fabric of this kind.
    has_opensm_times: bool,
}

fn main() {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let tree = BenchFabric {
        name: "fat tree, 288 switches, 2016 hosts",
        topology: fat_tree(),
        root: None,
        vl_cap: 4,
        has_opensm_times: true,
    };
    run(&wanted, &tree, &OPENSM.map(|(engine, _)| engine));
    // With 1000 further links, dfsssp and lash need more than 15 VLs.
    for (name, links, engines) in [
        ("irregular, 500 switches, 1000 further links, 2000 hosts, 15 VLs", 1000, DENSE),
        ("irregular, 500 switches, 60 further links, 2000 hosts, 15 VLs", 60, &["dfsssp", "lash"]),
    ] {
        let topology = irregular(500, links, 4);
        let root = Some(topology.nodes[0].guid);
        run(
            &wanted,
            &BenchFabric { name, topology, root, vl_cap: 5, has_opensm_times: false },
            engines,
        );
    }
    let shape = Shape { hosts: 2, ..Shape::torus([16; 3]) };
    let topology = shape.build().expect("the shape fits a fabric");
    let switch = topology.nodes.iter().find(|node| node.kind == NodeKind::Switch);
    let torus = BenchFabric {
        name: "torus 16x16x16, 8192 hosts",
        root: switch.map(|node| node.guid),
        topology,
        vl_cap: 4,
        has_opensm_times: false,
    };
    run(&wanted, &torus, &["minhop", "updn"]);
}

fn run(wanted: &str, fabric: &BenchFabric, engines: &[&str]) {
    for engine in engines {
        let case = format!("{engine}, {}", fabric.name);
        if !case.contains(wanted) {
            continue;
        }
        let best = match best_time(fabric, engine) {
            Ok(best) => best,
            Err(reason) => {
                println!("{case}: refused: {reason}");
                continue;
            }
        };
        let opensm = OPENSM.iter().find(|(known, _)| fabric.has_opensm_times && known == engine);
        let ours = best.as_secs_f64() * 1000.0;
        match opensm {
            Some((_, theirs)) => {
                println!("{case}: {ours:.1} ms; OpenSM {theirs:.0} ms, {:.1} times", theirs / ours);
            }
            None => println!("{case}: {ours:.1} ms"),
        }
    }
}

/// The shortest of several runs, or the reasons of an engine that refuses the fabric.
fn best_time(fabric: &BenchFabric, engine: &str) -> Result<Duration, String> {
    let &BenchFabric { ref topology, root, vl_cap, .. } = fabric;
    let view = SyntheticView {
        hardware: Hardware { vl_cap, ..Hardware::default() },
        ..SyntheticView::default()
    };
    let fabric = Fabric::from_topology(topology, 0, &view).expect("node 0 exists");
    let mut lids = LidTable::new(fabric.ports().len());
    for (index, port) in fabric.end_ports().enumerate() {
        lids.assign(port, Lid(index as u16 + 1), 0);
    }
    let lists = GuidLists { roots: root.map(|root| vec![root]), ..GuidLists::default() };
    let registry = EngineRegistry::standard(Arc::new(lists));
    let chain = Chain::parse(&format!("{engine},no_fallback"), &registry).expect("an engine");
    let input = RoutingInput {
        fabric: &fabric,
        lids: &lids,
        options: &Options::default(),
        torus_config: &Err(Vec::new()),
        previous: None,
        previous_fabric: None,
    };
    let once = |_| -> Result<Duration, String> {
        let start = Instant::now();
        let routing = chain.route(black_box(&input)).map_err(reasons)?;
        let time = start.elapsed();
        drop(routing);
        Ok(time)
    };
    let times: Vec<Duration> = (0..RUNS).map(once).collect::<Result<_, _>>()?;
    Ok(times.into_iter().min().expect("at least one run"))
}

fn reasons(errors: Vec<RoutingError>) -> String {
    let notes = errors.iter().flat_map(|error| &error.notes);
    notes.map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ")
}

/// 12 pods of 12 leaves with 14 hosts each and 8 aggregation switches, below 48 core switches.
fn fat_tree() -> Topology {
    const PODS: usize = 12;
    let (leaves, aggregations, cores, hosts) = (12, 8, 48, 14);
    let pod = leaves + aggregations;
    let mut network = Network::new(PODS * pod + cores);
    for first in (0..PODS).map(|index| index * pod) {
        for aggregation in 0..aggregations {
            let switch = first + leaves + aggregation;
            (0..leaves).for_each(|leaf| network.link(first + leaf, switch));
            for core in (0..cores).filter(|core| core % aggregations == aggregation) {
                network.link(switch, PODS * pod + core);
            }
        }
        for leaf in first..first + leaves {
            (0..hosts).for_each(|_| network.host(leaf));
        }
    }
    network.topology()
}

/// A random tree with random further links.
fn irregular(switches: usize, chords: usize, hosts: usize) -> Topology {
    let mut random = Random::new(1);
    let mut network = Network::new(switches);
    (1..switches).for_each(|switch| network.link(random.below(switch), switch));
    for _ in 0..chords {
        let (from, to) = (random.below(switches), random.below(switches));
        if from != to {
            network.link(from, to);
        }
    }
    for switch in 0..switches {
        (0..hosts).for_each(|_| network.host(switch));
    }
    network.topology()
}

/// Switches, which are numbered from 0, and their cables.
struct Network {
    topology: Topology,
    used: Vec<u8>,
}

impl Network {
    fn new(switches: usize) -> Self {
        let nodes = (0..switches).map(|index| node(NodeKind::Switch, index, 0)).collect();
        let topology = Topology { nodes, cables: Vec::new() };
        Self { topology, used: vec![0; switches] }
    }

    fn end(&mut self, switch: usize) -> (usize, PortNum) {
        self.used[switch] += 1;
        (switch, PortNum(self.used[switch]))
    }

    fn link(&mut self, from: usize, to: usize) {
        let cable = [self.end(from), self.end(to)];
        self.topology.cables.push(cable);
    }

    fn host(&mut self, switch: usize) {
        let host = self.topology.nodes.len();
        self.topology.nodes.push(node(NodeKind::Ca, host, 1));
        let cable = [self.end(switch), (host, PortNum(1))];
        self.topology.cables.push(cable);
    }

    fn topology(mut self) -> Topology {
        for (node, &used) in self.topology.nodes.iter_mut().zip(&self.used) {
            node.num_ports = used;
        }
        self.topology
    }
}

fn node(kind: NodeKind, index: usize, num_ports: u8) -> TopologyNode {
    let guid = Guid(0x1000 + index as u64 * 0x10);
    TopologyNode {
        model: Default::default(),
        kind,
        guid,
        system_guid: guid,
        description: format!("{kind} {index}"),
        num_ports,
        port_guids: Vec::new(),
        lids: Vec::new(),
    }
}
