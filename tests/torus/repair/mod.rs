//! Tori whose damage torus-2QoS refuses are routed around it: with the SLs, SL to VL mappings and intact
//! paths of the undamaged torus, and without credit loops.

mod patterns;
mod trial;

use torus_sm::sim::generate::Shape;
use trial::{Outcome, Undamaged, places};

fn shape(text: &str) -> Shape {
    text.parse().expect("a shape")
}

/// Every 41st pair of dead switches.
#[test]
fn pairs_of_dead_switches_are_routed_around() {
    for text in ["6x6", "4x4x4"] {
        let torus = Undamaged::new(&shape(text));
        let places = places(&torus.shape);
        let pairs =
            places.iter().enumerate().flat_map(|(i, &a)| places[..i].iter().map(move |&b| [a, b]));
        for pair in pairs.step_by(41) {
            let damaged = Shape { missing_switches: pair.to_vec(), ..torus.shape.clone() };
            let outcome = torus.trial(&damaged);
            let is_complete = matches!(outcome, Outcome::Complete | Outcome::Itself);
            assert!(is_complete, "{text} without {pair:?}: {outcome:?}");
        }
    }
}
