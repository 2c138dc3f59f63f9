//! `opensm-lid-matrix.dump`: the min hop tables of all switches in OpenSM's format.

use super::hops::{HopRule, TargetHops};
use crate::config::guid_lists::HopWeight;
use crate::fabric::Fabric;
use crate::plan::LidTable;
use crate::plan::routing::Dump;
use crate::plan::routing::switch_graph::{NO_PATH, SwitchGraph};
use std::fmt::Write as _;

/// File name of the dump.
pub(super) const FILE: &str = "opensm-lid-matrix.dump";

/// Maximum number of switches of a fabric whose matrix is dumped: a line for each pair of them.
const MAX_SWITCHES: usize = 1000;

/// The dump; `None` for fabrics that are too large.
pub(in crate::plan::routing) fn dump(
    fabric: &Fabric,
    lids: &LidTable,
    weights: &[HopWeight],
    rule: &dyn HopRule,
) -> Option<Dump> {
    let graph = SwitchGraph::new(fabric, weights);
    if graph.len() > MAX_SWITCHES {
        return None;
    }
    let mut targets: Vec<_> = graph
        .switches()
        .filter_map(|switch| Some((lids.base(fabric.switch(switch).first_port)?, switch)))
        .collect();
    targets.sort_unstable();
    let mut parts = vec![String::new(); graph.len()];
    let mut hops = TargetHops::default();
    for &(lid, target) in &targets {
        rule.hops_to(&graph, target, &mut hops);
        let port_guid = fabric.port(fabric.switch(target).first_port).guid;
        for switch in graph.switches() {
            if hops.least[switch.index()] == NO_PATH {
                continue;
            }
            let mut row = vec![NO_PATH; usize::from(fabric.switch(switch).num_ports()) + 1];
            row[0] = hops.least[switch.index()];
            for (index, link) in graph.numbered_links(switch) {
                row[usize::from(link.port)] = hops.by_link[index];
            }
            let part = &mut parts[switch.index()];
            // Writing to a string does not fail.
            let _ = write!(part, "0x{:04x}:", lid.0);
            row.iter().for_each(|hops| part.push_str(&format!(" {hops:02x}")));
            let _ = writeln!(part, " # portguid 0x{:016x}", port_guid.0);
        }
    }
    let mut order: Vec<_> = graph.switches().collect();
    order.sort_by_cached_key(|&switch| fabric.switch(switch).guid().opensm_order());
    Some(Dump {
        file: FILE.into(),
        text: order
            .iter()
            .map(|switch| {
                let guid = fabric.switch(*switch).guid();
                format!("Switch: guid 0x{:016x}\n{}", guid.0, parts[switch.index()])
            })
            .collect(),
    })
}
