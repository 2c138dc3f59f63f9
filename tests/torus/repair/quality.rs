//! How good the routes around damage are: load of the channels, length of the paths, and what a further
//! fault changes.

use super::shape;
use super::trial::{Outcome, Undamaged, cables, places, random_damage};
use testkit::torus::random::Random;
use testkit::torus::subnet::Subnet;
use torus_sm::plan::routing::torus::Torus;
use torus_sm::sim::generate::Shape;

/// Maximum load of a channel in percent of the undamaged torus.
const MAX_LOAD_PERCENT: u32 = 150;
/// Maximum length of a path in percent of the diameter.
const MAX_LENGTH_PERCENT: usize = 150;

/// Asserts load and length with two random dead switches, and prints them.
fn check_burden(torus: &Undamaged, patterns: usize) {
    let healthy = torus.judge.next_hops(&torus.subnet, &torus.routing).burden();
    let mut random = Random::new(57);
    let mut longest = 0;
    let mut loads = Vec::new();
    for _ in 0..patterns {
        let damaged = random_damage(&torus.shape, &mut random, 2, 0);
        let subnet = Subnet::new(&torus.case(&damaged));
        let routing = subnet.route(None).expect("two dead switches are routed around");
        let is_repaired = Torus::of(&routing).is_some_and(|torus| torus.repair().is_some());
        let burden = torus.judge.next_hops(&subnet, &routing).burden();
        longest = longest.max(burden.longest);
        if is_repaired {
            loads.push((100 * burden.most_paths / healthy.most_paths, damaged.missing_switches));
        }
    }
    loads.sort();
    let middle = loads[loads.len() / 2].0;
    println!(
        "{}, {} of {patterns} patterns repaired: load in percent of undamaged, median {middle}, most {:?}; longest path {longest} instead of {}",
        torus.shape,
        loads.len(),
        &loads[loads.len().saturating_sub(8)..],
        healthy.longest
    );
    assert!(100 * longest <= MAX_LENGTH_PERCENT * healthy.longest);
    assert!(loads.iter().all(|(load, _)| *load <= MAX_LOAD_PERCENT), "{loads:?}");
}

/// Asserts how many next hops of intact paths a fault changes, as a mean over random sequences of lost
/// switches and cables.
fn check_changes(torus: &Undamaged, [sequences, faults]: [usize; 2], max_mean: usize) {
    let mut random = Random::new(91);
    let mut changes = Vec::new();
    for _ in 0..sequences {
        let mut damaged = torus.shape.clone();
        let mut before = torus.judge.next_hops(&torus.subnet, &torus.routing);
        for _ in 0..faults {
            if random.percent(50) {
                let places = places(&torus.shape);
                damaged.missing_switches.push(places[random.below(places.len())]);
            } else {
                let cables = cables(&torus.shape);
                damaged.missing_links.push(cables[random.below(cables.len())]);
            }
            let subnet = Subnet::new(&torus.case(&damaged));
            // A refused fault ends the sequence.
            let Ok(routing) = subnet.route(None) else { break };
            let now = torus.judge.next_hops(&subnet, &routing);
            changes.push(now.changes_of_intact_paths(&before));
            before = now;
        }
    }
    let sum: usize = changes.iter().sum();
    println!(
        "{}: {} faults change {:.1} next hops of intact paths on average, at most {}",
        torus.shape,
        changes.len(),
        sum as f64 / changes.len() as f64,
        changes.iter().max().copied().unwrap_or(0)
    );
    assert!(2 * changes.len() >= sequences * faults, "most sequences end early");
    assert!(sum <= max_mean * changes.len(), "{}: {changes:?}", torus.shape);
}

#[test]
fn detours_stay_short_and_spread() {
    check_burden(&Undamaged::new(&shape("5x5x5")), 2);
}

/// Detours around dead switches close to each other would share a channel.
#[test]
fn overloaded_channels_are_relieved() {
    let torus = Undamaged::sampled(&shape("8x8x8"), 127);
    let healthy = torus.judge.next_hops(&torus.subnet, &torus.routing).burden();
    let missing_switches = vec![[2, 7, 5], [2, 6, 6]];
    let damaged = Shape { missing_switches, ..torus.shape.clone() };
    assert_eq!(torus.trial(&damaged), Outcome::Complete);
    let subnet = Subnet::new(&torus.case(&damaged));
    let routing = subnet.route(None).expect("it is routed around");
    let burden = torus.judge.next_hops(&subnet, &routing).burden();
    assert!(100 * burden.most_paths <= MAX_LOAD_PERCENT * healthy.most_paths, "{burden:?}");
    assert!(100 * burden.longest <= MAX_LENGTH_PERCENT * healthy.longest, "{burden:?}");
}

#[test]
fn a_fault_changes_few_intact_paths() {
    check_changes(&Undamaged::new(&shape("6x6")), [5, 5], 5);
}

#[test]
#[ignore = "minutes"]
fn detours_stay_short_and_spread_in_8x8x8() {
    check_burden(&Undamaged::sampled(&shape("8x8x8"), 31), 100);
}

#[test]
#[ignore = "minutes"]
fn a_fault_changes_few_intact_paths_in_many_sequences() {
    check_changes(&Undamaged::new(&shape("6x6")), [200, 6], 5);
    check_changes(&Undamaged::sampled(&shape("8x8x8"), 31), [40, 8], 20);
}
