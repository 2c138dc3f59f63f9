//! Forwarding tables from walks: the order of destinations, and the tables' contents.

use super::hosts::{Role, TreeHost};
use super::state::NONE;
use super::tree::RankedTree;
use super::walk::{FoundRoute, FtreeWalk, WalkColumn, WalkDestination};
use crate::fabric::SwitchId;
use crate::ids::Lid;
use crate::notes::{Note, Severity, counted};
use crate::plan::LidTable;
use crate::plan::routing::Lft;
use crate::plan::routing::port_hops::{Detours, Hops, PortHops};
use crate::plan::routing::switch_graph::{NO_PATH, SwitchGraph};
use rayon::prelude::*;
use std::sync::Arc;

/// Number of destinations that are walked while the tables of as many before them are filled.
const BATCH: usize = 256;

/// Number of tables that a task fills, which are neighbours in a column.
const TABLES_PER_TASK: usize = 64;

/// A destination of walks, with its LID if its routes are used.
#[derive(Clone, Copy, Debug)]
struct FtreeTarget {
    lid: Option<Lid>,
    to: WalkDestination,
}

/// The options that have an influence on walks.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkOptions {
    pub max_reverse_hops: u16,
    /// The largest number of compute nodes at one switch.
    pub max_compute_nodes: usize,
    pub connect_roots: bool,
}

/// The tables of all switches.
pub(super) struct FtreeTables {
    /// The entries of each switch.
    pub lfts: Vec<Vec<u8>>,
    pub port_hops: PortHops,
}

/// Fills the tables of all switches.
pub(super) fn fill(
    tree: &RankedTree<'_>,
    lids: &LidTable,
    leaves: &[SwitchId],
    options: WalkOptions,
    walk: &mut FtreeWalk,
) -> FtreeTables {
    let lfts = vec![Lft::unused_entries(lids.max()); tree.groups.len()];
    let mut tables = FtreeTables { lfts, port_hops: PortHops::default() };
    let mut turn = leaves.last().filter(|_| options.connect_roots).map(|&leaf| LeafTurn::new(leaf));
    let mut next = RouteBatch::default();
    let mut ready = RouteBatch::default();
    for targets in targets(tree, lids, leaves, options).chunks(BATCH) {
        rayon::join(|| next.walk(walk, targets, &mut turn), || ready.write(tree, &mut tables));
        std::mem::swap(&mut next, &mut ready);
    }
    ready.write(tree, &mut tables);
    if let Some(turn) = turn {
        turn.connect_roots(tree, lids, &mut tables);
    }
    tables
}

/// All destinations in the order in which they are balanced: compute nodes leaf by leaf, other
/// channel adapters, switches. OpenSM does not route to routers; here they come last.
fn targets(
    tree: &RankedTree<'_>,
    lids: &LidTable,
    leaves: &[SwitchId],
    options: WalkOptions,
) -> Vec<FtreeTarget> {
    let mut targets = Vec::with_capacity(tree.hosts.len() + tree.order.len());
    for &leaf in leaves {
        let before = targets.len();
        targets.extend(tree.compute_nodes(leaf).map(|host| host_target(host, 0)));
        let missing = options.max_compute_nodes - (targets.len() - before);
        let to = WalkDestination { switch: leaf, port: None, counts: true, reverse_hops: 0 };
        targets.extend(std::iter::repeat_n(FtreeTarget { lid: None, to }, missing));
    }
    let others = tree.hosts.iter().filter_map(|host| match host.role {
        Role::Io => Some(host_target(host, options.max_reverse_hops)),
        Role::Other => Some(host_target(host, 0)),
        Role::Compute | Role::Router => None,
    });
    targets.extend(others);
    targets.extend(tree.order.iter().filter_map(|&switch| {
        let lid = Some(lids.base(tree.fabric.switch(switch).first_port)?);
        let to = WalkDestination { switch, port: Some(0), counts: false, reverse_hops: 0 };
        Some(FtreeTarget { lid, to })
    }));
    let routers = tree.hosts.iter().filter(|host| host.role == Role::Router);
    targets.extend(routers.map(|host| host_target(host, 0)));
    targets
}

