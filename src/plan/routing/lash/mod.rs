//! LASH (layered shortest path): shortest paths, kept free of credit loops by service levels.
//!
//! # The routing algorithm
//!
//! * **Paths** between switches are shortest ([`paths`]). Of parallel cables only the first one is
//!   used.
//! * **Layers.** The paths there and back between two switches are in one layer, whose channels do
//!   not depend on each other in a circle ([`layer`]). [`layers`] finds the layer of each pair, and
//!   balances the layers.
//! * **SLs.** The SL of a path is `lash_start_vl` and the number of its layer; SLs map to the VLs
//!   of the same numbers. More layers than VLs are a refusal.
//!
//! Time grows with the square of the number of switches and with the length of paths, memory with
//! the square of the number of switches: seven bytes for each pair.
//!
//! # Differences from OpenSM
//!
//! Forwarding tables and the first choice of layers equal OpenSM's engine of the same name, by
//! GUID. Where OpenSM balances several layers, path SLs may differ: it counts paths on dependencies
//! that it failed to add, and later follows such dependencies to channels that it has freed. Here
//! layers have the dependencies of their paths alone.
//!
//! The random order of balancing is that of OpenSM's first sweep (or that of `scatter_ports`, if
//! set), so that equal fabrics have equal SLs. In OpenSM it depends on the number of sweeps before.
//!
//! `do_mesh_analysis` has no effect.

mod layer;
mod layers;
mod network;
mod options;
mod order;
mod paths;
#[cfg(test)]
mod tests;

use super::balancing::random::Random;
use super::structure::EngineStructure;
use super::switch_graph::{SwitchGraph, linked_peer};
use super::virtual_lanes::data_vls;
use super::{Engine, Lft, Routing, RoutingError, RoutingInput, RoutingPolicy};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, Sl};
use crate::notes::{Note, counted};
use crate::plan::LidTable;
use layers::{Layers, NO_LAYER};
use network::{DependencyNumbers, Network};
use options::LashOptions;
use paths::{NONE, Neighbours, Paths};
use rayon::prelude::*;
use std::sync::Arc;

/// The name of the engine.
pub const NAME: &str = "lash";

/// The engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lash;

impl Engine for Lash {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        route(input.fabric, input.lids, LashOptions::from(input.options))
            .map_err(|note| RoutingError { engine: NAME, notes: vec![note], dump: None })
    }
}

fn route(fabric: &Fabric, lids: &LidTable, options: LashOptions) -> Result<Routing, Note> {
    let vls = data_vls(fabric, options.max_op_vls);
    let start = options.start_vl;
    if start >= vls {
        let vls = counted(vls.into(), "VL", "VLs");
        let text = format!("lash_start_vl is {start}, but links have only {vls} (from 0)");
        return Err(Note::error("4D03", text));
    }
    let neighbours = Neighbours::new(fabric, &SwitchGraph::new(fabric, &[]));
    let paths = Paths::new(&neighbours);
    let numbers = DependencyNumbers::new(&neighbours);
    let network = Network { neighbours: &neighbours, paths: &paths, numbers: &numbers };
    let most = usize::from(vls - start);
    let layers = Layers::assign(&network, most, &mut Random::new(options.seed));
    let layers = layers.map_err(|_| {
        let (vls, most) = (counted(vls.into(), "VL", "VLs"), counted(most, "layer", "layers"));
        let text = format!(
            "shortest paths without credit loops need more than the {most} that links with {vls} \
             and lash_start_vl {start} allow"
        );
        Note::error("4D02", text)
    })?;
    let paths_per_layer: Vec<_> = layers.paths.iter().map(usize::to_string).collect();
    let note = Note::info(format!(
        "{} with {} paths between switches",
        counted(layers.paths.len(), "layer", "layers"),
        paths_per_layer.join(", ")
    ));
    Ok(Routing {
        engine: NAME,
        lfts: tables(fabric, lids, &neighbours, &paths),
        policy: Arc::new(LashPolicy::new(fabric, &neighbours, &layers, start)),
        notes: vec![note],
        routing_errors: Vec::new(),
    })
}

/// The forwarding tables, by [`SwitchId`].
fn tables(
    fabric: &Fabric,
    lids: &LidTable,
    neighbours: &Neighbours,
    paths: &Paths,
) -> Vec<Arc<Lft>> {
    // LID, number of its switch, and output port there.
    let targets: Vec<(Lid, u32, u8)> = lids
        .iter()
        .filter_map(|(lid, port)| {
            let (switch, exit) = match fabric.node_of(port).switch {
                Some(switch) => (switch, 0),
                None => {
                    let peer = linked_peer(fabric, port)?;
                    (fabric.node_of(peer).switch?, fabric.port(peer).num.0)
                }
            };
            Some((lid, neighbours.numbers[switch.index()], exit))
        })
        .collect();
    let table = |switch: SwitchId| {
        let own = neighbours.numbers[switch.index()];
        let mut lft = Lft::empty(lids.max());
        for &(lid, to, exit) in &targets {
            let next = paths.to(to)[own as usize];
            lft.0[lid.index()] = match next {
                _ if to == own => exit,
                NONE => continue,
                next => neighbours.of(own)[usize::from(next)].port,
            };
        }
        Arc::new(lft)
    };
    let switches: Vec<_> = fabric.switch_ids().collect();
    switches.into_par_iter().map(table).collect()
}

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
}

const NO_SWITCH: u32 = u32::MAX;

impl LashPolicy {
    fn new(fabric: &Fabric, neighbours: &Neighbours, layers: &Layers, start_vl: u8) -> Self {
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
        }
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

    fn guarantees_no_credit_loops(&self) -> bool {
        true
    }

    fn structure(&self) -> EngineStructure {
        EngineStructure::of_layers(self.layers)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
