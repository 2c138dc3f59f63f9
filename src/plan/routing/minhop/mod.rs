//! Min Hop: shortest paths, balanced over the ports that lie on them.
//!
//! The tables are those of OpenSM's engine of the same name, by GUID, for the same options:
//! its balance depends on orders, and they are kept.
//!
//! * [`hops`]: distances between switches, `hop_weights_file`;
//! * `order`: the order of destinations, `guid_routing_order_file`;
//! * `search`: the order of ports, `port_search_ordering_file`;
//! * `select`: which port a LID gets; `random`: what `scatter_ports` draws;
//! * `memory`: when entries of the last pass are kept.
//!
//! Switches are independent of each other and are routed in parallel, except that ports drawn
//! at random follow one sequence through all switches.
//!
//! Min Hop is free of credit loops only on trees and meshes; on a torus it may deadlock.

pub mod hops;
mod memory;
mod order;
mod random;
mod search;
mod select;
#[cfg(test)]
pub(in crate::plan) mod tests;

use super::{Engine, Lft, Routing, RoutingError, RoutingInput, RoutingPolicy};
use crate::config::guid_lists::{GuidLists, HopWeight};
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::notes::Note;
use crate::plan::LidTable;
use hops::{HopMatrix, SwitchGraph};
use memory::Memory;
use random::Random;
use rayon::prelude::*;
use search::SearchOrders;
use select::{Pass, SwitchRouter};
use std::collections::HashSet;
use std::sync::Arc;

/// The name of the engine.
pub const NAME: &str = "minhop";

/// The engine, with the contents of the files that tune it.
#[derive(Clone, Debug, Default)]
pub struct MinHop {
    lists: Arc<GuidLists>,
}

impl MinHop {
    /// The engine that balances as `lists` say.
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }

    /// Routes as the options in `tuning` say; entries of `previous` may be kept.
    fn route_tuned(
        &self,
        fabric: &Fabric,
        lids: &LidTable,
        tuning: Tuning,
        previous: Option<&Routing>,
    ) -> Routing {
        let graph = SwitchGraph::new(fabric, &self.lists.hop_weights);
        let (search, mut notes) = SearchOrders::new(fabric, &self.lists.search_orders);
        let order = &self.lists.routing_order;
        let destinations =
            order::destinations(fabric, lids, order, !tuning.guid_routing_order_no_scatter);
        let ports = fabric.end_ports();
        let pass = Pass {
            fabric,
            graph: &graph,
            hops: &HopMatrix::new(&graph),
            destinations: &destinations,
            max_lid: lids.max(),
            lids_per_port: ports.map(|port| 1 << lids.lmc(port)).max().unwrap_or(1),
            search: &search,
            ignored: &self.ignored(fabric),
            count_switches: tuning.port_profile_switch_nodes,
            port_shifting: tuning.port_shifting,
        };
        let memory = Memory::new(fabric, lids, Arc::clone(&self.lists), tuning);
        let lfts = route_all(&pass, memory.kept(previous), tuning.scatter_ports);
        notes.extend(without_lid(fabric, lids));
        notes.extend(unreachable(fabric, lids, &destinations, &lfts));
        Routing {
            engine: NAME,
            lfts,
            policy: Arc::new(MinHopPolicy { memory }),
            notes,
            routing_errors: Vec::new(),
        }
    }

    /// The ports that are not counted.
    fn ignored(&self, fabric: &Fabric) -> HashSet<(SwitchId, u8)> {
        let entries = self.lists.ignored_ports.iter();
        let switch = |guid| fabric.node_by_guid(guid).and_then(|node| fabric.node(node).switch);
        entries.filter_map(|&(guid, port)| Some((switch(guid)?, port.0))).collect()
    }
}

impl Engine for MinHop {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Never refuses: what cannot be reached is left without entries, and noted.
    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let tuning = Tuning::from(input.options);
        Ok(self.route_tuned(input.fabric, input.lids, tuning, input.previous))
    }
}