fn host_target(host: &TreeHost, reverse_hops: u16) -> FtreeTarget {
    let switch = host.switch;
    let port = Some(host.switch_port);
    FtreeTarget {
        lid: Some(host.lid),
        to: WalkDestination { switch, port, counts: true, reverse_hops },
    }
}

/// The routes to some destinations.
#[derive(Default)]
struct RouteBatch {
    lids: Vec<Lid>,
    /// The output ports of all switches, one row per LID.
    outputs: Vec<u8>,
    /// The routes that were found to switches, in order, and the end of those to each switch.
    found: Vec<FoundRoute>,
    found_ends: Vec<(SwitchId, usize)>,
}

impl RouteBatch {
    fn walk(&mut self, walk: &mut FtreeWalk, targets: &[FtreeTarget], turn: &mut Option<LeafTurn>) {
        self.lids.clear();
        self.outputs.clear();
        self.found.clear();
        self.found_ends.clear();
        for target in targets {
            let column = walk.route(target.to);
            let Some(lid) = target.lid else { continue };
            self.lids.push(lid);
            self.outputs.extend_from_slice(&column.outputs);
            if target.to.port == Some(0) {
                if let Some(turn) = turn {
                    turn.add(target.to.switch, column);
                }
                self.found.extend_from_slice(walk.found());
                self.found_ends.push((target.to.switch, self.found.len()));
            }
        }
    }

    fn write(&self, tree: &RankedTree<'_>, tables: &mut FtreeTables) {
        let FtreeTables { lfts, port_hops } = tables;
        let switches = lfts.len();
        let tasks = lfts.par_chunks_mut(TABLES_PER_TASK).enumerate();
        tasks.for_each(|(task, lfts)| {
            for (row, &lid) in self.outputs.chunks_exact(switches).zip(&self.lids) {
                for (lft, &output) in lfts.iter_mut().zip(&row[task * TABLES_PER_TASK..]) {
                    lft[lid.index()] = output;
                }
            }
        });
        let firsts = std::iter::once(0).chain(self.found_ends.iter().map(|&(_, end)| end));
        let targets: Vec<_> = self.found_ends.iter().zip(firsts).collect();
        let longer: Vec<_> = targets
            .par_iter()
            .map(|&(&(target, end), first)| {
                (target, longer_ways(&tree.graph, target, &self.found[first..end]))
            })
            .collect();
        for (target, hops) in longer {
            port_hops.extend(target, hops);
        }
    }
}

/// The hops through ports on shortest paths behind which the walk found a longer way only.
fn longer_ways(graph: &SwitchGraph, target: SwitchId, found: &[FoundRoute]) -> Vec<Hops> {
    let mut distances = vec![NO_PATH; graph.len()];
    graph.distances_to(target, &mut distances);
    let mut longer = Vec::new();
    for (index, route) in found.iter().enumerate().filter(|(_, route)| is_longer(&distances, route))
    {
        let is_on_shortest =
            distance_of(&distances, route.through) + 1 == distance_of(&distances, route.from);
        if is_on_shortest
            && !found[index + 1..]
                .iter()
                .any(|other| is_same_route(&route.from, &route.through, other))
        {
            let from = SwitchId(route.from.into());
            let links = graph.links(from).iter();
            let links = links.filter(|link| link.to.index() == usize::from(route.through));
            longer.extend(links.map(|link| Hops { from, port: link.port, hops: route.hops }));
        }
    }
    longer
}

fn is_same_route(from: &u16, through: &u16, other: &FoundRoute) -> bool {
    (other.from, other.through) == (*from, *through)
}

fn is_longer(distances: &[u8], route: &FoundRoute) -> bool {
    route.hops > distance_of(distances, route.through).saturating_add(1)
}

fn distance_of(distances: &[u8], switch: u16) -> u8 {
    distances[usize::from(switch)]
}

