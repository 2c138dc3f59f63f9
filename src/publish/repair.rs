//! The routes of torus-2QoS around damage that its rules exclude (`torus_repair`), in numbers.

use crate::plan::Plan;
use crate::plan::routing::torus::{Torus, TorusRepair};
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
        let TorusRepair { summary, unrouted, stats } = Torus::of(&plan.routing)?.repair()?;
        Some(Self {
            summary,
            pairs: stats.pairs,
            detours: stats.detours,
            unrouted,
            mean_hops: stats.mean_hops(),
            mean_undamaged_hops: stats.mean_undamaged_hops(),
            longest_hops: stats.longest.into(),
            restored_by: restored_by(plan),
        })
    }
}

/// The pairs without a route, each with the repair that restores it.
pub fn restored_by(plan: &Plan) -> Vec<String> {
    let pairs = Torus::of(&plan.routing).map_or(&[][..], Torus::unrouted_pairs);
    pairs.iter().map(|pair| pair.text.clone()).collect()
}