/// The options that tune the engine, under their names in opensm.conf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Tuning {
    port_profile_switch_nodes: bool,
    port_shifting: bool,
    /// The seed; 0 for no scattering.
    scatter_ports: u32,
    guid_routing_order_no_scatter: bool,
}

impl From<&Options> for Tuning {
    fn from(options: &Options) -> Self {
        Self {
            port_profile_switch_nodes: options.port_profile_switch_nodes,
            port_shifting: options.port_shifting,
            scatter_ports: options.scatter_ports,
            guid_routing_order_no_scatter: options.guid_routing_order_no_scatter,
        }
    }
}

/// What Min Hop decides beside forwarding tables: nothing. It carries what the next pass and
/// the multicast trees want to know.
#[derive(Debug)]
pub struct MinHopPolicy {
    memory: Memory,
}

impl MinHopPolicy {
    /// The hop weights that the routes were made with.
    pub fn hop_weights(&self) -> &[HopWeight] {
        &self.memory.lists.hop_weights
    }
}

impl RoutingPolicy for MinHopPolicy {
    /// One for all: the SL of a path is the one asked for.
    fn sl_group(&self, _port: PortId) -> u32 {
        0
    }

    /// Nothing, ever.
    fn changes_since(&self, before: &dyn RoutingPolicy) -> Option<Vec<PortId>> {
        before.as_any().is::<Self>().then(Vec::new)
    }

    fn same_path_sls_as(&self, before: &dyn RoutingPolicy) -> bool {
        before.as_any().is::<Self>()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// Routes all switches; `kept` gives the table of the last pass of a switch.
fn route_all<'a>(
    pass: &Pass<'_>,
    kept: impl Fn(SwitchId) -> Option<&'a Lft> + Sync,
    seed: u32,
) -> Vec<Arc<Lft>> {
    let mut switches: Vec<_> = pass.fabric.switch_ids().collect();
    if seed == 0 {
        let route = |&switch: &_| SwitchRouter::new(pass, switch).route(kept(switch), None);
        return switches.par_iter().map(route).map(Arc::new).collect();
    }
    let mut lfts = vec![Arc::default(); switches.len()];
    let mut random = Random::new(seed);
    switches.sort_by_cached_key(|&switch| order::rank(pass.fabric.switch(switch).guid()));
    for switch in switches {
        let lft = SwitchRouter::new(pass, switch).route(kept(switch), Some(&mut random));
        lfts[switch.index()] = Arc::new(lft);
    }
    lfts
}

fn without_lid(fabric: &Fabric, lids: &LidTable) -> impl Iterator<Item = Note> {
    let missing = fabric.end_ports().filter(|&port| lids.base(port).is_none());
    missing.map(|port| Note::error("3A04", format!("{} has no LID", fabric.describe(port))))
}

/// What has no path, in one note: hosts that hang on no switch, and LIDs that some switch
/// cannot forward.
fn unreachable(
    fabric: &Fabric,
    lids: &LidTable,
    destinations: &[order::Destination],
    lfts: &[Arc<Lft>],
) -> Option<Note> {
    let lacks = |switch: SwitchId| {
        let lft = &lfts[switch.index()];
        destinations.iter().find(|destination| lft.out(destination.base).is_none())
    };
    let mut lacking = fabric.switch_ids().filter_map(|switch| Some((switch, lacks(switch)?)));
    let (switch, destination) = lacking.next()?;
    let more = match lacking.count() {
        0 => String::new(),
        more => format!("; {more} more switches lack paths"),
    };
    let name = |port: Option<PortId>| port.map_or_else(String::new, |port| fabric.describe(port));
    let from = fabric.switch(switch).first_port;
    let to = name(lids.port(destination.base));
    let lid = destination.base;
    Some(Note::warning(format!("no path from {} to LID {lid}, {to}{more}", fabric.describe(from))))
}
