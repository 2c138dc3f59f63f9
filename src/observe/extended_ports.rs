//! Reads ExtendedPortInfo of Mellanox devices, which shows FDR10 (`fdr10`), after a sweep.
//!
//! As in OpenSM, the devices are told by their DeviceID, and their ports with a link are asked. A
//! focused sweep asks only ports that the last snapshot does not show with a link.

use super::Observation;
use super::m_keys::MKeys;
use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::PortNum;
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, MlnxExtPortInfo, PortState};
use crate::wire::smp::SmpRoute;
use std::collections::HashSet;
use std::sync::Arc;
use tracing::debug;

/// Asks the ports of `observation` that may support FDR10, except those that have a link in `last`.
/// Devices that do not answer are left alone.
pub(super) async fn read(
    client: &SmpClient,
    keys: &MKeys,
    observation: &mut Observation,
    last: Option<&Fabric>,
) {
    let fabric = observation.fabric.clone();
    let unresponsive: HashSet<NodeId> = fabric.unresponsive().collect();
    let mut batch = Tagged::new(client);
    for id in fabric.port_ids().filter(|a| is_wanted(&fabric, &unresponsive, &last, a)) {
        let route = SmpRoute::Directed(fabric.route_to(id));
        let num = fabric.port(id).num;
        let request = SmpRequest::get(route, AttrId::MLNX_EXT_PORT_INFO, num.0.into());
        batch.submit(id, request.with_m_key(keys.of_port(&fabric, id)));
    }
    while let Some((id, answer)) = batch.next().await {
        match answer {
            Ok(reply) => {
                let info = MlnxExtPortInfo::read(&reply.data);
                if fabric.extended_port_info(id) != Some(&info) {
                    Arc::make_mut(&mut observation.fabric).set_extended_port_info(id, info);
                }
            }
            Err(error) => debug!("ExtendedPortInfo of {}: {error}", fabric.describe(id)),
        }
    }
}

fn is_wanted(
    fabric: &Fabric,
    unresponsive: &HashSet<NodeId>,
    last: &Option<&Fabric>,
    &id: &PortId,
) -> bool {
    is_asked(fabric, id)
        && !unresponsive.contains(&fabric.port(id).node)
        && !is_known(fabric, id, *last)
}

/// Takes the ExtendedPortInfo of unresponsive devices from the last snapshot.
pub(super) fn retain(observation: &mut Observation, last: &Fabric) {
    let fabric = observation.fabric.clone();
    let unresponsive: HashSet<NodeId> = fabric.unresponsive().collect();
    for (id, info) in last.extended_ports().filter(|_| !unresponsive.is_empty()) {
        let port = fabric.port_by_end(last.end_of(id));
        if let Some(port) = port.filter(|&port| unresponsive.contains(&fabric.port(port).node)) {
            Arc::make_mut(&mut observation.fabric).set_extended_port_info(port, *info);
        }
    }
}

/// True for ports with a link, and enhanced ports 0, of devices that may have the attribute.
fn is_asked(fabric: &Fabric, id: PortId) -> bool {
    let port = fabric.port(id);
    let node = fabric.node_of(id);
    if port.info().is_none() || !MlnxExtPortInfo::is_supported_by(&node.info) {
        return false;
    }
    if node.is_switch() && port.num == PortNum::ZERO {
        node.switch_info.enhanced_port0()
    } else {
        !matches!(port.state(), PortState::Down)
    }
}

/// True if the port has a link in `last`, and has kept it.
fn is_known(fabric: &Fabric, id: PortId, last: Option<&Fabric>) -> bool {
    let node = fabric.node_of(id).guid();
    let before = last.and_then(|last| {
        last.port_of(last.node_by_guid(node)?, fabric.port(id).num).map(|port| last.port(port))
    });
    before.is_some_and(|before| before.state() != PortState::Down)
        && fabric.port(id).state() != PortState::Init
}
