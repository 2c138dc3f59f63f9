//! Nue: paths without credit loops on any fabric and with any number of VLs (J. Domke, T. Hoefler,
//! S. Matsuoka, "Routing on the Dependency Graph: A New Approach to Deadlock-Free High-Performance
//! Routing", HPDC 2016).
//!
//! # The routing algorithm
//!
//! * **Layers.** End ports are distributed in turn over layers, as many as `nue_max_num_vls` and
//!   the VLs of all links allow. With several layers, the SL of a path is the layer of its LID;
//!   without QoS there is one ([`targets`]).
//! * **Escape paths.** Each layer begins with a spanning tree whose dependencies are reserved
//!   ([`escape`]).
//! * **Paths.** For each LID in turn, paths are searched in the graph of all possible dependencies
//!   ([`channels`], [`search`]), where each dependency in use is kept and those that would close a
//!   cycle are blocked ([`colors`], [`order`]). Links are as long as in SSSP.
//! * **Switches** are no destinations of data traffic unless `nue_include_switches` is set. Routes
//!   to them are shortest paths, on layer 0.
//! * **Multicast.** The tree of a group consists of the shortest paths from a switch near to it.
//!
//! Each LID depends on the routes of those before it, so routes are computed one by one. Time grows
//! with the number of LIDs times that of possible dependencies, which is the number of links times
//! the number of links of a switch; memory with the possible dependencies.
//!
//! # Differences from OpenSM
//!
//! Forwarding tables, layers and multicast trees equal those of OpenSM's engine of the same name,
//! built without METIS, by GUID. Where its routes close a credit loop, they are computed again:
//!
//! * OpenSM forgets dependencies in use when it shortens a path after backtracking. Here they are
//!   kept, if the routes to hosts have a loop.
//! * Without `nue_include_switches`, OpenSM's routes to switches ignore the dependencies of others.
//!   Here they are routed like those to hosts, if they close a loop ([`switches`]).

mod channels;
mod colors;
mod escape;
mod hosts;
mod order;
mod policy;
mod search;
mod switches;
mod targets;
#[cfg(test)]
mod tests;

use super::virtual_lanes::data_vls;
use super::weighted_paths::columns::Columns;
use super::weighted_paths::multicast::MulticastPaths;
use super::weighted_paths::network::Network;
use super::weighted_paths::search::{NONE, Search as SimpleSearch};
use super::weighted_paths::{check_connected, one_hop};
use super::{Engine, Lft, Routing, RoutingError, RoutingInput};
use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::ids::Lid;
use crate::notes::{Note, counted};
use crate::wire::attr::tables::LFT_NO_PATH;
use channels::Channels;
use colors::Colors;
use policy::MulticastHops;
pub use policy::NuePolicy;
use search::{NueLayer, NueSearch};
use std::iter::successors;
use std::sync::Arc;
use targets::NueTarget;

/// The name of the engine.
pub const NAME: &str = "nue";

/// The engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nue;

impl Engine for Nue {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        route(input).map_err(|note| RoutingError::new(NAME, note))
    }
}

fn route(input: &RoutingInput<'_>) -> Result<Routing, Note> {
    let fabric = input.fabric;
    let lids = input.lids;
    let network = Network::new(fabric, input.options.avoid_throttled_links, |switch| {
        let lid = lids.base(fabric.switch(switch).first_port).unwrap_or(Lid(0));
        lid.0.swap_bytes().into()
    });
    check_connected(fabric, &network, &mut SimpleSearch::default(), "NUE45")?;
    let targets = targets::targets(fabric, lids, &network);
    let layers = layer_count(fabric, input.options);
    let by_layer = targets::layers(&targets, layers, input.options.nue_include_switches);
    let (mut graph, by_layer) =
        rayon::join(|| Channels::new(&network), || HostLayer::all(&network, by_layer));
    let hosts = targets.iter().filter(|target| !target.is_switch());
    graph.rank_above(hosts.map(|host| host.switch));
    let setup = Setup {
        graph: &graph,
        targets: &targets,
        layers: by_layer,
        include_switches: input.options.nue_include_switches,
        one_hop: one_hop(fabric, lids),
        table_size: Lft::empty(lids.max()).len(),
        lids_by_switch: lids_by_switch(&network, &targets),
    };
    let mut routes = setup.routes();
    routes.columns.flush(&mut routes.tables);
    let NueRoutes { tables, lengths, hops, by_lid, escapes, .. } = routes;
    let mut lfts = vec![Arc::default(); network.len()];
    for (switch, table) in network.switches.iter().zip(Lft::shared(tables)) {
        lfts[switch.index()] = table;
    }
    let note = Note::info(format!(
        "{} used; {} routed by escape paths",
        counted(layers.into(), "VL is", "VLs are"),
        counted(escapes.iter().sum::<usize>(), "LID is", "LIDs are")
    ));
    let paths = MulticastPaths::new(fabric, network, lengths);
    let layers = (layers > 1).then_some(by_lid);
    let policy = NuePolicy::new(fabric, lids, paths, hops, layers);
    Ok(Routing {
        engine: NAME,
        lfts,
        policy: Arc::new(policy),
        notes: vec![note],
        routing_errors: Vec::new(),
    })
}

