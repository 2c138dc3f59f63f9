//! The policy of SSSP and DFSSSP: path SLs of the lanes, and multicast trees over the links that
//! carry the fewest unicast routes.

use super::lanes::PathLanes;
use super::order::SsspDestination;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Mlid, Sl};
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::weighted_paths::multicast::MulticastPaths;
use crate::plan::routing::weighted_paths::network::Network;
use crate::plan::routing::{Lft, MulticastTree, RoutingPolicy};
use crate::wire::attr::NodeKind;
use std::sync::Arc;

/// The hops of a switch that does not reach another one.
const NO_PATH: u8 = u8::MAX;

/// The policy of both engines.
pub struct SsspPolicy {
    paths: MulticastPaths,
    /// The forwarding tables, by number of the switch.
    lfts: Vec<Arc<Lft>>,
    /// By switch: base LID of port 0.
    lids: Vec<Option<Lid>>,
    /// The lanes of DFSSSP.
    lanes: Option<PathLanes>,
}

impl SsspPolicy {
    pub(super) fn new(
        fabric: &Fabric,
        network: Network,
        lengths: Vec<u64>,
        lfts: &[Arc<Lft>],
        destinations: &[SsspDestination],
        lanes: Option<PathLanes>,
    ) -> Self {
        let mut lids = vec![None; network.len()];
        for to in destinations.iter().filter(|to| to.kind == NodeKind::Switch) {
            lids[to.switch as usize] = Some(to.base);
        }
        let lfts = network.switches.iter().map(|s| Arc::clone(&lfts[s.index()])).collect();
        let paths = MulticastPaths::new(fabric, network, lengths);
        Self { paths, lfts, lids, lanes }
    }

    /// True if packets from switches have a VL of their own, because they close a credit loop on
    /// all others. The VLs that are left for other packets are fewer than OpenSM's.
    pub fn takes_vl_from_hosts(&self) -> bool {
        self.lanes.as_ref().is_some_and(PathLanes::takes_vl_from_hosts)
    }

    /// The lowest SL of the paths between two end ports; SLs of the same group are equivalent.
    pub fn base_sl(&self, source: PortId, lid: Lid) -> Option<Sl> {
        self.lanes.as_ref()?.base(source, lid)
    }

    /// The hops from all switches to a switch, by their forwarding tables.
    fn hops_to(&self, target: u32) -> Vec<u8> {
        let network = &self.paths.network;
        let mut hops = vec![NO_PATH; network.len()];
        hops[target as usize] = 0;
        let Some(lid) = self.lids[target as usize] else { return hops };
        let mut path = Vec::new();
        for start in 0..network.len() as u32 {
            let mut at = start;
            path.clear();
            while hops[at as usize] == NO_PATH && path.len() < usize::from(NO_PATH) {
                path.push(at);
                let link = self.lfts[at as usize].out(lid);
                let link = link.and_then(|port| network.link_at(at, port));
                let Some(link) = link else { break };
                at = network.links()[link as usize].to;
            }
            let known = hops[at as usize];
            if known != NO_PATH {
                for (&passed, further) in path.iter().rev().zip(1..) {
                    hops[passed as usize] = known.saturating_add(further);
                }
            }
        }
        hops
    }
}

impl RoutingPolicy for SsspPolicy {
    fn path_sl(&self, source: PortId, destination: PortId, hint: Sl) -> Sl {
        let lanes = self.lanes.as_ref();
        lanes.map_or(hint, |lanes| lanes.sl(source, lanes.base_lid(destination), hint))
    }

    fn path_sl_to_lid(&self, source: PortId, _destination: PortId, lid: Lid, hint: Sl) -> Sl {
        self.lanes.as_ref().map_or(hint, |lanes| lanes.sl(source, lid, hint))
    }

    /// The switch of a host, whose hosts have the same SLs. SSSP leaves SLs as they are.
    fn sl_group(&self, port: PortId) -> u32 {
        self.lanes.as_ref().map_or(0, |lanes| lanes.source_group(port))
    }

    fn destination_group(&self, _port: PortId, lid: Lid) -> u32 {
        self.lanes.as_ref().map_or(0, |_| lid.0.into())
    }

    fn multicast_tree(&self, _mlid: Mlid, members: &[PortId]) -> Option<MulticastTree> {
        self.paths.tree(members, |target| self.hops_to(target))
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        self.lanes.is_some()
    }

    fn lists_own_routes(&self) -> bool {
        true
    }

    fn structure(&self) -> EngineStructure {
        let layers = self.lanes.as_ref().map(|lanes| lanes.paths().len());
        layers.map_or_else(EngineStructure::default, EngineStructure::of_layers)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
