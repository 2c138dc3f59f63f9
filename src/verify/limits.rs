//! Capacities of the devices.

use super::sl_to_vl::data_vls;
use super::verdict::{Fault, FaultList};
use crate::fabric::{Fabric, NodeId, SwitchId};
use crate::ids::{Mlid, PortNum};
use crate::plan::Plan;
use crate::wire::attr::SwitchInfo;

/// Checks LIDs against LinearFDBCap and MLIDs against MulticastFDBCap (IBA vol. 1, 14.2.5.4) of
/// switches that answered SwitchInfo, and VLs against the operational VLs of the output port. VL
/// 15, which drops packets, is always allowed.
pub(super) fn check(fabric: &Fabric, plan: &Plan) -> FaultList {
    check_some(fabric, plan, fabric.switch_ids(), fabric.node_ids())
}

/// [`check`] for the forwarding tables of some switches and the SL to VL tables of some nodes.
pub(super) fn check_some(
    fabric: &Fabric,
    plan: &Plan,
    switches: impl IntoIterator<Item = SwitchId>,
    nodes: impl IntoIterator<Item = NodeId>,
) -> FaultList {
    let mut faults = FaultList::default();
    for switch in switches {
        let info = fabric.switch(switch).switch_info;
        if info.0 != [0; SwitchInfo::SIZE] {
            linear(fabric, plan, switch, &info, &mut faults);
            multicast(fabric, plan, switch, &info, &mut faults);
        }
    }
    for node in nodes {
        sl_to_vl(fabric, plan, node, &mut faults);
    }
    faults
}

/// [`check`] for the multicast forwarding tables of some switches.
pub(super) fn check_groups(
    fabric: &Fabric,
    plan: &Plan,
    switches: impl IntoIterator<Item = SwitchId>,
) -> FaultList {
    let mut faults = FaultList::default();
    for switch in switches {
        let info = fabric.switch(switch).switch_info;
        if info.0 != [0; SwitchInfo::SIZE] {
            multicast(fabric, plan, switch, &info, &mut faults);
        }
    }
    faults
}

fn name(fabric: &Fabric, switch: SwitchId) -> String {
    let node = fabric.switch(switch);
    format!("switch {} \"{}\"", node.guid(), node.name())
}

fn linear(
    fabric: &Fabric,
    plan: &Plan,
    switch: SwitchId,
    info: &SwitchInfo,
    faults: &mut FaultList,
) {
    let table = plan.routing.lfts.get(switch.index());
    let top = table.and_then(|table| table.top());
    let cap = usize::from(info.linear_fdb_cap());
    if let Some(top) = top.filter(|&top| top >= cap) {
        faults.add(|| Fault::Limit {
            device: name(fabric, switch),
            what: "LID in the forwarding table",
            value: top as u32,
            limit: cap.saturating_sub(1) as u32,
        });
    }
}

fn multicast(
    fabric: &Fabric,
    plan: &Plan,
    switch: SwitchId,
    info: &SwitchInfo,
    faults: &mut FaultList,
) {
    let table = plan.multicast.by_switch.get(switch.index());
    let highest = table.and_then(|table| table.iter().map(|&(mlid, _)| mlid).max());
    let cap = u32::from(info.multicast_fdb_cap());
    if let Some(mlid) = highest.filter(|mlid| is_beyond(mlid, cap)) {
        faults.add(|| Fault::Limit {
            device: name(fabric, switch),
            what: "number of MLIDs in the multicast forwarding table",
            value: u32::from(mlid.0.saturating_sub(Mlid::FIRST.0)) + 1,
            limit: cap,
        });
    }
}

fn is_beyond(mlid: &Mlid, cap: u32) -> bool {
    u32::from(mlid.0.saturating_sub(Mlid::FIRST.0)) >= cap
}

fn sl_to_vl(fabric: &Fabric, plan: &Plan, id: NodeId, faults: &mut FaultList) {
    let rows = plan.qos.sl_to_vl_of(id);
    let node = fabric.node(id);
    let mut limits = vec![None; usize::from(node.num_ports()) + 1];
    for &(_, output, map) in rows {
        let Some(limit) = limits.get_mut(usize::from(output)) else { continue };
        let Some(port) = fabric.port_of(id, PortNum(output)) else { continue };
        // The row of a channel adapter has number 0 and applies to all its ports.
        let ports = if node.is_switch() { output..=output } else { 1..=node.num_ports() };
        let vls = *limit.get_or_insert_with(|| {
            let ports = ports.filter_map(|num| fabric.port_of(id, PortNum(num)));
            let known = ports.filter(|&port| fabric.port(port).info().is_some());
            known.map(|port| data_vls(fabric, plan, port)).min().unwrap_or(15)
        });
        let highest = map.vls().into_iter().filter(|&vl| vl < 15).max();
        if let Some(vl) = highest.filter(|&vl| vl >= vls) {
            faults.add(|| Fault::Limit {
                device: fabric.describe(port),
                what: "VL in the SL to VL table",
                value: vl.into(),
                limit: u32::from(vls) - 1,
            });
        }
    }
}
