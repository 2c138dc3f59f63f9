//! The other SMs of a fabric.

use crate::daemon::process::operator_log;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, SmKey};
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::sm::peer::{Peer, is_trusted};
use crate::transport::client::SmpClient;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, CapMask, SmInfo};
use crate::wire::smp::SmpRoute;
use std::collections::HashSet;

/// Queries the SMInfo of all other ports with IsSM, whether or not they answered before. Returns
/// those that answer, ordered by port.
pub async fn query(client: &SmpClient, keys: &MKeys, fabric: &Fabric) -> Vec<(PortId, SmInfo)> {
    let ports: Vec<PortId> = fabric
        .end_ports()
        .filter(|&port| {
            let info = fabric.port(port).info();
            port != fabric.local() && info.is_some_and(|info| info.has(CapMask::IS_SM))
        })
        .collect();
    let mut batch = client.batch();
    for (tag, &port) in ports.iter().enumerate() {
        let route = SmpRoute::Directed(fabric.route_to(port));
        let request = SmpRequest::get(route, AttrId::SM_INFO, 0);
        batch.submit(tag as u64, request.with_m_key(keys.of_port(fabric, port)));
    }
    let mut managers = Vec::new();
    while let Some((tag, result)) = batch.next().await {
        if let Ok(reply) = result {
            managers.push((ports[tag as usize], SmInfo::read(&reply.data)));
        }
    }
    managers.sort_by_key(|&(port, _)| port);
    managers
}

/// The other SMs of an observation, with the routes to them. Omits an SM that shows the GUID of
/// another port than its own, such as one whose port was recabled.
pub fn peers(observation: &Observation) -> Vec<Peer> {
    let fabric = &observation.fabric;
    let managers = observation
        .managers
        .iter()
        .filter(|&&(port, info)| fabric.port_by_guid(info.guid()) == Some(port));
    managers
        .map(|&(port, info)| Peer { info, route: SmpRoute::Directed(fabric.route_to(port)) })
        .collect()
}

/// Logs SMs with another SM_Key, each once.
#[derive(Default)]
pub struct StrangerLog(HashSet<Guid>);

impl StrangerLog {
    pub fn update(&mut self, own_key: SmKey, peers: &[Peer], fabric: &Fabric) {
        let strangers = peers.iter().filter(|peer| !is_trusted(own_key, &peer.info));
        let strangers: Vec<&Peer> = strangers.collect();
        for peer in &strangers {
            if !self.0.contains(&peer.guid()) {
                let port = fabric.port_by_guid(peer.guid());
                let name =
                    port.map_or_else(String::new, |port| fabric.node_of(port).name().to_string());
                operator_log::foreign_sm(peer, &name);
            }
        }
        self.0 = strangers.iter().map(|peer| peer.guid()).collect();
    }
}
