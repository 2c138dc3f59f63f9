//! Reads the attributes that a port reports as changed by trap 144 or 145, and no others: a fabric
//! whose hosts all boot sends thousands of these traps.

use super::Observation;
use super::m_keys::MKeys;
use super::traps::ChangedAttributes;
use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, CapMask, NodeDescription, NodeInfo, PortInfo, SmInfo};
use crate::wire::smp::SmpRoute;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bit of the capability mask of switch port 0: IsMulticastFDBTopSupported.
const MULTICAST_FDB_TOP: u32 = 1 << 30;
/// Capabilities that plans depend on.
const PLANNED_CAPABILITIES: u32 =
    CapMask::SL_MAPPING | CapMask::EXTENDED_SPEEDS | CapMask::CLIENT_REREGISTER | MULTICAST_FDB_TOP;

/// The result of reading changed attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LocalChanges {
    /// The snapshot has changed.
    pub is_changed: bool,
    /// Other SMs appeared, disappeared or changed.
    pub managers_changed: bool,
    /// The changes affect plans.
    pub needs_plan: bool,
    /// A port did not answer, or another device answered.
    pub needs_sweep: bool,
}

/// Reads the changed attributes of ports and updates `observation`.
pub async fn read(
    client: &SmpClient,
    keys: &MKeys,
    observation: &mut Observation,
    ports: &[(PortId, ChangedAttributes)],
) -> LocalChanges {
    let mut reader = ChangeReader { batch: Tagged::new(client), keys };
    for &(port, changed) in ports {
        reader.query(&observation.fabric, port, changed);
    }
    let mut changes = LocalChanges::default();
    while let Some(((port, attr_id), answer)) = reader.batch.next().await {
        let Ok(reply) = answer else {
            // An SM that does not answer is no news to a sweep.
            changes.needs_sweep |= attr_id != AttrId::SM_INFO;
            continue;
        };
        match attr_id {
            AttrId::NODE_DESCRIPTION => {
                let fabric = Arc::make_mut(&mut observation.fabric);
                fabric.set_description(port, NodeDescription(reply.data));
                changes.is_changed = true;
            }
            AttrId::NODE_INFO => {
                let info = NodeInfo::read(&reply.data);
                changes.needs_sweep |= observation.fabric.node_of(port).guid() != info.node_guid();
                Arc::make_mut(&mut observation.fabric).set_system_guid(port, info.system_guid());
                changes.is_changed = true;
            }
            AttrId::PORT_INFO => {
                let info = PortInfo::read(&reply.data);
                reader.port_info(observation, port, &info, &mut changes);
            }
            _ => {
                set_manager(observation, port, Some(SmInfo::read(&reply.data)));
                changes.managers_changed = true;
            }
        }
    }
    changes
}

struct ChangeReader<'a> {
    batch: Tagged<(PortId, u16)>,
    keys: &'a MKeys,
}

impl ChangeReader<'_> {
    fn query(&mut self, fabric: &Fabric, port: PortId, changed: ChangedAttributes) {
        let Some(known) = fabric.port(port).info() else { return };
        let has_other_mask =
            changed.capability_mask.is_some_and(|mask| mask != known.capability_mask());
        let wanted = [
            (AttrId::NODE_DESCRIPTION, changed.node_description),
            (AttrId::NODE_INFO, changed.node_info),
            (AttrId::PORT_INFO, changed.port_info || has_other_mask),
            (AttrId::SM_INFO, changed.sm_info && known.has(CapMask::IS_SM)),
        ];
        for (attr_id, _) in wanted.into_iter().filter(|(_, is_wanted)| *is_wanted) {
            self.submit(fabric, port, attr_id);
        }
    }

    fn submit(&mut self, fabric: &Fabric, port: PortId, attr_id: u16) {
        let route = SmpRoute::Directed(fabric.route_to(port));
        let modifier = if attr_id == AttrId::PORT_INFO { fabric.port(port).num.0 } else { 0 };
        let request = SmpRequest::get(route, attr_id, modifier.into());
        self.batch.submit((port, attr_id), request.with_m_key(self.keys.of_port(fabric, port)));
    }

    /// Handles a PortInfo. A port that has become that of an SM is queried for its SMInfo.
    fn port_info(
        &mut self,
        observation: &mut Observation,
        port: PortId,
        info: &PortInfo,
        changes: &mut LocalChanges,
    ) {
        let is_local = port == observation.fabric.local();
        let Some(known) = observation.fabric.port(port).info().filter(|known| known != info) else {
            return;
        };
        if !is_local && known.has(CapMask::IS_SM) != info.has(CapMask::IS_SM) {
            if info.has(CapMask::IS_SM) {
                self.submit(&observation.fabric, port, AttrId::SM_INFO);
            } else {
                set_manager(observation, port, None);
                changes.managers_changed = true;
            }
        }
        changes.is_changed = true;
        changes.needs_plan |= affects_plan(&known, info);
        Arc::make_mut(&mut observation.fabric).acknowledge(&[(port, *info)], &[]);
    }
}

/// Replaces or removes the SM at a port.
fn set_manager(observation: &mut Observation, port: PortId, info: Option<SmInfo>) {
    observation.managers.retain(|&(other, _)| other != port);
    observation.managers.extend(info.map(|info| (port, info)));
}

/// True if the PortInfo differs in more than counters and capabilities that no plan depends on.
fn affects_plan(old: &PortInfo, new: &PortInfo) -> bool {
    let mut same = *new;
    same.set_m_key_violations(old.m_key_violations());
    same.set_p_key_violations(old.p_key_violations());
    same.set_q_key_violations(old.q_key_violations());
    same.set_diag_code(old.diag_code());
    same.set_local_port(old.local_port());
    same.set_client_reregister(old.client_reregister());
    same.set_capability_mask2(old.capability_mask2());
    let planned = new.capability_mask() & PLANNED_CAPABILITIES;
    same.set_capability_mask(planned | old.capability_mask() & !PLANNED_CAPABILITIES);
    same != *old
}

/// The end ports with these LIDs.
pub fn ports_by_lid(
    fabric: &Fabric,
    changed: &BTreeMap<Lid, ChangedAttributes>,
) -> Vec<(PortId, ChangedAttributes)> {
    let ports = fabric.end_ports().filter_map(|port| {
        let lid = fabric.port(port).info()?.lid();
        Some((port, *changed.get(&lid)?))
    });
    ports.collect()
}
