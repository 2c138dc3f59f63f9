//! The mesh analysis (`do_mesh_analysis`): finds out whether the fabric is a mesh or torus, and
//! orders switches and links along its dimensions, so that LASH needs fewer layers.
//!
//! * **Local geometry** ([`geometry`]): the distances between the neighbours of a switch over paths
//!   that avoid it. Their characteristic polynomial ([`polynomial`]) does not depend on the order
//!   of the neighbours, and tells which torus the surroundings of the switch look like ([`shapes`]).
//! * **Classes** ([`classes`]): the switches with the most common polynomial; the first of them is
//!   the *seed*, whose shape is that of the fabric.
//! * **Axes** ([`axes`]): each link of the seed gets a direction; neighbours inherit them.
//! * **Coordinates** ([`coordinates`]): the steps along the axes from the seed.
//! * **Order** ([`order`]): switches by coordinates, the longest dimension first; links by
//!   dimension, first those towards the seed's coordinate.
//!
//! The order is a heuristic: paths stay shortest and layers free of credit loops with any order.
//! OpenSM visits switches and links in a fixed sequence, which this analysis keeps, because the
//! result of each step depends on it.

mod axes;
mod classes;
mod coordinates;
mod geometry;
mod order;
mod polynomial;
mod shapes;
#[cfg(test)]
mod tests;

use super::paths::Neighbours;
use crate::notes::{Note, counted};
use axes::Axes;
use classes::PolynomialClasses;
use coordinates::MeshCoordinates;
use geometry::LocalDistances;

/// The result of the analysis.
pub(super) struct Analysis {
    /// The same neighbours in the order of the mesh; as they were if there is no mesh.
    pub neighbours: Neighbours,
    pub notes: Vec<Note>,
}

/// Analyses the mesh.
pub(super) fn analyse(neighbours: Neighbours) -> Analysis {
    let distances = LocalDistances::of_all(&neighbours);
    let classes = PolynomialClasses::new(&neighbours, &distances);
    let Some(seed) = classes.seed() else {
        let text = "mesh analysis: no switch looks like a part of a mesh";
        return Analysis { neighbours, notes: vec![Note::info(text)] };
    };
    let count = counted(classes.len(), "node class", "node classes");
    let Some(shape) = classes.shape(seed) else {
        let text = format!("mesh analysis: {count}, most common node shape is unknown geometry");
        return Analysis { neighbours, notes: vec![Note::info(text)] };
    };
    let axes = Axes::assign(&neighbours, &distances, seed, shape.dimensions());
    let coordinates = MeshCoordinates::assign(&neighbours, &axes, seed, shape.dimensions());
    let neighbours = order::reorder(&neighbours, &axes, &coordinates);
    let sizes: Vec<_> = coordinates.sizes().iter().map(i32::to_string).collect();
    let notes = vec![
        Note::info(format!("mesh analysis: {count}, most common node shape is {shape} mesh")),
        Note::info(format!("found {} mesh", sizes.join(" x "))),
    ];
    Analysis { neighbours, notes }
}
