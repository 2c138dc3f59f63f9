//! Forwarding tables from min hop tables, balanced over the ports with the least hops: the part
//! that minhop, updn, dnup and dor have in common, OpenSM's unicast manager.
//!
//! Input: the links between switches, the rule by which an engine computes hops ([`HopRule`]), the
//! LIDs, the balancing options with their files, and the previous tables. Result: a linear
//! forwarding table per switch. Invariant: every entry leads through a link with the least hops to
//! the destination. A LID without such a link gets no entry.
//!
//! Among these links, each switch takes the one with the fewest paths so far. The tables equal
//! those of OpenSM by GUID for the same options: the balance depends on the orders in which
//! destinations and ports are tried, so OpenSM's orders are used.
//!
//! * [`hops`]: min hop tables and the rules for them, [`graded`]: those of graphs of ranks;
//! * [`port_set`]: sets of links;
//! * `order`: the order of destinations, `guid_routing_order_file`;
//! * `search`: the order of ports, `port_search_ordering_file`;
//! * `select`: the output port of each LID; `random`: the random numbers of `scatter_ports`;
//! * `topology_record`: whether entries of the previous tables are kept;
//! * `lid_matrix`: the dump of the min hop tables.
//!
//! Switches are independent of each other and are routed in parallel, except with `scatter_ports`,
//! whose random sequence runs through all switches.

pub(super) mod graded;
pub mod hops;
pub(super) mod lid_matrix;
mod order;
mod policy;
pub mod port_set;
pub(super) mod random;
mod search;
mod select;
#[cfg(test)]
pub(in crate::plan) mod tests;
mod topology_record;

pub use policy::{BalancedPolicy, RouteProperties};

use super::switch_graph::{SwitchGraph, linked_peer};
use super::{Lft, Routing, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::config::options::Options;
use crate::fabric::{Fabric, NodeId, PortId, SwitchId};
use crate::ids::{Lid, PortNum};
use crate::notes::Note;
use crate::plan::LidTable;
use hops::{BestLinks, HopMatrix, HopRule, RuleTable, ShortestPaths};
use port_set::SmallSet;
use random::Random;
use rayon::prelude::*;
use search::SearchOrders;
use select::{RoutedSwitch, RoutingContext, SwitchRouter};
use std::collections::HashSet;
use std::sync::Arc;
use topology_record::RoutingRecord;

/// The options of the balance, under their names in opensm.conf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BalancingOptions {
    pub port_profile_switch_nodes: bool,
    pub port_shifting: bool,
    /// The random seed; 0 disables scattering.
    pub scatter_ports: u32,
    pub guid_routing_order_no_scatter: bool,
}

impl From<&Options> for BalancingOptions {
    fn from(options: &Options) -> Self {
        Self {
            port_profile_switch_nodes: options.port_profile_switch_nodes,
            port_shifting: options.port_shifting,
            scatter_ports: options.scatter_ports,
            guid_routing_order_no_scatter: options.guid_routing_order_no_scatter,
        }
    }
}

/// The input of the balance.
pub(super) struct Balancing<'a> {
    /// Name of the engine. Entries are kept from its previous tables only.
    pub engine: &'static str,
    pub fabric: &'a Fabric,
    pub lids: &'a LidTable,
    pub lists: &'a Arc<GuidLists>,
    pub options: BalancingOptions,
    pub previous: Option<&'a Routing>,
    pub graph: &'a SwitchGraph,
    /// How hops are computed; `None` stands for shortest paths.
    pub rule: Option<Arc<dyn HopRule>>,
    /// True if a switch uses only the ports to the neighbour of the first suitable port (dor).
    pub dimension_order: bool,
    pub properties: RouteProperties,
}

impl<'a> Balancing<'a> {
    /// The balance of shortest paths over `graph`.
    pub(super) fn of_shortest_paths(
        engine: &'static str,
        input: &RoutingInput<'a>,
        lists: &'a Arc<GuidLists>,
        graph: &'a SwitchGraph,
    ) -> Self {
        Self {
            engine,
            fabric: input.fabric,
            lids: input.lids,
            lists,
            options: BalancingOptions::from(input.options),
            previous: input.previous,
            graph,
            rule: None,
            dimension_order: false,
            properties: RouteProperties::default(),
        }
    }

