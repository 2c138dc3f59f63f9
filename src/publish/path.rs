//! The path between two end ports, with its VLs and a one-line description.

use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Sl, Vl};
use crate::plan::Plan;
use crate::wire::attr::tables::SlToVl;
use std::fmt::Write as _;

pub use crate::verify::walk::{Walk, WalkEnd, WalkHop, walk};

/// The VL on which a packet leaves a switch, by the planned SL to VL tables; `None` if the plan has
/// no table for the pair of ports.
pub fn vl(fabric: &Fabric, plan: &Plan, hop: &WalkHop, sl: Sl) -> Option<Vl> {
    let node = fabric.switches()[hop.switch.index()];
    let ports = (fabric.port(hop.input).num.0, fabric.port(hop.output).num.0);
    let rows = plan.qos.sl_to_vl.get(node.index())?;
    let row: Option<&(u8, u8, SlToVl)> = rows.iter().find(|row| (row.0, row.1) == ports);
    row.map(|(.., map)| map.vl(sl))
}

/// The egress ports of a path: the source, then one port of each switch, without management ports.
pub fn senders<'a>(
    fabric: &'a Fabric,
    source: PortId,
    walk: &'a Walk,
) -> impl Iterator<Item = PortId> + 'a {
    let first = (!fabric.node_of(source).is_switch()).then_some(source);
    let outputs = walk.hops.iter().map(|hop| hop.output);
    first.into_iter().chain(outputs.filter(|&port| fabric.port(port).num.0 != 0))
}

/// Describes a path: `path A (LID 5) -> B (LID 9): "sw" 3>1, "sw 2" 2>7, SL 1, VLs 1 1`.
pub fn describe(fabric: &Fabric, plan: &Plan, source: PortId, lid: Lid, sl: Sl) -> String {
    let path = walk(fabric, plan, source, lid);
    let own = plan.lids.base_or_zero(source);
    let to = plan.lids.port(lid).map_or_else(
        || "an unassigned LID".to_owned(),
        |port| fabric.node_of(port).name().to_string(),
    );
    let mut text =
        format!("path {} (LID {own}) -> {to} (LID {lid}):", fabric.node_of(source).name());
    for (index, hop) in path.hops.iter().enumerate() {
        let node = fabric.switch(hop.switch);
        let input = fabric.port(hop.input).num;
        let output = fabric.port(hop.output).num;
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma} \"{}\" {input}>{output}", node.name());
    }
    let _ = write!(text, ", SL {sl}");
    let vls: Option<Vec<_>> = path.hops.iter().map(|hop| vl(fabric, plan, hop, sl)).collect();
    if let Some(vls) = vls.filter(|vls| !vls.is_empty()) {
        text.push_str(", VLs");
        vls.iter().for_each(|vl| {
            let _ = write!(text, " {vl}");
        });
    }
    if path.end != WalkEnd::Delivered {
        let _ = write!(text, "; {}", path.end.describe(fabric));
    }
    text
}
