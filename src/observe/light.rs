//! The light sweep: finds changes whose traps were lost.
//!
//! It queries SwitchInfo of each switch for PortStateChange bits, NodeInfo of each device that did
//! not answer the last sweep or answered it with invalid data (of an unresponsive one, when it is due
//! to be asked again), PortInfo of the local port and of
//! its peer if that is no switch: two hosts cabled back to back have nobody who sends traps, and
//! PortInfo of ports that hide an unknown M_Key, whose lease may end.
//!
//! A link may change after its port was read and before PortStateChange is cleared, and its trap may
//! be lost. So all ports of the switches whose bit was cleared are read again.

use super::discovery_state::DiscoveryState;
use super::m_keys::MKeys;
use super::node_info::node_info_problem;
use crate::fabric::{DiscoveryFault, Fabric, NodeId, PortId};
use crate::ids::{Guid, PortNum};
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::{SmpReply, SmpRequest};
use crate::wire::attr::{AttrId, NodeInfo, PortInfo, PortState, SwitchInfo};
use crate::wire::smp::{DirectedRoute, SmpRoute};
use std::collections::HashSet;
use std::fmt;

/// The result of a light sweep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LightFindings {
    /// Switches with PortStateChange set.
    pub changed: Vec<Guid>,
    /// Switches that no longer answer.
    pub lost: Vec<Guid>,
    /// Routes to devices that did not answer before, or with invalid data, or hid their M_Key, and
    /// that do no longer.
    pub recovered: Vec<DirectedRoute>,
    /// Unresponsive devices that were asked again and still do not answer.
    pub unresponsive: Vec<Guid>,
    /// The link of the local port, or a peer that is no switch, is in another state than before.
    pub local_link_changed: bool,
}

impl fmt::Display for LightFindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switches =
            |guids: &[Guid]| guids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let mut parts = Vec::new();
        if !self.changed.is_empty() {
            parts.push(format!("changed ports at {}", switches(&self.changed)));
        }
        if !self.lost.is_empty() {
            parts.push(format!("no answer from {}", switches(&self.lost)));
        }
        if !self.recovered.is_empty() {
            let routes: Vec<_> = self.recovered.iter().map(ToString::to_string).collect();
            parts.push(format!("answers again at path {}", routes.join(" ")));
        }
        if self.local_link_changed {
            parts.push("a link without a switch at its end has changed".to_owned());
        }
        f.write_str(if parts.is_empty() { "nothing changed" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}

impl LightFindings {
    /// True if nothing changed.
    pub fn is_empty(&self) -> bool {
        let Self { changed, lost, recovered, unresponsive: _, local_link_changed } = self;
        changed.is_empty() && lost.is_empty() && recovered.is_empty() && !local_link_changed
    }
}

/// A query of the sweep.
#[derive(Clone, Copy)]
enum LightQuery {
    Switch(Guid),
    Failed(DirectedRoute),
    /// NodeInfo of an unresponsive device.
    Unresponsive(Guid),
    EndPort(PortId),
    /// PortInfo of a port of a switch whose PortStateChange was cleared.
    Cleared(PortId),
    /// PortInfo of an end port that hides its M_Key.
    Hidden(PortId),
}

/// The switches and devices of which a light sweep asks more, or less, than of others.
#[derive(Clone, Copy, Debug)]
pub struct LightFocus<'a> {
    /// GUIDs of the switches whose PortStateChange was cleared since their ports were read.
    pub cleared: &'a [Guid],
    /// GUIDs of unresponsive devices that are not asked yet again.
    pub waiting: &'a HashSet<Guid>,
}

/// Queries `fabric` for changes.
pub async fn sweep(
    client: &SmpClient,
    keys: &MKeys,
    fabric: &Fabric,
    focus: LightFocus<'_>,
) -> LightFindings {
    let mut batch = Tagged::new(client);
    let due = queries(fabric, keys).filter(|(query, _)| match query {
        LightQuery::Unresponsive(guid) => !focus.waiting.contains(guid),
        _ => true,
    });
    for (query, route) in due.chain(cleared_ports(fabric, focus.cleared)) {
        let attr_id = match query {
            LightQuery::Switch(_) => AttrId::SWITCH_INFO,
            LightQuery::Failed(_) | LightQuery::Unresponsive(_) => AttrId::NODE_INFO,
            LightQuery::EndPort(_) | LightQuery::Hidden(_) | LightQuery::Cleared(_) => {
                AttrId::PORT_INFO
            }
        };
        let modifier = match query {
            LightQuery::EndPort(port) | LightQuery::Hidden(port) | LightQuery::Cleared(port) => {
                fabric.port(port).num.0.into()
            }
            _ => 0,
        };
        let request = SmpRequest::get(SmpRoute::Directed(route), attr_id, modifier);
        batch.submit(query, request.with_m_key(keys.at_end(fabric, &route)));
    }
    let mut findings = LightFindings::default();
    while let Some((query, answer)) = batch.next().await {
        match answer {
            Ok(reply) => findings.answered(fabric, keys, query, &reply),
            Err(_) => findings.unanswered(query),
        }
    }
    findings.changed.sort_unstable();
    findings.changed.dedup();
    findings.lost.sort_unstable();
    findings
}

