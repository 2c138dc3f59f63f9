//! LIDs, P_Keys and settings of the ports that carry no data, for a fabric for which there was no
//! acceptable plan yet.
//!
//! A subnet manager that starts while every plan is rejected knows neither the routes that the
//! switches hold nor their service levels. It leaves the tables of the switches and all ports in use
//! as they are, and brings up the others: those of links in INIT or ARMED, and ports 0 of switches
//! without a LID. Ports in use keep the LIDs that they carry, so that no other port gets one of them.

use super::compute::{Assigned, PlanInput, Planned, Registrations, with_routes};
use super::lids::{self, Memory};
use super::routing::Routing;
use super::{LidTable, Plan};
use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use crate::wire::attr::PortState;
use std::sync::Arc;

/// Plans the ports that carry no data. The plan has no routes and no multicast trees: of its Sets,
/// only those of P_Key tables and PortInfo may be sent.
pub fn compute_idle_ports(input: &PlanInput<'_>) -> (Plan, Memory) {
    let PlanInput { fabric, options, .. } = *input;
    let carried = carried_lids(fabric);
    let memory = input.memory.keeping(fabric, &carried);
    let (table, memory, notes) = lids::assign(fabric, options, &memory);
    let routing = Routing::without_routes("none", fabric.switches().len(), table.max());
    let assigned = Assigned { lids: Arc::new(table), memory, notes };
    let input = PlanInput { registrations: Registrations::default(), ..*input };
    let Planned { mut plan, memory, .. } = with_routes(&input, assigned, Arc::new(routing));
    for id in fabric.port_ids() {
        if !is_idle(fabric, id) || takes_lid_of_other(&carried, &plan.lids, id) {
            plan.ports.replace(id, None);
            plan.partitions.blocks.replace(id.index(), Arc::default());
        }
    }
    (plan, memory)
}

/// True for a port that carries no data: one with a link that is not ACTIVE, or port 0 of a switch
/// without a LID.
pub fn is_idle(fabric: &Fabric, id: PortId) -> bool {
    let port = fabric.port(id);
    if fabric.node_of(id).is_switch() && port.num.0 == 0 {
        return fabric.observed_lid(id).is_none();
    }
    port.peer.is_some() && matches!(port.state(), PortState::Init | PortState::Armed)
}

/// The LIDs of the ports in use. Of several ports with the same LID, the first has it.
fn carried_lids(fabric: &Fabric) -> LidTable {
    let mut carried = LidTable::new(fabric.ports().len());
    for id in fabric.end_ports().filter(|&id| !is_idle(fabric, id)) {
        let lmc = fabric.port(id).info().map_or(0, |info| info.lmc());
        let Some(base) = fabric.observed_lid(id) else { continue };
        let range = u32::from(base.0)..u32::from(base.0) + (1 << lmc);
        let is_valid = range.end <= u32::from(Lid::UNICAST_MAX.0) + 1;
        if is_valid && range.clone().all(|lid| carried.port(Lid(lid as u16)).is_none()) {
            carried.assign(id, base, lmc);
        }
    }
    carried
}

/// True if a LID that a port is to get is carried by another one. Another LMC than before may leave
/// no other LIDs for it.
fn takes_lid_of_other(carried: &LidTable, planned: &LidTable, id: PortId) -> bool {
    planned.base(id).is_some_and(|base| {
        let range = base.0..=base.0 + ((1 << planned.lmc(id)) - 1);
        range.map(Lid).any(|lid| carried.port(lid).is_some_and(|other| other != id))
    })
}
