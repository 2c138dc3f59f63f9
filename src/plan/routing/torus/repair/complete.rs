//! A torus without damage: its routes, their channel dependencies and a topological order of these. All
//! this is a function of the shape and the VLs, so that the passes over one torus share it.
//!
//! The order is that of the routes together with the multicast tree from the centre: with it, the
//! dependencies of the tree of a damaged torus are rarely against the order.

use super::graph::ChannelGraph;
use super::healthy::{HealthyRoutes, VlRule};
use super::links::Links;
use super::load::ChannelLoads;
use super::nodes::Dependency;
use super::tree::{self, TreeInputs};
use crate::plan::routing::torus::lattice::Lattice;

/// A torus without damage.
pub(super) struct CompleteTorus {
    lattice: Lattice,
    pub vls: VlRule,
    pub links: Links,
    pub routes: HealthyRoutes,
    /// The dependencies of all routes.
    graph: ChannelGraph,
    /// Paths of all pairs of switches.
    pub loads: ChannelLoads,
}

impl CompleteTorus {
    /// `None` if the routes have a credit loop.
    pub(super) fn new(lattice: &Lattice, vls: VlRule) -> Option<Self> {
        let links = Links::complete(lattice);
        let routes = HealthyRoutes::new(lattice);
        let of_routes = routes.dependencies(lattice, &links);
        let mut of_tree = tree::of_complete(TreeInputs { lattice, present: &links, vls });
        of_tree.retain(|dependency| !is_successor(&of_routes, dependency));
        let mut all = of_routes.clone();
        for dependency in &of_tree {
            all[dependency.node as usize] |= 1 << dependency.branch;
        }
        let graph = match ChannelGraph::new(&links, all) {
            Some(mut graph) => {
                graph.remove(&of_tree);
                graph
            }
            // With few VLs the tree may close a credit loop.
            None => ChannelGraph::new(&links, of_routes)?,
        };
        let loads = loads(lattice, &routes);
        Some(Self { lattice: lattice.clone(), vls, links, routes, graph, loads })
    }

    /// True if this is the torus of that shape, with these VLs.
    pub(super) fn is_of(&self, lattice: &Lattice, vls: VlRule) -> bool {
        self.lattice == *lattice && self.vls == vls
    }

    /// The dependencies of the routes between the channels of `present`.
    pub(super) fn graph_of(&self, present: &Links) -> ChannelGraph {
        let mut graph = self.graph.clone();
        for at in self.lattice.positions() {
            for direction in 0..6u8 {
                if self.links.has(at.0, direction) && !present.has(at.0, direction) {
                    graph.remove_channel(at.0, direction);
                }
            }
        }
        graph
    }
}

fn is_successor(successors: &[u32], dependency: &Dependency) -> bool {
    successors[dependency.node as usize] >> dependency.branch & 1 == 1
}

/// The load of each channel. Paths go along one dimension after the other, so that those along a ring come
/// from and lead to as many positions as there are outside of it.
fn loads(lattice: &Lattice, routes: &HealthyRoutes) -> ChannelLoads {
    let mut loads = ChannelLoads::none(lattice.len());
    for axis in 0..3 {
        let paths = routes.paths_along(axis);
        let outside = lattice.len() as u32 / lattice.radix(axis);
        for at in lattice.positions() {
            let along = paths[lattice.coordinate(at, axis) as usize];
            for (sign, paths) in (0..).zip(along) {
                *loads.of_mut(at.0, 2 * axis as u8 + sign) = paths * outside;
            }
        }
    }
    loads
}
