//! `opensm-lid-matrix.dump`: hop counts between switches, or of routes.

use super::routes::{DumpGraph, egress, planned_hops};
use super::{put, switches};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::{Guid, Lid};
use crate::plan::Plan;
use std::fmt;

/// Hop count of a port that leads nowhere.
const NO_PATH: u8 = 0xff;

/// Number of lines of [`lid_matrix`] without headers, or a little more.
pub fn lid_matrix_count(fabric: &Fabric, plan: &Plan) -> usize {
    let switches = fabric.switches().len();
    let targets = if plan.routing.policy.lists_own_routes() {
        usize::from(plan.lids.max().0)
    } else {
        switches
    };
    switches.saturating_mul(targets)
}

/// Writes `opensm-lid-matrix.dump`: for each switch and the LID of each switch that it reaches, the
/// hop count of the paths through each port; the column of port 0 has the smallest one. The counts are
/// those of shortest paths, except where the engine found a longer way through a port. Engines that
/// restrict paths have a dump of their own. Engines that know the hops of their own routes only list
/// these, to all LIDs.
pub fn lid_matrix(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    if plan.routing.policy.lists_own_routes() {
        return route_matrix(out, fabric, plan);
    }
    let graph = DumpGraph::new(fabric);
    let exceptions = plan.routing.policy.port_hops();
    // The distances are the same in both directions.
    let distances: Vec<Vec<u8>> = fabric.switch_ids().map(|to| graph.distances(to)).collect();
    let mut targets: Vec<(Lid, SwitchId, Guid)> = fabric
        .switch_ids()
        .filter_map(|to| {
            let node = fabric.switch(to);
            Some((plan.lids.base(node.first_port)?, to, node.guid()))
        })
        .collect();
    targets.sort_unstable_by_key(|&(lid, ..)| lid);
    for switch in switches(fabric) {
        put!(out, "Switch: guid {}\n", fabric.switch(switch).guid());
        let neighbours = neighbours(fabric, switch);
        for &(lid, to, guid) in &targets {
            let distances = &distances[to.index()];
            let least = distances[switch.index()];
            if least == NO_PATH {
                continue;
            }
            put!(out, "0x{:04x}: {least:02x}", lid.0);
            for (neighbour, port) in neighbours.iter().zip(1..) {
                let shortest = neighbour.map(|at| distances[at.index()].saturating_add(1));
                let engine = exceptions.and_then(|hops| hops.of(to, switch, port));
                let hops = engine.or(shortest).unwrap_or(NO_PATH);
                put!(out, " {hops:02x}");
            }
            put!(out, " # portguid {guid}\n");
        }
    }
}

/// For each switch and LID, the hop count of the route in the column of its port and in that of port
/// 0. The link to a channel adapter or router counts.
fn route_matrix(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    let planned = planned_hops(fabric, plan);
    for switch in switches(fabric) {
        let node = fabric.switch(switch);
        put!(out, "Switch: guid {}\n", node.guid());
        for lid in (1..=plan.lids.max().0).map(Lid) {
            let Some(to) = plan.lids.port(lid) else { continue };
            let (Some(port), Some(hops)) = (egress(plan, node, switch, lid), planned(switch, lid))
            else {
                continue;
            };
            let hops = hops + u8::from(!fabric.node_of(to).is_switch());
            put!(out, "0x{:04x}: {hops:02x}", lid.0);
            for column in 1..=node.num_ports() {
                let hops = if column == port { hops } else { NO_PATH };
                put!(out, " {hops:02x}");
            }
            put!(out, " # portguid {}\n", fabric.port(to).guid);
        }
    }
}

/// The switch at the other end of each port but port 0; `None` for other nodes and no link.
fn neighbours(fabric: &Fabric, switch: SwitchId) -> Vec<Option<SwitchId>> {
    let ports = fabric.ports_of(fabric.switches()[switch.index()]);
    let external = ports.filter(|port| port.num.0 > 0);
    external.map(|port| fabric.node_of(port.peer?).switch).collect()
}
