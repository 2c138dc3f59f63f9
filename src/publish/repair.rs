//! The routes of torus-2QoS around damage that its rules exclude (`torus_repair`), in numbers.

use crate::plan::Plan;
use crate::plan::routing::torus::Torus;
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

impl RepairView {
    /// `None` where torus-2QoS itself or another engine routes.
    pub fn of(plan: &Plan) -> Option<Self> {
        let repair = Torus::of(&plan.routing)?.repair()?;
        let detours = repair.detours.max(1) as f64;
        Some(Self {
            mean_hops: repair.hops as f64 / detours,
            mean_undamaged_hops: repair.undamaged_hops as f64 / detours,
            summary: repair.summary,
            pairs: repair.pairs,
            detours: repair.detours,
            unrouted: repair.unrouted,
            longest_hops: repair.longest.into(),
            restored_by: restored_by(plan),
        })
    }
}

/// The pairs without a route, each with the repair that restores it.
pub fn restored_by(plan: &Plan) -> Vec<String> {
    let pairs = Torus::of(&plan.routing).map_or(&[][..], Torus::unrouted_pairs);
    pairs.iter().map(|pair| pair.text.clone()).collect()
}
