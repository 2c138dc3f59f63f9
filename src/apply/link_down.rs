//! Takes links down: because their MTU or operational VLs change, because their peers cannot be
//! reached, or because a port floods the SM with traps.
//!
//! A link in ARMED or ACTIVE that changes its MTU or operational VLs loses packets and flow control
//! credits, so it passes through INIT (IBA vol. 1, 7.2.7), as with OpenSM.

use super::set_id::SetId;
use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::observe::m_keys::MKeys;
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::{SmpError, SmpRequest};
use crate::wire::attr::{AttrId, PhysState, PortInfo, PortState};
use crate::wire::smp::SmpRoute;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Longest time for which a reconfiguration waits for links that it has taken down.
const MAX_TRAINING: Duration = Duration::from_secs(3);
/// Interval at which ports are asked whether their link is trained.
const TRAINING_POLL: Duration = Duration::from_millis(100);

/// True if the port carries data.
pub(super) fn is_up(fabric: &Fabric, port: PortId) -> bool {
    matches!(fabric.port(port).state(), PortState::Armed | PortState::Active)
}

/// The end of the port's link that is nearer to the SM, whose response does not depend on the link.
pub fn near_end(fabric: &Fabric, port: PortId) -> PortId {
    let Some(peer) = fabric.port(port).peer else { return port };
    if hops(fabric, peer) < hops(fabric, port) { peer } else { port }
}

/// Number of hops from the SM to the node of a port.
fn hops(fabric: &Fabric, port: PortId) -> usize {
    fabric.node_of(port).route.len()
}

/// True if the link of a port is that of the SM.
pub fn is_own_link(fabric: &Fabric, port: PortId) -> bool {
    port == fabric.local() || fabric.port(port).peer == Some(fabric.local())
}

/// Ports that carry data although the node at the far end cannot be reached, ascending.
pub fn unreachable_peers(fabric: &Fabric) -> impl Iterator<Item = PortId> + '_ {
    fabric.port_ids().filter(|&id| {
        let port = fabric.port(id);
        port.num != PortNum::ZERO
            && port.peer.is_none()
            && id != fabric.local()
            && is_up(fabric, id)
    })
}

/// The ports grouped by their distance from the SM, the farthest ones first, so that no Set crosses
/// a link that was taken down before.
pub(super) fn farthest_first<'a>(
    fabric: &Fabric,
    ports: impl Iterator<Item = &'a PortId>,
) -> impl Iterator<Item = Vec<PortId>> {
    let mut groups: BTreeMap<Reverse<usize>, Vec<PortId>> = BTreeMap::new();
    for &port in ports {
        groups.entry(Reverse(hops(fabric, port))).or_default().push(port);
    }
    groups.into_values()
}

/// Disables a port physically. It stays disabled until an administrator enables it.
///
/// # Errors
/// [`SmpError`] if the port does not acknowledge it.
pub async fn disable(
    client: &SmpClient,
    fabric: &Fabric,
    port: PortId,
    keys: &MKeys,
) -> Result<(), SmpError> {
    let Some(info) = fabric.port(port).info() else { return Err(SmpError::Unanswered) };
    let mut info = down(&info);
    info.set_phys_state(PhysState::Disabled);
    let route = SmpRoute::Directed(fabric.route_to(port));
    let num = fabric.port(port).num.0.into();
    let request = SmpRequest::set(route, AttrId::PORT_INFO, num, info.0);
    client.call(&request.with_m_key(keys.of_port(fabric, port))).await.map(|_| ())
}

/// Waits until the links of these ports are trained, up to [`MAX_TRAINING`].
pub(super) async fn await_training(
    client: &SmpClient,
    fabric: &Fabric,
    ports: &[PortId],
    keys: &MKeys,
) {
    let deadline = Instant::now() + MAX_TRAINING;
    let mut waiting = ports.to_vec();
    while !waiting.is_empty() && Instant::now() < deadline {
        let mut batch = Tagged::new(client);
        for port in waiting.drain(..) {
            let route = SmpRoute::Directed(fabric.route_to(port));
            let num = fabric.port(port).num.0.into();
            let request = SmpRequest::get(route, AttrId::PORT_INFO, num);
            batch.submit(port, request.with_m_key(keys.of_port(fabric, port)));
        }
        while let Some((port, answer)) = batch.next().await {
            // A port may be behind another link that is not trained yet.
            let is_trained = answer
                .is_ok_and(|reply| PortInfo::read(&reply.data).port_state() != PortState::Down);
            waiting.extend((!is_trained).then_some(port));
        }
        if !waiting.is_empty() {
            sleep(TRAINING_POLL).await;
        }
    }
}

/// Both ends of these links in INIT.
pub(super) fn in_init(fabric: &Fabric, links: &[PortId]) -> Vec<(PortId, PortInfo)> {
    let ends = links.iter().flat_map(|&id| ends_of_link(fabric, id));
    let in_init = ends.filter_map(|id| {
        let mut info = fabric.port(id).info()?;
        info.set_port_state(PortState::Init);
        Some((id, info))
    });
    in_init.collect()
}

/// Set(PortInfo) of both ends of a link.
pub(super) fn sets_of_link(fabric: &Fabric, port: PortId) -> impl Iterator<Item = SetId> {
    ends_of_link(fabric, port).map(|id| {
        let port = fabric.port(id);
        SetId {
            node: port.node,
            port: port.num,
            attr_id: AttrId::PORT_INFO,
            attr_mod: port.num.0.into(),
        }
    })
}

fn ends_of_link(fabric: &Fabric, port: PortId) -> impl Iterator<Item = PortId> {
    [Some(port), fabric.port(port).peer].into_iter().flatten()
}

/// The PortInfo that takes a link down and lets it train again.
pub(super) fn down(info: &PortInfo) -> PortInfo {
    let mut down = *info;
    down.set_port_state(PortState::Down);
    down.set_phys_state(PhysState::NoChange);
    down.set_client_reregister(false);
    down
}
