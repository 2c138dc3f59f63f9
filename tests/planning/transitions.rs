//! Tables of a running fabric change Set by Set, in any order that the plan of the transition
//! allows: no packet circles, no pair loses its connection that has a route before and after, and
//! in the end the devices hold the plan. Without that order the same changes cause loops and
//! losses.

use crate::watched_port::{ConnectivityWatch, WatchedPort};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use testkit::dice::Dice;
use testkit::transition::draw::scene;
use testkit::transition::mixture::{has_cycle, waits};
use testkit::transition::torus::{Missing, Torus};
use testkit::transition::{Scene, transit};
use testkit::{SimCluster, seeds, settle};
use torus_sm::apply::transition::Steps;
use torus_sm::ids::PortNum;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::Checks;
use torus_sm::verify::transition::{CoexistenceReport, PlannedFabric, check};

/// The environment variable with the seeds of random transitions.
const SEEDS: &str = "TORUS_SM_TRANSITIONS";

/// Applies the changes of a seed in three of the allowed orders.
fn check_orders(seed: u64) {
    let mut dice = Dice::new(seed);
    let scene = scene(&mut dice);
    let steps = scene.steps();
    for _ in 0..3 {
        let faults = transit(&scene, &steps, true, &mut dice);
        assert!(faults.is_empty(), "{SEEDS}={seed}:\n{}", faults.join("\n"));
    }
}

#[test]
fn no_packet_circles_or_is_lost_in_any_allowed_order() {
    seeds(SEEDS, 0..300).for_each(check_orders);
}

/// In these changes, all links of a switch come up again, and it holds multicast entries of which the
/// subnet manager does not know.
#[test]
fn stale_multicast_entries_are_replaced_before_links_are_active() {
    [13_321, 49_972, 87_199, 136_499, 196_731, 212_024].into_iter().for_each(check_orders);
}

fn coexistence(scene: &Scene, steps: &Steps, qos: bool) -> CoexistenceReport {
    let old = PlannedFabric { fabric: &scene.before, plan: &scene.old };
    let new = PlannedFabric { fabric: &scene.fabric, plan: &scene.new };
    let commits = |switch, lid| steps.committed_routes().holds(switch, lid);
    check(old, new, &Checks::new(qos), &commits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn transition_dependencies_equal_those_of_packets(seed in any::<u64>()) {
        let scene = scene(&mut Dice::new(seed));
        let steps = scene.steps();
        let found = coexistence(&scene, &steps, false);
        let waits = waits(&scene, &steps);
        prop_assert_eq!(found.dependencies, waits.len());
        prop_assert_eq!(found.cycle.is_some(), has_cycle(&waits));
    }
}

#[test]
fn without_the_order_packets_circle_and_are_lost() {
    let mut circles = 0;
    let mut losses = 0;
    let mut copies = 0;
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let scene = scene(&mut dice);
        let faults = transit(&scene, &scene.steps(), false, &mut dice);
        circles += usize::from(faults.iter().any(|fault| fault.ends_with("Circles")));
        losses += usize::from(faults.iter().any(|fault| fault.ends_with("Lost")));
        copies += usize::from(faults.iter().any(|fault| fault.ends_with("circles")));
    }
    println!("of 40: {circles} with loops, {losses} with losses, {copies} with copies");
    assert!(circles > 5 && losses > 5 && copies > 5);
}

/// Failures and repairs of a torus, one after the other; the number of transitions.
fn run_events(torus: &Torus, seed: u64, events: usize) -> usize {
    let mut dice = Dice::new(seed);
    let switches = torus.switches();
    let trunks = torus.trunks();
    let mut before = Missing::default();
    let mut count = 0;
    for _ in 0..events {
        let mut after = before.clone();
        let (set, number) = if dice.one_in(4) {
            (&mut after.nodes, switches[dice.index(switches.len())])
        } else {
            (&mut after.cables, trunks[dice.index(trunks.len())])
        };
        if !set.remove(&number) {
            set.insert(number);
        }
        let Some(scene) = torus.scene(&before, &after) else { continue };
        let steps = scene.steps();
        let faults = transit(&scene, &steps, true, &mut dice);
        assert!(faults.is_empty(), "seed {seed}: {}", faults.join("\n"));
        let sets = steps.iter().filter(|step| step.set.is_some()).count();
        let late = steps.iter().filter(|step| step.is_deferred).count();
        let union = coexistence(&scene, &steps, torus.has_qos());
        assert!(union.lids > 0 && union.dependencies > 0);
        println!(
            "{sets} Sets, {} in between, {late} late; {} LIDs, {} groups, deadlock possible: {}",
            steps.intermediate(),
            union.lids,
            union.groups,
            union.cycle.is_some(),
        );
        (before, count) = (after, count + 1);
    }
    count
}

#[test]
fn tori_live_through_failures_and_repairs() {
    let mut count = 0;
    for (seed, shape) in ["4x4x1", "3x3x2", "5x4x1"].iter().enumerate() {
        let mut shape: Shape = shape.parse().expect("a shape");
        shape.hosts = 2;
        for engine in ["torus-2QoS", "minhop"] {
            count += run_events(&Torus::new(shape.clone(), engine), seed as u64, 5);
        }
    }
    assert!(count >= 20, "{count} transitions");
}

/// The effect of a daemon on its fabric while links and switches come and go: (connected pairs,
/// Sets of forwarding tables, faults) for each event.
async fn watched_events() -> Vec<(usize, usize, Vec<String>)> {
    let cluster = SimCluster::healthy("4x4x2", 1);
    let slot = Arc::new(Mutex::new(None));
    let options = cluster.options();
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let wrap = |port| -> Arc<dyn torus_sm::transport::MadPort> {
        Arc::new(WatchedPort::new(port, slot.clone()))
    };
    let sm = cluster.start_behind([0; 3], options, reload, wrap);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let watch = ConnectivityWatch::new(&cluster);
    *slot.lock().expect("no panic") = Some(watch.clone());
    let fabric = &cluster.fabric;
    let shape = &cluster.shape;
    let a = shape.switch_guid([1, 1, 0]);
    let b = shape.switch_guid([3, 2, 1]);
    let events: [&dyn Fn() -> bool; 5] = [
        &|| fabric.unlink(a, PortNum(1)),
        &|| fabric.unlink(b, PortNum(4)),
        &|| fabric.relink(a, PortNum(1)),
        &|| fabric.relink(b, PortNum(4)),
        &|| fabric.reboot(b),
    ];
    let mut seen = Vec::new();
    for event in events {
        // The daemon runs only while this task waits.
        assert!(event());
        watch.begin();
        settle().await;
        seen.push(watch.end());
        assert_eq!(cluster.faults(&sm), [""; 0]);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn rerouting_disconnects_no_pair() {
    for (event, (joined, sets, faults)) in watched_events().await.iter().enumerate() {
        assert!(*joined > 600 && *sets > 0, "event {event}: {joined} pairs, {sets} Sets");
        assert_eq!(faults.first(), None, "event {event}: the first of {}", faults.len());
    }
}
