//! Reads ports again that refused or did not acknowledge a Set(PortInfo).
//!
//! A port that its peer has made ACTIVE meanwhile may refuse the transition with status 0x1c; it is
//! ACTIVE all the same. A port that gets another M_Key refuses the repetition of a Set whose
//! response was lost, because that carries the old key; it has the new key all the same.

use crate::apply::set_id::SetId;
use crate::fabric::{Fabric, PortId};
use crate::ids::MKey;
use crate::observe::m_keys::MKeys;
use crate::plan::Plan;
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::{SmpError, SmpRequest};
use crate::wire::attr::{AttrId, PortInfo};
use crate::wire::smp::SmpRoute;

/// The PortInfo of the ports that refused a Set; without those that do not answer, and without those
/// whose links have left their state meanwhile. A sweep must see that they have: whatever is at the
/// far end is not in the state that it acknowledged before.
pub(super) async fn read(
    client: &SmpClient,
    fabric: &Fabric,
    failed: &[(SetId, SmpError)],
    keys: &MKeys,
) -> Vec<(PortId, PortInfo)> {
    let mut batch = Tagged::new(client);
    let refused = failed.iter().filter(|(set, error)| {
        set.attr_id == AttrId::PORT_INFO && matches!(error, SmpError::Status(_))
    });
    for (set, _) in refused {
        let slot = set.slot(fabric);
        let route = SmpRoute::Directed(fabric.route_to(slot));
        let request = SmpRequest::get(route, AttrId::PORT_INFO, set.attr_mod);
        batch.submit(slot, request.with_m_key(keys.of_port(fabric, slot)));
    }
    let mut ports = Vec::new();
    while let Some((slot, answer)) = batch.next().await {
        let info = answer.ok().map(|reply| PortInfo::read(&reply.data));
        let info = info.filter(|info| info.port_state() >= fabric.port(slot).state());
        ports.extend(info.map(|info| (slot, info)));
    }
    ports
}

/// Removes the Sets from `failed`, from the one with index `first` on, whose ports have the M_Key that
/// the Set has given them. Returns the PortInfo of these ports.
pub(super) async fn take_rekeyed(
    client: &SmpClient,
    fabric: &Fabric,
    plan: &Plan,
    failed: &mut Vec<(SetId, SmpError)>,
    first: usize,
) -> Vec<(PortId, PortInfo)> {
    let mut batch = Tagged::new(client);
    for (set, error) in &failed[first..] {
        let is_lost = set.attr_id == AttrId::PORT_INFO && *error == SmpError::Unanswered;
        let slot = set.slot(fabric);
        if let Some(key) = target_key(fabric, plan, set).filter(|key| key.is_set())
            && is_lost
            && fabric.owner(slot) == slot
            && fabric.port(slot).info().is_some_and(|info| info.m_key() != key)
        {
            let route = SmpRoute::Directed(fabric.route_to(slot));
            let request = SmpRequest::get(route, AttrId::PORT_INFO, set.attr_mod);
            batch.submit(*set, request.with_m_key(key));
        }
    }
    let mut ports = Vec::new();
    while let Some((set, answer)) = batch.next().await {
        let info = answer.ok().map(|reply| PortInfo::read(&reply.data));
        let key = target_key(fabric, plan, &set);
        if let Some(info) = info.filter(|info| Some(info.m_key()) == key) {
            failed.retain(|(other, _)| *other != set);
            ports.push((set.slot(fabric), info));
        }
    }
    ports
}

/// The M_Key that a port is to get.
fn target_key(fabric: &Fabric, plan: &Plan, set: &SetId) -> Option<MKey> {
    let target = plan.ports.of(set.slot(fabric));
    target.map(|info| info.m_key())
}
