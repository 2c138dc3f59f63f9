//! Min Hop: shortest paths, balanced over the ports on them.
//!
//! A hop costs 1, or the weight that `hop_weights_file` gives to the port. See
//! [`super::balancing`] for the choice among shortest paths.
//!
//! Min Hop is free of credit loops on trees and meshes only; on a torus it may deadlock.

use super::balancing::Balancing;
use super::switch_graph::SwitchGraph;
use super::{Engine, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::notes::Note;
use std::sync::Arc;

/// The name of the engine.
pub const NAME: &str = "minhop";

/// The engine, with the contents of its GUID list files.
#[derive(Clone, Debug, Default)]
pub struct MinHop {
    lists: Arc<GuidLists>,
}

impl MinHop {
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for MinHop {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Never fails: unreachable destinations get no entries and are noted.
    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let graph = SwitchGraph::new(input.fabric, &self.lists.hop_weights);
        let balancing = Balancing::of_shortest_paths(NAME, input, &self.lists, &graph);
        let mut balanced = balancing.route();
        let gap = balanced.gap().map(|gap| Note::warning(gap.describe(input.fabric, input.lids)));
        balanced.routing.notes.extend(gap);
        Ok(balanced.routing)
    }
}