/// The number of layers that options and links allow.
fn layer_count(fabric: &Fabric, options: &Options) -> u8 {
    let vls = data_vls(fabric, options.max_op_vls).max(1);
    let vls = match options.nue_max_num_vls {
        0 => vls,
        wanted => wanted.min(vls),
    };
    if options.qos { vls } else { 1 }
}

/// The input of the algorithm.
struct Setup<'a> {
    graph: &'a Channels<'a>,
    targets: &'a [NueTarget],
    layers: Vec<HostLayer>,
    include_switches: bool,
    one_hop: u64,
    /// Entries of a forwarding table.
    table_size: usize,
    lids_by_switch: Vec<u8>,
}

/// The end ports of a layer.
struct HostLayer {
    targets: Vec<NueTarget>,
    marks: escape::Targets,
    /// The root of its escape paths.
    center: u32,
}

impl HostLayer {
    /// The layers with these end ports.
    fn all(network: &Network, mut layers: Vec<Vec<NueTarget>>) -> Vec<Self> {
        layers.iter_mut().for_each(|targets| targets.sort_by_key(NueTarget::is_switch));
        let marks: Vec<_> =
            layers.iter().map(|targets| escape_targets(network.len(), targets)).collect();
        let centers = escape::centers(network, &marks);
        let layers = layers.into_iter().zip(marks).zip(centers);
        layers.map(|((targets, marks), center)| Self { targets, marks, center }).collect()
    }
}

/// The routes of all LIDs.
#[derive(Clone)]
struct NueRoutes {
    /// Forwarding tables by switch.
    tables: Vec<Vec<u8>>,
    /// Their newest entries.
    columns: Columns,
    /// Lengths of links with all routes.
    lengths: Vec<u64>,
    hops: MulticastHops,
    /// By LID: its layer.
    by_lid: Vec<u8>,
    /// By layer, then by edge: true if a path depends on it.
    dependencies: Vec<Vec<bool>>,
    /// By layer: the number of LIDs that are routed by escape paths.
    escapes: Vec<usize>,
}

/// How routes are computed, from OpenSM's rules to stricter ones.
#[derive(Clone, Copy, Default)]
struct Rules {
    /// Dependencies in use are kept when a path is shortened.
    keep_dependencies: bool,
    /// Escape paths to all switches are reserved on layer 0, over a tree with this root.
    center: Option<u32>,
}

