//! Time to recognise and route tori with two hosts per switch, from a snapshot to all forwarding
//! tables: from scratch, after a failure, and with the repair of a torus that torus-2QoS refuses; and how long
//! a repair takes that ends at its limit of work.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::ids::Lid;
use torus_sm::notes::Note;
use torus_sm::plan::LidTable;
use torus_sm::plan::routing::torus::Torus2Qos;
use torus_sm::plan::routing::{Engine, Routing, RoutingInput};
use torus_sm::sim::generate::Shape;

/// A fabric with LIDs and configuration. The end ports of a damaged fabric have the LIDs of the whole
/// one.
struct RoutedTorus {
    fabric: Fabric,
    lids: LidTable,
    options: Options,
    config: Result<TorusConfig, Vec<Note>>,
}

impl RoutedTorus {
    fn new(shape: &Shape) -> Self {
        let fabric = build(shape);
        let whole =
            Shape { missing_switches: Vec::new(), missing_links: Vec::new(), ..shape.clone() };
        let mut lids = LidTable::new(fabric.ports().len());
        let whole = build(&whole);
        for (index, port) in whole.end_ports().enumerate() {
            if let Some(port) = fabric.port_by_guid(whole.port(port).guid) {
                lids.assign(port, Lid(index as u16 + 1), 0);
            }
        }
        let options = Options { qos: true, ..Options::default() };
        let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
        Self { fabric, lids, options, config }
    }

    fn route(&self, previous: Option<&Routing>) -> Routing {
        self.try_to_route(previous).expect("it routes")
    }

    fn try_to_route(&self, previous: Option<&Routing>) -> Option<Routing> {
        let input = RoutingInput {
            fabric: &self.fabric,
            lids: &self.lids,
            options: &self.options,
            torus_config: &self.config,
            previous,
            previous_fabric: None,
        };
        Torus2Qos.route(black_box(&input)).ok()
    }
}

fn build(shape: &Shape) -> Fabric {
    let topology = shape.build().expect("the shape fits a fabric");
    Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0 exists")
}

fn scratch(c: &mut Criterion, name: &str, shape: &Shape) {
    let subnet = RoutedTorus::new(shape);
    c.bench_function(name, |b| b.iter_with_large_drop(|| subnet.route(None)));
}

/// Time until all changed tables are ready after the loss of the links or switches of `broken`.
fn reroute(c: &mut Criterion, name: &str, healthy: &Shape, broken: &Shape) {
    let before = RoutedTorus::new(healthy).route(None);
    let subnet = RoutedTorus::new(broken);
    c.bench_function(name, |b| b.iter_with_large_drop(|| subnet.route(Some(&before))));
}

/// Time until a torus is given up, a quarter of whose switches are missing.
fn given_up(c: &mut Criterion, name: &str, shape: &Shape) {
    let radices = shape.radix;
    let rows = (0..radices[2]).flat_map(|z| (0..radices[1]).map(move |y| [y, z]));
    let places = rows.flat_map(|[y, z]| (0..radices[0]).map(move |x| [x, y, z]));
    // Around the first switch, all remain: the subnet manager and the seed are there.
    let others = places.filter(|at| at.iter().any(|&along| along > 1));
    let mut state = 7u64;
    let missing = others.filter(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 62 == 0
    });
    let missing_switches = missing.collect();
    let subnet = RoutedTorus::new(&Shape { missing_switches, ..shape.clone() });
    assert!(subnet.try_to_route(None).is_none());
    c.bench_function(name, |b| b.iter(|| subnet.try_to_route(None)));
}

fn torus(c: &mut Criterion) {
    for radix in [8, 16, 24] {
        let shape = Shape { hosts: 2, ..Shape::torus([radix; 3]) };
        scratch(c, &format!("torus-2QoS {radix}x{radix}x{radix}"), &shape);
    }
    for radix in [8, 16] {
        let shape = Shape { hosts: 2, ..Shape::torus([radix; 3]) };
        let broken = Shape { missing_links: vec![([3, 4, 5], 1)], ..shape.clone() };
        let name = format!("torus-2QoS {radix}x{radix}x{radix}");
        scratch(c, &format!("{name} without one cable"), &broken);
        reroute(c, &format!("{name} rerouted after one cable"), &shape, &broken);
        let broken = Shape { missing_switches: vec![[3, 4, 5]], ..shape.clone() };
        reroute(c, &format!("{name} rerouted after one switch"), &shape, &broken);
        let dead = [[3, 4, 5], [6, 1, 2], [1, 6, 7], [5, 2, 0]];
        let without =
            |count: usize| Shape { missing_switches: dead[..count].to_vec(), ..shape.clone() };
        scratch(c, &format!("{name} repaired without two switches"), &without(2));
        reroute(c, &format!("{name} repaired after the second switch"), &broken, &without(2));
        reroute(c, &format!("{name} repaired after the third switch"), &without(2), &without(3));
        reroute(c, &format!("{name} repaired after the fourth switch"), &without(3), &without(4));
        let cable = Shape { missing_links: vec![([1, 1, 1], 0)], ..without(2) };
        reroute(c, &format!("{name} repaired after a further cable"), &without(2), &cable);
        given_up(c, &format!("{name} given up"), &shape);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = torus
}
criterion_main!(benches);
