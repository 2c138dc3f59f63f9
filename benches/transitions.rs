//! Time to order a transition and to check the old and new routes together, for tori with two hosts
//! per switch after the loss of one link or one switch. Prints the number of Sets first.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use testkit::transition::Scene;
use testkit::transition::torus::{Missing, Torus};
use torus_sm::apply::transition::Steps;
use torus_sm::apply::transition::TransitionStep;
use torus_sm::fabric::SwitchId;
use torus_sm::ids::Lid;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::Checks;
use torus_sm::verify::transition::{PlannedFabric, check};
use torus_sm::wire::attr::AttrId;

fn measure(c: &mut Criterion, name: &str, scene: &Scene) {
    let steps = scene.steps();
    let old = PlannedFabric { fabric: &scene.before, plan: &scene.old };
    let new = PlannedFabric { fabric: &scene.fabric, plan: &scene.new };
    let found = check(old, new, &Checks::new(true), &|switch, lid| commits(&steps, switch, lid));
    println!(
        "{name}: {} Sets, {} of them LFT blocks, {} in between, {} late, {} wait; {} LIDs; a \
         deadlock was possible: {}",
        steps.iter().filter(|step| step.set.is_some()).count(),
        steps.iter().filter(lfts).count(),
        steps.intermediate(),
        steps.iter().filter(|step| step.is_deferred).count(),
        steps.iter().filter(|step| !step.after.is_empty()).count(),
        found.lids,
        found.cycle.is_some(),
    );
    let acknowledged = scene.acknowledged();
    c.bench_function(&format!("order {name}"), |b| {
        b.iter(|| black_box(scene.steps_from(&acknowledged)));
    });
    c.bench_function(&format!("coexistence {name}"), |b| {
        b.iter(|| {
            black_box(check(old, new, &Checks::new(true), &|switch, lid| {
                commits(&steps, switch, lid)
            }))
        });
    });
}

fn lfts(steps: &&TransitionStep) -> bool {
    steps.set.is_some_and(|item| item.attr_id == AttrId::LINEAR_FT)
}

fn commits(steps: &Steps, switch: SwitchId, lid: Lid) -> bool {
    steps.committed_routes().holds(switch, lid)
}

fn tori(c: &mut Criterion) {
    for radix in [8, 16] {
        let shape = Shape { hosts: 2, ..Shape::torus([radix; 3]) };
        let torus = Torus::new(shape, "torus-2QoS");
        let none = Missing::default();
        // In the middle, where most paths cross it.
        let middle = [1, radix, radix * radix].map(|weight| usize::from(weight * (radix / 2)));
        let middle = middle.into_iter().sum();
        let [x, y, z] = [0, 1, 2].map(|axis| Missing {
            cables: [torus.cable(middle, axis)].into(),
            ..Missing::default()
        });
        let switch = torus.switches()[radix as usize * 7];
        let switch = Missing { nodes: [switch].into(), ..Missing::default() };
        for (what, before, after) in [
            ("x cable lost", &none, &x),
            ("x cable back", &x, &none),
            ("y cable lost", &none, &y),
            ("z cable lost", &none, &z),
            ("one switch lost", &none, &switch),
            ("one switch back", &switch, &none),
        ] {
            let scene = torus.scene(before, after).expect("it routes");
            measure(c, &format!("{radix}x{radix}x{radix} {what}"), &scene);
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = tori
}
criterion_main!(benches);