    /// Routes all switches.
    pub(super) fn route(self) -> Balanced {
        let fabric = self.fabric;
        let lids = self.lids;
        let (search, mut notes) = SearchOrders::new(fabric, &self.lists.search_orders);
        let destinations = order::destinations(
            fabric,
            lids,
            &self.lists.routing_order,
            !self.options.guid_routing_order_no_scatter,
        );
        let ports = fabric.end_ports();
        let context = RoutingContext {
            fabric,
            graph: self.graph,
            destinations: &destinations,
            max_lid: lids.max(),
            lids_per_port: ports.map(|port| 1 << lids.lmc(port)).max().unwrap_or(1),
            search: &search,
            ignored: &self.ignored(),
            count_switches: self.options.port_profile_switch_nodes,
            port_shifting: self.options.port_shifting,
            dimension_order: self.dimension_order,
        };
        let record = RoutingRecord::new(fabric, lids, Arc::clone(self.lists), self.options);
        let links = self.graph.switches().map(|switch| self.graph.links(switch).len()).max();
        let routed = match links.unwrap_or(0) {
            0..=8 => self.route_all::<u8>(&context, &record),
            9..=64 => self.route_all::<u64>(&context, &record),
            _ => self.route_all::<[u64; 4]>(&context, &record),
        };
        notes.extend(without_lid(fabric, lids));
        let missing = routed
            .iter()
            .map(|routed| routed.missing.map(|index| lid(&destinations, index)))
            .collect();
        let lfts = Lft::shared(routed.into_iter().map(|switch| switch.entries).collect());
        let routing = self.finish(lfts, record, notes);
        Balanced { routing, missing }
    }

    /// The routing with tables that are known already.
    pub(super) fn with_tables(self, lfts: Vec<Arc<Lft>>) -> Routing {
        let notes = without_lid(self.fabric, self.lids).into_iter().collect();
        let record =
            RoutingRecord::new(self.fabric, self.lids, Arc::clone(self.lists), self.options);
        self.finish(lfts, record, notes)
    }

    fn finish(self, lfts: Vec<Arc<Lft>>, record: RoutingRecord, notes: Vec<Note>) -> Routing {
        let policy = BalancedPolicy {
            record,
            rule: self.rule.unwrap_or_else(|| Arc::new(ShortestPaths)),
            properties: self.properties,
        };
        let policy = Arc::new(policy);
        Routing { engine: self.engine, lfts, policy, notes, routing_errors: Vec::new() }
    }

    /// Routes all switches with sets of links of the type `S`.
    fn route_all<S: SmallSet>(
        &self,
        context: &RoutingContext<'_>,
        record: &RoutingRecord,
    ) -> Vec<RoutedSwitch> {
        let previous = self.previous.filter(|routing| routing.engine == self.engine);
        let kept = record.kept(previous.and_then(|routing| {
            let policy = routing.policy.as_any().downcast_ref::<BalancedPolicy>()?;
            Some((&policy.record, &routing.lfts[..]))
        }));
        match &self.rule {
            Some(rule) => {
                let table = RuleTable::<S>::new(self.graph, &**rule);
                route_switches(context, &table, kept, self.options.scatter_ports)
            }
            None => {
                let matrix = HopMatrix::new(self.graph);
                route_switches::<S>(context, &matrix, kept, self.options.scatter_ports)
            }
        }
    }

    /// The switch ports whose paths are not counted in the balance.
    fn ignored(&self) -> HashSet<(SwitchId, u8)> {
        let fabric = self.fabric;
        let mut ignored = HashSet::new();
        for &(guid, num) in &self.lists.ignored_ports {
            if num != PortNum::ZERO {
                let found = fabric.node_by_guid(guid).and_then(|node| switch_of(fabric, node));
                ignored.extend(found.map(|found| (found, num.0)));
                continue;
            }
            // A port GUID: the switch port at the far end of a host's cable, or all ports of a switch.
            let Some(port) = fabric.port_by_guid(guid) else { continue };
            let node = fabric.port(port).node;
            match switch_of(fabric, node) {
                Some(found) => {
                    ignored.extend((1..=fabric.node(node).num_ports()).map(|num| (found, num)));
                }
                None => {
                    let peer = fabric.port(port).peer.map(|peer| fabric.port(peer));
                    let end =
                        peer.and_then(|peer| Some((switch_of(fabric, peer.node)?, peer.num.0)));
                    ignored.extend(end);
                }
            }
        }
        ignored
    }
}

