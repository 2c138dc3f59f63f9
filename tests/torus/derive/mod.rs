//! Deriving torus-2QoS.conf from links alone: the result must describe the original torus, up to
//! names of axes, reflection and rotation.

mod comparison;
mod fixtures;

use comparison::{Verdict, compare};
use fixtures::{Case, Dice, Strays, damage, random_shape};
use std::ops::Range;
use std::path::Path;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::ids::Guid;
use torus_sm::plan::routing::torus::Torus;
use torus_sm::sim::generate::Shape;
use torus_sm::torus_config::{DeriveError, DerivedTorus, derive};

/// Checks that each seed alone grows to the same coordinates, and no two share a switch.
fn check_seeds(case: &Case, derived: &DerivedTorus, coordinates: &[Option<[u32; 3]>]) {
    let mut used: Vec<Guid> = Vec::new();
    for seed in &derived.config.seeds {
        let mut own: Vec<Guid> =
            seed.links.iter().flatten().flat_map(|link| [link.origin, link.neighbor]).collect();
        own.sort();
        own.dedup();
        assert!(own.iter().all(|guid| !used.contains(guid)), "{:?}", case.shape);
        used.extend(own);
        let alone = TorusConfig { seeds: vec![*seed], ..derived.config.clone() };
        let routing = case.route(alone).unwrap_or_else(|no| panic!("{:?}: {no:?}", case.shape));
        assert_eq!(case.coordinates(&routing), coordinates, "{:?}", case.shape);
    }
}

fn whole(case: &Case) -> DerivedTorus {
    derive(&case.fabric).unwrap_or_else(|error| panic!("{:?}: {error}", case.shape))
}

#[test]
fn healthy_fabrics_are_read_exactly() {
    let mut dice = Dice(1);
    for _ in 0..200 {
        let case = Case::new(random_shape(&mut dice), Strays::default(), &mut dice);
        let derived = whole(&case);
        let ours = case.route(derived.config.clone());
        let ours = ours.unwrap_or_else(|no| panic!("{:?}: {no:?}", case.shape));
        assert!(
            derived.missing_switches.is_empty() && derived.missing_cables.is_empty(),
            "{:?}",
            case.shape
        );
        assert!(
            derived.stray_cables.is_empty() && derived.outside().count() == 0,
            "{:?}",
            case.shape
        );
        assert_eq!(Torus::of(&ours).unwrap().switches().count(), case.at.len());
        let verdict = compare(&case);
        let is_good = matches!(verdict, Verdict::Right | Verdict::Ambiguous(_));
        assert!(is_good, "{:?}: {verdict:?}", case.shape);
        check_seeds(&case, &derived, &case.coordinates(&ours));
    }
}

/// torus-2QoS routes around several missing switches only along z.
#[test]
fn two_dimensions_are_y_and_z() {
    for radix in [[6, 5, 1], [3, 7, 1], [1, 4, 5], [5, 1, 5], [2, 3, 1]] {
        let case = Case::new(Shape::torus(radix), Strays::default(), &mut Dice(7));
        let size = whole(&case).config.size.unwrap();
        assert!(size.radix[0] == 1 && size.radix[1] > 1 && size.radix[2] > 1, "{size:?}");
        assert_eq!(compare(&case), Verdict::Right, "{size:?}");
    }
}

/// The verdicts on fabrics by number; prints those that are not right.
fn survey(numbers: Range<u64>, has_strays: bool) -> Vec<(u64, Verdict)> {
    let verdict = |number: u64| {
        let mut dice = Dice(1000 + number);
        let mut shape = random_shape(&mut dice);
        let mut strays = Strays::default();
        if has_strays {
            strays = Strays { cables: dice.below(3), switches: dice.below(2) };
        }
        if !has_strays || dice.below(2) == 0 {
            damage(&mut shape, &mut dice);
        }
        let case = Case::new(shape, strays, &mut dice);
        let verdict = compare(&case);
        if verdict != Verdict::Right {
            let Shape { missing_switches, missing_links, .. } = &case.shape;
            println!(
                "{number} without {missing_switches:?}{missing_links:?}, {strays:?}: {verdict}"
            );
        }
        (number, verdict)
    };
    numbers.map(verdict).collect()
}

/// True if there may be too few faces to tell the dimensions: with several missing links in two
/// dimensions, and with any missing link in a radix of 2.
fn is_thin(shape: &Shape) -> bool {
    let active = shape.radix.iter().filter(|&&radix| radix > 1).count();
    shape.radix.contains(&2) || (active < 3 && !shape.missing_links.is_empty())
}

