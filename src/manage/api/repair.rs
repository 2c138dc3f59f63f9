//! Part of `/v1/status`: routes of torus-2QoS around damage that its rules exclude.

use crate::plan::routing::Routing;
use crate::plan::routing::torus::{Torus, TorusRepair};
use serde::Serialize;

/// Detours in ordered pairs of switches.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RepairView {
    /// The missing parts and what they do to the routes, in words.
    summary: String,
    pairs: usize,
    /// Pairs whose path differs from that of the undamaged torus.
    detours: usize,
    /// Pairs without a route.
    unrouted: usize,
}

impl RepairView {
    pub(super) fn of(routing: &Routing) -> Option<Self> {
        let TorusRepair { summary, pairs, detours, unrouted } = Torus::of(routing)?.repair()?;
        Some(Self { summary, pairs, detours, unrouted })
    }
}
