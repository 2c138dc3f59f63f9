//! `/v1/adaptive`: groups of ports for adaptive routing, and the state of the switches.

use super::context::ApiContext;
use super::error::ApiError;
use super::find_node::find_nodes;
use super::query::ApiQuery;
use super::reply::HttpReply;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::vendor::adaptive::target::AdaptiveTarget;
use crate::vendor::status::VendorStatus;
use serde::Serialize;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AdaptiveView"))]
pub(super) struct SwitchAdaptiveView {
    /// Switches choose a port of a group for each packet.
    adaptive_routing: bool,
    /// Switches replace ports that are down by others of the group.
    local_repair: bool,
    /// Which ports are equivalent: `parallel cables`, `up-down paths` or `shortest paths`; null without
    /// groups.
    rule: Option<&'static str>,
    /// LIDs whose entries are static, because their groups are not safe.
    static_lids: Vec<u16>,
    /// The switches that support adaptive routing.
    switches: Vec<AdaptiveSwitchView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AdaptiveSwitchView {
    /// Node GUID.
    guid: String,
    description: String,
    /// `on`, `static`, `busy` or `failed`.
    state: &'static str,
    /// Why it forwards by static tables although it has groups; null if it does not.
    failure: Option<String>,
    groups: Vec<AdaptivePortGroup>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PortGroup"))]
struct AdaptivePortGroup {
    number: u16,
    ports: Vec<u8>,
}

/// The switches with adaptive routing, or one of them.
pub(super) fn adaptive(context: &ApiContext<'_>, query: &ApiQuery) -> Result<HttpReply, ApiError> {
    let fabric = context.fabric()?;
    let status = &context.vendor;
    let target = status.groups.as_ref();
    let settings = target.map(AdaptiveTarget::settings);
    let guids = find_nodes(fabric, &context.missing, query)?.map(|id| fabric.node(id).guid());
    let switches = guids.filter_map(|guid| switch_view(fabric, status, guid)).collect();
    let masked = target.into_iter().flat_map(|target| target.groups().masked());
    HttpReply::json(&SwitchAdaptiveView {
        adaptive_routing: settings.is_some_and(|settings| settings.routing),
        local_repair: settings.is_some_and(|settings| settings.healing),
        rule: target.map(|target| target.groups().rule.name()),
        static_lids: masked.map(|lid| lid.0).collect(),
        switches,
    })
}

/// `None` for a node without adaptive routing.
fn switch_view(fabric: &Fabric, status: &VendorStatus, guid: Guid) -> Option<AdaptiveSwitchView> {
    let state = status.adaptive_switches.get(&guid)?;
    let groups = status.groups.as_ref().and_then(|target| target.groups_of(guid));
    let node = fabric.node(fabric.node_by_guid(guid)?);
    Some(AdaptiveSwitchView {
        guid: guid.to_string(),
        description: node.name().to_string(),
        state: state.word(),
        failure: state.failure().map(|failure| failure.to_string()),
        groups: groups
            .into_iter()
            .flat_map(|groups| groups.used())
            .filter_map(|number| {
                let mask = groups?.masks().get(usize::from(number))?;
                Some(AdaptivePortGroup { number, ports: mask.iter().collect() })
            })
            .collect(),
    })
}
