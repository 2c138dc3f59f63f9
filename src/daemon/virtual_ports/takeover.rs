//! Reads the LIDs that vports have from an earlier master, before the first plan of a new one.
//!
//! Without them, that plan would take the LIDs out of the forwarding tables until the vports are
//! discovered, and could give them to other ports.

use super::discover::{PortClient, vport_of};
use super::{is_used, limit};
use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::fabric::virtual_ports::{VirtualPort, VirtualPorts, VirtualizedPort};
use crate::ids::Guid;
use crate::observe::m_keys::MKeys;
use crate::transport::client::SmpClient;
use crate::vendor::virtual_ports::VirtualFailure;
use crate::wire::attr::tables::PKEY_BLOCK;
use crate::wire::attr::{AttrId, NodeKind, PortState};
use crate::wire::smp::SmpRoute;
use crate::wire::vendor::virtual_ports::{VirtualizationInfo, VportInfo, VportStates};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Repetitions of an unanswered request: the plan waits.
const MAX_RETRIES: u32 = 0;

/// The vports with their LIDs on ports of which an earlier master has enabled virtualization. They
/// count as not discovered.
pub async fn carried_lids(
    client: &SmpClient,
    keys: &MKeys,
    options: &Options,
    fabric: &Fabric,
) -> VirtualPorts {
    if !is_used(options) || !fabric.awaits_vports() {
        return VirtualPorts::default();
    }
    let adapters = fabric.end_ports().filter(|&id| fabric.node_of(id).kind() == NodeKind::Ca);
    let limit = limit(options);
    let mut tasks = JoinSet::new();
    for id in adapters.filter(|&id| fabric.has_unknown_vports(id)) {
        let guid = fabric.port(id).guid;
        let port = PortClient {
            client: client.with_retries(MAX_RETRIES),
            route: SmpRoute::Directed(fabric.route_to(id)),
            m_key: keys.of_port(fabric, id),
            requests: Arc::default(),
        };
        let limit = limit.clone();
        tasks.spawn(async move {
            let _permit = limit.acquire().await;
            (guid, carried(&port).await)
        });
    }
    let mut ports: BTreeMap<Guid, Arc<VirtualizedPort>> = BTreeMap::new();
    while let Some(Ok((guid, read))) = tasks.join_next().await {
        if let Ok(Some(port)) = read {
            ports.insert(guid, Arc::new(port));
        }
    }
    VirtualPorts::new(&ports, &VirtualPorts::default()).0
}

/// The vports of one port; `None` if it is not enabled.
async fn carried(port: &PortClient) -> Result<Option<VirtualizedPort>, VirtualFailure> {
    let info = VirtualizationInfo(port.get(AttrId::VIRTUALIZATION_INFO, 0).await?);
    if !info.enable() {
        return Ok(None);
    }
    let top_index = info.top_index().min(info.vport_cap().saturating_sub(1));
    let mut vports = Vec::new();
    for first in (0..=top_index).step_by(VportStates::COUNT.into()) {
        let last = top_index.min(first + (VportStates::COUNT - 1));
        let block = VportStates::block(first);
        let states = VportStates(port.get(AttrId::VPORT_STATE, block).await?);
        for index in first..=last {
            let state = states.state(index - first);
            if state == PortState::Down || state == PortState::NoChange {
                continue;
            }
            let info = VportInfo(port.get(AttrId::VPORT_INFO, index.into()).await?);
            let partition_cap = PKEY_BLOCK as u16;
            vports.push(VirtualPort { partition_cap, ..vport_of(index, state, &info) });
        }
    }
    Ok(Some(VirtualizedPort { is_discovered: false, top_index, vports }))
}