impl LightFindings {
    fn answered(&mut self, fabric: &Fabric, keys: &MKeys, query: LightQuery, reply: &SmpReply) {
        match query {
            LightQuery::Switch(guid) if SwitchInfo::read(&reply.data).port_state_change() => {
                self.changed.push(guid);
            }
            LightQuery::Switch(_) => {}
            LightQuery::Failed(route)
                if node_info_problem(&NodeInfo::read(&reply.data)).is_none() =>
            {
                self.recovered.push(route);
            }
            LightQuery::Failed(_) => {}
            LightQuery::Unresponsive(guid) => {
                let node = fabric.node_by_guid(guid);
                self.recovered.extend(node.map(|node| fabric.node(node).route));
            }
            LightQuery::Hidden(port) => {
                if !keys.is_hidden(&PortInfo::read(&reply.data)) {
                    self.recovered.push(fabric.route_to(port));
                }
            }
            LightQuery::Cleared(port) => {
                let last = fabric.port(port).info();
                let now = PortInfo::read(&reply.data);
                if last.is_some_and(|last| phase(&last) != phase(&now)) {
                    self.changed.push(fabric.node_of(port).guid());
                }
            }
            LightQuery::EndPort(port) => {
                let last = fabric.port(port).info();
                let now = PortInfo::read(&reply.data);
                let is_same = last.is_some_and(|last| {
                    let shown =
                        |info: &PortInfo| (info.port_state(), info.lid(), info.master_sm_lid());
                    shown(&last) == shown(&now)
                });
                // A trained link without a peer: the cable was moved during the last sweep.
                let is_open = port == fabric.local()
                    && fabric.port(port).peer.is_none()
                    && fabric.port(port).num != PortNum::ZERO
                    && DiscoveryState::has_trained_link(&now);
                self.local_link_changed |= !is_same || is_open;
            }
        }
    }

    fn unanswered(&mut self, query: LightQuery) {
        match query {
            LightQuery::Switch(guid) => self.lost.push(guid),
            LightQuery::Unresponsive(guid) => self.unresponsive.push(guid),
            LightQuery::Failed(_) | LightQuery::Hidden(_) | LightQuery::Cleared(_) => {}
            LightQuery::EndPort(_) => self.local_link_changed = true,
        }
    }
}

fn queries<'a>(
    fabric: &'a Fabric,
    keys: &'a MKeys,
) -> impl Iterator<Item = (LightQuery, DirectedRoute)> + 'a {
    let unresponsive: HashSet<NodeId> = fabric.unresponsive().collect();
    let silent = fabric.unresponsive().map(|node| fabric.node(node));
    let silent = silent.map(|node| (LightQuery::Unresponsive(node.guid()), node.route));
    let switches = fabric.switches().iter().filter(move |node| !unresponsive.contains(node));
    let switches = switches.map(|&node| fabric.node(node));
    let switches = switches.map(|node| (LightQuery::Switch(node.guid()), node.route));
    let failed = fabric.faults().iter().filter_map(|fault| failed_route(fabric, fault));
    let local = fabric.local();
    let peer = fabric.port(local).peer.filter(|&peer| !fabric.node_of(peer).is_switch());
    let end_ports = [Some(local), peer].into_iter().flatten();
    let end_ports = end_ports.map(|port| (LightQuery::EndPort(port), fabric.route_to(port)));
    let failed = failed.map(|route| (LightQuery::Failed(route), route));
    let hidden = fabric
        .end_ports()
        .filter(|&port| fabric.port(port).info().is_some_and(|info| keys.is_hidden(&info)));
    let hidden = hidden.map(|port| (LightQuery::Hidden(port), fabric.route_to(port)));
    switches.chain(silent).chain(failed).chain(end_ports).chain(hidden)
}

/// The ports of these switches, with the routes to the switches. Port 0 has no link.
fn cleared_ports<'a>(
    fabric: &'a Fabric,
    switches: &'a [Guid],
) -> impl Iterator<Item = (LightQuery, DirectedRoute)> + 'a {
    let nodes = switches.iter().filter_map(|&guid| fabric.node_by_guid(guid));
    nodes.flat_map(move |node| {
        let route = fabric.node(node).route;
        let ports = (1..=fabric.node(node).num_ports()).map(PortNum);
        let ports = ports.filter_map(move |num| fabric.port_of(node, num));
        ports.map(move |port| (LightQuery::Cleared(port), route))
    })
}

/// The phase of a link: without a link, to be configured, in use. ARMED counts as in use: the far
/// end may have become ACTIVE first.
fn phase(info: &PortInfo) -> u8 {
    match info.port_state() {
        PortState::Init => 1,
        state if state >= PortState::Armed => 2,
        _ => 0,
    }
}

/// The route to a device that failed to answer. A device of the snapshot that answered with invalid
/// data is left to the next heavy sweep.
fn failed_route(fabric: &Fabric, fault: &DiscoveryFault) -> Option<DirectedRoute> {
    match fault {
        // The device answers; the SM loop queries the SM again by itself.
        DiscoveryFault::NoAnswer { attribute: "SMInfo", .. } => None,
        DiscoveryFault::NoAnswer { route, .. } => Some(*route),
        DiscoveryFault::InvalidAnswer { route, .. } => {
            let is_known = fabric.nodes().iter().any(|node| node.route == *route);
            (!is_known).then_some(*route)
        }
        _ => None,
    }
}
