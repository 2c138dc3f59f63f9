//! `opensm-sl2vl.dump` and `opensm.psl`: SL to VL tables and path SLs.

use super::put;
use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::{PortNum, Sl};
use crate::plan::Plan;
use crate::wire::attr::NodeKind;
use crate::wire::attr::tables::SlToVl;
use std::fmt;

/// Writes `opensm-sl2vl.dump`: the SL to VL tables of all end ports and switches. Ports without
/// planned tables get an empty section.
pub fn sl2vl(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    const HEADER: &str = "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15";
    const SEPARATOR: &str = "#--------------------------------------------------------";
    let mut ends: Vec<PortId> = fabric.end_ports().collect();
    ends.sort_by_key(|&end| fabric.port(end).guid.opensm_order());
    for end in ends {
        let port = fabric.port(end);
        let node = fabric.node_of(end);
        let lid = plan.lids.base_or_zero(end);
        put!(out, "{} {}, base LID {lid}, \"{}\"\n", node.kind(), port.guid, node.name());
        put!(out, "{HEADER}\n{SEPARATOR}\n");
        for &(input, output, map) in plan.qos.sl_to_vl_of(port.node) {
            if node.is_switch() && is_cabled(fabric, port.node, output) {
                sl2vl_row(out, input, output, map);
            } else if !node.is_switch() && output == port.num.0 {
                // An end port has a single mapping, which is written with port numbers 0.
                sl2vl_row(out, 0, 0, map);
            }
        }
        put!(out, "{SEPARATOR}\n\n");
    }
}

fn is_cabled(fabric: &Fabric, node: NodeId, num: u8) -> bool {
    fabric.port_of(node, PortNum(num)).is_some_and(|port| fabric.port(port).peer.is_some())
}

fn sl2vl_row(out: &mut dyn fmt::Write, input: u8, output: u8, map: SlToVl) {
    put!(out, "{input:<3} {output:<3} :");
    for vl in map.vls() {
        put!(out, " {vl:<2}");
    }
    put!(out, "\n");
}

/// Writes `opensm.psl`: the path SLs between all channel adapters, in the format that `ibdmchk -c`
/// reads: source *node* GUID, destination LID, SL.
pub fn path_sls(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    for source in hosts(fabric, plan) {
        let guid = fabric.node_of(source).guid();
        for (lid, to) in plan.lids.iter() {
            if is_host(fabric, to) && to != source {
                let sl = plan.path_sl(source, to, lid, Sl(0));
                put!(out, "{guid} {lid} {sl}\n");
            }
        }
    }
}

/// Number of lines that [`path_sls`] writes.
pub fn path_sl_count(fabric: &Fabric, plan: &Plan) -> usize {
    let lids = plan.lids.iter().filter(|&(_, port)| is_host(fabric, port)).count();
    hosts(fabric, plan).map(|source| lids - (1 << plan.lids.lmc(source))).sum()
}

fn is_host(fabric: &Fabric, port: PortId) -> bool {
    fabric.node_of(port).kind() == NodeKind::Ca
}

fn hosts(fabric: &Fabric, plan: &Plan) -> impl Iterator<Item = PortId> {
    fabric.end_ports().filter(|&port| is_host(fabric, port) && plan.lids.base(port).is_some())
}
