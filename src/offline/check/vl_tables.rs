//! VL arbitration and SL to VL tables as text: one line for all ports with the same table.

use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::plan::Plan;
use crate::wire::attr::tables::VlArbBlock;
use crate::wire::attr::{NodeKind, PortInfo};
use std::collections::BTreeMap;

/// Operational VLs, VL high limit and VL arbitration of all ports with tables, then the SL to VL
/// mappings.
pub(super) fn shown(fabric: &Fabric, plan: &Plan) -> String {
    // Number of ports by kind and text.
    let mut lines: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for port in fabric.port_ids() {
        let blocks = plan.qos.vl_arbitration.get(port.index()).map_or(&[][..], AsRef::as_ref);
        if !blocks.is_empty() {
            let info = plan.ports.of(port).or(fabric.port(port).info());
            let text = arbitration(blocks, info.as_ref());
            *lines.entry((kind(fabric, port), text)).or_default() += 1;
        }
    }
    let mut mappings: BTreeMap<(&str, [u8; 16]), usize> = BTreeMap::new();
    for node in fabric.node_ids() {
        let rows = plan.qos.sl_to_vl_of(node);
        for (_, output, mapping) in rows {
            if let Some(port) = fabric.port_of(node, PortNum(*output)) {
                *mappings.entry((kind(fabric, port), mapping.vls())).or_default() += 1;
            }
        }
    }
    let ports =
        lines.into_iter().map(|((kind, text), count)| format!("  {kind} {count}: {text}\n"));
    let mappings = mappings.into_iter().map(|((kind, vls), count)| {
        let vls = vls.map(|vl| vl.to_string()).join(",");
        format!("  {kind} {count}: {vls}\n")
    });
    let ports: String = ports.collect();
    let mappings: String = mappings.collect();
    format!("VL arbitration, number of ports:\n{ports}SL to VL, number of mappings:\n{mappings}")
}

/// Kind of port, as distinguished by the qos_* options.
fn kind(fabric: &Fabric, port: PortId) -> &'static str {
    match fabric.node_of(port).kind() {
        NodeKind::Switch if fabric.port(port).num == PortNum::ZERO => "switch port 0",
        NodeKind::Switch => "switch",
        NodeKind::Router => "router",
        _ => "channel adapter",
    }
}

/// The arbitration tables of a port, without their entries of weight 0.
fn arbitration(blocks: &[(u8, VlArbBlock)], info: Option<&PortInfo>) -> String {
    let (vls, limit) = info
        .map_or((0, 0), |info| (PortInfo::data_vls(info.operational_vls()), info.vl_high_limit()));
    format!(
        "{vls} VLs, high limit {limit}, high {}, low {}",
        table_text(blocks, [3, 4]),
        table_text(blocks, [1, 2])
    )
}

fn table_text(blocks: &[(u8, VlArbBlock)], numbers: [u8; 2]) -> String {
    let blocks = blocks.iter().filter(|(number, _)| numbers.contains(number));
    let entries = blocks.flat_map(|(_, block)| block.entries());
    let entries = entries.filter(|(_, weight)| *weight > 0);
    let entries: Vec<String> = entries.map(|(vl, weight)| format!("{vl}:{weight}")).collect();
    if entries.is_empty() { "nothing".to_owned() } else { entries.join(",") }
}
