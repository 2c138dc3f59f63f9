//! The policy of Nue: the SL of a path is the layer of its LID.

use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Mlid, Sl};
use crate::plan::LidTable;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::weighted_paths::multicast::MulticastPaths;
use crate::plan::routing::{MulticastTree, RoutingPolicy};

/// The hops by which the roots of multicast trees are chosen.
#[derive(Clone)]
pub(super) enum MulticastHops {
    /// By target switch: the hops of all switches.
    ByTarget(Vec<Vec<u8>>),
    /// The hops of all switches, the same for all targets: those to the last host, as in OpenSM.
    Common(Vec<u8>),
}

/// The policy of Nue.
pub struct NuePolicy {
    pub(super) paths: MulticastPaths,
    pub(super) hops: MulticastHops,
    /// By LID: its layer; `None` with a single layer.
    pub(super) layers: Option<Vec<u8>>,
    /// By port: base LID, 0 if it has none.
    base_lids: Vec<Lid>,
}

impl NuePolicy {
    pub(super) fn new(
        fabric: &Fabric,
        lids: &LidTable,
        paths: MulticastPaths,
        hops: MulticastHops,
        layers: Option<Vec<u8>>,
    ) -> Self {
        let base_lids = fabric.port_ids().map(|port| lids.base_or_zero(port));
        Self { paths, hops, layers, base_lids: base_lids.collect() }
    }

    fn layer(&self, lid: Lid) -> Option<u8> {
        self.layers.as_ref()?.get(lid.index()).copied()
    }
}

impl RoutingPolicy for NuePolicy {
    fn path_sl(&self, _source: PortId, destination: PortId, hint: Sl) -> Sl {
        let lid = self.base_lids.get(destination.index());
        lid.and_then(|&lid| self.layer(lid)).map_or(hint, Sl)
    }

    fn path_sl_to_lid(&self, _source: PortId, _destination: PortId, lid: Lid, hint: Sl) -> Sl {
        self.layer(lid).map_or(hint, Sl)
    }

    /// All sources use the same SL.
    fn sl_group(&self, _port: PortId) -> u32 {
        0
    }

    fn destination_group(&self, _port: PortId, lid: Lid) -> u32 {
        self.layer(lid).unwrap_or(0).into()
    }

    fn multicast_tree(&self, _mlid: Mlid, members: &[PortId]) -> Option<MulticastTree> {
        self.paths.tree(members, |target| match &self.hops {
            MulticastHops::ByTarget(rows) => rows[target as usize].clone(),
            MulticastHops::Common(hops) => {
                let mut hops = hops.clone();
                hops[target as usize] = 0;
                hops
            }
        })
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        true
    }

    fn lists_own_routes(&self) -> bool {
        true
    }

    fn structure(&self) -> EngineStructure {
        let highest = self.layers.iter().flatten().copied().max().unwrap_or(0);
        EngineStructure::of_layers(usize::from(highest) + 1)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
