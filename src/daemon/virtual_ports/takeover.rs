//! Reads the LIDs that vports have from an earlier master, before the first plan of a new one.
//!
//! Without them, that plan would take the LIDs out of the forwarding tables until the vports are
//! discovered, and could give them to other ports. The discovery of ports without virtualization goes on from
//! what was read of them.

use super::client::PortClient;
use super::discover::{states, vport_of};
use super::in_process::in_process;
use super::is_used;
use crate::config::options::Options;
use crate::fabric::virtual_ports::{VirtualPort, VirtualPorts, VirtualizedPort};
use crate::fabric::{Fabric, PortId};
use crate::ids::Guid;
use crate::observe::m_keys::MKeys;
use crate::transport::client::SmpClient;
use crate::transport::transactions::SmpRequest;
use crate::vendor::virtual_ports::{DisabledPorts, VirtualFailure};
use crate::wire::attr::tables::PKEY_BLOCK;
use crate::wire::attr::{AttrId, NodeKind};
use crate::wire::smp::SmpRoute;
use crate::wire::vendor::virtual_ports::{VirtualizationInfo, VportInfo, VportStates};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Repetitions of an unanswered request: the plan waits.
const MAX_RETRIES: u32 = 0;

/// State of the adapter ports when this SM becomes master.
#[derive(Debug, Default)]
pub struct CarriedVports {
    /// The vports with their LIDs on ports of which an earlier master has enabled virtualization. They
    /// count as not discovered.
    pub virtual_ports: VirtualPorts,
    /// VirtualizationInfo of the ports without virtualization, by port GUID.
    pub disabled: DisabledPorts,
}

/// Reads VirtualizationInfo of the adapter ports whose vports are not known, and the vports where virtualization
/// is enabled.
pub async fn carried_vports(
    client: &SmpClient,
    keys: &MKeys,
    options: &Options,
    fabric: &Fabric,
) -> CarriedVports {
    if !is_used(options) || !fabric.awaits_vports() {
        return CarriedVports::default();
    }
    let adapters = fabric.end_ports().filter(|&id| fabric.node_of(id).kind() == NodeKind::Ca);
    let adapters: Vec<PortId> = adapters.filter(|&id| fabric.has_unknown_vports(id)).collect();
    let client = client.with_retries(MAX_RETRIES).woken_at_end();
    let mut batch = client.batch();
    batch.submit_all((0..).zip(&adapters).map(|(tag, &id)| {
        let port = port_client(&client, fabric, keys, id);
        (tag, port.get_request(AttrId::VIRTUALIZATION_INFO, 0))
    }));
    let mut disabled = DisabledPorts::default();
    let mut enabled = Vec::new();
    while let Some((tag, result)) = batch.next().await {
        let id = adapters[tag as usize];
        let Ok(info) = result.map(|reply| VirtualizationInfo(reply.data)) else { continue };
        if info.enable() {
            enabled.push((id, info));
        } else {
            disabled.insert(fabric.port(id).guid, info);
        }
    }
    let read: Vec<_> = in_process(
        enabled.into_iter().map(|(id, info)| {
            let port = port_client(&client, fabric, keys, id);
            let guid = fabric.port(id).guid;
            async move { (guid, carried(&port, &info).await) }
        }),
        options,
    )
    .collect()
    .await;
    let mut ports: BTreeMap<Guid, Arc<VirtualizedPort>> = BTreeMap::new();
    for (guid, read) in read {
        if let Ok(port) = read {
            ports.insert(guid, Arc::new(port));
        }
    }
    let (virtual_ports, _) = VirtualPorts::new(&ports, &VirtualPorts::default());
    CarriedVports { virtual_ports, disabled }
}

fn port_client(client: &SmpClient, fabric: &Fabric, keys: &MKeys, id: PortId) -> PortClient {
    PortClient {
        client: client.clone(),
        route: SmpRoute::Directed(fabric.route_to(id)),
        m_key: keys.of_port(fabric, id),
        requests: Arc::default(),
    }
}

/// The vports of one port.
async fn carried(
    port: &PortClient,
    info: &VirtualizationInfo,
) -> Result<VirtualizedPort, VirtualFailure> {
    let top_index = info.top_index().min(info.vport_cap().saturating_sub(1));
    let mut vports = Vec::new();
    for first in (0..=top_index).step_by(VportStates::COUNT.into()) {
        let states = states(port, first, top_index).await?;
        let requests: Vec<SmpRequest> = states
            .iter()
            .map(|&(index, _)| port.get_request(AttrId::VPORT_INFO, index.into()))
            .collect();
        for ((index, state), reply) in states.into_iter().zip(port.call_all(&requests).await) {
            let info = VportInfo(reply?);
            let partition_cap = PKEY_BLOCK as u16;
            vports.push(VirtualPort { partition_cap, ..vport_of(index, state, &info) });
        }
    }
    Ok(VirtualizedPort { is_discovered: false, top_index, vports })
}