impl Setup<'_> {
    /// OpenSM's routes, or those that have no credit loop if OpenSM's do.
    fn routes(&self) -> NueRoutes {
        let of_hosts = self.hosts(Rules::default(), self.layers.len());
        if self.include_switches { of_hosts } else { self.with_switches(of_hosts) }
    }

    /// The lengths of links without paths.
    fn first_lengths(&self) -> Vec<u64> {
        vec![self.one_hop; self.graph.network.links().len()]
    }

    /// Tables in which switches have their own LIDs only.
    fn without_paths(&self) -> NueRoutes {
        let network = self.graph.network;
        let mut tables = vec![vec![LFT_NO_PATH; self.table_size]; network.len()];
        for target in self.targets.iter().filter(|target| target.is_switch()) {
            target.lids().for_each(|lid| tables[target.switch as usize][lid.index()] = 0);
        }
        let hops = if self.include_switches {
            MulticastHops::ByTarget(vec![vec![u8::MAX; network.len()]; network.len()])
        } else {
            MulticastHops::Common(vec![0; network.len()])
        };
        NueRoutes {
            tables,
            columns: Columns::new(network),
            lengths: self.first_lengths(),
            hops,
            by_lid: vec![0; self.table_size],
            dependencies: vec![vec![false; self.graph.edge_count()]; self.layers.len()],
            escapes: vec![0; self.layers.len()],
        }
    }

    /// Routes the LIDs of an end port on a layer.
    fn route(
        &self,
        routes: &mut NueRoutes,
        search: &mut NueSearch<'_>,
        layer_state: &mut (Colors, Vec<u32>),
        target: &NueTarget,
        number: u8,
    ) {
        let (colors, escape) = layer_state;
        for lid in target.lids() {
            let color = colors.new_color();
            let lengths = &routes.lengths;
            let dependencies = &mut routes.dependencies[usize::from(number)];
            let mut layer = NueLayer { colors, color, lengths, escape, dependencies };
            let is_escape = search.run(&mut layer, target.switch, !target.is_switch());
            routes.escapes[usize::from(number)] += usize::from(is_escape);
            self.enter(routes, &search.used, target, lid);
            match search.outwards() {
                Some(order) => {
                    self.lengthen_inwards(&mut routes.lengths, &search.used, order.rev());
                }
                None => self.lengthen(&mut routes.lengths, &search.used, search.followed()),
            }
        }
        if let MulticastHops::ByTarget(rows) = &mut routes.hops
            && target.is_switch()
        {
            rows[target.switch as usize].copy_from_slice(search.hops());
        }
    }

    /// Enters paths into the tables.
    fn enter(&self, routes: &mut NueRoutes, used: &[u32], target: &NueTarget, lid: Lid) {
        let end = (lid, target.switch, target.exit);
        routes.columns.add_links(end, used, &mut routes.tables);
    }

    /// Makes links longer by the paths over them, with the switches in an order in which each one
    /// precedes the next one on its path.
    fn lengthen_inwards(
        &self,
        lengths: &mut [u64],
        used: &[u32],
        inwards: impl Iterator<Item = u32>,
    ) {
        let starts = self.graph.network.starts();
        let mut paths: Vec<u64> = self.lids_by_switch.iter().map(|&lids| lids.into()).collect();
        for switch in inwards {
            let link = used[switch as usize];
            if let Some(&next) = starts.get(link as usize) {
                lengths[link as usize] += paths[switch as usize];
                paths[next as usize] += paths[switch as usize];
            }
        }
    }

    /// The same with any paths. `outwards` has most switches, behind the next ones on their paths.
    fn lengthen(&self, lengths: &mut [u64], used: &[u32], outwards: impl Iterator<Item = u32>) {
        let mut order: Vec<u32> = outwards.collect();
        let mut places = vec![NONE; used.len()];
        (0..).zip(&order).for_each(|(place, &switch)| places[switch as usize] = place);
        for (switch, place) in (0..).zip(&mut places).filter(|(_, place)| **place == NONE) {
            *place = order.len() as u32;
            order.push(switch);
        }
        if order.iter().any(|&switch| self.leads_in_circle(used, &places, switch)) {
            return self.lengthen_one_by_one(lengths, used);
        }
        let mut paths: Vec<u64> = self.lids_by_switch.iter().map(|&lids| lids.into()).collect();
        for &switch in order.iter().rev() {
            let Some(first) = self.next(used, switch) else { continue };
            let all = paths[switch as usize];
            lengths[used[switch as usize] as usize] += all;
            if follows(&places, switch, first) {
                paths[first as usize] += all;
                continue;
            }
            // The next switches have been passed on already.
            let mut at = first;
            while let Some(beyond) = self.next(used, at) {
                lengths[used[at as usize] as usize] += all;
                at = beyond;
            }
        }
    }

    /// The switch behind the link that a switch uses.
    fn next(&self, used: &[u32], switch: u32) -> Option<u32> {
        self.graph.network.starts().get(used[switch as usize] as usize).copied()
    }

    /// True if the next switch does not precede this one in the order, and the path has no end.
    fn leads_in_circle(&self, used: &[u32], places: &[u32], switch: u32) -> bool {
        let next = self.next(used, switch);
        next.is_some_and(|next| !follows(places, switch, next))
            && successors(Some(switch), |&at| self.next(used, at)).nth(used.len()).is_some()
    }

    /// The same with paths that lead in circles: as many links of each as there are switches.
    fn lengthen_one_by_one(&self, lengths: &mut [u64], used: &[u32]) {
        let network = self.graph.network;
        for (switch, &lids) in self.lids_by_switch.iter().enumerate() {
            let mut at = switch;
            for _ in 0..network.len() {
                let Some(&next) = network.starts().get(used[at] as usize) else { break };
                lengths[used[at] as usize] += u64::from(lids);
                at = next as usize;
            }
        }
    }

    /// True if the dependencies of the routes of one of these layers have a cycle.
    fn has_loop(&self, layers: &[Vec<bool>]) -> bool {
        let mut layers = layers.iter();
        layers.any(|used| order::has_cycle(self.graph, |edge| used[edge as usize]))
    }
}

fn follows(places: &[u32], switch: u32, next: u32) -> bool {
    places[next as usize] < places[switch as usize]
}

/// By switch: the number of LIDs of its own and of the ports linked to it, modulo 256 as in OpenSM.
fn lids_by_switch(network: &Network, targets: &[NueTarget]) -> Vec<u8> {
    let mut counts = vec![0_u8; network.len()];
    for target in targets {
        let count = &mut counts[target.switch as usize];
        *count = count.wrapping_add(target.lid_count() as u8);
    }
    counts
}

/// The switches with destinations of a layer.
fn escape_targets(switches: usize, layer: &[NueTarget]) -> escape::Targets {
    let mut marks =
        escape::Targets { has_destinations: vec![false; switches], hosts: vec![0; switches] };
    for target in layer {
        marks.has_destinations[target.switch as usize] = true;
        if !target.is_switch() {
            let hosts = &mut marks.hosts[target.switch as usize];
            *hosts = hosts.wrapping_add(1);
        }
    }
    marks
}
