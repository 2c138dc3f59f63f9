//! `/v1/fabric`, `/v1/nodes`, `/v1/ports` and `/v1/links`: what the last sweep observed.

use super::context::ApiContext;
use super::counters::PortCounters;
use super::error::ApiError;
use super::find_node::find_nodes;
use super::quarantine::{QuarantinedLinkView, quarantined_links};
use super::query::ApiQuery;
use super::reply::{HttpReply, time};
use super::vendor::{VendorCapabilities, vendor_capabilities};
use super::virtual_ports::{VirtualPortsView, virtual_ports};
use crate::fabric::link_rate::{LinkSpeed, width_name};
use crate::fabric::{End, Fabric, Node, NodeId, PortId};
use crate::incidents::fact::CableDefect;
use crate::incidents::survey;
use crate::manage::event::LinkEnd;
use crate::manage::fabric_changes::kind_name;
use crate::manage::loop_status::LoopStatus;
use crate::perfmgr::database::PortEntry;
use crate::plan::Plan;
use crate::publish::report::{link_loads, worst_link};
use crate::wire::attr::{NodeKind, PhysState, PortInfo, PortState};
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FabricView {
    /// Generation of the published subnet; null if there is none.
    generation: Option<u64>,
    switches: usize,
    channel_adapters: usize,
    routers: usize,
    /// Cables.
    links: usize,
    /// Links whose ports are both ACTIVE.
    active_links: usize,
    /// LIDs assigned; null if there is no plan.
    lids: Option<usize>,
    /// Highest LID assigned.
    highest_lid: Option<u16>,
    /// Multicast groups with members.
    multicast_groups: Option<usize>,
    /// Failures of devices in the last sweep.
    faults: Vec<String>,
    /// Egress port of a link between switches that the most LIDs are forwarded through.
    busiest_link: Option<BusiestLink>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BusiestLink {
    port: PortNameView,
    lids: usize,
}

/// A port with its node.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PortName"))]
pub(super) struct PortNameView {
    /// Node GUID.
    guid: String,
    port: u8,
    /// NodeDescription.
    description: String,
}

impl PortNameView {
    pub(super) fn of(fabric: &Fabric, port: PortId) -> Self {
        let node = fabric.node_of(port);
        Self {
            guid: node.guid().to_string(),
            port: fabric.port(port).num.0,
            description: node.name().to_string(),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct NodesView {
    nodes: Vec<NodeView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct NodeView {
    guid: String,
    /// `switch`, `ca`, `router` or `unknown`.
    kind: &'static str,
    description: String,
    /// Base LIDs: of port 0 for a switch, else of each port with one.
    lids: Vec<u16>,
    ports: u8,
    /// Ports with a link.
    linked_ports: usize,
    system_guid: String,
    vendor_id: u32,
    device_id: u16,
    /// Directed route from the SM.
    path: String,
    /// This SM runs on the node.
    is_local: bool,
    /// State of the SM on the node, such as `MASTER`; null if it has none.
    sm: Option<String>,
    /// Vendor-specific capabilities; null if the node was not asked for them.
    vendor_capabilities: Option<VendorCapabilities>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PortsView {
    ports: Vec<PortView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PortView {
    /// Node GUID.
    node: String,
    /// NodeDescription.
    description: String,
    port: u8,
    /// Port GUID; that of port 0 for all ports of a switch.
    guid: String,
    /// Base LID; null for external ports of a switch.
    lid: Option<u16>,
    lmc: u8,
    /// `DOWN`, `INIT`, `ARMED` or `ACTIVE`.
    state: String,
    /// Physical state, such as `LinkUp`.
    physical_state: &'static str,
    /// Width and speed in use, such as `4x EDR`; null without a link.
    link: Option<LinkRateView>,
    /// Bytes.
    mtu: u16,
    /// Data VLs in use.
    data_vls: u8,
    /// The port at the other end.
    peer: Option<PortNameView>,
    /// Counters of the performance manager; null if it has not read the port.
    counters: Option<PortCounters>,
    /// Vports; null if the port has none, or they are not managed.
    virtual_ports: Option<VirtualPortsView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LinksView {
    links: Vec<LinkView>,
    /// Links that are treated as down although they are trained.
    quarantined: Vec<QuarantinedLinkView>,
    /// Links that were in the fabric and are not found any more, since the start of the daemon.
    missing: Vec<MissingLinkView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MissingLinkView {
    ends: [LinkEnd; 2],
    /// Time at which it was lost.
    since: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LinkView {
    ends: [PortNameView; 2],
    /// The lower state of the two ends.
    state: String,
    link: Option<LinkRateView>,
    /// Width and speed that both ends enable, such as `4x EDR`, if the link has less; else null.
    could: Option<String>,
    /// LIDs that are forwarded through each of the two ends; null if there is no plan for this
    /// fabric.
    pub(super) lids: Option<[usize; 2]>,
    /// Octets per second that each of the two ends sent between the last two counter sweeps; null
    /// without counters.
    rates: Option<[f64; 2]>,
}

#[derive(Serialize, PartialEq, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Link"))]
pub(super) struct LinkRateView {
    /// `1x`, `2x`, `4x`, `8x` or `12x`.
    width: &'static str,
    /// `SDR` to `XDR`, or `FDR10`.
    speed: &'static str,
}

/// Width and speed of a port with a link.
fn link(fabric: &Fabric, port: PortId) -> Option<LinkRateView> {
    let info = fabric.port(port).info().filter(|info| info.phys_state() == PhysState::LinkUp)?;
    let width = width_name(info.link_width_active()).unwrap_or("unknown");
    Some(LinkRateView {
        width,
        speed: LinkSpeed::of(fabric, port).map_or("unknown", LinkSpeed::name),
    })
}

fn phys_state(state: PhysState) -> &'static str {
    match state {
        PhysState::NoChange => "no change",
        PhysState::Sleep => "Sleep",
        PhysState::Polling => "Polling",
        PhysState::Disabled => "Disabled",
        PhysState::Training => "PortConfigurationTraining",
        PhysState::LinkUp => "LinkUp",
        PhysState::Recovery => "LinkErrorRecovery",
        PhysState::Unknown(_) => "unknown",
    }
}

/// Each link once, as its end with the lower index and the other one.
pub(super) fn cables(fabric: &Fabric) -> impl Iterator<Item = (PortId, PortId)> + '_ {
    let ends = fabric.port_ids().filter_map(|port| Some((port, fabric.port(port).peer?)));
    ends.filter(|(port, peer)| port <= peer)
}

fn link_state(fabric: &Fabric, a: PortId, b: PortId) -> PortState {
    fabric.port(a).state().min(fabric.port(b).state())
}

impl LinkView {
    /// The link between two ports, without counters.
    pub(super) fn new(fabric: &Fabric, a: PortId, b: PortId) -> Self {
        Self {
            ends: [PortNameView::of(fabric, a), PortNameView::of(fabric, b)],
            state: link_state(fabric, a, b).to_string(),
            link: link(fabric, a),
            could: None,
            lids: None,
            rates: None,
        }
    }

    /// Name of the link: its ends in their order as texts, as the page names links.
    pub(super) fn key(&self) -> String {
        let mut ends = self.ends.each_ref().map(|end| format!("{}/{}", end.guid, end.port));
        ends.sort_unstable();
        ends.join("-")
    }
}

/// Counts of nodes, ports and links.
pub(super) fn fabric(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let fabric = context.fabric()?;
    let subnet = context.status.subnet.as_deref();
    let busiest = subnet.and_then(|subnet| {
        let (port, lids) = worst_link(&subnet.fabric, &link_loads(&subnet.fabric, &subnet.plan))?;
        Some(BusiestLink { port: PortNameView::of(&subnet.fabric, port), lids })
    });
    HttpReply::json(&FabricView {
        generation: subnet.map(|subnet| subnet.generation),
        switches: count(fabric, NodeKind::Switch),
        channel_adapters: count(fabric, NodeKind::Ca),
        routers: count(fabric, NodeKind::Router),
        links: cables(fabric).count(),
        active_links: cables(fabric)
            .filter(|&(a, b)| link_state(fabric, a, b) == PortState::Active)
            .count(),
        lids: subnet.map(|subnet| subnet.plan.lids.iter().count()),
        highest_lid: subnet.map(|subnet| subnet.plan.lids.max().0),
        multicast_groups: subnet.map(|subnet| group_count(&subnet.plan)),
        faults: fabric.faults().iter().map(ToString::to_string).collect(),
        busiest_link: busiest,
    })
}

fn group_count(plan: &Plan) -> usize {
    let mlids = plan.multicast.by_switch.iter().flatten().map(|&(mlid, _)| mlid);
    mlids.collect::<std::collections::BTreeSet<_>>().len()
}

fn count(fabric: &Arc<Fabric>, kind: NodeKind) -> usize {
    fabric.nodes().iter().filter(|node| node.kind() == kind).count()
}

/// All nodes.
pub(super) fn nodes(context: &ApiContext<'_>, query: &ApiQuery) -> Result<HttpReply, ApiError> {
    let fabric = context.fabric()?;
    let nodes = find_nodes(fabric, &context.missing, query)?;
    let kind = query.one_of("kind", &["switch", "ca", "router"])?;
    let nodes =
        nodes.filter(|&id| kind.is_none_or(|kind| kind_name(fabric.node(id).kind()) == kind));
    let sms = sms(&context.status, fabric);
    HttpReply::json(&NodesView {
        nodes: nodes
            .map(|id| NodeView {
                sm: sms.get(&id).cloned(),
                vendor_capabilities: vendor_capabilities(&context.vendor, fabric.node(id).guid()),
                ..node_view(fabric, id)
            })
            .collect(),
    })
}

/// The states of the SMs by node; of several on a node, the one of this SM or the first one.
fn sms(status: &LoopStatus, fabric: &Fabric) -> BTreeMap<NodeId, String> {
    let others = status.managers.others.iter().rev().filter_map(|sm| {
        let port = fabric.port_by_guid(sm.guid)?;
        Some((fabric.port(port).node, sm.state.to_string()))
    });
    let own = (fabric.port(fabric.local()).node, status.managers.own.state.to_string());
    others.chain([own]).collect()
}

pub(super) fn node_view(fabric: &Fabric, id: NodeId) -> NodeView {
    let node = fabric.node(id);
    let info = &node.info;
    NodeView {
        guid: node.guid().to_string(),
        kind: kind_name(node.kind()),
        description: node.name().to_string(),
        lids: lids(fabric, node),
        ports: node.num_ports(),
        linked_ports: fabric.ports_of(id).filter(|port| port.peer.is_some()).count(),
        system_guid: info.system_guid().to_string(),
        vendor_id: info.vendor_id(),
        device_id: info.device_id(),
        path: node.route.to_string(),
        is_local: fabric.port(fabric.local()).node == id,
        sm: None,
        vendor_capabilities: None,
    }
}

/// The base LIDs that a node's ports carry.
fn lids(fabric: &Fabric, node: &Node) -> Vec<u16> {
    let last = if node.is_switch() { 0 } else { usize::from(node.num_ports()) };
    let ports = node.slots().take(last + 1);
    ports.filter_map(|port| fabric.observed_lid(port)).map(|lid| lid.0).collect()
}

/// All ports that exist.
pub(super) fn ports(context: &ApiContext<'_>, query: &ApiQuery) -> Result<HttpReply, ApiError> {
    let fabric = context.fabric()?;
    let nodes = find_nodes(fabric, &context.missing, query)?;
    let slots = nodes.flat_map(|id| fabric.node(id).slots());
    let number = query.number("port")?;
    let slots =
        slots.filter(|&id| number.is_none_or(|number| u64::from(fabric.port(id).num.0) == number));
    let wants_errors = query.flag("errors_only")?.unwrap_or(false);
    let slots = slots.filter(|&id| {
        let entry = counters_of(context, fabric, id);
        !wants_errors || entry.is_some_and(|entry| entry.errors.0.iter().any(|&count| count > 0))
    });
    HttpReply::json(&PortsView {
        ports: slots.filter_map(|id| port_view(context, fabric, id)).collect(),
    })
}

fn port_view(context: &ApiContext<'_>, fabric: &Fabric, id: PortId) -> Option<PortView> {
    let port = fabric.port(id);
    let node = fabric.node_of(id);
    let info = port.info()?;
    let has_lid = !node.is_switch() || port.num.0 == 0;
    Some(PortView {
        node: node.guid().to_string(),
        description: node.name().to_string(),
        port: port.num.0,
        guid: port.guid.to_string(),
        lid: fabric.observed_lid(id).filter(|_| has_lid).map(|lid| lid.0),
        lmc: info.lmc(),
        state: info.port_state().to_string(),
        physical_state: phys_state(info.phys_state()),
        link: link(fabric, id),
        mtu: mtu(info.neighbor_mtu()),
        data_vls: PortInfo::data_vls(info.operational_vls()),
        peer: port.peer.map(|peer| PortNameView::of(fabric, peer)),
        counters: counters_of(context, fabric, id).map(PortCounters::of),
        virtual_ports: virtual_ports(&context.virtual_ports, port.guid).filter(|_| has_lid),
    })
}

/// The entry of a port that the performance manager has read.
fn counters_of<'a>(
    context: &'a ApiContext<'_>,
    fabric: &Fabric,
    id: PortId,
) -> Option<&'a PortEntry> {
    let entry = context.perf.database.port(fabric.node_of(id).guid(), fabric.port(id).num);
    entry.filter(|port| port.is_valid)
}

/// Bytes of an MTU code (IBA vol. 1, 14.2.5.6); 0 for other codes.
fn mtu(code: u8) -> u16 {
    if (1..=5).contains(&code) { 128 << code } else { 0 }
}

/// What degraded links could have, by both ends.
fn degraded(fabric: &Fabric) -> BTreeMap<End, String> {
    let mut could = BTreeMap::new();
    for link in survey::degraded_links(fabric).into_values() {
        let CableDefect::Degraded { could: wanted, .. } = link.fault else { continue };
        for end in link.cable.key() {
            could.insert(end, wanted.clone());
        }
    }
    could
}

/// All links.
pub(super) fn links(context: &ApiContext<'_>, query: &ApiQuery) -> Result<HttpReply, ApiError> {
    let fabric = context.fabric()?;
    let wanted: std::collections::BTreeSet<NodeId> =
        find_nodes(fabric, &context.missing, query)?.collect();
    let subnet = context.status.subnet.as_deref();
    // Loads are those of the planned fabric, whose port indices may differ.
    let planned = subnet.filter(|subnet| std::sync::Arc::ptr_eq(&subnet.fabric, fabric));
    let loads = planned.map(|subnet| link_loads(fabric, &subnet.plan));
    let could = degraded(fabric);
    let wants_down = query.flag("down")?.unwrap_or(false);
    let wants_degraded = query.flag("degraded")?.unwrap_or(false);
    let wants_unused = wants_down || !wants_degraded;
    let shown = cables(fabric)
        .filter(|&(a, b)| is_wanted(&wanted, fabric, a) || is_wanted(&wanted, fabric, b));
    let quarantined = quarantined_links(context);
    let missing = context.missing.links.values();
    let missing = missing.filter(|link| {
        is_shown(&wanted, fabric, query, &link.ends) && !is_quarantined(&quarantined, &link.ends)
    });
    let missing =
        missing.map(|link| MissingLinkView { ends: link.ends.clone(), since: time(link.since) });
    HttpReply::json(&LinksView {
        links: shown
            .map(|(a, b)| LinkView {
                could: could.get(&fabric.end_of(a)).cloned(),
                lids: loads.as_ref().map(|loads| [loads[a.index()], loads[b.index()]]),
                rates: sent_bytes(context, fabric, a)
                    .zip(sent_bytes(context, fabric, b))
                    .map(|(a, b)| [a, b]),
                ..LinkView::new(fabric, a, b)
            })
            .filter(|link| {
                let has_choice = wants_down || wants_degraded;
                let is_down = wants_down && link.state != "ACTIVE";
                !has_choice || is_down || wants_degraded && link.could.is_some()
            })
            .collect(),
        missing: missing.filter(|_| wants_unused).collect(),
        quarantined: quarantined
            .into_iter()
            .filter(|link| wants_unused && is_shown(&wanted, fabric, query, &link.ends))
            .collect(),
    })
}

fn is_quarantined(quarantined: &[QuarantinedLinkView], ends: &[LinkEnd; 2]) -> bool {
    quarantined.iter().any(|link| &link.ends == ends)
}

fn is_shown(
    wanted: &BTreeSet<NodeId>,
    fabric: &Fabric,
    query: &ApiQuery,
    ends: &[LinkEnd; 2],
) -> bool {
    query.get("node").is_none() || ends.iter().any(|end| is_wanted_end(wanted, fabric, end))
}

fn is_wanted_end(wanted: &BTreeSet<NodeId>, fabric: &Fabric, end: &LinkEnd) -> bool {
    wanted.iter().any(|&node| fabric.node(node).guid().to_string() == end.guid)
}

fn sent_bytes(context: &ApiContext<'_>, fabric: &Fabric, port: PortId) -> Option<f64> {
    let rates = counters_of(context, fabric, port)?.history.latest()?;
    Some(rates.transmit_bytes_per_second)
}

fn is_wanted(wanted: &BTreeSet<NodeId>, fabric: &Fabric, port: PortId) -> bool {
    wanted.contains(&fabric.port(port).node)
}
