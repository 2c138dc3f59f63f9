//! Time of each routing engine from a snapshot to all forwarding tables, beside OpenSM's on the same
//! fabric and machine.
//!
//! ```text
//! cargo bench --bench engines [-- [NAME] [alone]]
//! ```
//!
//! NAME selects the cases that begin with it or are on a fabric whose name contains it; with
//! `alone`, opensm is not measured.

mod fabrics;
mod opensm;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torus_sm::config::guid_lists::GuidLists;
use torus_sm::config::options::Options;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::{Hardware, SyntheticView};
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Lid};
use torus_sm::plan::LidTable;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::routing::{RoutingError, RoutingInput};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// Runs per case, of which the shortest counts.
const RUNS: usize = 5;

/// All engines that need no files of their own.
const ALL: &[&str] = &["ftree", "sssp", "dor", "minhop", "dnup", "updn", "nue", "dfsssp", "lash"];

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
    /// False if opensm needs minutes to bring the fabric up.
    beside_opensm: bool,
}

fn main() {
    let mut words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let alone = words.iter().position(|word| word == "alone").map(|at| words.remove(at)).is_some();
    let wanted = words.pop().unwrap_or_default();
    let tree = BenchFabric {
        name: "fat tree, 288 switches, 2016 hosts",
        topology: fabrics::fat_tree(),
        root: None,
        vl_cap: 4,
        beside_opensm: !alone,
    };
    run(&wanted, &tree, ALL);
    // With 1000 further links, dfsssp and lash need more than 15 VLs.
    for (name, links, engines) in [
        ("irregular, 500 switches, 1000 further links, 2000 hosts, 15 VLs", 1000, DENSE),
        ("irregular, 500 switches, 60 further links, 2000 hosts, 15 VLs", 60, &["dfsssp", "lash"]),
    ] {
        let topology = fabrics::irregular(500, links, 4);
        let root = Some(topology.nodes[0].guid);
        run(
            &wanted,
            &BenchFabric { name, topology, root, vl_cap: 5, beside_opensm: !alone },
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
        beside_opensm: false,
    };
    run(&wanted, &torus, &["minhop", "updn"]);
}

fn run(wanted: &str, fabric: &BenchFabric, engines: &[&str]) {
    for engine in engines {
        let case = format!("{engine}, {}", fabric.name);
        if !case.starts_with(wanted) && !fabric.name.contains(wanted) {
            continue;
        }
        let best = match best_time(fabric, engine) {
            Ok(best) => best,
            Err(reason) => {
                println!("{case}: refused: {reason}");
                continue;
            }
        };
        let ours = best.as_secs_f64() * 1000.0;
        if !fabric.beside_opensm {
            println!("{case}: {ours:.1} ms");
            continue;
        }
        match opensm::routing_time(fabric, engine) {
            Ok(theirs) => {
                let theirs = theirs.as_secs_f64() * 1000.0;
                println!("{case}: {ours:.1} ms; OpenSM {theirs:.0} ms, {:.1} times", theirs / ours);
            }
            Err(reason) => println!("{case}: {ours:.1} ms; OpenSM: {reason}"),
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
        options: &Options { qos: true, ..Options::default() },
        torus_config: &Err(Vec::new()),
        previous: None,
        previous_fabric: None,
    };
    let times: Vec<Duration> = (0..RUNS)
        .map(|_| -> Result<Duration, String> {
            let start = Instant::now();
            let routing = chain.route(black_box(&input)).map_err(reasons)?;
            let time = start.elapsed();
            drop(routing);
            Ok(time)
        })
        .collect::<Result<_, _>>()?;
    Ok(times.into_iter().min().expect("at least one run"))
}

fn reasons(errors: Vec<RoutingError>) -> String {
    let notes = errors.iter().flat_map(|error| &error.notes);
    notes.map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ")
}
