//! `/v1/traffic`: the load of cables between switches under a pattern of traffic between hosts.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::{ApiQuery, Parameter};
use super::reply::HttpReply;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Lid;
use crate::publish::Subnet;
use crate::publish::traffic::{LoadPattern, PatternLoad, PortChoices, RoutedTraffic};
use crate::vendor::adaptive::AdaptiveSwitchState;
use crate::vendor::adaptive::target::SwitchTarget;
use crate::vendor::status::VendorStatus;
use serde::Serialize;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "pattern",
        help: "uniform (each host sends to a random other one: the expected load), shift (host i sends to \
               host i + number), hot-spot (all hosts send to the host with this number) or all-to-all.",
        is_required: true,
    },
    Parameter {
        name: "number",
        help: "For shift, default half of the number of hosts; for hot-spot, default 0. Hosts are numbered \
               from 0 in the order of their LIDs.",
        is_required: false,
    },
];

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TrafficView {
    pattern: String,
    /// Number of hosts that send.
    hosts: usize,
    /// Flows on the busiest cable if switches forward by their static ports.
    busiest_static: f64,
    /// Flows on the busiest cable if switches with adaptive routing spread each flow over their groups; null
    /// without such switches.
    busiest_adaptive: Option<f64>,
    /// The links between switches.
    links: Vec<TrafficLink>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TrafficLink {
    ends: [TrafficEnd; 2],
    /// Flows that each of the two ends sends.
    by_static: [f64; 2],
    by_adaptive: Option<[f64; 2]>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TrafficEnd {
    /// Node GUID.
    guid: String,
    port: u8,
}

/// The load under a pattern, static and adaptive.
pub(super) fn traffic(context: &ApiContext<'_>, query: &ApiQuery) -> Result<HttpReply, ApiError> {
    let subnet = context.subnet()?;
    let name = query.get("pattern").unwrap_or("");
    let number = query.number("number")?.map(|number| number as usize);
    let pattern = match name {
        "uniform" => LoadPattern::Uniform,
        "shift" => LoadPattern::Shift(number.unwrap_or_else(|| hosts(subnet) / 2)),
        "hot-spot" => LoadPattern::HotSpot(number.unwrap_or(0)),
        "all-to-all" => LoadPattern::AllToAll,
        other => {
            let problem = format!(
                "pattern: '{other}' is none; there are uniform, shift, hot-spot and all-to-all"
            );
            return Err(ApiError::new(400, problem));
        }
    };
    let by_static = routed(subnet, &|_, _| None).load(pattern);
    let tables = adaptive_tables(&subnet.fabric, &context.vendor);
    let by_adaptive = tables.iter().any(Option::is_some).then(|| {
        routed(subnet, &|switch: SwitchId, lid: Lid| {
            Some(tables[switch.index()].as_ref()?.choices(lid))
        })
        .load(pattern)
    });
    HttpReply::json(&TrafficView {
        pattern: name.to_owned(),
        hosts: by_static.hosts,
        busiest_static: by_static.highest(),
        busiest_adaptive: by_adaptive.as_ref().map(PatternLoad::highest),
        links: links(&subnet.fabric, &by_static, by_adaptive.as_ref()),
    })
}

fn routed<'a>(subnet: &'a Subnet, choices: &'a PortChoices<'a>) -> RoutedTraffic<'a> {
    RoutedTraffic { fabric: &subnet.fabric, plan: &subnet.plan, choices }
}

fn hosts(subnet: &Subnet) -> usize {
    let fabric = &subnet.fabric;
    fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).count()
}

/// The tables of switches whose adaptive routing is on, by switch.
fn adaptive_tables(fabric: &Fabric, status: &VendorStatus) -> Vec<Option<SwitchTarget>> {
    let target = status.groups.as_ref().filter(|target| target.settings().routing);
    let tables = fabric.switch_ids().map(|switch| {
        let guid = fabric.switch(switch).guid();
        let is_on = status.adaptive_switches.get(&guid) == Some(&AdaptiveSwitchState::On);
        target.filter(|_| is_on)?.for_switch(guid)
    });
    tables.collect()
}

fn links(
    fabric: &Fabric,
    by_static: &PatternLoad,
    by_adaptive: Option<&PatternLoad>,
) -> Vec<TrafficLink> {
    let mut links = Vec::new();
    for switch in fabric.switch_ids() {
        let node = fabric.switch(switch);
        for num in 1..=node.num_ports() {
            let port = PortId(node.first_port.0 + u32::from(num));
            let Some(peer) = fabric.port(port).peer.filter(|&peer| peer > port) else { continue };
            if !fabric.node_of(peer).is_switch() {
                continue;
            }
            let both = [port, peer];
            links.push(TrafficLink {
                ends: both.map(|port| TrafficEnd {
                    guid: fabric.node_of(port).guid().to_string(),
                    port: fabric.port(port).num.0,
                }),
                by_static: loads_of(&both, by_static),
                by_adaptive: by_adaptive.map(|load| loads_of(&both, load)),
            });
        }
    }
    links
}

fn loads_of(both: &[PortId; 2], load: &PatternLoad) -> [f64; 2] {
    both.map(|port| load.ports[port.index()])
}
