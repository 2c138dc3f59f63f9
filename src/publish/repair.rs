//! The routes of torus-2QoS around damage that its rules exclude (`torus_repair`), in numbers.

use crate::fabric::SwitchId;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::routing::torus::{Direction, Torus, TorusRepair};
use rayon::prelude::*;
use serde::Serialize;

/// Detours in ordered pairs of switches; a hop is a link between switches.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RepairView {
    /// The missing parts and what they do to the routes, in words.
    pub summary: String,
    pub pairs: usize,
    /// Pairs whose path differs from that of the undamaged torus.
    pub detours: usize,
    /// Pairs without a route.
    pub unrouted: usize,
    /// Mean length of detours.
    pub mean_hops: f64,
    /// Mean length of the paths of the same pairs in the undamaged torus.
    pub mean_undamaged_hops: f64,
    /// Length of the longest detour.
    pub longest_hops: u32,
    /// Pairs without a route, each with the repair that restores it; at most 32.
    pub restored_by: Vec<String>,
}

/// The lengths of detours.
#[derive(Clone, Copy, Default)]
struct DetourLengths {
    detours: u64,
    hops: u64,
    undamaged_hops: u64,
    longest: u32,
}

impl DetourLengths {
    fn and(self, other: Self) -> Self {
        Self {
            detours: self.detours + other.detours,
            hops: self.hops + other.hops,
            undamaged_hops: self.undamaged_hops + other.undamaged_hops,
            longest: self.longest.max(other.longest),
        }
    }
}

impl RepairView {
    /// `None` where torus-2QoS itself or another engine routes.
    pub fn of(plan: &Plan) -> Option<Self> {
        let torus = Torus::of(&plan.routing)?;
        let TorusRepair { summary, pairs, detours, unrouted } = torus.repair()?;
        let lengths = lengths(torus);
        let mean = |hops: u64| hops as f64 / lengths.detours.max(1) as f64;
        Some(Self {
            summary,
            pairs,
            detours,
            unrouted,
            mean_hops: mean(lengths.hops),
            mean_undamaged_hops: mean(lengths.undamaged_hops),
            longest_hops: lengths.longest,
            restored_by: restored_by(plan),
        })
    }
}

/// The pairs without a route, each with the repair that restores it, by the notes of the plan.
pub fn restored_by(plan: &Plan) -> Vec<String> {
    let notes = plan.routing.notes.iter();
    let is_such = |note: &&Note| note.text.contains(": no route ");
    notes.filter(is_such).map(|note| note.text.clone()).collect()
}

fn lengths(torus: &Torus) -> DetourLengths {
    let switches: Vec<SwitchId> = torus.switches().map(|(_, switch)| switch).collect();
    let to_one = |&to: &SwitchId| {
        let detours = switches.iter().filter(|&&from| from != to && torus.is_detour(from, to));
        detours.fold(DetourLengths::default(), |sum, &from| sum.and(length(torus, from, to)))
    };
    switches.par_iter().map(to_one).reduce(DetourLengths::default, DetourLengths::and)
}

/// The length of one detour; nothing for a pair without a route.
fn length(torus: &Torus, from: SwitchId, to: SwitchId) -> DetourLengths {
    let mut at = from;
    let mut hops = 0;
    while at != to {
        let next = torus.next_hop(at, to).and_then(|way| neighbour(torus, at, way));
        let Some(next) = next.filter(|_| hops < u32::from(u16::MAX)) else {
            return DetourLengths::default();
        };
        (at, hops) = (next, hops + 1);
    }
    DetourLengths {
        detours: 1,
        hops: hops.into(),
        undamaged_hops: undamaged_hops(torus, from, to).into(),
        longest: hops,
    }
}

/// The switch one step from another.
fn neighbour(torus: &Torus, at: SwitchId, way: Direction) -> Option<SwitchId> {
    let mut coordinates = torus.coordinates(at)?;
    let (axis, radix) = (way.axis(), torus.radices()[way.axis()]);
    let step = if way.is_plus() { 1 } else { radix - 1 };
    coordinates.0[axis] = (coordinates.0[axis] + step) % radix;
    torus.switch_at(coordinates)
}

/// The distance of two switches along the axes.
fn undamaged_hops(torus: &Torus, from: SwitchId, to: SwitchId) -> u32 {
    let (Some(from), Some(to)) = (torus.coordinates(from), torus.coordinates(to)) else { return 0 };
    let radices = torus.radices();
    let along = |axis: usize| {
        let distance = from.0[axis].abs_diff(to.0[axis]);
        let back = radices[axis].saturating_sub(distance);
        if torus.is_looped(axis) { distance.min(back) } else { distance }
    };
    (0..3).map(along).sum()
}
