//! SMPs per second that the simulated fabric answers in process, over directed routes of several
//! hops, with many in flight as in a sweep.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Lid, MKey, PortNum};
use torus_sm::sim::SimFabric;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::attr::AttrId;
use torus_sm::wire::mad::Method;
use torus_sm::wire::smp::{DirectedRoute, SmpFields, SmpRoute, request};

const BATCH: u64 = 1000;

#[derive(Default)]
struct Counter(AtomicU64, tokio::sync::Notify);

impl MadSink for Counter {
    fn deliver(&self, delivery: Delivery<'_>) {
        assert_eq!(delivery.outcome, Outcome::Arrived);
        black_box(delivery.mad);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn idle(&self) {
        self.1.notify_one();
    }
    fn closed(&self, _: &str) {}
}

fn smps(criterion: &mut Criterion) {
    let shape: Shape = "8x8x8".parse().expect("a shape");
    let fabric = SimFabric::new(&shape.build().expect("fits"), Hardware::default(), 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let counter = Arc::new(Counter::default());
    let guard = runtime.enter();
    let port = fabric.attach(shape.host_guid([0; 3], 0), PortNum(1), counter.clone(), true);
    drop(guard);
    let port = port.expect("the host exists");
    let exits = [1, 1, 1, 3, 3, 5, 5].map(PortNum);
    let route = SmpRoute::Directed(DirectedRoute::new(&exits).expect("few hops"));
    let mut group = criterion.benchmark_group("sim");
    group.throughput(Throughput::Elements(BATCH));
    for (name, attr) in [("get node_info", AttrId::NODE_INFO), ("get lft", AttrId::LINEAR_FT)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                counter.0.store(0, Ordering::Relaxed);
                for tid in 0..BATCH {
                    let mad = request(
                        &route,
                        SmpFields {
                            method: Method::GET,
                            attr_id: attr,
                            attr_mod: 0,
                            m_key: MKey::NONE,
                            tid,
                        },
                        &[0; 64],
                    );
                    let to = Address::smi(Lid::PERMISSIVE);
                    let timeout = Some(Duration::from_secs(60));
                    let agent = Agent::SmiDirected;
                    port.post(&Outgoing { agent, to, timeout, retries: 1, mad: &mad.0 })
                        .expect("the port accepts the MAD");
                }
                runtime.block_on(async {
                    while counter.0.load(Ordering::Relaxed) < BATCH {
                        counter.1.notified().await;
                    }
                });
            });
        });
    }
    group.finish();
}

/// Prints the memory of the largest fabric for which the simulator is sized.
fn memory(_: &mut Criterion) {
    let mut shape: Shape = "24x24x24".parse().expect("a shape");
    shape.hosts = 3;
    let topology = shape.build().expect("fits");
    let before = resident();
    let fabric = SimFabric::new(&topology, Hardware::default(), 1);
    let nodes = topology.nodes.len();
    let after = resident();
    if let (Some(before), Some(after)) = (before, after) {
        println!("sim/memory: {nodes} nodes, {} MiB", after.saturating_sub(before) >> 10);
    }
    drop(fabric);
}

/// Resident memory of this process in KiB.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

criterion_group!(benches, smps, memory);
criterion_main!(benches);
