//! `opensm-lfts.dump`, `opensm.fdbs` and `opensm.mcfdbs`: the forwarding tables.

use super::{put, switches};
use crate::fabric::{Fabric, Node, SwitchId};
use crate::ids::{Lid, PortNum};
use crate::plan::Plan;
use std::collections::VecDeque;
use std::fmt;

/// Hops after which a packet is taken to loop. Directed routes have at most 63
/// (IBA vol. 1, 14.2.2).
const MAX_COUNTED_LINKS: u8 = 64;

/// Writes `opensm-lfts.dump`: the linear forwarding tables, with the node that owns each LID.
pub fn lfts(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    let max = plan.lids.max();
    for switch in switches(fabric) {
        let node = fabric.switch(switch);
        let lid = plan.lids.base_or_zero(node.first_port);
        put!(
            out,
            "Unicast lids [0-{max}] of switch Lid {lid} guid {} ('{}'):\n",
            node.guid(),
            node.name()
        );
        for lid in (0..=max.0).map(Lid) {
            let Some(port) = egress(plan, node, switch, lid) else { continue };
            put!(out, "0x{:04x} {port:03} # ", lid.0);
            match plan.lids.port(lid) {
                Some(to) => {
                    let owner = fabric.node_of(to);
                    let guid = fabric.port(to).guid;
                    put!(out, "{} portguid {guid}: '{}'\n", owner.kind(), owner.name());
                }
                None => put!(out, "unknown node and type\n"),
            }
        }
        put!(out, "{max} lids dumped\n");
    }
}

/// The egress port of a LID at a switch; `None` if the switch has no such port.
pub(super) fn egress(plan: &Plan, node: &Node, switch: SwitchId, lid: Lid) -> Option<u8> {
    let table = plan.routing.lfts.get(switch.index())?;
    table.out(lid).filter(|&port| port <= node.num_ports())
}

/// Writes `opensm.fdbs`: the linear forwarding tables with hop counts, in the format that `ibdmchk`
/// reads.
pub fn fdbs(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    let graph = DumpGraph::new(fabric);
    let planned = planned_hops(fabric, plan);
    let max = plan.lids.max();
    for switch in switches(fabric) {
        let node = fabric.switch(switch);
        put!(out, "dump_ucast_routes: Switch {}\nLID    : Port : Hops : Optimal\n", node.guid());
        let distances = graph.distances(switch);
        for lid in (1..=max.0).map(Lid) {
            put!(out, "0x{:04X} : ", lid.0);
            let to = plan.lids.port(lid);
            let (Some(port), Some(to)) = (egress(plan, node, switch, lid), to) else {
                put!(out, "UNREACHABLE\n");
                continue;
            };
            let last_link = u8::from(!fabric.node_of(to).is_switch());
            let best = fabric.switch_behind(to).map_or(u8::MAX, |at| distances[at.index()]);
            match planned(switch, lid) {
                Some(hops) if hops == best => {
                    put!(out, "{port:03}  : {:02}   : yes\n", hops + last_link)
                }
                Some(hops) => put!(
                    out,
                    "{port:03}  : {:02}   : No {} hop path possible via port {port}!\n",
                    hops + last_link,
                    best + last_link
                ),
                None => put!(out, "{port:03}  : HOPS UNKNOWN\n"),
            }
        }
    }
}

/// The graph of switches, for shortest distances.
pub(super) struct DumpGraph {
    neighbours: Vec<Vec<u32>>,
}

impl DumpGraph {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let neighbours = fabric.switches().iter().map(|&node| {
            let peers = fabric.ports_of(node).filter_map(|port| port.peer);
            let switches = peers.filter_map(|peer| fabric.node_of(peer).switch);
            switches.map(|switch| switch.0).collect()
        });
        Self { neighbours: neighbours.collect() }
    }

    /// Number of links from `from` to every switch; 255 for unreachable switches.
    pub(super) fn distances(&self, from: SwitchId) -> Vec<u8> {
        let mut distances = vec![u8::MAX; self.neighbours.len()];
        distances[from.index()] = 0;
        let mut queue = VecDeque::from([from.0]);
        while let Some(at) = queue.pop_front() {
            let next = distances[at as usize].saturating_add(1);
            for &to in &self.neighbours[at as usize] {
                if distances[to as usize] == u8::MAX && next < u8::MAX {
                    distances[to as usize] = next;
                    queue.push_back(to);
                }
            }
        }
        distances
    }
}

/// Number of inter-switch links from a switch to a LID according to the planned tables; `None` if
/// packets are not delivered within [`MAX_COUNTED_LINKS`].
pub(super) fn planned_hops<'a>(
    fabric: &'a Fabric,
    plan: &'a Plan,
) -> impl Fn(SwitchId, Lid) -> Option<u8> + 'a {
    move |from, lid| {
        let to = plan.lids.port(lid)?;
        let end = fabric.switch_behind(to)?;
        let mut at = from;
        for hops in 0..=MAX_COUNTED_LINKS {
            if at == end {
                return Some(hops);
            }
            let port = plan.routing.lfts.get(at.index())?.out(lid)?;
            let peer = fabric.port(fabric.switch_port(at, PortNum(port))?).peer?;
            at = fabric.node_of(peer).switch?;
        }
        None
    }
}

/// Writes `opensm.mcfdbs`: the multicast forwarding tables; empty without groups.
pub fn mcfdbs(out: &mut dyn fmt::Write, fabric: &Fabric, plan: &Plan) {
    for switch in switches(fabric) {
        let table = plan.multicast.by_switch.get(switch.index());
        let Some(table) = table.filter(|table| !table.is_empty()) else { continue };
        put!(out, "\nSwitch {}\nLID    : Out Port(s)\n", fabric.switch(switch).guid());
        for (mlid, mask) in table {
            put!(out, "0x{:04X} :", mlid.0);
            for port in mask.iter() {
                put!(out, " 0x{port:03X} ");
            }
            put!(out, "\n");
        }
    }
}
