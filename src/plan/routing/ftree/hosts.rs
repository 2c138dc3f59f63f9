//! Ports of channel adapters and routers, and their roles.

use super::FtreeOptions;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Guid, Lid};
use crate::plan::LidTable;
use crate::plan::routing::switch_graph::linked_peer;
use crate::wire::attr::NodeKind;
use std::collections::HashSet;

/// The role of an end port, which decides when and how it is routed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// A compute node: a port of `cn_guid_file`, or without that file every port that is not an
    /// I/O node. Compute nodes are attached to leaf switches.
    Compute,
    /// A port of `io_guid_file`, to which paths may take `max_reverse_hops`.
    Io,
    /// Any other port of a channel adapter.
    Other,
    /// A port of a router.
    Router,
}

/// A port of a channel adapter or router that is linked to a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TreeHost {
    pub port: PortId,
    pub lid: Lid,
    pub switch: SwitchId,
    /// The port of the switch that leads to the host.
    pub switch_port: u8,
    pub role: Role,
}

/// All hosts with a LID, in OpenSM's order: by byte-swapped node GUID, then by port number.
pub(super) fn hosts(fabric: &Fabric, lids: &LidTable, options: &FtreeOptions<'_>) -> Vec<TreeHost> {
    let roles = HostRoles::new(options);
    let end_ports = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
    let mut hosts: Vec<_> = end_ports
        .filter_map(|port| {
            let peer = linked_peer(fabric, port)?;
            Some(TreeHost {
                port,
                lid: lids.base(port)?,
                switch: fabric.node_of(peer).switch?,
                switch_port: fabric.port(peer).num.0,
                role: roles.of(fabric, port),
            })
        })
        .collect();
    hosts.sort_by_cached_key(|host| {
        (fabric.node_of(host.port).guid().opensm_order(), fabric.port(host.port).num)
    });
    hosts
}

/// The contents of the GUID files that assign roles.
struct HostRoles {
    compute: Option<HashSet<Guid>>,
    io: HashSet<Guid>,
}

impl HostRoles {
    fn new(options: &FtreeOptions<'_>) -> Self {
        Self {
            compute: options.compute_nodes.map(guid_set),
            io: options.io_nodes.map_or_else(HashSet::new, guid_set),
        }
    }

    /// A port that both files list is a compute node.
    fn of(&self, fabric: &Fabric, port: PortId) -> Role {
        let guid = fabric.port(port).guid;
        if fabric.node_of(port).kind() == NodeKind::Router {
            return Role::Router;
        }
        match &self.compute {
            Some(compute) if compute.contains(&guid) => Role::Compute,
            _ if self.io.contains(&guid) => Role::Io,
            Some(_) => Role::Other,
            None => Role::Compute,
        }
    }
}

fn guid_set(list: &[Guid]) -> HashSet<Guid> {
    list.iter().copied().collect()
}
