//! Fat Tree: routes trees of switches up to a common ancestor and down, balanced for shift traffic
//! between compute nodes.
//!
//! # The routing algorithm
//!
//! * **Ranks.** The rank of a switch is its distance from the nearest root. The roots are those of
//!   `root_guid_file`, else the switches farthest from all channel adapters.
//! * **Hosts.** Compute nodes are at switches of one rank, the leaf switches. I/O nodes and other
//!   hosts may be anywhere (`cn_guid_file`, `io_guid_file`).
//! * **Indices** order the switches, and with them leaf switches and port groups.
//! * **Validation.** Without `root_guid_file` the tree must be regular; hosts may be missing.
//! * **Routes** are found for one destination after the other: compute nodes leaf by leaf, as many
//!   at each leaf as at the fullest one, so that missing hosts do not disturb the balance; then
//!   other hosts, switches and routers. Packets go up and down only, or between switches of one
//!   rank where these are cabled; paths to I/O nodes may have `max_reverse_hops`.
//!
//! Routes that never turn from down to up have no credit loop. Siblings and reverse hops may close
//! one, which verification finds. Such loops, and hosts that the rules do not connect, are a warning,
//! or with `refuse_faulty_routes` a reason to refuse the fabric.
//!
//! # Modules
//!
//! `options`: the options and GUID files; `rank`, `hosts`: ranks and roles; `tree`: the switches
//! with their port groups; `index`: the order of switches; `validate`: checks; `walk`, `state`: the
//! routes to one destination; `fill`: the order of destinations, and the tables; `policy`: the
//! result for multicast trees and the dump file.
//!
//! # Differences from OpenSM
//!
//! Tables equal OpenSM's engine of the same name, by GUID, except where that depends on addresses
//! in memory or leaves hosts without routes:
//!
//! * Hosts of a leaf switch with cables to other leaf switches, or to switches below, are routed in
//!   the order of ports. OpenSM takes them for switches when it sorts them, so their order
//!   varies, and some may get no routes at all.
//! * Routers get routes.
//! * A switch number of an index may exceed 255 (`index`).

mod fill;
mod hosts;
mod index;
mod options;
mod policy;
mod rank;
mod state;
#[cfg(test)]
mod tests;
mod tree;
mod validate;
mod walk;

use super::switch_graph::SwitchGraph;
use super::{Engine, Lft, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::fabric::{Fabric, SwitchId};
use crate::notes::Note;
use crate::plan::LidTable;
use fill::{FtreeTables, WalkOptions};
use hosts::{Role, TreeHost};
use options::FtreeOptions;
pub use policy::FtreePolicy;
use rank::{TreeRanks, UNRANKED};
use std::sync::Arc;
use tree::RankedTree;
use validate::refusal;
use walk::FtreeWalk;

/// The name of the engine.
pub const NAME: &str = "ftree";

/// File name of the dump that lists the compute nodes in the order of their leaf switches.
pub const DUMP_FILE: &str = "opensm-ftree-ca-order.dump";

/// The engine, with the contents of its GUID files.
#[derive(Clone, Debug, Default)]
pub struct Ftree {
    lists: Arc<GuidLists>,
}

impl Ftree {
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for Ftree {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let options = FtreeOptions::new(input.options, &self.lists);
        route(input.fabric, input.lids, &options).map_err(|notes| RoutingError {
            engine: NAME,
            notes,
            dump: None,
        })
    }
}

/// Routes the fabric, or returns the notes with the reason why it cannot.
fn route(
    fabric: &Fabric,
    lids: &LidTable,
    options: &FtreeOptions<'_>,
) -> Result<Routing, Vec<Note>> {
    let mut notes = Vec::new();
    match route_with_notes(fabric, lids, options, &mut notes) {
        Ok((lfts, policy)) => Ok(Routing {
            engine: NAME,
            lfts,
            policy: Arc::new(policy),
            notes,
            routing_errors: Vec::new(),
        }),
        Err(reason) => {
            notes.push(reason);
            Err(notes)
        }
    }
}

fn route_with_notes(
    fabric: &Fabric,
    lids: &LidTable,
    options: &FtreeOptions<'_>,
    notes: &mut Vec<Note>,
) -> Result<(Vec<Arc<Lft>>, FtreePolicy), Note> {
    options::check(fabric, options)?;
    let mut tree = ranked_tree(fabric, lids, options, notes)?;
    validate::rank_count(&tree)?;
    validate::compute_nodes(&tree)?;
    let indices = index::assign(&mut tree, options.quasi_ftree_indexing);
    let leaves = index::leaf_switches(&tree, &indices);
    validate::leaf_switches(&tree, &leaves)?;
    if !options.has_root_file {
        validate::regularity(&tree, &indices)?;
    }
    let max_compute_nodes = index::max_compute_nodes(&tree);
    let walk_options = WalkOptions {
        max_reverse_hops: options.max_reverse_hops,
        max_compute_nodes,
        connect_roots: options.connect_roots,
    };
    let mut walk = FtreeWalk::new(&tree, &indices.positions());
    let FtreeTables { lfts, port_hops } = fill::fill(&tree, lids, &leaves, walk_options, &mut walk);
    if !walk.is_complete() {
        let hops = options.max_reverse_hops;
        return Err(refusal(format!("max_reverse_hops {hops} takes too long on this fabric")));
    }
    let lfts = Lft::shared(lfts);
    if options.refuses_gaps {
        fill::check_hosts(&tree, &lfts)?;
    }
    notes.extend(fill::unconnected_switches(&tree, lids, &lfts));
    let reverse_hops = options.max_reverse_hops;
    Ok((lfts, FtreePolicy::new(&tree, &leaves, max_compute_nodes, port_hops, reverse_hops)))
}

/// Ranks the switches and finds the leaf rank.
fn ranked_tree<'a>(
    fabric: &'a Fabric,
    lids: &LidTable,
    options: &FtreeOptions<'_>,
    notes: &mut Vec<Note>,
) -> Result<RankedTree<'a>, Note> {
    let graph = SwitchGraph::new(fabric, &[]);
    let hosts = hosts::hosts(fabric, lids, options);
    let ranks = match options::given_roots(fabric, options, notes) {
        Some(roots) => TreeRanks::from_roots(&graph, &roots),
        None => TreeRanks::from_hosts(&graph, &switches_with_adapters(&hosts)),
    };
    if ranks.max == 0 && ranks.by_switch.iter().filter(|&&rank| rank != UNRANKED).count() > 1 {
        let text = "every switch is a root; a fat tree has switches below the roots";
        return Err(Note::error("AB2B", text));
    }
    let mut tree = RankedTree::new(fabric, graph, ranks, hosts);
    let Some(first) = tree.hosts.iter().find(|host| host.role == Role::Compute) else {
        return Err(refusal("the fabric has no compute node at a switch".into()));
    };
    if options.has_root_file {
        tree.leaf_rank = tree.ranks.of(first.switch);
    }
    Ok(tree)
}

/// The switches with channel adapters; ascending.
fn switches_with_adapters(hosts: &[TreeHost]) -> Vec<SwitchId> {
    let adapters = hosts.iter().filter(|host| host.role != Role::Router);
    let mut switches: Vec<_> = adapters.map(|host| host.switch).collect();
    switches.sort_unstable();
    switches.dedup();
    switches
}
