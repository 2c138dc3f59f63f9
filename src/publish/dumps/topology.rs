//! `opensm-subnet.lst`: nodes, ports and links.

use super::put;
use crate::fabric::{Fabric, NodeId, PortId};
use crate::plan::Plan;
use crate::wire::attr::{CapMask, LinkWidth, MlnxExtPortInfo, NodeKind, PortInfo, PortState};
use std::fmt;

/// Writes `opensm-subnet.lst`: one line per connected port, with both ends of its link.
pub fn subnet(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    let mut nodes: Vec<NodeId> = fabric.node_ids().collect();
    nodes.sort_by_key(|&id| fabric.node(id).guid().opensm_order());
    let ports = nodes.into_iter().flat_map(|node| {
        let node = fabric.node(node);
        (0..=u32::from(node.num_ports())).map(|num| PortId(node.first_port.0 + num))
    });
    for id in ports {
        let port = fabric.port(id);
        let Some(peer) = port.peer else { continue };
        subnet_end(out, fabric, plan, id, 6);
        subnet_end(out, fabric, plan, peer, 8);
        let info = port.info.unwrap_or(PortInfo::read(&[]));
        put!(
            out,
            "PHY={} LOG={} SPD={}\n",
            width(&info),
            state(port.state()),
            speed(fabric, id, &info)
        );
    }
}

/// Writes one end of a link. OpenSM pads the vendor ID to 6 digits at the near end and to 8 at the
/// far end.
fn subnet_end(
    out: &mut dyn fmt::Write,
    fabric: &Fabric,
    plan: &Plan,
    id: PortId,
    vendor_width: usize,
) {
    let (port, node) = (fabric.port(id), fabric.node_of(id));
    let kind = match node.kind() {
        NodeKind::Ca => "CA",
        NodeKind::Switch => "SW",
        NodeKind::Router => "Rt",
        NodeKind::Unknown(_) => "**",
    };
    let lid = plan.lids.base_of_owner(fabric, id).unwrap_or_default();
    let sm_lid = plan.lids.base_of_owner(fabric, fabric.local());
    let sm = if sm_lid == Some(lid) { "-SM" } else { "" };
    let info = &node.info;
    put!(
        out,
        "{{ {kind}{sm} Ports:{:02X} SystemGUID:{:016x} NodeGUID:{:016x} PortGUID:{:016x} \
         VenID:{:0vendor_width$X} DevID:{:04X} Rev:{:08X} {{{}}} LID:{:04X} PN:{:02X} }} ",
        info.num_ports(),
        info.system_guid().0,
        info.node_guid().0,
        port.guid.0,
        info.vendor_id(),
        info.device_id(),
        info.revision(),
        node.name(),
        lid.0,
        port.num.0,
    );
}

fn width(info: &PortInfo) -> &'static str {
    match info.link_width_active() {
        LinkWidth::X1 => "1x",
        LinkWidth::X2 => "2x",
        LinkWidth::X4 => "4x",
        LinkWidth::X8 => "8x",
        LinkWidth::X12 => "12x",
        _ => "??",
    }
}

fn speed(fabric: &Fabric, id: PortId, info: &PortInfo) -> &'static str {
    let extended =
        if info.has(CapMask::EXTENDED_SPEEDS) { info.link_speed_ext_active() } else { 0 };
    match (extended, info.link_speed_active()) {
        (1, _) => "14",
        (2, _) => "25",
        (4, _) => "50",
        (0, _) if fabric.extended_port_info(id).is_some_and(MlnxExtPortInfo::is_fdr10) => "FDR10",
        (0, 1) => "2.5",
        (0, 2) => "5",
        (0, 4) => "10",
        _ => "??",
    }
}

fn state(state: PortState) -> &'static str {
    match state {
        PortState::Active => "ACT",
        PortState::Armed => "ARM",
        PortState::Init => "INI",
        _ => "DWN",
    }
}
