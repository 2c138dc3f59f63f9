//! Min Hop: shortest paths, balanced over the ports on them.
//!
//! Input: the switches with their links (optionally weighted), the LIDs, and the previous tables.
//! Result: a linear forwarding table per switch. Invariant: every entry leads to a neighbour that
//! is closer to the destination by the weight of the link, so paths are shortest and free of loops.
//! An entry is chosen only from the ports that satisfy this (`select`); a LID without such a port
//! gets no entry and a note.
//!
//! Among the ports on shortest paths, each switch takes the one with the fewest paths so far. The
//! tables equal those of OpenSM's engine of the same name, by GUID, for the same options: the
//! balance depends on the orders in which destinations and ports are tried, so OpenSM's orders are
//! used.
//!
//! * [`hops`]: distances between switches, `hop_weights_file`;
//! * `order`: the order of destinations, `guid_routing_order_file`;
//! * `search`: the order of ports, `port_search_ordering_file`;
//! * `select`: the output port of each LID; `random`: the random numbers of `scatter_ports`;
//! * `topology_record`: whether entries of the previous tables are kept.
//!
//! Switches are independent of each other and are routed in parallel, except with `scatter_ports`,
//! whose random sequence runs through all switches.
//!
//! Min Hop is free of credit loops on trees and meshes only; on a torus it may deadlock.

pub mod hops;
mod order;
mod random;
mod search;
mod select;
#[cfg(test)]
pub(in crate::plan) mod tests;
mod topology_record;

use super::{Engine, Lft, Routing, RoutingError, RoutingInput, RoutingPolicy};
use crate::config::guid_lists::{GuidLists, HopWeight};
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::notes::Note;
use crate::plan::LidTable;
use hops::{HopMatrix, SwitchGraph};
use random::Random;
use rayon::prelude::*;
use search::SearchOrders;
use select::{RoutingContext, SwitchRouter};
use std::collections::HashSet;
use std::sync::Arc;
use topology_record::TopologyRecord;

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

    /// Routes with explicit options; entries of `previous` may be kept.
    fn route_with(
        &self,
        fabric: &Fabric,
        lids: &LidTable,
        options: MinHopOptions,
        previous: Option<&Routing>,
    ) -> Routing {
        let graph = SwitchGraph::new(fabric, &self.lists.hop_weights);
        let (search, mut notes) = SearchOrders::new(fabric, &self.lists.search_orders);
        let order = &self.lists.routing_order;
        let destinations =
            order::destinations(fabric, lids, order, !options.guid_routing_order_no_scatter);
        let ports = fabric.end_ports();
        let context = RoutingContext {
            fabric,
            graph: &graph,
            hops: &HopMatrix::new(&graph),
            destinations: &destinations,
            max_lid: lids.max(),
            lids_per_port: ports.map(|port| 1 << lids.lmc(port)).max().unwrap_or(1),
            search: &search,
            ignored: &self.ignored(fabric),
            count_switches: options.port_profile_switch_nodes,
            port_shifting: options.port_shifting,
        };
        let record = TopologyRecord::new(fabric, lids, Arc::clone(&self.lists), options);
        let lfts = route_all(&context, record.kept(previous), options.scatter_ports);
        notes.extend(without_lid(fabric, lids));
        notes.extend(unreachable(fabric, lids, &destinations, &lfts));
        Routing {
            engine: NAME,
            lfts,
            policy: Arc::new(MinHopPolicy { record }),
            notes,
            routing_errors: Vec::new(),
        }
    }

    /// The switch ports whose paths are not counted in the balance.
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

    /// Never fails: unreachable destinations get no entries and are noted.
    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let options = MinHopOptions::from(input.options);
        Ok(self.route_with(input.fabric, input.lids, options, input.previous))
    }
}

/// The options of the engine, under their names in opensm.conf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct MinHopOptions {
    port_profile_switch_nodes: bool,
    port_shifting: bool,
    /// The random seed; 0 disables scattering.
    scatter_ports: u32,
    guid_routing_order_no_scatter: bool,
}

impl From<&Options> for MinHopOptions {
    fn from(options: &Options) -> Self {
        Self {
            port_profile_switch_nodes: options.port_profile_switch_nodes,
            port_shifting: options.port_shifting,
            scatter_ports: options.scatter_ports,
            guid_routing_order_no_scatter: options.guid_routing_order_no_scatter,
        }
    }
}

/// The policy of Min Hop, which leaves SLs, VLs and multicast trees to the defaults. It carries the
/// record of the routed topology for the next routing, and the hop weights for multicast trees.
#[derive(Debug)]
pub struct MinHopPolicy {
    record: TopologyRecord,
}

impl MinHopPolicy {
    /// The hop weights of the routes.
    pub fn hop_weights(&self) -> &[HopWeight] {
        &self.record.lists.hop_weights
    }
}

impl RoutingPolicy for MinHopPolicy {
    /// One group for all ports, because the SL of a path is always the requested one.
    fn sl_group(&self, _port: PortId) -> u32 {
        0
    }

    /// Two Min Hop policies never differ.
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

/// Routes all switches. `kept` gives the previous table of a switch, if its entries may be kept.
fn route_all<'a>(
    context: &RoutingContext<'_>,
    kept: impl Fn(SwitchId) -> Option<&'a Lft> + Sync,
    seed: u32,
) -> Vec<Arc<Lft>> {
    let mut switches: Vec<_> = context.fabric.switch_ids().collect();
    if seed == 0 {
        let route = |&switch: &_| SwitchRouter::new(context, switch).route(kept(switch), None);
        return switches.par_iter().map(route).map(Arc::new).collect();
    }
    let mut lfts = vec![Arc::default(); switches.len()];
    let mut random = Random::new(seed);
    switches.sort_by_cached_key(|&switch| order::rank(context.fabric.switch(switch).guid()));
    for switch in switches {
        let lft = SwitchRouter::new(context, switch).route(kept(switch), Some(&mut random));
        lfts[switch.index()] = Arc::new(lft);
    }
    lfts
}

fn without_lid(fabric: &Fabric, lids: &LidTable) -> impl Iterator<Item = Note> {
    let missing = fabric.end_ports().filter(|&port| lids.base(port).is_none());
    missing.map(|port| {
        Note::error("3A04", format!("{} has no LID and is not routed", fabric.describe(port)))
    })
}

/// One note about the switches that lack a path to some destination.
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
        1 => "; 1 more switch lacks paths".to_owned(),
        more => format!("; {more} more switches lack paths"),
    };
    let name = |port: Option<PortId>| port.map_or_else(String::new, |port| fabric.describe(port));
    let from = fabric.switch(switch).first_port;
    let to = name(lids.port(destination.base));
    let lid = destination.base;
    Some(Note::warning(format!("no path from {} to LID {lid}, {to}{more}", fabric.describe(from))))
}
