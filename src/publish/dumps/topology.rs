//! `opensm-subnet.lst`: nodes, ports and links.

use super::put;
use crate::fabric::link_rate::{LinkSpeed, width_name};
use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::Lid;
use crate::plan::Plan;
use crate::wire::attr::{NodeKind, PortInfo, PortState};
use std::fmt;

/// Writes `opensm-subnet.lst`: one line per connected port, with both ends of its link.
pub fn subnet(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    let mut nodes: Vec<NodeId> = fabric.node_ids().collect();
    nodes.sort_by_key(|&id| fabric.node(id).guid().opensm_order());
    for id in nodes.into_iter().flat_map(|node| fabric.node(node).slots()) {
        let port = fabric.port(id);
        let Some(peer) = port.peer else { continue };
        subnet_end(out, fabric, plan, id, 6);
        subnet_end(out, fabric, plan, peer, 8);
        let info = port.info().unwrap_or(PortInfo::read(&[]));
        put!(out, "PHY={} LOG={} SPD={}\n", width(&info), state(port.state()), speed(fabric, id));
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
    let port = fabric.port(id);
    let node = fabric.node_of(id);
    let kind = match node.kind() {
        NodeKind::Ca => "CA",
        NodeKind::Switch => "SW",
        NodeKind::Router => "Rt",
        NodeKind::Unknown(_) => "**",
    };
    let lid = plan.lids.base_of_owner(fabric, id).unwrap_or(Lid(0));
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
    width_name(info.link_width_active()).unwrap_or("??")
}

/// The speed per lane in Gb/s.
fn speed(fabric: &Fabric, id: PortId) -> &'static str {
    match LinkSpeed::of(fabric, id) {
        Some(LinkSpeed::Sdr) => "2.5",
        Some(LinkSpeed::Ddr) => "5",
        Some(LinkSpeed::Qdr) => "10",
        Some(LinkSpeed::Fdr10) => "FDR10",
        Some(LinkSpeed::Fdr) => "14",
        Some(LinkSpeed::Edr) => "25",
        Some(LinkSpeed::Hdr) => "50",
        Some(LinkSpeed::Ndr) => "100",
        Some(LinkSpeed::Xdr) => "200",
        None => "??",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use std::path::Path;

    /// Of a switch, only port 0 announces extended speeds.
    #[test]
    fn both_ends_of_a_link_have_its_speed() {
        for (rate, expected) in
            [("4xSDR", "2.5"), ("4xHDR", "50"), ("4xNDR", "100"), ("4xXDR", "200")]
        {
            let text = include_str!("../../../fuzz/corpus/ibnetdiscover/speeds");
            let text = text.replace("4xEDR", rate);
            let topology = ibnet::parse(Path::new("speeds"), &text).expect("well formed");
            let fabric = Fabric::from_topology(&topology, 0, &SyntheticView::default());
            let fabric = fabric.expect("the local port exists");
            let links = fabric.port_ids().filter(|&port| fabric.port(port).peer.is_some());
            let mut speeds: Vec<_> = links.map(|port| speed(&fabric, port)).collect();
            speeds.sort_unstable();
            let mut all = ["14", "14", expected, expected];
            all.sort_unstable();
            assert_eq!(speeds, all);
        }
    }
}
