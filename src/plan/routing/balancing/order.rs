//! The order in which destinations are routed.
//!
//! The balance depends on this order, because each destination takes the port with the fewest paths
//! so far:
//!
//! 1. the ports of `guid_routing_order_file`, in the order of the file;
//! 2. the hosts, switch by switch, beginning with the switches with the most hosts, and by port
//!    number of the switch;
//! 3. the remaining end ports, which are the switches themselves.
//!
//! Ties are broken by byte-swapped GUID, because OpenSM compares GUIDs in network byte order on
//! little-endian machines.

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Guid, Lid, PortNum};
use crate::plan::LidTable;
use crate::plan::routing::switch_graph::linked_peer;
use std::cmp::Reverse;

/// An end port to which routes lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Destination {
    /// The switch of the end port, or the switch it is linked to.
    pub switch: SwitchId,
    /// The port of that switch that leads to the end port; 0 for the switch itself.
    pub port: u8,
    /// Base LID.
    pub base: Lid,
    /// Number of LIDs.
    pub lids: u16,
    /// True if `scatter_ports` applies to this destination.
    pub scatter: bool,
}

impl Destination {
    pub(super) fn is_switch(&self) -> bool {
        self.port == PortNum::ZERO.0
    }
}

/// The sort key of a GUID in OpenSM's maps.
pub(super) fn rank(guid: Guid) -> u64 {
    guid.opensm_order()
}

/// All destinations in routing order. The port GUIDs of `first` come first; `scatter_first` applies
/// `scatter_ports` to them. Ports without a LID, and hosts not linked to a switch, are skipped.
pub(super) fn destinations(
    fabric: &Fabric,
    lids: &LidTable,
    first: &[Guid],
    scatter_first: bool,
) -> Vec<Destination> {
    let first =
        first.iter().filter_map(|&guid| fabric.port_by_guid(guid)).map(|id| (id, scatter_first));
    let linked = by_hosts(fabric).into_iter().flat_map(|switch| hosts(fabric, switch));
    let mut rest: Vec<_> = fabric.end_ports().collect();
    rest.sort_by_key(|&id| rank(fabric.port(id).guid));
    let mut taken = vec![false; fabric.ports().len()];
    let mut order = Vec::new();
    for (id, scatter) in first.chain(linked.chain(rest).map(|id| (id, true))) {
        if !std::mem::replace(&mut taken[id.index()], true) {
            order.extend(destination(fabric, lids, id, scatter));
        }
    }
    order
}

fn destination(fabric: &Fabric, lids: &LidTable, id: PortId, scatter: bool) -> Option<Destination> {
    let base = lids.base(id)?;
    let lids = 1 << lids.lmc(id);
    if let Some(switch) = fabric.node_of(id).switch {
        return Some(Destination { switch, port: PortNum::ZERO.0, base, lids, scatter });
    }
    let peer = linked_peer(fabric, id)?;
    let switch = fabric.node_of(peer).switch?;
    Some(Destination { switch, port: fabric.port(peer).num.0, base, lids, scatter })
}

/// Switches by descending number of links to hosts.
fn by_hosts(fabric: &Fabric) -> Vec<SwitchId> {
    let mut switches: Vec<_> = fabric.switch_ids().collect();
    switches.sort_by_cached_key(|&switch| {
        (Reverse(hosts(fabric, switch).count()), rank(fabric.switch(switch).guid()))
    });
    switches
}

/// The ports of channel adapters and routers linked to a switch, by port number of the switch.
fn hosts(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = PortId> + '_ {
    let ports = (1..=fabric.switch(switch).num_ports()).map(PortNum);
    let peers = ports.filter_map(move |num| linked_peer(fabric, fabric.switch_port(switch, num)?));
    peers.filter(|&peer| !fabric.node_of(peer).is_switch())
}
