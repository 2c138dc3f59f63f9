//! The path SLs of LASH.

use super::layers::{Layers, NO_LAYER};
use super::paths::Neighbours;
use crate::config::guid_lists::{GuidLists, HopWeight};
use crate::fabric::{Fabric, PortId};
use crate::ids::Sl;
use crate::plan::LidTable;
use crate::plan::routing::balancing::hops::ShortestPaths;
use crate::plan::routing::balancing::lid_matrix;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::switch_graph::linked_peer;
use crate::plan::routing::{Dump, RoutingPolicy};
use std::sync::Arc;

/// The policy of LASH: the SL of a path is that of the layer of its switches.
pub struct LashPolicy {
    switches: usize,
    /// By port: the number of its switch; [`NO_SWITCH`] if it has none.
    switch_of: Vec<u32>,
    /// By the numbers of source and destination switch.
    sls: Vec<u8>,
    start_vl: u8,
    /// Number of layers.
    layers: usize,
    paths_before_balancing: Vec<usize>,
    lists: Arc<GuidLists>,
}

const NO_SWITCH: u32 = u32::MAX;

impl LashPolicy {
    pub(super) fn new(
        fabric: &Fabric,
        neighbours: &Neighbours,
        layers: &Layers,
        start_vl: u8,
        lists: Arc<GuidLists>,
    ) -> Self {
        let switch_of = fabric.port_ids().map(|port| {
            let is_linked = fabric.node_of(port).is_switch() || linked_peer(fabric, port).is_some();
            let switch = fabric.switch_behind(port).filter(|_| is_linked);
            switch.map_or(NO_SWITCH, |switch| neighbours.numbers[switch.index()])
        });
        let switches = neighbours.len();
        let pairs = (0..switches as u32).flat_map(|from| {
            (0..switches as u32).map(move |to| match layers.of(from, to) {
                NO_LAYER => start_vl,
                layer => start_vl + layer,
            })
        });
        Self {
            switches,
            switch_of: switch_of.collect(),
            sls: pairs.collect(),
            start_vl,
            layers: layers.paths.len(),
            paths_before_balancing: layers.paths_before_balancing.clone(),
            lists,
        }
    }

    /// The number of paths between switches in each layer before balancing.
    pub fn paths_before_balancing(&self) -> &[usize] {
        &self.paths_before_balancing
    }

    /// Number of layers in use.
    pub fn layers(&self) -> usize {
        self.layers
    }

    fn switch(&self, port: PortId) -> Option<usize> {
        let switch = *self.switch_of.get(port.index())?;
        (switch != NO_SWITCH).then_some(switch as usize)
    }
}

impl RoutingPolicy for LashPolicy {
    /// The hint has no influence.
    fn path_sl(&self, source: PortId, destination: PortId, _hint: Sl) -> Sl {
        match (self.switch(source), self.switch(destination)) {
            (Some(from), Some(to)) => Sl(self.sls[from * self.switches + to]),
            _ => Sl(self.start_vl),
        }
    }

    fn sl_group(&self, port: PortId) -> u32 {
        self.switch_of.get(port.index()).copied().unwrap_or(NO_SWITCH)
    }

    fn hop_weights(&self) -> &[HopWeight] {
        &self.lists.hop_weights
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        true
    }

    /// With hop weights, the hops of multicast trees; else they are those of shortest paths.
    fn dumps(&self, fabric: &Fabric, lids: &LidTable) -> Vec<Dump> {
        let weights = self.hop_weights();
        if weights.is_empty() {
            return Vec::new();
        }
        lid_matrix::dump(fabric, lids, weights, &ShortestPaths).into_iter().collect()
    }

    fn structure(&self) -> EngineStructure {
        EngineStructure::of_layers(self.layers)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
