//! Time to find the QoS level of a query among 1,000 rules, on an 8x8x8 torus.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use torus_sm::config::qos_policy::QosPolicy;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::Pkey;
use torus_sm::plan::qos::policy::{EffectivePolicy, QosQuery};
use torus_sm::sim::generate::Shape;

const RULES: usize = 1000;
/// Queries per iteration.
const QUERIES: usize = 4096;

/// Rules with every kind of match, few of which apply to a query.
fn policy() -> String {
    let mut text = String::from("port-groups\n");
    for group in 0..16 {
        let first = 0x1000_0001 + group * 0x800;
        let _ = writeln!(
            text,
            "port-group\nname: g{group}\nport-guid: {first:#x}-{:#x}\nend-port-group",
            first + 0x7ff
        );
    }
    text += "end-port-groups\nqos-levels\nqos-level\nname: DEFAULT\nsl: 0\nend-qos-level\n\
             end-qos-levels\nqos-match-rules\n";
    for rule in 0..RULES {
        text += "qos-match-rule\n";
        let _ = match rule % 4 {
            0 => writeln!(text, "service-id: {:#x}-{:#x}", rule * 16, rule * 16 + 9),
            1 => writeln!(text, "source: g{}\nqos-class: {}", rule % 16, rule % 4096),
            2 => writeln!(text, "destination: g{}\npkey: {:#x}", rule % 16, rule + 1),
            _ => writeln!(text, "source: g{}\nservice-id: {:#x}", rule % 16, rule * 32),
        };
        text += "qos-level-name: DEFAULT\nend-qos-match-rule\n";
    }
    text + "end-qos-match-rules\n"
}

fn levels(criterion: &mut Criterion) {
    let shape = Shape { hosts: 2, ..Shape::torus([8; 3]) };
    let topology = shape.build().expect("the shape fits a fabric");
    let fabric =
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0 exists");
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), &policy());
    let policy = Arc::new(policy.unwrap_or_else(|| panic!("{findings:?}")));
    let (made, _) = EffectivePolicy::new(policy, &fabric, &Default::default(), &[], None);
    let ports: Vec<PortId> = fabric.end_ports().collect();
    let queries = (0..QUERIES).map(|n| QosQuery {
        from: pick(&ports, n),
        to: Some(pick(&ports, n + QUERIES)),
        service_id: (!n.is_multiple_of(3)).then_some((n * 7 % 16_000) as u64),
        qos_class: n.is_multiple_of(4).then_some((n % 4096) as u16),
        pkey: n.is_multiple_of(2).then_some(Pkey((n % RULES) as u16 | 0x8000)),
    });
    let queries: Vec<QosQuery> = queries.collect();
    let mut group = criterion.benchmark_group("QoS level");
    group.throughput(Throughput::Elements(QUERIES as u64));
    group.bench_function("of 1,000 rules", |bencher| {
        bencher.iter(|| queries.iter().filter_map(|asked| made.level(black_box(asked))).count());
    });
    group.finish();
}

fn pick(ports: &[PortId], n: usize) -> PortId {
    ports[n.wrapping_mul(0x9E37_79B1) % ports.len()]
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = levels
}
criterion_main!(benches);
