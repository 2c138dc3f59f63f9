//! Time to verify the plans of tori with two hosts per switch: every LID from every switch, and the
//! channel dependency graph.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use testkit::planning::PlanSetup;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, verify};

fn check(c: &mut Criterion, name: &str, shape: &Shape) {
    let site = PlanSetup::generated(shape, "torus-2QoS,no_fallback", true);
    let plan = site.plan(&[]).expect("a healthy torus");
    let checks = Checks::new(true);
    c.bench_function(name, |b| {
        b.iter_batched(
            || plan.clone(),
            |plan| verify(&site.fabric, plan, &checks).expect("a clean plan"),
            BatchSize::PerIteration,
        );
    });
}

fn torus(c: &mut Criterion) {
    for radix in [8, 16, 24] {
        let shape = Shape { hosts: 2, ..Shape::torus([radix; 3]) };
        check(c, &format!("verify {radix}x{radix}x{radix}"), &shape);
    }
    let mut broken = Shape { hosts: 2, ..Shape::torus([8; 3]) };
    broken.missing_links.push(([3, 4, 5], 1));
    check(c, "verify 8x8x8 without one cable", &broken);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = torus
}
criterion_main!(benches);
