//! `/v1/routes`: the path between two end ports, hop by hop.

use super::context::ApiContext;
use super::error::ApiError;
use super::find_node::end_port;
use super::query::ApiQuery;
use super::reply::HttpReply;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Sl};
use crate::manage::missing::MissingParts;
use crate::plan::LidTable;
use crate::plan::Plan;
use crate::plan::routing::torus::Torus;
use crate::publish::path::{self, WalkEnd, WalkHop};
use crate::vendor::adaptive::AdaptiveSwitchState;
use crate::vendor::status::VendorStatus;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RouteView {
    from: RouteEndPort,
    to: RouteEndPort,
    /// SL of the path without QoS level.
    sl: u8,
    /// True if torus-2QoS leads the path around damage that its own rules exclude (`torus_repair`).
    detour: bool,
    hops: Vec<RouteHop>,
    /// Why packets do not arrive; null if they do.
    problem: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EndPort"))]
struct RouteEndPort {
    /// Node GUID.
    guid: String,
    port: u8,
    lid: u16,
    /// NodeDescription.
    description: String,
}

/// A switch of the path.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Hop"))]
struct RouteHop {
    /// Node GUID of the switch.
    guid: String,
    description: String,
    /// Port by which the packet arrives; 0 for its own packets.
    input: u8,
    /// Port by which it leaves; 0 if the switch is the destination.
    output: u8,
    /// Other ports that the switch may choose by adaptive routing or local repair.
    alternatives: Vec<u8>,
    /// VL on the next link; null if the plan has no SL to VL table for the two ports.
    vl: Option<u8>,
}

/// The path between two ports.
pub(super) fn routes(context: &ApiContext<'_>, query: &ApiQuery) -> Result<HttpReply, ApiError> {
    let subnet = context.subnet()?;
    let fabric = &*subnet.fabric;
    let plan = &*subnet.plan;
    let from = named_port(query, fabric, &context.missing, &plan.lids, "from")?;
    let to = named_port(query, fabric, &context.missing, &plan.lids, "to")?;
    // A LID of a port with several is that one's path.
    let asked = query.get("to").and_then(|text| text.parse().ok()).map(Lid);
    let lid = asked.unwrap_or_else(|| plan.lids.base_or_zero(to));
    let hint = query.number("sl")?.unwrap_or(0);
    let hint = u8::try_from(hint).ok().filter(|sl| *sl < 16).map(Sl);
    let hint = hint.ok_or_else(|| ApiError::new(400, "sl: it is not 0 to 15"))?;
    let sl = plan.path_sl(from, to, lid, hint);
    let walk = path::walk(fabric, plan, from, lid);
    HttpReply::json(&RouteView {
        from: view(fabric, plan, from, None),
        to: view(fabric, plan, to, Some(lid)),
        sl: sl.0,
        detour: is_detour(fabric, plan, from, to),
        hops: walk
            .hops
            .iter()
            .map(|hop| RouteHop {
                guid: fabric.switch(hop.switch).guid().to_string(),
                description: fabric.switch(hop.switch).name().to_string(),
                input: fabric.port(hop.input).num.0,
                output: fabric.port(hop.output).num.0,
                alternatives: alternatives(&context.vendor, fabric, hop, lid),
                vl: path::vl(fabric, plan, hop, sl).map(|vl| vl.0),
            })
            .collect(),
        problem: (walk.end != WalkEnd::Delivered).then(|| walk.end.describe(fabric)),
    })
}

/// The end port that a parameter names.
fn named_port(
    query: &ApiQuery,
    fabric: &Fabric,
    missing: &Arc<MissingParts>,
    lids: &Arc<LidTable>,
    name: &str,
) -> Result<PortId, ApiError> {
    let text = query.get(name).unwrap_or("");
    end_port(fabric, missing, lids, text)
}

fn is_detour(fabric: &Fabric, plan: &Plan, from: PortId, to: PortId) -> bool {
    let torus = Torus::of(&plan.routing);
    let ends = fabric.switch_behind(from).zip(fabric.switch_behind(to));
    torus.zip(ends).is_some_and(|(torus, (from, to))| torus.is_detour(from, to))
}

fn view(fabric: &Fabric, plan: &Plan, port: PortId, lid: Option<Lid>) -> RouteEndPort {
    let node = fabric.node_of(port);
    RouteEndPort {
        guid: node.guid().to_string(),
        port: fabric.port(port).num.0,
        lid: lid.unwrap_or_else(|| plan.lids.base_or_zero(port)).0,
        description: node.name().to_string(),
    }
}

/// The ports of the group of an entry without the static port.
fn alternatives(status: &VendorStatus, fabric: &Fabric, hop: &WalkHop, lid: Lid) -> Vec<u8> {
    let guid = fabric.switch(hop.switch).guid();
    let Some(target) = &status.groups else { return Vec::new() };
    if status.adaptive_switches.get(&guid) != Some(&AdaptiveSwitchState::On) {
        return Vec::new();
    }
    let output = fabric.port(hop.output).num.0;
    target.ports(guid, lid, output).iter().filter(|&port| port != output).collect()
}
