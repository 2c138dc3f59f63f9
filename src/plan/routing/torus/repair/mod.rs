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
//! Channels that carry too many paths are relieved at last: some detours take a way around them.
//!
//! SLs follow from the coordinates of source and destination alone, so no established connection has
//! a wrong one. The union of the result with the routes of the complete torus is free of credit loops.
//!
//! The result is a function of the grid alone: what is known from earlier passes saves work only. Work is
//! limited by a count, never by time.
//!
//! # Limits
//!
//! The repair acts only where torus-2QoS refuses a torus that it has discovered. If no seed of the configuration
//! has all its switches in the fabric, the first whose remaining links are a seed, too, serves
//! ([`super::checks`]); without such a one the fabric is refused, because the axes could not be told apart. And it does not act around one missing switch with
//! fewer than 4 data VLs, which torus-2QoS routes with its warning about credit loops, as OpenSM does.
//!
//! | part | module |
//! |---|---|
//! | neighbours over all cables, and over those present | [`links`] |
//! | next hops, SLs and dependencies of the complete torus | [`healthy`] |
//! | a torus without damage, shared by the passes over it | [`complete`] |
//! | pairs whose path meets damage, and their new next hops | [`broken`] |
//! | acyclic channel dependency graph, its nodes and topological order | [`graph`], [`nodes`], [`order`] |
//! | search for a cycle, and cycles that were found | [`cycle_search`], [`cycles`] |
//! | attachment by rule and by search | [`router`] |
//! | load of the channels, and relief of those with too many detours | [`load`], [`subtrees`], [`balance`] |
//! | multicast tree | [`tree`] |
//! | next hops of a repaired torus | [`result`] |
//! | limits of what may stay without a route | [`acceptance`] |
//! | messages | [`report`] |

mod acceptance;
mod balance;
mod broken;
mod complete;
mod cycle_search;
mod cycles;
mod graph;
mod healthy;
mod links;
mod load;
mod nodes;
mod order;
mod report;
mod result;
mod router;
mod subtrees;
mod tree;

pub(super) use acceptance::routes;
pub(super) use report::{because, overview, placed_by_completion, summary};
pub(super) use result::RepairedRoutes;
pub use result::{DetourStats, LostPart, UnroutedPair};
pub(super) use tree::SpanningTree;

use super::grid::Grid;
use super::lattice::Position;
use super::multicast;
use super::ring_directions::RingDirections;
use balance::Balance;
use broken::ReplacedHops;
use complete::CompleteTorus;
use cycles::{CyclePaths, Cycles};
use graph::ChannelGraph;
use healthy::VlRule;
use links::Links;
use load::ChannelLoads;
use result::RepairRefusal;
use router::{RouteInputs, Router};
use std::sync::Arc;
use tree::TreeInputs;

/// Work after which the best result so far stands, with that for each position: 1 to 2 s on one core for 512
/// switches, and 5 to 7 s for 4,096, whose graph exceeds the caches of the processor.
const BASE_WORK: u64 = 34_000_000;
/// Additional work for each position.
const WORK_PER_POSITION: u64 = 31_000;
/// Maximum number of broken pairs of switches, which bounds the memory.
const MAX_BROKEN_PAIRS: usize = 1 << 26;

/// One attempt to route: the multicast tree and the number of rounds.
#[derive(Clone, Copy)]
struct RepairPhase {
    /// Index of the first root that is tried.
    root_rank: usize,
    rounds: usize,
    /// True to reserve the tree before unicast detours.
    tree_first: bool,
}

const PHASES: [RepairPhase; 9] = [
    RepairPhase { root_rank: 0, rounds: 6, tree_first: true },
    RepairPhase { root_rank: 5, rounds: 3, tree_first: true },
    RepairPhase { root_rank: 10, rounds: 3, tree_first: true },
    RepairPhase { root_rank: 15, rounds: 3, tree_first: true },
    RepairPhase { root_rank: 20, rounds: 3, tree_first: true },
    RepairPhase { root_rank: 25, rounds: 3, tree_first: true },
    RepairPhase { root_rank: 30, rounds: 3, tree_first: true },
    RepairPhase { root_rank: 35, rounds: 3, tree_first: true },
    RepairPhase { root_rank: 0, rounds: 6, tree_first: false },
];

/// Routes a damaged torus. `previous` are the routes of an earlier pass, which save work.
///
/// # Errors
/// Returns the reason why there are no acceptable routes: too much damage, or no multicast tree.
fn repair(
    grid: &Grid,
    vls: VlRule,
    previous: Option<&RepairedRoutes>,
) -> Result<RepairedRoutes, RepairRefusal> {
    let lattice = &grid.lattice;
    let missing = lattice.len() - grid.order.len();
    if 2 * missing > lattice.len() {
        return Err(RepairRefusal::MostSwitchesMissing { missing, of: lattice.len() });
    }
    let known = previous.map(RepairedRoutes::complete).filter(|torus| torus.is_of(lattice, vls));
    let complete = match known {
        Some(known) => known.clone(),
        None => Arc::new(CompleteTorus::new(lattice, vls).ok_or(RepairRefusal::CyclicBase)?),
    };
    let present = Links::present(grid);
    let rule = RingDirections::new(grid);
    let broken =
        ReplacedHops::find(grid, &complete.links, &complete.routes, &present, MAX_BROKEN_PAIRS);
    let broken = broken.map_err(|_| RepairRefusal::TooManyPairs { limit: MAX_BROKEN_PAIRS })?;
    let inputs =
        RouteInputs { lattice, healthy: &complete.routes, present: &present, rule: &rule, vls };
    let mut search = RepairSearch {
        grid,
        complete: &complete,
        inputs: &inputs,
        roots: tree::roots(grid, multicast::root(grid)),
        router: Router::new(&inputs),
        max_work: BASE_WORK + WORK_PER_POSITION * lattice.len() as u64,
        best: None,
    };
    let mut graph = complete.graph_of(&present);
    if let Some(before) = previous.filter(|routes| Arc::ptr_eq(routes.complete(), &complete)) {
        graph.order_like(before.order());
        graph.cycles = Cycles::of_pass_before(before.cycles().clone());
    }
    search.run(&graph, broken);
    let best = search.best.ok_or(RepairRefusal::NoTree)?;
    Ok(RepairedRoutes::new(grid, complete, best))
}

