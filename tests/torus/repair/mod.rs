//! Tori whose damage torus-2QoS refuses are routed around it: with the SLs, SL to VL mappings and intact
//! paths of the undamaged torus, and without credit loops.

mod judge;
mod patterns;
mod quality;
mod seeds;
mod trial;
mod verdict;

use testkit::torus::random::Random;
use torus_sm::sim::generate::Shape;
use trial::{Outcome, Undamaged, places, random_damage};

fn shape(text: &str) -> Shape {
    text.parse().expect("a shape")
}

/// Every 101st pair of dead switches.
#[test]
fn pairs_of_dead_switches_are_routed_around() {
    for text in ["6x6", "4x4x4"] {
        let torus = Undamaged::new(&shape(text));
        let places = places(&torus.shape);
        let pairs =
            places.iter().enumerate().flat_map(|(i, &a)| places[..i].iter().map(move |&b| [a, b]));
        for pair in pairs.step_by(101) {
            let damaged = Shape { missing_switches: pair.to_vec(), ..torus.shape.clone() };
            let outcome = torus.trial(&damaged);
            let is_complete = matches!(outcome, Outcome::Complete | Outcome::Itself);
            assert!(is_complete, "{text} without {pair:?}: {outcome:?}");
        }
    }
}

/// Dead switches and cut cables, parallel cables and meshes.
#[test]
fn random_damage_is_routed_around() {
    let parallel = Shape { parallel: 2, ..shape("4x4x3") };
    for (healthy, switches, cables) in [
        (shape("6x6"), 4, 0),
        (shape("6x6"), 0, 8),
        (shape("6mx6m"), 2, 0),
        (shape("4x5x3"), 3, 3),
        (parallel, 3, 4),
    ] {
        let torus = Undamaged::new(&healthy);
        let mut random = Random::new(77);
        let outcomes = (0..5).map(|_| {
            let damaged = random_damage(&healthy, &mut random, switches, cables);
            torus.trial(&damaged)
        });
        let is_complete =
            |outcome: &Outcome| matches!(outcome, Outcome::Complete | Outcome::Itself);
        let complete = outcomes.filter(is_complete).count();
        assert!(complete >= 4, "{healthy}: {complete} of 5");
    }
}

/// Unused and open dimensions, the shortest rings, several hosts at a switch, several LIDs at a port.
#[test]
fn unusual_shapes_are_routed_around() {
    let bundles = Shape { parallel: 3, ..shape("4x4x2") };
    let crowded = Shape { hosts: 3, parallel: 2, ..shape("5x1x5") };
    for (healthy, lmc, switches, cables) in [
        (shape("1x6x6"), 0, 2, 0),
        (shape("6x1x6"), 0, 2, 1),
        (shape("2x5x4"), 0, 2, 1),
        (shape("4x2x4"), 1, 2, 0),
        (shape("4x4x1"), 0, 1, 2),
        (shape("3x3x3"), 2, 2, 2),
        (shape("4mx5x3m"), 0, 2, 0),
        (bundles, 1, 2, 2),
        (crowded, 2, 1, 3),
    ] {
        let torus = Undamaged::with_lmc(&healthy, lmc);
        let mut random = Random::new(78);
        for _ in 0..3 {
            let damaged = random_damage(&healthy, &mut random, switches, cables);
            let outcome = torus.trial(&damaged);
            let is_routed = !matches!(outcome, Outcome::Refused(_));
            assert!(is_routed, "{healthy} without {:?}: {outcome:?}", damaged.missing_switches);
        }
    }
}

/// Switches that only the completion places, or that fit two positions, leave cables over, as wrong radices do.
#[test]
fn right_radices_are_not_taken_for_wrong_ones() {
    for (text, dead) in [
        ("6mx6m", vec![[4, 5, 0], [4, 2, 0]]),
        ("6mx6m", vec![[5, 4, 0], [1, 4, 0]]),
        ("6x6", vec![[1, 4, 0], [2, 0, 0], [4, 0, 0], [0, 0, 0]]),
    ] {
        let torus = Undamaged::new(&shape(text));
        let damaged = Shape { missing_switches: dead, ..torus.shape.clone() };
        let outcome = torus.trial(&damaged);
        assert_eq!(outcome, Outcome::Complete, "{text} without {:?}", damaged.missing_switches);
    }
}
