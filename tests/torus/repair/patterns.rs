//! Shares of damage patterns that are routed completely. The full sets take minutes:
//!
//! ```sh
//! cargo test --release --test torus -- --ignored repair::patterns --nocapture
//! ```

use super::shape;
use super::trial::{Outcome, Undamaged, cables, places, random_damage, without_box};
use testkit::torus::random::Random;
use torus_sm::sim::generate::Shape;

/// What is counted over the patterns of a set.
#[derive(Default)]
struct Tally {
    patterns: usize,
    /// Routed by torus-2QoS itself.
    itself: usize,
    complete: usize,
    partial: usize,
    refused: usize,
    /// The largest number of pairs of switches without a route.
    most_unrouted: usize,
    /// Patterns in which all switches have a position.
    placed: usize,
    reasons: Vec<String>,
}

impl Tally {
    fn of(torus: &Undamaged, patterns: impl Iterator<Item = Shape>) -> Self {
        let mut tally = Self::default();
        for pattern in patterns {
            tally.patterns += 1;
            tally.placed += usize::from(torus.unplaced(&pattern) == Some(0));
            match torus.trial(&pattern) {
                Outcome::Itself => tally.itself += 1,
                Outcome::Complete => tally.complete += 1,
                Outcome::Partial(pairs) => {
                    tally.partial += 1;
                    tally.most_unrouted = tally.most_unrouted.max(pairs);
                }
                Outcome::Refused(reason) => {
                    tally.refused += 1;
                    tally.reasons.push(format!("{:?} {reason}", pattern.missing_switches));
                }
            }
        }
        tally
    }

    /// Prints the counts, and asserts that at least `permille` of the patterns are complete.
    fn check(&self, name: &str, permille: usize) {
        println!(
            "{name}: {} of {} complete, of these {} without repair, {} partial (at most {} pairs), {} refused; all placed in {}",
            self.complete + self.itself,
            self.patterns,
            self.itself,
            self.partial,
            self.most_unrouted,
            self.refused,
            self.placed
        );
        for reason in self.reasons.iter().take(8) {
            println!("    {reason}");
        }
        assert!(1000 * (self.complete + self.itself) >= permille * self.patterns, "{name}");
    }
}

fn pairs_of_switches(shape: &Shape) -> impl Iterator<Item = Shape> {
    let places = places(shape);
    let pairs: Vec<[[u16; 3]; 2]> = (0..places.len())
        .flat_map(|i| (0..i).map(move |j| [i, j]))
        .map(|pair| pair.map(|index| places[index]))
        .collect();
    let shape = shape.clone();
    pairs.into_iter().map(move |pair| Shape { missing_switches: pair.to_vec(), ..shape.clone() })
}

fn pairs_of_cables(shape: &Shape) -> impl Iterator<Item = Shape> {
    let cables = cables(shape);
    let pairs: Vec<[([u16; 3], usize); 2]> = (0..cables.len())
        .flat_map(|i| (0..i).map(move |j| [i, j]))
        .map(|pair| pair.map(|index| cables[index]))
        .collect();
    let shape = shape.clone();
    pairs.into_iter().map(move |pair| Shape { missing_links: pair.to_vec(), ..shape.clone() })
}

/// Prints and checks a set of random patterns with dead switches and cut cables.
fn random_set(torus: &Undamaged, [count, switches, cables]: [usize; 3], permille: usize) {
    let mut random = Random::new(4_300 + (switches * 100 + cables) as u64);
    let shape = &torus.shape;
    let patterns = (0..count).map(|_| random_damage(shape, &mut random, switches, cables));
    let name = format!("{shape}, {switches} switches, {cables} cables");
    Tally::of(torus, patterns).check(&name, permille);
}

#[test]
#[ignore = "minutes"]
fn every_pair_of_switches() {
    for (text, permille) in [("6x6", 1000), ("4x4x4", 1000), ("8x4x2", 1000), ("8x8", 985)] {
        let torus = Undamaged::new(&shape(text));
        Tally::of(&torus, pairs_of_switches(&torus.shape))
            .check(&format!("{text}, all pairs"), permille);
    }
}

#[test]
#[ignore = "minutes"]
fn every_pair_of_switches_of_5x5x5() {
    let torus = Undamaged::sampled(&shape("5x5x5"), 7);
    Tally::of(&torus, pairs_of_switches(&torus.shape)).check("5x5x5, all pairs", 1000);
}

#[test]
#[ignore = "minutes"]
fn every_pair_of_cables() {
    let torus = Undamaged::new(&shape("6x6"));
    Tally::of(&torus, pairs_of_cables(&torus.shape)).check("6x6, all pairs of cables", 1000);
}

#[test]
#[ignore = "minutes"]
fn random_damage_in_two_dimensions() {
    let torus = Undamaged::new(&shape("6x6"));
    for (switches, cables, permille) in [(4, 0, 990), (8, 0, 780), (0, 8, 990), (2, 2, 990)] {
        random_set(&torus, [1000, switches, cables], permille);
    }
    random_set(&Undamaged::new(&shape("8x8")), [1000, 4, 0], 940);
}

#[test]
#[ignore = "minutes"]
fn random_damage_in_a_mesh() {
    random_set(&Undamaged::new(&shape("6mx6m")), [1000, 2, 0], 990);
}

#[test]
#[ignore = "minutes"]
fn random_damage_in_8x8x8() {
    let torus = Undamaged::sampled(&shape("8x8x8"), 31);
    for (switches, cables, permille) in
        [(2, 0, 1000), (4, 0, 1000), (4, 4, 1000), (8, 0, 990), (16, 0, 990)]
    {
        random_set(&torus, [200, switches, cables], permille);
    }
    let mut random = Random::new(4_388);
    for (name, size, permille) in [("block", [2, 2, 2], 1000), ("row", [8, 1, 1], 990)] {
        let patterns = (0..200).map(|_| without_box(&torus.shape, &mut random, size));
        Tally::of(&torus, patterns).check(&format!("8x8x8, a dead {name}"), permille);
    }
}

#[test]
#[ignore = "minutes"]
fn random_damage_in_16x16x16() {
    let torus = Undamaged::sampled(&shape("16x16x16"), 511);
    for (switches, cables) in [(2, 0), (8, 0), (4, 4)] {
        random_set(&torus, [20, switches, cables], 1000);
    }
}

/// Paths that were moved away from a loaded channel must carry along all switches whose paths lead over theirs.
#[test]
fn moved_detours_close_no_loop() {
    let torus = Undamaged::sampled(&shape("8x8x8"), 31);
    let damaged = Shape {
        missing_switches: vec![[6, 5, 4], [4, 7, 0], [7, 4, 2], [2, 3, 3]],
        missing_links: vec![([0, 6, 6], 1), ([7, 6, 0], 0), ([5, 3, 5], 1), ([1, 2, 6], 0)],
        ..torus.shape.clone()
    };
    assert_eq!(torus.trial(&damaged), Outcome::Complete);
}