fn switch_of(fabric: &Fabric, node: NodeId) -> Option<SwitchId> {
    fabric.node(node).switch
}

fn lid(destinations: &[order::Destination], index: Option<usize>) -> Option<Lid> {
    index.map(|index| destinations[index].base)
}

/// The result of the balance.
pub(super) struct Balanced {
    pub routing: Routing,
    /// By switch: the first host and the first switch without an entry.
    missing: Vec<[Option<Lid>; 2]>,
}

impl Balanced {
    /// The pairs of switch and destination without an entry; `None` if there are none.
    pub(super) fn gap(&self) -> Option<Gap> {
        self.find_gap(|_, [host, switch]| host.or(switch))
    }

    /// As [`Self::gap`], for hosts at switches with hosts only. Others are management packets.
    pub(super) fn gap_of_hosts(&self, fabric: &Fabric) -> Option<Gap> {
        self.find_gap(|from, [host, _]| host.filter(|_| has_hosts(fabric, from)))
    }

    fn find_gap(&self, lid: impl Fn(SwitchId, [Option<Lid>; 2]) -> Option<Lid>) -> Option<Gap> {
        let switches = (0..).map(SwitchId).zip(&self.missing);
        let mut gaps = switches.filter_map(|(from, &missing)| Some((from, lid(from, missing)?)));
        let (switch, lid) = gaps.next()?;
        Some(Gap { switch, lid, switches: 1 + gaps.count() })
    }
}

/// Switches that lack an entry for some destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    pub switch: SwitchId,
    /// A LID without an entry at `switch`.
    pub lid: Lid,
    /// Number of switches that lack an entry.
    pub switches: usize,
}

impl Gap {
    /// The switch and the end port without a path.
    pub(super) fn describe(&self, fabric: &Fabric, lids: &LidTable) -> String {
        let more = match self.switches - 1 {
            0 => String::new(),
            1 => "; 1 more switch lacks paths".to_owned(),
            more => format!("; {more} more switches lack paths"),
        };
        let from = fabric.describe(fabric.switch(self.switch).first_port);
        format!(
            "no path from {from} to LID {}, {}{more}",
            self.lid,
            port_name(fabric, lids.port(self.lid))
        )
    }
}

fn port_name(fabric: &Fabric, port: Option<PortId>) -> String {
    port.map_or_else(String::new, |port| fabric.describe(port))
}

/// True if the switch has a link to a node other than a switch.
pub(super) fn has_hosts(fabric: &Fabric, switch: SwitchId) -> bool {
    let mut ports = (1..=fabric.switch(switch).num_ports()).map(PortNum);
    ports.any(|num| {
        let peer = fabric.switch_port(switch, num).and_then(|port| linked_peer(fabric, port));
        peer.is_some_and(|peer| !fabric.node_of(peer).is_switch())
    })
}

/// Routes the switches. `kept` gives the previous table of a switch, if its entries may be kept.
fn route_switches<'a, S: SmallSet>(
    context: &RoutingContext<'_>,
    hops: &dyn BestLinks<S>,
    kept: impl Fn(SwitchId) -> Option<&'a Lft> + Sync,
    seed: u32,
) -> Vec<RoutedSwitch> {
    let mut switches: Vec<_> = context.fabric.switch_ids().collect();
    if seed == 0 {
        return switches
            .par_iter()
            .map(|&switch| SwitchRouter::new(context, hops, switch).route(kept(switch), None))
            .collect();
    }
    let mut routed: Vec<_> = switches.iter().map(|_| RoutedSwitch::default()).collect();
    let mut random = Random::new(seed);
    switches.sort_by_cached_key(|&switch| order::rank(context.fabric.switch(switch).guid()));
    for switch in switches {
        let router = SwitchRouter::new(context, hops, switch);
        routed[switch.index()] = router.route(kept(switch), Some(&mut random));
    }
    routed
}

/// The error about end ports without a LID, of which a large fabric may have thousands.
fn without_lid(fabric: &Fabric, lids: &LidTable) -> Option<Note> {
    let mut missing = fabric.end_ports().filter(|&port| lids.base(port).is_none());
    let first = fabric.describe(missing.next()?);
    let text = match missing.count() {
        0 => format!("{first} has no LID and is not routed"),
        others => {
            format!("{} ports have no LID and are not routed, the first is {first}", others + 1)
        }
    };
    Some(Note::error("3A04", text))
}
