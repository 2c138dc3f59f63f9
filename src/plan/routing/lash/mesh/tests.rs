//! Polynomials, shapes and orders. The comparison with OpenSM is in the integration tests.

use super::geometry::LocalDistances;
use super::polynomial::characteristic;
use super::shapes::KnownShapes;
use super::*;
use crate::fabric::Fabric;
use crate::fabric::SwitchId;
use crate::fabric::synthetic::SyntheticView;
use crate::plan::routing::switch_graph::SwitchGraph;
use crate::sim::generate::Shape;
use proptest::prelude::*;

fn neighbours(shape: &Shape) -> Neighbours {
    let topology = shape.build().expect("a shape that fits");
    let fabric = Fabric::from_topology(&topology, 0, &SyntheticView::default());
    let fabric = fabric.expect("a node");
    Neighbours::new(&fabric, &SwitchGraph::new(&fabric, &[]))
}

fn mesh(radix: [u16; 3]) -> Shape {
    Shape { looped: [false; 3], hosts: 0, ..Shape::torus(radix) }
}

fn notes(shape: &Shape) -> Vec<String> {
    analyse(neighbours(shape)).notes.into_iter().map(|note| note.text).collect()
}

#[test]
fn polynomials_of_small_matrices() {
    let ring_of_5 = LocalDistances::new(2, |from, to| if from == to { 0 } else { 3 });
    assert_eq!(characteristic(&ring_of_5), [-9, 0, 1]);
    let cube = LocalDistances::new(3, |from, to| if from == to { 0 } else { 2 });
    assert_eq!(characteristic(&cube), [16, 12, 0, -1]);
    assert_eq!(characteristic(&LocalDistances::new(0, |_, _| 0)), [1]);
}

proptest! {
    /// The polynomial is 0 at eigenvalues: those of a circulant matrix of order 3 or 4 with real
    /// entries are known.
    #[test]
    fn polynomials_have_eigenvalues_as_roots(near in -9_i32..9, far in -9_i32..9) {
        let ring = LocalDistances::new(4, |from, to| match (from + 4 - to) % 4 {
            0 => 0,
            2 => far,
            _ => near,
        });
        let polynomial = characteristic(&ring);
        for root in [2 * near + far, far - 2 * near, -far] {
            let value = polynomial.iter().rev().fold(0, |sum, &next| sum * root + next);
            prop_assert_eq!(value, 0);
        }
    }
}

#[test]
fn opensm_knows_a_hundred_neighbourhoods() {
    assert_eq!(KnownShapes::new().len(), 100);
}

#[test]
fn shapes_of_meshes_and_tori_are_found() {
    let torus = Shape { hosts: 0, ..Shape::torus([8, 7, 3]) };
    assert_eq!(
        notes(&torus),
        [
            "mesh analysis: 1 node class, most common node shape is 6+ x 6+ x 3 mesh".to_owned(),
            found("8 x 7 x 3")
        ]
    );
    let plane = notes(&mesh([5, 7, 1]));
    assert_eq!(plane.last(), Some(&found("5 x 7")));
    let cube = notes(&mesh([2, 2, 2]));
    assert_eq!(cube.last(), Some(&found("2 x 2 x 2")));
}

fn found(size: &str) -> String {
    format!("found {size} mesh")
}

#[test]
fn fabrics_without_a_mesh_keep_their_order() {
    let before = neighbours(&Shape { hosts: 0, ..Shape::torus([7, 1, 1]) });
    let after = analyse(neighbours(&Shape { hosts: 0, ..Shape::torus([7, 1, 1]) }));
    assert_eq!(before.switches, after.neighbours.switches);
    assert_eq!(
        after.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(),
        ["mesh analysis: 1 node class, most common node shape is unknown geometry"]
    );
}

#[test]
fn the_order_follows_the_longest_dimension() {
    let shape = mesh([3, 6, 1]);
    let after = analyse(neighbours(&shape)).neighbours;
    let steps = after.switches.windows(2).filter(|pair| {
        after
            .of(number(&after.numbers, pair, 0))
            .iter()
            .any(|neighbour| neighbour.switch == number(&after.numbers, pair, 1))
    });
    // Rows across the longest dimension are traversed one after another.
    assert_eq!(steps.count(), 12);
}

fn number(numbers: &[u32], pair: &[SwitchId], index: usize) -> u32 {
    numbers[pair[index].index()]
}
