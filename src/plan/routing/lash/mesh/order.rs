//! The order of switches and links along the dimensions of a mesh.

use super::super::paths::Neighbours;
use super::axes::{Axes, Axis};
use super::coordinates::MeshCoordinates;

/// The neighbours with switches and links in the order of the mesh.
pub(super) fn reorder(
    neighbours: &Neighbours,
    axes: &Axes<'_>,
    coordinates: &MeshCoordinates,
) -> Neighbours {
    let dimensions = coordinates.longest_first();
    let switches = merge_sorted((0..neighbours.len() as u32).collect(), &|one: u32, other: u32| {
        let one = coordinates.of(one);
        let other = coordinates.of(other);
        let differences =
            dimensions.iter().map(|&dimension| one[dimension].wrapping_sub(other[dimension]));
        differences.into_iter().find(|&difference| difference != 0).unwrap_or(0) <= 0
    });
    neighbours
        .reordered(&switches, |switch| places(axes, switch, coordinates.of(switch), &dimensions))
}

/// The places of the links of a switch in their new order: in each dimension first those towards
/// the seed's coordinate, then those away from it, at last those without a direction.
fn places(axes: &Axes<'_>, switch: u32, coordinates: &[i32], dimensions: &[usize]) -> Vec<usize> {
    let own = axes.of(switch);
    let mut places = Vec::with_capacity(own.len());
    for &dimension in dimensions {
        for is_negative in [false, true] {
            let axis = Axis { dimension: dimension as u8, is_negative };
            let axis =
                if coordinates[dimension] > 0 { axes.opposite(switch, axis) } else { Some(axis) };
            // Without a link in the direction, OpenSM takes those without a direction here.
            let links = (0..own.len()).filter(|&place| own[place] == axis);
            let new: Vec<_> = links.filter(|place| !places.contains(place)).collect();
            places.extend(new);
        }
    }
    let rest: Vec<_> = (0..own.len()).filter(|place| !places.contains(place)).collect();
    places.extend(rest);
    places
}

/// Merge sort as in the C library. `is_before` says whether one may come before another; it is no
/// order where switches without coordinates meet negative ones, so that the result depends on the
/// algorithm.
fn merge_sorted(mut all: Vec<u32>, is_before: &impl Fn(u32, u32) -> bool) -> Vec<u32> {
    if all.len() < 2 {
        return all;
    }
    let second = merge_sorted(all.split_off(all.len() / 2), is_before);
    let first = merge_sorted(all, is_before);
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let mut first = first.as_slice();
    let mut second = second.as_slice();
    while let ([one, ones @ ..], [other, others @ ..]) = (first, second) {
        if is_before(*one, *other) {
            merged.push(*one);
            first = ones;
        } else {
            merged.push(*other);
            second = others;
        }
    }
    merged.extend_from_slice(first);
    merged.extend_from_slice(second);
    merged
}