/// A result of the search.
struct RepairAttempt {
    unrouted: usize,
    detours: ReplacedHops,
    tree: SpanningTree,
    /// Paths of pairs that use detours.
    loads: ChannelLoads,
    /// The channels with their VLs in topological order.
    order: Vec<u32>,
    /// The cycles that were met.
    cycles: Arc<CyclePaths>,
}

struct RepairSearch<'a> {
    grid: &'a Grid,
    complete: &'a CompleteTorus,
    inputs: &'a RouteInputs<'a>,
    roots: Vec<Position>,
    router: Router<'a>,
    max_work: u64,
    /// The attempt with a tree and the fewest pairs without a route; the earliest of equals.
    best: Option<RepairAttempt>,
}

impl RepairSearch<'_> {
    /// Runs the phases until a result is complete or the work exceeds its limit.
    fn run(&mut self, base: &ChannelGraph, mut detours: ReplacedHops) {
        let RouteInputs { lattice, present, vls, .. } = *self.inputs;
        let tree_inputs = TreeInputs { lattice, present, vls };
        let mut graph = base.clone();
        let mut start = base.clone();
        for phase in PHASES {
            let Some(roots) = self.roots.get(phase.root_rank..).map(<[Position]>::to_vec) else {
                continue;
            };
            start.shrink_to(base);
            let reserved = if phase.tree_first {
                let tree = tree::grow(&mut start, tree_inputs, &roots, self.grid.order.len());
                graph.work += std::mem::take(&mut start.work);
                if tree.is_none() {
                    continue;
                }
                tree
            } else {
                None
            };
            let mut hard = Vec::new();
            graph.reset_to(&start);
            for round in 0..phase.rounds {
                if round > 0 {
                    graph.shrink_to(&start);
                }
                detours.clear();
                self.route(&mut graph, &mut detours, &hard);
                let tree = reserved
                    .clone()
                    .or_else(|| tree::grow(&mut graph, tree_inputs, &roots, self.grid.order.len()));
                let unrouted = detours.unrouted();
                let is_better = self.best.as_ref().is_none_or(|best| unrouted < best.unrouted);
                if let Some(tree) = tree.filter(|_| is_better) {
                    let mut detours = detours.clone();
                    let router = &mut self.router;
                    let mut balance = Balance { router, graph: &mut graph, detours: &mut detours };
                    let loads = balance.relieve(self.grid, self.complete);
                    let order = graph.order();
                    let cycles = graph.cycles.met();
                    self.best =
                        Some(RepairAttempt { unrouted, detours, tree, loads, order, cycles });
                    if unrouted == 0 {
                        return;
                    }
                }
                if graph.work > self.max_work {
                    return;
                }
                hard = harder(&detours, &hard);
            }
        }
    }

    /// Routes the broken pairs: completely for the destinations in `hard`, then for all others, first
    /// by torus-2QoS's rule.
    fn route(&mut self, graph: &mut ChannelGraph, detours: &mut ReplacedHops, hard: &[u32]) {
        let Self { grid, router, max_work, .. } = self;
        let first = hard.iter().flat_map(|&to| [(RepairStep::Rule, to), (RepairStep::Search, to)]);
        let by_rule = grid.placed().map(|(to, _)| (RepairStep::Rule, to.0));
        let by_search = grid.placed().map(|(to, _)| (RepairStep::Search, to.0));
        for (step, to) in first.chain(by_rule).chain(by_search) {
            match step {
                RepairStep::Rule => router.by_rule(graph, detours, to),
                RepairStep::Search => router.by_search(graph, detours, to),
            }
            if graph.work > *max_work {
                return;
            }
        }
    }
}

/// How the broken pairs of a destination are attached.
#[derive(Clone, Copy)]
enum RepairStep {
    Rule,
    Search,
}

/// Destinations without a route from some switch, followed by those of earlier rounds.
fn harder(detours: &ReplacedHops, earlier: &[u32]) -> Vec<u32> {
    let now = detours.groups().map(|(to, _)| to).filter(|&to| is_unrouted(detours, to));
    let mut hard: Vec<u32> = now.collect();
    let others = earlier.iter().filter(|to| !hard.contains(to)).copied().collect::<Vec<_>>();
    hard.extend(others);
    hard
}

fn is_unrouted(detours: &ReplacedHops, to: u32) -> bool {
    detours.of(to).iter().any(|detour| detour.way == broken::UNROUTED)
}
