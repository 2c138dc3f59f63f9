//! The end ports to which routes lead, and their layers.

use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use crate::plan::LidTable;
use crate::plan::routing::switch_graph::linked_peer;
use crate::plan::routing::weighted_paths::network::Network;
use crate::wire::attr::NodeKind;

/// An end port.
#[derive(Clone, Copy, Debug)]
pub(super) struct NueTarget {
    pub kind: NodeKind,
    /// Number of the switch of the end port, or of the switch that it is linked to.
    pub switch: u32,
    /// The port of that switch that leads to the end port; 0 for the switch itself.
    pub exit: u8,
    base: Lid,
    count: u16,
}

impl NueTarget {
    pub(super) fn is_switch(&self) -> bool {
        self.kind == NodeKind::Switch
    }

    /// The LIDs of the port.
    pub(super) fn lids(&self) -> impl Iterator<Item = Lid> + use<> {
        (self.base.0..self.base.0 + self.count).map(Lid)
    }

    /// The number of LIDs.
    pub(super) fn lid_count(&self) -> u16 {
        self.count
    }
}

/// All end ports with a LID, by byte-swapped GUID. Routers come last, to which OpenSM has no
/// routes.
pub(super) fn targets(fabric: &Fabric, lids: &LidTable, network: &Network) -> Vec<NueTarget> {
    let mut ports: Vec<_> = fabric.end_ports().collect();
    ports.sort_by_cached_key(|&port| {
        let is_router = fabric.node_of(port).kind() == NodeKind::Router;
        (is_router, fabric.port(port).guid.opensm_order())
    });
    ports.into_iter().filter_map(|port| target(fabric, lids, network, port)).collect()
}

fn target(fabric: &Fabric, lids: &LidTable, network: &Network, port: PortId) -> Option<NueTarget> {
    let node = fabric.node_of(port);
    let (switch, exit) = match node.switch {
        Some(switch) => (switch, 0),
        None => {
            let peer = linked_peer(fabric, port)?;
            (fabric.node_of(peer).switch?, fabric.port(peer).num.0)
        }
    };
    Some(NueTarget {
        kind: node.kind(),
        switch: network.numbers[switch.index()],
        exit,
        base: lids.base(port)?,
        count: 1 << lids.lmc(port),
    })
}

/// Distributes end ports over layers in turn, without switches unless these are included.
pub(super) fn layers(
    targets: &[NueTarget],
    count: u8,
    include_switches: bool,
) -> Vec<Vec<NueTarget>> {
    let mut layers = vec![Vec::new(); count.into()];
    let included = targets.iter().filter(|target| include_switches || !target.is_switch());
    for (place, target) in included.enumerate() {
        layers[place % usize::from(count)].push(*target);
    }
    layers
}
