//! Time to place and route tori with two hosts per switch, from a fabric's picture to all
//! forwarding tables.

#![allow(missing_docs, reason = "criterion_group! makes public functions without any")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::picture::View;
use torus_sm::ids::Lid;
use torus_sm::plan::LidTable;
use torus_sm::plan::routing::torus::Torus2Qos;
use torus_sm::plan::routing::{Engine, RoutingInput};
use torus_sm::sim::generate::Shape;

fn route(c: &mut Criterion, name: &str, shape: &Shape) {
    let topology = shape.build().expect("the shape fits a fabric");
    let fabric = Fabric::from_topology(&topology, 0, &View::default()).expect("node 0 exists");
    let mut lids = LidTable::new(fabric.ports().len());
    for (index, port) in fabric.end_ports().enumerate() {
        lids.assign(port, Lid(index as u16 + 1), 0);
    }
    let options = Options { qos: true, ..Options::default() };
    let torus_config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let input = RoutingInput {
        fabric: &fabric,
        lids: &lids,
        options: &options,
        torus_config: &torus_config,
        previous: None,
    };
    c.bench_function(name, |b| b.iter(|| Torus2Qos.route(black_box(&input)).expect("it routes")));
}

fn torus(c: &mut Criterion) {
    for radix in [8, 16, 24] {
        let shape = Shape { hosts: 2, ..Shape::torus([radix; 3]) };
        route(c, &format!("torus-2QoS {radix}x{radix}x{radix}"), &shape);
    }
    let mut broken = Shape { hosts: 2, ..Shape::torus([8; 3]) };
    broken.missing_links.push(([3, 4, 5], 1));
    route(c, "torus-2QoS 8x8x8 without one cable", &broken);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = torus
}
criterion_main!(benches);
