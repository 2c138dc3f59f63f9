//! Random fabrics and options. A seed gives the same on every machine.

use super::files;
use std::fmt::Write as _;
use testkit::torus::random::Random;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// The input of both subnet managers.
pub(crate) struct Case {
    pub seed: u64,
    pub topology: Topology,
    /// Names of the nodes on which the subnet manager and the client run.
    pub home: String,
    pub client: String,
    pub lmc: u8,
    /// Both P_Keys of a partition may be in a port's table.
    pub both_keys: bool,
    /// opensm.conf, without the names of the other files.
    pub options: String,
    pub torus: String,
    pub partitions: Option<String>,
    pub policy: Option<String>,
    pub prefix_routes: String,
    /// Values for the queries of this case.
    pub words: files::Words,
}

/// The prefixes of other subnets; the last has no route.
pub(crate) const FOREIGN: [u64; 3] =
    [0xfec0_0000_0000_0001, 0xfec0_0000_0000_0002, 0xfec0_0000_0000_0003];

impl Case {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(7919));
        let shape = shape(&mut random);
        let mut topology = shape.build().expect("the shape fits a fabric");
        for node in &mut topology.nodes {
            // OpenSM drops blanks from names in policies, and a comma ends a name.
            node.description = node.description.replace([' ', ','], "-");
        }
        let hosts: Vec<&TopologyNode> =
            topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca).collect();
        let home = random.below(hosts.len());
        let client = (home + 1 + random.below(hosts.len() - 1)) % hosts.len();
        let [home, client] = [home, client].map(|host| hosts[host].description.clone());
        let words = files::Words::new(&mut random, &topology, &home);
        let lmc = [0, 0, 0, 1][random.below(4)];
        let both_keys = random.percent(25);
        let partitions = (!random.percent(10)).then(|| files::partitions(&mut random, &words));
        let policy = (!random.percent(10)).then(|| files::policy(&mut random, &words));
        let options = options(&mut random, lmc, both_keys);
        let prefix_routes = prefix_routes(&mut random, &topology);
        let torus = shape.torus_conf();
        Self {
            seed,
            topology,
            home,
            client,
            lmc,
            both_keys,
            options,
            torus,
            partitions,
            policy,
            prefix_routes,
            words,
        }
    }
}

fn shape(random: &mut Random) -> Shape {
    let radix = [[3, 3, 1], [4, 2, 1], [3, 2, 2], [5, 1, 1]][random.below(4)];
    Shape { hosts: 2, router: random.percent(50), ..Shape::torus(radix) }
}

/// GUIDs of all end ports with the kinds of their nodes.
pub(crate) fn end_ports(topology: &Topology) -> Vec<(NodeKind, Guid)> {
    let guid = |node: &TopologyNode| match node.kind {
        NodeKind::Switch => node.guid,
        _ => node.port_guid(PortNum(1)),
    };
    topology.nodes.iter().map(|node| (node.kind, guid(node))).collect()
}

fn options(random: &mut Random, lmc: u8, both_keys: bool) -> String {
    // OpenSM refuses what torus_repair routes.
    let mut text = format!("sweep_interval 0\nlmc {lmc}\ntorus_repair FALSE\n");
    let engine = ["minhop", "torus-2QoS,no_fallback"][random.below(2)];
    let _ = writeln!(text, "routing_engine {engine}");
    let qos = engine != "minhop" || random.percent(80);
    let flag = |on| if on { "TRUE" } else { "FALSE" };
    let _ = writeln!(text, "qos {}\nallow_both_pkeys {}", flag(qos), flag(both_keys));
    let enforce = ["both", "both", "in", "out", "off"][random.below(5)];
    let _ = writeln!(text, "part_enforce {enforce}");
    let _ = writeln!(text, "subnet_timeout {}", 14 + random.below(6));
    if random.percent(30) {
        let _ = writeln!(text, "max_op_vls {}", 2 + random.below(4));
    }
    for kind in ["", "ca_", "rtr_", "sw0_", "swe_"] {
        if random.percent(30) {
            let _ = writeln!(text, "qos_{kind}high_limit {}", random.below(256));
        }
        for table in ["high", "low"] {
            if random.percent(30) {
                let _ = writeln!(text, "qos_{kind}vlarb_{table} {}", arbitration(random));
            }
        }
        // torus-2QoS has its own mappings.
        if random.percent(30) {
            let _ = writeln!(text, "qos_{kind}sl2vl {}", mapping(random));
        }
        if random.percent(20) {
            let _ = writeln!(text, "qos_{kind}max_vls {}", 1 + random.below(15));
        }
    }
    text
}

fn arbitration(random: &mut Random) -> String {
    let count = 1 + random.below(15);
    let entry = |_| format!("{}:{}", random.below(15), random.below(256));
    (0..count).map(entry).collect::<Vec<_>>().join(",")
}

/// A VL for every SL; some SLs are mapped to VL 15 and dropped.
fn mapping(random: &mut Random) -> String {
    let count = if random.percent(20) { 1 + random.below(15) } else { 16 };
    let mut vl = |_| if random.percent(12) { 15 } else { random.below(8) };
    (0..count).map(|n| vl(n).to_string()).collect::<Vec<_>>().join(",")
}

fn prefix_routes(random: &mut Random, topology: &Topology) -> String {
    let router = end_ports(topology).into_iter().find(|(kind, _)| *kind == NodeKind::Router);
    let router = router.map_or(Guid(0x77), |(_, guid)| guid);
    let mut text = format!("{:016x} {:016x}\n", FOREIGN[0], router.0);
    if random.percent(70) {
        let _ = writeln!(text, "{:016x} *", FOREIGN[1]);
    }
    text
}
