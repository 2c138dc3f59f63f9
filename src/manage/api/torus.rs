//! `/v1/torus`: coordinates, rings and missing parts of the routed torus.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::ApiQuery;
use super::reply::HttpReply;
use crate::fabric::Fabric;
use crate::plan::routing::Routing;
use crate::plan::routing::torus::{AXIS_NAMES, Coordinates, Direction, Ring, Torus, TorusLayout};
use serde::Serialize;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TorusView {
    /// Number of switches along x, y and z.
    radices: [u32; 3],
    /// True for torus dimensions, false for mesh dimensions.
    looped: [bool; 3],
    /// Coordinates of the root of the multicast spanning tree.
    multicast_root: [u32; 3],
    switches: Vec<SwitchView>,
    /// Coordinates without a switch.
    missing_switches: Vec<[u32; 3]>,
    /// Missing cables between switches that are present.
    missing_cables: Vec<MissingTorusCable>,
    /// Cables over which detours around damage lead (`torus_repair`).
    detour_cables: Vec<DetourCable>,
    /// Rings with gaps. Traffic goes the other way round.
    broken_rings: Vec<RingView>,
    /// The same as `missing_cables`, under its former name.
    broken_cables: Vec<MissingTorusCable>,
    /// The same as `broken_rings`, under its former name.
    interrupted_rings: Vec<RingView>,
    /// Number of all rings and lines.
    rings: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SwitchView {
    at: [u32; 3],
    /// Node GUID.
    guid: String,
    description: String,
    /// Number of cables to the next switch along x, y and z.
    cables: [usize; 3],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MissingCable"))]
#[derive(Clone)]
struct MissingTorusCable {
    /// `x`, `y` or `z`.
    axis: char,
    from: [u32; 3],
    to: [u32; 3],
}

/// The cables between two switches, and the ordered pairs of switches whose detours use them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DetourCable {
    /// `x`, `y` or `z`.
    axis: char,
    from: [u32; 3],
    to: [u32; 3],
    /// Number of pairs whose detour leads from `from` to `to`.
    detours: u32,
    /// Number of pairs whose detour leads back.
    detours_back: u32,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone)]
struct RingView {
    /// `x`, `y` or `z`.
    axis: char,
    /// Its first position.
    first: [u32; 3],
    /// The last position with a switch before each gap.
    gaps: Vec<[u32; 3]>,
}

/// The torus of the plan in force.
pub(super) fn torus(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let subnet = context.subnet()?;
    let routing = &subnet.plan.routing;
    let view = torus_view(&subnet.fabric, routing).ok_or_else(|| {
        ApiError::new(404, format!("there is no torus: the routing engine is {}", routing.engine))
    })?;
    HttpReply::json(&view)
}

/// The torus of a routing; `None` if its engine knows none.
pub(super) fn torus_view(fabric: &Fabric, routing: &Routing) -> Option<TorusView> {
    let torus = Torus::of(routing)?;
    let layout = TorusLayout::of(torus);
    let rings = layout.rings();
    let broken_rings: Vec<RingView> =
        rings.iter().filter(|ring| !ring.gaps.is_empty()).map(ring_view).collect();
    let missing_cables = missing_cables(&layout);
    Some(TorusView {
        radices: layout.radices(),
        looped: [0, 1, 2].map(|axis| layout.is_looped(axis)),
        multicast_root: torus.root().0,
        switches: layout.positions().filter_map(|at| switch(fabric, &layout, at)).collect(),
        missing_switches: torus.missing().map(|at| at.0).collect(),
        broken_cables: missing_cables.clone(),
        interrupted_rings: broken_rings.clone(),
        missing_cables,
        detour_cables: detour_cables(&layout),
        broken_rings,
        rings: rings.len(),
    })
}

fn switch(fabric: &Fabric, layout: &TorusLayout, at: Coordinates) -> Option<SwitchView> {
    let node = fabric.switch(layout.switch(at)?);
    let cables = [0, 1, 2].map(|axis| layout.cables(at, Direction::plus(axis)));
    let guid = node.guid().to_string();
    let description = node.name().to_string();
    Some(SwitchView { at: at.0, guid, description, cables })
}

fn missing_cables(layout: &TorusLayout) -> Vec<MissingTorusCable> {
    let mut missing = Vec::new();
    for at in layout.positions() {
        for (axis, name) in AXIS_NAMES.into_iter().enumerate() {
            let direction = Direction::plus(axis);
            if let Some(to) =
                layout.neighbour(at, direction).filter(|_| layout.lacks_cable(at, direction))
            {
                missing.push(MissingTorusCable { axis: name, from: at.0, to: to.0 });
            }
        }
    }
    missing
}

fn detour_cables(layout: &TorusLayout) -> Vec<DetourCable> {
    let mut cables = Vec::new();
    for at in layout.positions() {
        for (index, axis) in AXIS_NAMES.into_iter().enumerate() {
            let way = Direction::plus(index);
            let Some(to) = layout.neighbour(at, way) else { continue };
            let detours = layout.detours(at, way);
            let detours_back = layout.detours(to, way.opposite());
            if detours + detours_back > 0 {
                cables.push(DetourCable { axis, from: at.0, to: to.0, detours, detours_back });
            }
        }
    }
    cables
}

fn ring_view(ring: &Ring) -> RingView {
    let gaps = ring.gaps.iter().map(|at| at.0).collect();
    RingView { axis: AXIS_NAMES[ring.axis], first: ring.first.0, gaps }
}
