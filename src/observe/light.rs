//! The light sweep: finds changes whose traps were lost.
//!
//! It queries SwitchInfo of each switch for PortStateChange bits, NodeInfo of each device that did
//! not answer the last sweep or answered it with invalid data, PortInfo of the local port and of
//! its peer if that is no switch: two hosts cabled back to back have nobody who sends traps, and
//! PortInfo of ports that hide an unknown M_Key, whose lease may end.

use super::discovery_state::DiscoveryState;
use super::m_keys::MKeys;
use super::node_info::node_info_problem;
use crate::fabric::{DiscoveryFault, Fabric, PortId};
use crate::ids::{Guid, PortNum};
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::{SmpReply, SmpRequest};
use crate::wire::attr::{AttrId, NodeInfo, PortInfo, SwitchInfo};
use crate::wire::smp::{DirectedRoute, SmpRoute};

/// The result of a light sweep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Switches with PortStateChange set.
    pub changed: Vec<Guid>,
    /// Switches that no longer answer.
    pub lost: Vec<Guid>,
    /// Routes to devices that did not answer before, or with invalid data, or hid their M_Key, and
    /// that do no longer.
    pub recovered: Vec<DirectedRoute>,
    /// The link of the local port, or a peer that is no switch, is in another state than before.
    pub local_link_changed: bool,
}

impl Findings {
    /// True if nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A query of the sweep.
#[derive(Clone, Copy)]
enum Query {
    Switch(Guid),
    Failed(DirectedRoute),
    EndPort(PortId),
    /// PortInfo of an end port that hides its M_Key.
    Hidden(PortId),
}

/// Queries `fabric` for changes.
pub async fn sweep(client: &SmpClient, keys: &MKeys, fabric: &Fabric) -> Findings {
    let mut batch = Tagged::new(client);
    for (query, route) in queries(fabric, keys) {
        let attr_id = match query {
            Query::Switch(_) => AttrId::SWITCH_INFO,
            Query::Failed(_) => AttrId::NODE_INFO,
            Query::EndPort(_) | Query::Hidden(_) => AttrId::PORT_INFO,
        };
        let modifier = match query {
            Query::EndPort(port) | Query::Hidden(port) => fabric.port(port).num.0.into(),
            _ => 0,
        };
        let request = SmpRequest::get(SmpRoute::Directed(route), attr_id, modifier);
        batch.submit(query, request.with_m_key(keys.at_end(fabric, &route)));
    }
    let mut findings = Findings::default();
    while let Some((query, answer)) = batch.next().await {
        match answer {
            Ok(reply) => findings.answered((fabric, keys), query, &reply),
            Err(_) => findings.unanswered(query),
        }
    }
    findings.changed.sort_unstable();
    findings.lost.sort_unstable();
    findings
}

impl Findings {
    fn answered(&mut self, (fabric, keys): (&Fabric, &MKeys), query: Query, reply: &SmpReply) {
        match query {
            Query::Switch(guid) if SwitchInfo::read(&reply.data).port_state_change() => {
                self.changed.push(guid);
            }
            Query::Switch(_) => {}
            Query::Failed(route) if node_info_problem(&NodeInfo::read(&reply.data)).is_none() => {
                self.recovered.push(route);
            }
            Query::Failed(_) => {}
            Query::Hidden(port) => {
                if !keys.is_hidden(&PortInfo::read(&reply.data)) {
                    self.recovered.push(fabric.route_to(port));
                }
            }
            Query::EndPort(port) => {
                let (last, now) = (fabric.port(port).info, PortInfo::read(&reply.data));
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

    fn unanswered(&mut self, query: Query) {
        match query {
            Query::Switch(guid) => self.lost.push(guid),
            Query::Failed(_) | Query::Hidden(_) => {}
            Query::EndPort(_) => self.local_link_changed = true,
        }
    }
}

fn queries<'a>(
    fabric: &'a Fabric,
    keys: &'a MKeys,
) -> impl Iterator<Item = (Query, DirectedRoute)> + 'a {
    let switches = fabric.switches().iter().map(|&node| fabric.node(node));
    let switches = switches.map(|node| (Query::Switch(node.guid()), node.route));
    let failed = fabric.faults().iter().filter_map(|fault| failed_route(fabric, fault));
    let local = fabric.local();
    let peer = fabric.port(local).peer.filter(|&peer| !fabric.node_of(peer).is_switch());
    let end_ports = [Some(local), peer].into_iter().flatten();
    let end_ports = end_ports.map(|port| (Query::EndPort(port), fabric.route_to(port)));
    let failed = failed.map(|route| (Query::Failed(route), route));
    let is_hidden =
        |&port: &PortId| fabric.port(port).info.is_some_and(|info| keys.is_hidden(&info));
    let hidden = fabric.end_ports().filter(is_hidden);
    let hidden = hidden.map(|port| (Query::Hidden(port), fabric.route_to(port)));
    switches.chain(failed).chain(end_ports).chain(hidden)
}

/// The route to a device that failed to answer. A device of the snapshot that answered with invalid
/// data is left to the next heavy sweep.
fn failed_route(fabric: &Fabric, fault: &DiscoveryFault) -> Option<DirectedRoute> {
    match fault {
        // The device answers; the manager queries the SM again by itself.
        DiscoveryFault::NoAnswer { attribute: "SMInfo", .. } => None,
        DiscoveryFault::NoAnswer { route, .. } => Some(*route),
        DiscoveryFault::InvalidAnswer { route, .. } => {
            let is_known = fabric.nodes().iter().any(|node| node.route == *route);
            (!is_known).then_some(*route)
        }
        _ => None,
    }
}
