//! UPDN: up/down routing, which is free of credit loops.
//!
//! Every link leads up or down: up towards a switch of lower rank, which is its distance from the
//! root switches; between switches of equal rank, up leads to the one with the smaller ID (the node
//! GUID, or as `ids_guid_file` has it). Packets go up first and then down, and never up after down,
//! so that no cycle of channels arises as long as up leads in no circle.
//!
//! * `roots`: the root switches of `root_guid_file`, or those that the distances to the hosts
//!   suggest;
//! * `ranks`: the distance of each switch from the roots;
//! * `hops`: the hops over legal paths, from which [`super::balancing`] makes forwarding tables.
//!
//! The engine refuses a fabric without roots. Hosts without a legal path have no route to each other,
//! as in OpenSM; `refuse_faulty_routes` refuses such a fabric. Switches, usually roots, may lack routes
//! to other switches; `connect_roots` adds shortest paths to roots, legal or not. Links between root
//! switches lead up in both directions, as in OpenSM; verification warns if they close a credit loop.

mod hops;
pub(super) mod ranks;
mod roots;

use super::balancing::hops::HopRule;
use super::balancing::{Balancing, Gap, RouteProperties};
use super::structure::EngineStructure;
use super::switch_graph::SwitchGraph;
use super::{Dump, Engine, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::fabric::Fabric;
use crate::notes::{Note, counted};
use hops::UpDown;
use ranks::{Ranks, UNRANKED};
use roots::Roots;
use std::sync::Arc;

/// The name of the engine.
pub const NAME: &str = "updn";

/// File name of the dump of the root switches.
const ROOTS_FILE: &str = "opensm-updn-roots.dump";

/// The engine, with the contents of its GUID list files.
#[derive(Clone, Debug, Default)]
pub struct Updn {
    lists: Arc<GuidLists>,
}

impl Updn {
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for Updn {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let graph = SwitchGraph::new(input.fabric, &self.lists.hop_weights);
        let roots = Roots::find(input.fabric, &graph, &self.lists);
        if roots.switches.is_empty() {
            return Err(refusal(&roots.notes, roots.missing(), None));
        }
        let dump = roots.dump(input.fabric);
        let ranks = Ranks::from(&graph, &roots.switches);
        if let Some(switch) = graph.switches().find(|&switch| ranks.of(switch) == UNRANKED) {
            let guid = input.fabric.switch(switch).guid();
            let text = format!("switch {guid} has no path to a root switch");
            return Err(refusal(&roots.notes, Note::error("AA0E", text), Some(dump)));
        }
        let connect_roots = input.options.connect_roots && roots.may_be_connected();
        let structure = EngineStructure { roots: roots.switches.clone(), ..ranks.structure() };
        let ids = hops::ids(input.fabric, &self.lists.ids);
        let rule: Arc<dyn HopRule> = Arc::new(UpDown { ranks, ids, connect_roots });
        let balanced = Balancing {
            rule: Some(rule),
            properties: RouteProperties {
                avoids_loops: !connect_roots,
                may_omit_switch_routes: true,
                may_use_uncabled_ports: false,
                unrouted_remedy: Some(
                    "name other roots in root_guid_file, or choose an engine that reaches them, such as \
                     nue or minhop",
                ),
                dumps: vec![dump.clone()],
                structure,
            },
            ..Balancing::of_shortest_paths(NAME, input, &self.lists, &graph)
        }
        .route();
        if input.options.refuse_faulty_routes
            && let Some(gap) = balanced.gap_of_hosts(input.fabric)
        {
            return Err(refusal(&roots.notes, no_legal_path(&gap, &roots, input), Some(dump)));
        }
        let mut routing = balanced.routing;
        routing.notes.extend(roots.adjacency_warning(input.fabric, &graph));
        routing.notes.extend(roots.notes);
        Ok(routing)
    }
}

fn refusal(notes: &[Note], note: Note, dump: Option<Dump>) -> RoutingError {
    RoutingError { engine: NAME, notes: notes.iter().cloned().chain([note]).collect(), dump }
}

fn no_legal_path(gap: &Gap, roots: &Roots, input: &RoutingInput<'_>) -> Note {
    let what = gap.describe(input.fabric, input.lids);
    let roots = counted(roots.switches.len(), "root switch", "root switches");
    Note::error(
        "AA0E",
        format!(
            "{what}: none that goes up first and then down, with {roots}; name other roots in \
             root_guid_file"
        ),
    )
}

/// A switch as messages name it.
fn name(fabric: &Fabric, switch: crate::fabric::SwitchId) -> String {
    fabric.describe(fabric.switch(switch).first_port)
}
