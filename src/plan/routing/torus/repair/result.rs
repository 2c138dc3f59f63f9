//! The routes of a repaired torus.

use super::broken::{INTACT, UNROUTED};
use super::complete::CompleteTorus;
use super::cycles::CyclePaths;
use super::load::ChannelLoads;
use super::{RepairAttempt, SpanningTree};
use crate::fabric::SwitchId;
use crate::plan::routing::torus::grid::Grid;
use crate::plan::routing::torus::lattice::{Coordinates, Direction, Position};
use std::fmt;
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

/// A part that is missing in a torus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostPart {
    Switch(Coordinates),
    /// The cables between two switches.
    Cable([Coordinates; 2]),
}

impl fmt::Display for LostPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(at) => write!(f, "switch {at}"),
            Self::Cable([from, to]) => write!(f, "the cable between switches {from} and {to}"),
        }
    }
}

/// A pair of switches without a route, and what restores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnroutedPair {
    pub from: SwitchId,
    pub to: SwitchId,
    /// The missing parts of its path in the complete torus. With them it has a route again, because intact
    /// paths are kept.
    pub lost: Vec<LostPart>,
    /// All this in words.
    pub text: String,
}

/// How much of a torus uses detours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DetourStats {
    /// Ordered pairs of switches.
    pub pairs: usize,
    /// The pairs whose path differs from that of the undamaged torus.
    pub detours: usize,
    /// Sum of the channels of detours.
    hops: u64,
    /// Sum of the channels of the paths of the same pairs in the undamaged torus.
    undamaged_hops: u64,
    /// Channels of the longest detour.
    pub longest: u16,
}

impl DetourStats {
    /// Mean length of detours, in channels.
    pub fn mean_hops(&self) -> f64 {
        self.hops as f64 / self.detours.max(1) as f64
    }

    /// Mean length of the paths of the same pairs in the undamaged torus, in channels.
    pub fn mean_undamaged_hops(&self) -> f64 {
        self.undamaged_hops as f64 / self.detours.max(1) as f64
    }
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
    /// The channels with their VLs in topological order.
    order: Vec<u32>,
    cycles: Arc<CyclePaths>,
    /// Pairs of switches without a route, ascending.
    pub unrouted: Vec<PositionPair>,
    /// These pairs by the switches of the routed fabric, ascending.
    pub unrouted_switches: Vec<[SwitchId; 2]>,
    pub stats: DetourStats,
    /// Paths of pairs that use detours, by channel.
    loads: ChannelLoads,
    /// The first pairs without a route, with the parts that restore it.
    pub listed: Vec<UnroutedPair>,
}

impl RepairedRoutes {
    pub(super) fn new(grid: &Grid, complete: Arc<CompleteTorus>, attempt: RepairAttempt) -> Self {
        let RepairAttempt { detours, tree, loads, order, cycles, .. } = attempt;
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
                stats.undamaged_hops += u64::from(complete.routes.hops(detour.at, to));
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
        let mut unrouted_switches: Vec<[SwitchId; 2]> = unrouted
            .iter()
            .filter_map(|pair| Some([grid.switch(pair.from)?, grid.switch(pair.to)?]))
            .collect();
        unrouted_switches.sort_unstable();
        Self {
            complete,
            first,
            replaced,
            tree,
            order,
            cycles,
            unrouted,
            unrouted_switches,
            stats,
            loads,
            listed: Vec::new(),
        }
    }

    /// The torus without damage.
    pub(super) fn complete(&self) -> &Arc<CompleteTorus> {
        &self.complete
    }

    /// The order of the channels, which saves the next pass work.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The cycles that the pass has met, which save the next one work.
    pub(super) fn cycles(&self) -> &Arc<CyclePaths> {
        &self.cycles
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
        Direction::ALL.get(usize::from(self.way(at, to.0))).copied()
    }

    /// The index of the direction of the next hop, [`ARRIVED`] at the destination, or [`UNROUTED`].
    ///
    /// [`ARRIVED`]: super::healthy::ARRIVED
    fn way(&self, at: Position, to: u32) -> u8 {
        let replaced = self.replaced_at(at);
        match replaced.binary_search_by_key(&to, |hop| hop.to) {
            Ok(index) => replaced[index].way,
            Err(_) => self.complete.routes.next(at.0, to),
        }
    }

    /// Number of pairs of switches whose detours use the cables from a switch in a direction.
    pub(in crate::plan::routing::torus) fn detours_over(
        &self,
        at: Position,
        way: Direction,
    ) -> u32 {
        self.loads.of(at.0, way.index() as u8)
    }

    /// True if both are routes of the same torus without damage, which they share.
    pub(in crate::plan::routing::torus) fn shares_torus(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.complete, &other.complete)
    }

    /// Destinations to which a switch has another next hop than in `before`, routes of the same torus.
    pub(in crate::plan::routing::torus) fn changes_at(
        &self,
        at: Position,
        before: &Self,
    ) -> Vec<Position> {
        debug_assert!(self.shares_torus(before), "unlisted next hops are the same");
        let lists = [self.replaced_at(at), before.replaced_at(at)];
        let mut listed: Vec<u32> = lists.into_iter().flatten().map(|hop| hop.to).collect();
        listed.sort_unstable();
        listed.dedup();
        listed.retain(|&to| self.way(at, to) != before.way(at, to));
        listed.into_iter().map(Position).collect()
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
