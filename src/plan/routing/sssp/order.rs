//! The order in which destinations are routed: compute nodes, I/O nodes, other hosts, switches.
//!
//! Hosts follow the order of their switches, of which those with the most LIDs come first, and
//! of the ports there. Routers come last, so that they do not change the routes of other ports:
//! OpenSM has no routes to them.

use crate::config::guid_lists::GuidLists;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Lid, PortNum};
use crate::plan::LidTable;
use crate::plan::routing::switch_graph::linked_peer;
use crate::plan::routing::weighted_paths::network::Network;
use crate::wire::attr::NodeKind;
use std::cmp::Reverse;
use std::collections::HashSet;

/// An end port to which routes lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SsspDestination {
    pub port: PortId,
    pub kind: NodeKind,
    /// Number of the switch of the end port, or of the switch that it is linked to.
    pub switch: u32,
    /// The port of that switch that leads to the end port; 0 for the switch itself.
    pub exit: u8,
    /// Base LID.
    pub base: Lid,
    /// Number of LIDs.
    pub lids: u16,
}

impl SsspDestination {
    /// The LIDs of the port.
    pub(super) fn lids(&self) -> impl Iterator<Item = Lid> + use<> {
        (self.base.0..self.base.0 + self.lids).map(Lid)
    }
}

/// All destinations by switch and port, before they are ordered.
pub(super) struct SsspDestinations {
    /// By switch: its own LIDs.
    switches: Vec<SsspDestination>,
    /// By switch: the end ports linked to it, by port.
    linked: Vec<Vec<SsspDestination>>,
}

impl SsspDestinations {
    pub(super) fn new(fabric: &Fabric, lids: &LidTable, network: &Network) -> Self {
        let mut own = Self { switches: Vec::new(), linked: Vec::new() };
        for (number, &switch) in (0..).zip(&network.switches) {
            let node = fabric.switch(switch);
            own.switches.extend(destination_of(lids, fabric, node.first_port, 0, number));
            let ports = (1..=node.num_ports()).map(PortNum);
            let linked = ports.filter_map(|num| {
                let peer = linked_peer(fabric, fabric.switch_port(switch, num)?)?;
                destination_of(lids, fabric, peer, num.0, number)
                    .filter(|to| to.kind != NodeKind::Switch)
            });
            own.linked.push(linked.collect());
        }
        own
    }

    /// By switch: the number of LIDs of its own and of the ports linked to it.
    pub(super) fn lids_by_switch(&self) -> Vec<u32> {
        let linked = self.linked.iter();
        let mut counts: Vec<u32> =
            linked.map(|ports| ports.iter().map(|port| u32::from(port.lids)).sum()).collect();
        for switch in &self.switches {
            counts[switch.switch as usize] += u32::from(switch.lids);
        }
        counts
    }

    /// The destinations in routing order.
    pub(super) fn ordered(&self, fabric: &Fabric, lists: &GuidLists) -> Vec<SsspDestination> {
        let counts = self.lids_by_switch();
        let mut switches: Vec<_> = (0..counts.len()).collect();
        switches.sort_by_key(|&switch| Reverse(counts[switch]));
        let compute_nodes: HashSet<Guid> = of_list(&lists.compute_nodes);
        let io_nodes: HashSet<Guid> = of_list(&lists.io_nodes);
        let hosts = switches.iter().flat_map(|&switch| &self.linked[switch]);
        let mut hosts: Vec<_> = hosts.copied().collect();
        hosts.sort_by_key(|port| class_of(&compute_nodes, &io_nodes, fabric, port));
        let routers = hosts.split_off(
            hosts.partition_point(|port| class_of(&compute_nodes, &io_nodes, fabric, port) < 3),
        );
        let mut own: Vec<_> = self.switches.clone();
        own.sort_by_key(|to| Reverse(counts[to.switch as usize]));
        hosts.into_iter().chain(own).chain(routers).collect()
    }
}

fn of_list(list: &Option<Vec<Guid>>) -> HashSet<Guid> {
    list.iter().flatten().copied().collect()
}

fn destination_of(
    lids: &LidTable,
    fabric: &Fabric,
    port: PortId,
    exit: u8,
    number: u32,
) -> Option<SsspDestination> {
    let base = lids.base(port)?;
    let kind = fabric.node_of(port).kind();
    let lids = 1 << lids.lmc(port);
    Some(SsspDestination { port, kind, switch: number, exit, base, lids })
}

fn class_of(
    compute_nodes: &HashSet<Guid>,
    io_nodes: &HashSet<Guid>,
    fabric: &Fabric,
    port: &SsspDestination,
) -> i32 {
    let guid = fabric.port(port.port).guid;
    match port.kind {
        NodeKind::Router => 3,
        _ if compute_nodes.contains(&guid) => 0,
        _ if io_nodes.contains(&guid) => 1,
        _ => 2,
    }
}
