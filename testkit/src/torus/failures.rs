//! Three tori, and every failure of a single switch or link in them.

use super::subnet::Case;
use torus_sm::sim::generate::Shape;

/// Two dimensions, even and odd radices, rings of four.
pub const RADICES: [[u16; 3]; 3] = [[6, 5, 1], [4, 4, 4], [5, 4, 3]];
/// Position of the backup seed, away from the first one.
const BACKUP: [u16; 3] = [2, 2, 0];

/// A torus with two seeds, so that it can be routed without the switch of either.
pub fn case(shape: &Shape) -> Case {
    Case { config: shape.torus_conf() + &backup_seed(shape), ..Case::of(shape) }
}

fn backup_seed(shape: &Shape) -> String {
    let mut text = String::from("next_seed\n");
    let origin = shape.switch_guid(BACKUP).0;
    for (axis, name) in ['x', 'y', 'z'].into_iter().enumerate() {
        let radix = shape.radix[axis];
        if radix == 1 {
            continue;
        }
        for (sign, step) in [('p', 1), ('m', radix - 1)] {
            let mut at = BACKUP;
            at[axis] = (at[axis] + step) % radix;
            let next = shape.switch_guid(at).0;
            text += &format!("{name}{sign}_link {origin:#x} {next:#x}\n");
        }
        text += &format!("{name}_dateline -{}\n", BACKUP[axis]);
    }
    text
}

/// The torus without each of its switches, and without each of its links.
pub fn failures(healthy: &Shape) -> Vec<Shape> {
    let [rx, ry, rz] = healthy.radix;
    let places = (0..rx).flat_map(|x| (0..ry).flat_map(move |y| (0..rz).map(move |z| [x, y, z])));
    let mut failures = Vec::new();
    for at in places {
        failures.push(Shape { missing_switches: vec![at], ..healthy.clone() });
        for axis in (0..3).filter(|&axis| healthy.radix[axis] > 1) {
            failures.push(Shape { missing_links: vec![(at, axis)], ..healthy.clone() });
        }
    }
    failures
}

/// The failures of all three tori.
pub fn all_failures() -> Vec<Shape> {
    RADICES.iter().flat_map(|&radix| failures(&Shape::torus(radix))).collect()
}

/// A description for messages.
pub fn name(shape: &Shape) -> String {
    let Shape { radix, missing_switches, missing_links, .. } = shape;
    format!("{radix:?} without switches {missing_switches:?}, cables {missing_links:?}")
}
