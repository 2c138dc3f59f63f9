//! Parallel quasi fat tree (`pqft`): closed-form routes of trees with parallel cables, after the papers
//! on D-Mod-K by Zahavi et al.
//!
//! # The routing algorithm
//!
//! * **Levels.** The level of a switch is its distance from the nearest leaf switch, that is, switch
//!   with compute nodes; with `root_guid_file` it follows from the distance from the nearest root
//!   (`levels`). No cable connects switches of one level.
//! * **Numbers.** Hosts are numbered so that those below each switch are consecutive, as many at each
//!   switch as at the fullest one of its level. Parents are in the order of their planes: the parts of
//!   the tree that are connected above a level (`numbering`).
//! * **Routes.** Packets go up to the nearest common ancestor and down. At a switch of level l, the
//!   number of the destination divided by the parents of the levels below l is the quotient: it
//!   selects the parent, and divided by the parents the cable. Down, it selects the cable (`fill`).
//! * **Damage.** Only parents from which the destination is reached up and down count. A tree in which
//!   two leaf switches have no common ancestor is refused.
//!
//! On a healthy tree, hosts that send in turn to all others (shift permutations) never share a cable.
//! Routes never turn from down to up, so there is no credit loop.
//!
//! Quasi fat trees that are no parallel ports generalized ones are routed as damaged trees are: with all
//! paths and without credit loops, but not without shared cables, which a note says.
//!
//! `pqft_structure` asserts the numbers of a parallel ports generalized fat tree (`structure`).

mod fill;
mod levels;
mod numbering;
mod policy;
mod structure;
#[cfg(test)]
mod tests;

use super::switch_graph::SwitchGraph;
use super::{Engine, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::notes::Note;
use levels::Levels;
use numbering::Numbering;
use policy::PqftPolicy;
use std::sync::Arc;
pub use structure::Structure;

/// The name of the engine.
pub const NAME: &str = "pqft";

/// The engine, with the contents of its GUID files.
#[derive(Clone, Debug, Default)]
pub struct Pqft {
    lists: Arc<GuidLists>,
}

impl Pqft {
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for Pqft {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        self.tree_routes(input).map_err(|text| {
            let text = format!("not a fat tree for pqft: {text}");
            RoutingError::new(NAME, Note::error("AB40", text))
        })
    }
}

impl Pqft {
    /// Routes the fabric, or tells what does not fit.
    fn tree_routes(&self, input: &RoutingInput<'_>) -> Result<Routing, String> {
        let fabric = input.fabric;
        let graph = SwitchGraph::new(fabric, &[]);
        let hosts = levels::hosts(fabric, input.lids, &self.lists);
        let levels = Levels::new(fabric, &graph, &hosts, self.lists.roots.as_deref())?;
        let found = Structure::of(&levels);
        if let Some(text) = input.options.pqft_structure.as_deref() {
            let wanted: Structure =
                text.parse().map_err(|problem| format!("pqft_structure {text}: {problem}"))?;
            wanted.admits(&found, &levels, fabric)?;
        }
        let numbering = Numbering::new(fabric, &levels);
        let lfts = fill::tables(input, &levels, &numbering)?;
        let mut notes = vec![Note::info(format!("pqft: the tree is {found}"))];
        let uneven = found.uneven(&levels, fabric);
        notes.extend(uneven.map(|text| Note::info(format!("pqft: {text}"))));
        Ok(Routing {
            engine: NAME,
            lfts,
            policy: Arc::new(PqftPolicy { structure: levels.structure() }),
            notes,
            routing_errors: Vec::new(),
        })
    }
}
