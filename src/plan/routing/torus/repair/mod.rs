//! The repair step: routes a torus whose damage torus-2QoS refuses.
//!
//! # Algorithm
//!
//! The paths of the complete torus that meet no damage are kept: their channel dependencies are a
//! subset of an acyclic graph. Each other pair of switches is attached to the routes of its
//! destination again, hop by hop, first by torus-2QoS's own rule, then by the shortest detour. A hop is
//! accepted only if the channel dependency graph stays acyclic with the VLs that torus-2QoS's SLs and
//! SL to VL mappings give to these packets. The multicast tree is reserved in the graph first; if that
//! leaves pairs without a route, trees from other roots are tried, and at last one after unicast.
//!
//! SLs follow from the coordinates of source and destination alone, so no established connection has
//! a wrong one. The union of the result with the routes of the complete torus is free of credit loops.
//!
//! The result is a function of the grid alone. Work is limited by a count, never by time.
//!
//! | part | module |
//! |---|---|
//! | neighbours over all cables, and over those present | [`links`] |
//! | next hops, SLs and dependencies of the complete torus | [`healthy`] |
//! | pairs whose path meets damage, and their new next hops | [`broken`] |
//! | acyclic channel dependency graph, and its topological order | [`graph`], [`order`] |
//! | attachment by rule and by search | [`router`] |
//! | multicast tree | [`tree`] |
//! | next hops of a repaired torus | [`result`] |
//! | limits of what may stay without a route | [`acceptance`] |
//! | messages | [`report`] |

mod acceptance;
mod broken;
mod graph;
mod healthy;
mod links;
mod order;
mod report;
mod result;
mod router;
mod tree;

pub(super) use acceptance::routes;
pub(super) use report::{because, overview, placed_by_completion, summary};
pub(super) use result::RepairedRoutes;
pub(super) use tree::SpanningTree;

use super::grid::Grid;
use super::lattice::Position;
use super::multicast;
use super::ring_directions::RingDirections;
use broken::Detours;
use graph::ChannelGraph;
use healthy::HealthyRoutes;
use links::Links;
use result::RepairRefusal;
use router::{RouteInputs, Router};

/// Visits of graph nodes after which the best result so far stands: about 1 s for 512 switches, 5 s for
/// 4,096.
const BASE_VISITS: u64 = 20_000_000;
/// Additional visits for each position.
const VISITS_PER_POSITION: u64 = 56_000;
/// Maximum number of broken pairs of switches, which bounds the memory.
const MAX_BROKEN_PAIRS: usize = 1 << 26;

/// One attempt to route: the multicast tree and the number of rounds.
#[derive(Clone, Copy)]
struct Phase {
    /// Index of the first root that is tried.
    root_rank: usize,
    rounds: usize,
    /// True to reserve the tree before unicast detours.
    tree_first: bool,
}

const PHASES: [Phase; 9] = [
    Phase { root_rank: 0, rounds: 6, tree_first: true },
    Phase { root_rank: 5, rounds: 3, tree_first: true },
    Phase { root_rank: 10, rounds: 3, tree_first: true },
    Phase { root_rank: 15, rounds: 3, tree_first: true },
    Phase { root_rank: 20, rounds: 3, tree_first: true },
    Phase { root_rank: 25, rounds: 3, tree_first: true },
    Phase { root_rank: 30, rounds: 3, tree_first: true },
    Phase { root_rank: 35, rounds: 3, tree_first: true },
    Phase { root_rank: 0, rounds: 6, tree_first: false },
];