#[test]
fn damaged_fabrics_with_enough_left_are_read_exactly() {
    let mut compared = 0;
    for number in 0..500 {
        let mut dice = Dice(1000 + number);
        let mut shape = random_shape(&mut dice);
        let switches: u32 = shape.radix.iter().map(|&radix| u32::from(radix)).product();
        damage(&mut shape, &mut dice);
        if switches < 9 || is_thin(&shape) || compared == 60 {
            continue;
        }
        let case = Case::new(shape, Strays::default(), &mut dice);
        let Ok(theirs) = case.route(case.truth.clone()) else { continue };
        if Torus::of(&theirs).unwrap().switches().count() < case.at.len() {
            continue;
        }
        let verdict = compare(&case);
        let is_good = matches!(verdict, Verdict::Right | Verdict::Ambiguous(_));
        assert!(is_good, "{number}: {:?}: {verdict:?}", case.shape);
        let derived = whole(&case);
        let ours = case.route(derived.config.clone()).expect("a correct result");
        check_seeds(&case, &derived, &case.coordinates(&ours));
        compared += 1;
    }
    assert!(compared >= 50, "{compared}");
}

/// Damaged fabrics among the first fifty that can also be read as another torus with no more
/// faults, each with the reason. A ring of four is the product of two pairs, so that even a healthy
/// torus with such a ring can be read in several ways.
const TIES: [(u64, &str); 8] = [
    (
        0,
        "4x5x2 without a switch: the ring of four and the pair are 2x2x2, in other pairs 4x2 again",
    ),
    (21, "4x2 without two cables: 4x2 along other sides of the cube, an open 4x2, or 2x2x2"),
    (28, "4x2 without a switch: a cube without a corner, 4x2 in three ways, or 2x2x2"),
    (31, "4x2x2 without a switch: the pairs of two axes make a ring of four, as in 4x4"),
    (32, "4x2 without a cable: 4x2 along other sides of the cube, an open 4x2, or 2x2x2"),
    (36, "5mx2x4 without two cables: the ring of four and the pair are 2x2x2, paired as above"),
    (39, "2x2x2 without two cables: each pair of its axes makes a ring of four"),
    (45, "4x4mx4 without three cables: two rings of four are four pairs, and may be paired anew"),
];

/// No fabric that lacks a switch or up to three links is misread. Some can be read as another torus
/// with no more faults, so that their links do not determine the true one: these are reported as
/// ambiguous.
/// `TORUS_DAMAGED_FABRICS` is the number of fabrics, 50 by default.
#[test]
fn damaged_fabrics_keep_their_coordinates() {
    let count = std::env::var("TORUS_DAMAGED_FABRICS").ok();
    let count = count.map_or(50, |count| count.parse().expect("a number of fabrics"));
    let verdicts = survey(0..count, false);
    let all = |is: fn(&Verdict) -> bool| -> Vec<u64> {
        verdicts.iter().filter(|(_, verdict)| is(verdict)).map(|(number, _)| *number).collect()
    };
    let wrong = all(|verdict| matches!(verdict, Verdict::Wrong(_)));
    let misled = all(|verdict| matches!(verdict, Verdict::Misled(_)));
    let tied = all(|verdict| matches!(verdict, Verdict::Ambiguous(_)));
    println!("{count} damaged fabrics: {wrong:?} wrong, {misled:?} misled, {tied:?} tied");
    assert!(wrong.is_empty(), "{wrong:?}");
    let mut others = [misled, tied].concat();
    others.sort_unstable();
    assert!(6 * others.len() as u64 <= count, "too many are ambiguous: {others:?}");
    others.retain(|&number| number < 50);
    let known: Vec<u64> = TIES.map(|(number, _)| number).into_iter().collect();
    assert!(count < 50 || others == known, "{others:?}");
}

#[test]
fn strays_are_reported() {
    let verdicts = survey(0..50, true);
    let wrong = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Wrong(_)));
    let wrong: Vec<u64> = wrong.map(|(number, _)| *number).collect();
    assert!(wrong.len() <= 10, "{wrong:?}");
}

fn refusal(text: &str) -> DeriveError {
    let topology = torus_sm::fabric::ibnet::parse(Path::new("net"), text).unwrap();
    let fabric = Fabric::from_topology(&topology, 0, &SyntheticView::default()).unwrap();
    derive(&fabric).unwrap_err()
}

#[test]
fn other_topologies_are_rejected_with_a_reason() {
    assert_eq!(
        refusal("Ca 1 \"a\"\n[1] \"b\"[1]\n\nCa 1 \"b\"\n[1] \"a\"[1]\n"),
        DeriveError::NoSwitches
    );
    assert_eq!(
        refusal("Switch 2 \"s\"\n[1] \"a\"[1]\n\nCa 1 \"a\"\n[1] \"s\"[1]\n"),
        DeriveError::NoCables(1)
    );
    // Four leaves below three spines.
    let mut text = String::new();
    for leaf in 1..=4 {
        text += &format!("Switch 8 \"l{leaf}\"\n");
        (1..=3).for_each(|spine| text += &format!("[{spine}] \"s{spine}\"[{leaf}]\n"));
        text += "\n";
    }
    for spine in 1..=3 {
        text += &format!("Switch 8 \"s{spine}\"\n");
        (1..=4).for_each(|leaf| text += &format!("[{leaf}] \"l{leaf}\"[{spine}]\n"));
        text += "\n";
    }
    assert!(matches!(refusal(&text), DeriveError::TooMuchInCommon { common: 4, .. }));
}
