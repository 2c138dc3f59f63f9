//! The routes of a repaired torus.

use super::broken::{INTACT, UNROUTED};
use super::complete::CompleteTorus;
use super::{Attempt, SpanningTree};
use crate::fabric::SwitchId;
use crate::plan::routing::torus::grid::Grid;
use crate::plan::routing::torus::lattice::{Direction, Position};
use std::sync::Arc;

/// The reason why a torus cannot be repaired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::plan::routing::torus) enum RepairRefusal {
    MostSwitchesMissing {
        missing: usize,
        of: usize,
    },
    TooManyPairs {
        limit: usize,
    },
    /// There are too few VLs for the complete torus, too.
    CyclicBase,
    /// No multicast tree is free of credit loops.
    NoTree,
}

/// A pair of switches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::plan::routing::torus) struct PositionPair {
    pub from: Position,
    pub to: Position,
}

/// A step of a path in the complete torus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HealthyStep {
    pub at: Position,
    pub way: Direction,
    pub next: Position,
}

/// How much of a torus uses detours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::plan::routing::torus) struct DetourStats {
    /// Ordered pairs of switches.
    pub pairs: usize,
    /// Those whose path is not the healthy one.
    pub detours: usize,
    /// Sum of the channels of these paths.
    pub hops: u64,
    /// Sum of the channels of the healthy paths of the same pairs.
    pub healthy_hops: u64,
    /// Channels of the longest detour.
    pub longest: u16,
}

/// The replaced next hop of a switch for a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReplacedHop {
    to: u32,
    way: u8,
}

/// Next hops and multicast tree of a repaired torus.
#[derive(Clone)]
pub(in crate::plan::routing::torus) struct RepairedRoutes {
    complete: Arc<CompleteTorus>,
    /// By position: start of its entries in `replaced`, with one more entry at the end.
    first: Vec<u32>,
    /// Replaced next hops, by position, then by destination.
    replaced: Vec<ReplacedHop>,
    pub tree: SpanningTree,
    /// Pairs of switches without a route, ascending.
    pub unrouted: Vec<PositionPair>,
    /// These pairs by the switches of the routed fabric, ascending.
    pub unrouted_switches: Vec<[SwitchId; 2]>,
    pub stats: DetourStats,
}

impl RepairedRoutes {
    pub(super) fn new(grid: &Grid, complete: Arc<CompleteTorus>, attempt: Attempt) -> Self {
        let Attempt { detours, tree, .. } = attempt;
        let switches = grid.order.len();
        let mut stats =
            DetourStats { pairs: switches * switches.saturating_sub(1), ..DetourStats::default() };
        let mut first = vec![0u32; grid.lattice.len() + 1];
        let mut unrouted = Vec::new();
        for (to, group) in detours.groups() {
            for detour in group {
                first[detour.at as usize + 1] += 1;
                if detour.way == UNROUTED {
                    unrouted.push(PositionPair { from: Position(detour.at), to: Position(to) });
                    continue;
                }
                stats.detours += 1;
                stats.hops += u64::from(detour.hops);
                stats.healthy_hops += u64::from(complete.routes.hops(detour.at, to));
                stats.longest = stats.longest.max(detour.hops.into());
            }
        }
        for at in 0..grid.lattice.len() {
            first[at + 1] += first[at];
        }
        let mut next = first.clone();
        let mut replaced = vec![ReplacedHop { to: 0, way: UNROUTED }; detours.len()];
        for (to, group) in detours.groups() {
            for detour in group {
                let slot = &mut next[detour.at as usize];
                replaced[*slot as usize] = ReplacedHop { to, way: detour.way };
                *slot += 1;
            }
        }
        unrouted.sort_unstable();
        let ids = |pair: &PositionPair| Some([grid.switch(pair.from)?, grid.switch(pair.to)?]);
        let mut unrouted_switches: Vec<[SwitchId; 2]> = unrouted.iter().filter_map(ids).collect();
        unrouted_switches.sort_unstable();
        Self { complete, first, replaced, tree, unrouted, unrouted_switches, stats }
    }

    /// The torus without damage.
    pub(super) fn complete(&self) -> &Arc<CompleteTorus> {
        &self.complete
    }

    fn replaced_at(&self, at: Position) -> &[ReplacedHop] {
        let range = self.first[at.index()] as usize..self.first[at.index() + 1] as usize;
        &self.replaced[range]
    }

    /// The direction of the next hop; `None` at the destination and without a route.
    pub(in crate::plan::routing::torus) fn next_hop(
        &self,
        at: Position,
        to: Position,
    ) -> Option<Direction> {
        let replaced = self.replaced_at(at);
        let way = match replaced.binary_search_by_key(&to.0, |hop| hop.to) {
            Ok(index) => replaced[index].way,
            Err(_) => self.complete.routes.next(at.0, to.0),
        };
        Direction::ALL.get(usize::from(way)).copied()
    }

    /// The steps of the path in the complete torus.
    pub(super) fn healthy_steps(&self, grid: &Grid, pair: PositionPair) -> Vec<HealthyStep> {
        let mut at = pair.from;
        let mut steps = Vec::new();
        while let Some(&way) =
            Direction::ALL.get(usize::from(self.complete.routes.next(at.0, pair.to.0)))
        {
            let next = grid.lattice.step(at, way);
            steps.push(HealthyStep { at, way, next });
            at = next;
        }
        steps
    }

    /// True if the switch has another next hop for this destination than in the complete torus, or
    /// none.
    pub(in crate::plan::routing::torus) fn is_detour(&self, at: Position, to: Position) -> bool {
        self.replaced_at(at).binary_search_by_key(&to.0, |hop| hop.to).is_ok()
    }

    /// Writes to `ways` the next hops of a switch by position of the destination: the index of a
    /// direction, `own` for the switch itself, or `none` without a route.
    pub(in crate::plan::routing::torus) fn next_hops(
        &self,
        at: Position,
        own: u8,
        none: u8,
        ways: &mut Vec<u8>,
    ) {
        self.complete.routes.next_hops(at.0, ways);
        ways[at.index()] = own;
        for hop in self.replaced_at(at) {
            debug_assert_ne!(hop.way, INTACT, "ways by position are of one destination only");
            ways[hop.to as usize] = if hop.way == UNROUTED { none } else { hop.way };
        }
    }

    /// Destinations to which a switch has another next hop than in the complete torus, or none,
    /// ascending.
    pub(in crate::plan::routing::torus) fn detours_at(
        &self,
        at: Position,
    ) -> impl Iterator<Item = Position> {
        self.replaced_at(at).iter().map(|hop| Position(hop.to))
    }
}