/// Routes a damaged torus. `has_turn_vls` is true if there are enough data VLs to keep turns back to an
/// earlier dimension apart.
///
/// # Errors
/// Returns the reason why there are no acceptable routes: too much damage, or no multicast tree.
fn repair(grid: &Grid, has_turn_vls: bool) -> Result<RepairedRoutes, RepairRefusal> {
    let lattice = &grid.lattice;
    let missing = lattice.len() - grid.order.len();
    if 2 * missing > lattice.len() {
        return Err(RepairRefusal::MostSwitchesMissing { missing, of: lattice.len() });
    }
    let complete = Links::complete(lattice);
    let present = Links::present(grid);
    let healthy = HealthyRoutes::new(lattice);
    let rule = RingDirections::new(grid);
    let dependencies = healthy.dependencies(lattice, &present);
    let base = ChannelGraph::new(&present, dependencies).ok_or(RepairRefusal::CyclicBase)?;
    let broken = Detours::find(grid, &healthy, &complete, &present, MAX_BROKEN_PAIRS);
    let broken = broken.map_err(|_| RepairRefusal::TooManyPairs { limit: MAX_BROKEN_PAIRS })?;
    let inputs =
        RouteInputs { lattice, healthy: &healthy, present: &present, rule: &rule, has_turn_vls };
    let mut search = Search {
        grid,
        inputs: &inputs,
        roots: tree::roots(grid, multicast::root(grid)),
        router: Router::new(&inputs),
        max_visits: BASE_VISITS + VISITS_PER_POSITION * lattice.len() as u64,
        best: None,
    };
    search.run(&base, broken);
    let best = search.best.ok_or(RepairRefusal::NoTree)?;
    Ok(RepairedRoutes::new(grid, healthy, best))
}

/// A result of the search.
struct Attempt {
    unrouted: usize,
    detours: Detours,
    tree: SpanningTree,
}

struct Search<'a> {
    grid: &'a Grid,
    inputs: &'a RouteInputs<'a>,
    roots: Vec<Position>,
    router: Router<'a>,
    max_visits: u64,
    /// The attempt with a tree and the fewest pairs without a route; the earliest of equals.
    best: Option<Attempt>,
}

impl Search<'_> {
    /// Runs the phases until a result is complete or the work exceeds its limit.
    fn run(&mut self, base: &ChannelGraph<'_>, mut detours: Detours) {
        let mut graph = base.clone();
        let mut start = base.clone();
        for phase in PHASES {
            let Some(roots) = self.roots.get(phase.root_rank..).map(<[Position]>::to_vec) else {
                continue;
            };
            let reserved = if phase.tree_first {
                start.reset_to(base);
                let tree = tree::grow(&mut start, self.inputs, &roots, self.grid.order.len());
                graph.visits += std::mem::take(&mut start.visits);
                if tree.is_none() {
                    continue;
                }
                tree
            } else {
                start.reset_to(base);
                None
            };
            let mut hard = Vec::new();
            for _ in 0..phase.rounds {
                graph.reset_to(&start);
                detours.clear();
                self.route(&mut graph, &mut detours, &hard);
                let tree = reserved
                    .clone()
                    .or_else(|| tree::grow(&mut graph, self.inputs, &roots, self.grid.order.len()));
                let unrouted = detours.unrouted();
                let is_better = self.best.as_ref().is_none_or(|best| unrouted < best.unrouted);
                if let Some(tree) = tree.filter(|_| is_better) {
                    self.best = Some(Attempt { unrouted, detours: detours.clone(), tree });
                    if unrouted == 0 {
                        return;
                    }
                }
                if graph.visits > self.max_visits {
                    return;
                }
                hard = harder(&detours, &hard);
            }
        }
    }

    /// Routes the broken pairs: completely for the destinations in `hard`, then for all others, first
    /// by torus-2QoS's rule.
    fn route(&mut self, graph: &mut ChannelGraph<'_>, detours: &mut Detours, hard: &[u32]) {
        let Self { grid, router, .. } = self;
        for &to in hard {
            router.by_rule(graph, detours, to);
            router.by_search(graph, detours, to);
        }
        let destinations = || grid.placed().map(|(at, _)| at.0);
        destinations().for_each(|to| router.by_rule(graph, detours, to));
        destinations().for_each(|to| router.by_search(graph, detours, to));
    }
}

/// Destinations without a route from some switch, followed by those of earlier rounds.
fn harder(detours: &Detours, earlier: &[u32]) -> Vec<u32> {
    let is_unrouted = |to: u32| detours.of(to).iter().any(|detour| detour.way == broken::UNROUTED);
    let now = detours.groups().map(|(to, _)| to).filter(|&to| is_unrouted(to));
    let mut hard: Vec<u32> = now.collect();
    let others = earlier.iter().filter(|to| !hard.contains(to)).copied().collect::<Vec<_>>();
    hard.extend(others);
    hard
}
