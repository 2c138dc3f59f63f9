//! Dimension order routing: shortest paths that leave each switch towards the neighbour of its
//! first suitable port.
//!
//! If the ports of all switches of a mesh or hypercube are cabled in the order of the dimensions,
//! packets travel along the first dimension, then along the next one, and there is no credit loop.
//! `port_search_ordering_file` gives the order of ports where cables differ. Routes are balanced
//! over parallel cables to the neighbour only, as [`super::balancing`] describes. On a torus, and
//! on other fabrics, routes may have a credit loop, which verification reports.

use super::balancing::Balancing;
use super::switch_graph::SwitchGraph;
use super::{Engine, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::notes::Note;
use std::sync::Arc;

/// The name of the engine.
pub const NAME: &str = "dor";

/// The engine, with the contents of its GUID list files.
#[derive(Clone, Debug, Default)]
pub struct Dor {
    lists: Arc<GuidLists>,
}

impl Dor {
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for Dor {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Never fails: unreachable destinations get no entries and are noted.
    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let graph = SwitchGraph::new(input.fabric, &self.lists.hop_weights);
        let shortest = Balancing::of_shortest_paths(NAME, input, &self.lists, &graph);
        let mut balanced = Balancing { dimension_order: true, ..shortest }.route();
        let gap = balanced.gap().map(|gap| Note::warning(gap.describe(input.fabric, input.lids)));
        balanced.routing.notes.extend(gap);
        Ok(balanced.routing)
    }
}
