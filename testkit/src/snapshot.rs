//! Published subnets, as the daemon hands them to the responder.

use std::path::Path;
use std::sync::Arc;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::notes::Note;
use torus_sm::plan::compute::{self, PlanInput, Registrations};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::partitions;
use torus_sm::plan::partitions::Partition;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::publish::Subnet;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, verify};

/// Plans, verifies and publishes a torus, which must route.
pub fn subnet(
    fabric: Fabric,
    options: Options,
    torus_config: &Result<TorusConfig, Vec<Note>>,
    partitions: &[Partition],
) -> Subnet {
    published(fabric, options, torus_config, partitions).expect("the torus routes")
}

/// Plans, verifies and publishes a torus; `None` if torus-2QoS cannot route it.
pub fn published(
    fabric: Fabric,
    options: Options,
    torus_config: &Result<TorusConfig, Vec<Note>>,
    partitions: &[Partition],
) -> Option<Subnet> {
    let chain = Chain::parse("torus-2QoS,no_fallback", &EngineRegistry::standard(Arc::default()))
        .expect("the name of an engine");
    let planned = compute::compute(&PlanInput {
        fabric: &fabric,
        options: &options,
        memory: &Memory::default(),
        torus_config,
        partitions,
        observed_pkeys: &[],
        registrations: Registrations::default(),
        previous: None,
        reregister: &|_| false,
        chain: &chain,
        qos_policy: None,
    });
    let checks = Checks::of(&options);
    let verified = verify(&fabric, planned.ok()?.plan, &checks).expect("a plan without faults");
    Some(Subnet {
        generation: 1,
        fabric: Arc::new(fabric),
        plan: verified.plan().clone(),
        options: Arc::new(options),
        qos_policy: None,
        summary: Arc::new(verified.summary().clone()),
        failed_sets: 0,
        devices: Arc::default(),
        restarts: Arc::default(),
        rate_limits: None,
        repair_view: Arc::default(),
    })
}

/// A published torus with `hosts` hosts at each switch.
pub fn torus(radix: [u16; 3], hosts: u8) -> Subnet {
    of_shape(&Shape { hosts, ..Shape::torus(radix) }, partitions::default)
}

/// A published fabric of this shape with QoS, and with the partitions that `partitions` returns.
pub fn of_shape(shape: &Shape, partitions: impl Fn(&Options) -> Vec<Partition>) -> Subnet {
    let topology = shape.build().expect("the shape fits a fabric");
    let fabric =
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0 exists");
    let options = Options { qos: true, ..Options::default() };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions(&options);
    subnet(fabric, options, &config, &partitions)
}

/// Pairs of different hosts from all over the fabric, the same in each run.
pub fn pairs(subnet: &Subnet, count: usize) -> Vec<[PortId; 2]> {
    let fabric = &subnet.fabric;
    let hosts: Vec<PortId> =
        fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect();
    let pairs = (0..).map(|n| [pick(&hosts, 2 * n), pick(&hosts, 2 * n + 1)]);
    pairs.filter(|[from, to]| from != to).take(count).collect()
}

fn pick(hosts: &[PortId], n: usize) -> PortId {
    hosts[mixed(n) as usize % hosts.len()]
}

fn mixed(n: usize) -> u64 {
    (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}