/// The last leaf switch, over which `connect_roots` routes between switches that have no path
/// within the rules of the tree: above the leaf switches, packets to LIDs of switches without a
/// route go to that switch, if it has a route. So only this switch turns packets upwards.
struct LeafTurn {
    leaf: SwitchId,
    /// By switch: hops to the leaf.
    outward: Vec<u8>,
    /// Switches that the leaf reaches, with the hops from there.
    reached: Vec<(SwitchId, u8)>,
}

impl LeafTurn {
    fn new(leaf: SwitchId) -> Self {
        Self { leaf, outward: Vec::new(), reached: Vec::new() }
    }

    /// Notes the routes to a switch.
    fn add(&mut self, target: SwitchId, column: &WalkColumn) {
        let hops = column.hops[self.leaf.index()];
        if hops != NONE {
            self.reached.push((target, hops));
        }
        if target == self.leaf {
            self.outward.clone_from(&column.hops);
        }
    }

    fn connect_roots(&self, tree: &RankedTree<'_>, lids: &LidTable, tables: &mut FtreeTables) {
        let fabric = tree.fabric;
        let Some(leaf_lid) = lids.base(fabric.switch(self.leaf).first_port) else { return };
        let outputs = tables.lfts.iter().map(|lft| lft[leaf_lid.index()]);
        let outward = outputs.zip(self.outward.iter().copied()).collect();
        let mut detours = Detours::new(outward);
        for switch in
            tree.order.iter().copied().filter(|a| is_upper(&tree.ranks, &tree.leaf_rank, a))
        {
            let lft = &mut tables.lfts[switch.index()];
            let output = lft[leaf_lid.index()];
            for &(target, hops) in &self.reached {
                let Some(lid) = lids.base(fabric.switch(target).first_port) else { continue };
                let entry = &mut lft[lid.index()];
                if *entry == NONE && output != NONE {
                    *entry = output;
                    detours.add(switch, target, hops);
                }
            }
        }
        tables.port_hops.set_detours(detours);
    }
}

fn is_upper(ranks: &super::TreeRanks, leaf_rank: &u32, &switch: &SwitchId) -> bool {
    ranks.of(switch) < *leaf_rank
}

/// Checks that every switch with hosts has a route to all hosts.
pub(super) fn check_hosts(tree: &RankedTree<'_>, lfts: &[Arc<Lft>]) -> Result<(), Note> {
    let mut sources = vec![None; lfts.len()];
    for host in &tree.hosts {
        sources[host.switch.index()].get_or_insert(host);
    }
    let missing = sources.par_iter().flatten().find_map_first(|source| {
        let lft = &lfts[source.switch.index()];
        let to = tree.hosts.iter().find(|to| lft.out(to.lid).is_none())?;
        Some((*source, to))
    });
    let Some((source, to)) = missing else { return Ok(()) };
    Err(Note::new(
        Severity::Error,
        None,
        format!(
            "no path up and down the tree leads from {} at {} to {} (LID {}) at {}",
            tree.fabric.describe(source.port),
            tree.describe(source.switch),
            tree.fabric.describe(to.port),
            to.lid,
            tree.describe(to.switch),
        ),
    ))
}

/// A note about switches without a route to some switch or host, which `connect_roots` may add.
pub(super) fn unconnected_switches(
    tree: &RankedTree<'_>,
    lids: &LidTable,
    lfts: &[Arc<Lft>],
) -> Option<Note> {
    let targets: Vec<_> = lids.iter().map(|(lid, _)| lid).collect();
    let count = tree
        .order
        .par_iter()
        .map(|switch| &lfts[switch.index()])
        .filter(|lft| targets.iter().any(|&lid| lft.out(lid).is_none()))
        .count();
    (count > 0).then(|| {
        let switches = counted(count, "switch lacks", "switches lack");
        Note::info(format!(
            "{switches} routes to switches or hosts that no path up and down the tree leads to \
             (connect_roots routes between root switches)"
        ))
    })
}
