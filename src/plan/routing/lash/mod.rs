//! LASH (layered shortest path): shortest paths, kept free of credit loops by service levels.
//!
//! # The routing algorithm
//!
//! * **Paths** between switches are shortest ([`paths`]). Of parallel cables only the first one is
//!   used, except with `do_mesh_analysis`, where LIDs take them in turn ([`mod@tables`]).
//! * **Order.** Which shortest path it is and which layer depends on the order of switches and
//!   links; `do_mesh_analysis` follows the dimensions of a mesh ([`mesh`]).
//! * **Layers.** The paths there and back between two switches are in one layer, whose channels do
//!   not depend on each other in a circle ([`layer`]). [`layers`] finds the layer of each pair, and
//!   balances the layers.
//! * **SLs.** The SL of a path is `lash_start_vl` and the number of its layer; SLs map to the VLs
//!   of the same numbers. More layers than VLs are a refusal.
//!
//! Multicast trees follow the hops of `hop_weights_file`, which have no influence on unicast routes.
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

mod layer;
mod layers;
mod mesh;
mod network;
mod options;
mod order;
mod paths;
mod policy;
mod tables;
#[cfg(test)]
mod tests;

pub use policy::LashPolicy;

use super::balancing::random::Random;
use super::switch_graph::SwitchGraph;
use super::virtual_lanes::data_vls;
use super::{Engine, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::fabric::Fabric;
use crate::notes::{Note, counted};
use crate::plan::LidTable;
use layers::Layers;
use network::{DependencyNumbers, LayerNetwork};
use options::LashOptions;
use paths::{Neighbours, Paths};
use std::sync::Arc;
use tables::{Cables, tables};

/// The name of the engine.
pub const NAME: &str = "lash";

/// The engine, with the contents of its GUID list files.
#[derive(Clone, Debug, Default)]
pub struct Lash {
    lists: Arc<GuidLists>,
}

impl Lash {
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for Lash {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        route(input.fabric, input.lids, LashOptions::from(input.options), &self.lists)
            .map_err(|note| RoutingError::new(NAME, note))
    }
}

fn route(
    fabric: &Fabric,
    lids: &LidTable,
    options: LashOptions,
    lists: &Arc<GuidLists>,
) -> Result<Routing, Note> {
    let vls = data_vls(fabric, options.max_op_vls);
    let start = options.start_vl;
    if start >= vls {
        let vls = counted(vls.into(), "VL", "VLs");
        let text = format!("lash_start_vl is {start}, but links have only {vls} (from 0)");
        return Err(Note::error("4D03", text));
    }
    let graph = SwitchGraph::new(fabric, &[]);
    let mut neighbours = Neighbours::new(fabric, &graph);
    let mut notes = Vec::new();
    if options.do_mesh_analysis {
        let analysis = mesh::analyse(neighbours);
        (neighbours, notes) = (analysis.neighbours, analysis.notes);
    }
    let paths = Paths::new(&neighbours);
    let numbers = DependencyNumbers::new(&neighbours);
    let network = LayerNetwork { neighbours: &neighbours, paths: &paths, numbers: &numbers };
    let most = usize::from(vls - start);
    let layers = Layers::assign(&network, most, &mut Random::new(options.seed));
    let layers = layers.map_err(|_| {
        let vls = counted(vls.into(), "VL", "VLs");
        let most = counted(most, "layer", "layers");
        let text = format!(
            "shortest paths without credit loops need more than the {most} that links with {vls} \
             and lash_start_vl {start} allow"
        );
        Note::error("4D02", text)
    })?;
    let paths_per_layer: Vec<_> = layers.paths.iter().map(usize::to_string).collect();
    notes.push(Note::info(format!(
        "{} with {} paths between switches",
        counted(layers.paths.len(), "layer", "layers"),
        paths_per_layer.join(", ")
    )));
    let cables = Cables::new(&neighbours, &graph, options.do_mesh_analysis);
    let policy = LashPolicy::new(fabric, &neighbours, &layers, start, Arc::clone(lists));
    Ok(Routing {
        engine: NAME,
        lfts: tables(fabric, lids, &cables, &paths),
        policy: Arc::new(policy),
        notes,
        routing_errors: Vec::new(),
    })
}
