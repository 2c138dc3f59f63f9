//! Min hop tables: the hops from every switch to every switch, through each of its links.
//!
//! A [`HopRule`] computes them for one destination. [`ShortestPaths`] is the rule of minhop and
//! dor, for which [`HopMatrix`] is faster when all destinations are needed.

use super::graded::{Graded, SEARCHES, SearchSets};
use super::port_set::SmallSet;
use crate::fabric::SwitchId;
use crate::plan::routing::switch_graph::{NO_PATH, SwitchGraph};
use rayon::prelude::*;
use std::fmt::Debug;

/// The hops of all switches to one destination switch, and buffers for their computation.
#[derive(Clone, Debug, Default)]
pub struct TargetHops {
    /// The least hops of each switch over all of its links; [`NO_PATH`] if it has none.
    pub least: Vec<u8>,
    /// The hops through each link, by the index of the link in the graph; [`NO_PATH`] if packets
    /// to the destination must not take it.
    pub by_link: Vec<u8>,
}

impl TargetHops {
    /// Sets all hops to [`NO_PATH`], and those of `target` itself to 0.
    pub fn reset(&mut self, graph: &SwitchGraph, target: SwitchId) {
        self.least.clear();
        self.least.resize(graph.len(), NO_PATH);
        self.by_link.clear();
        self.by_link.resize(graph.link_count(), NO_PATH);
        self.least[target.index()] = 0;
    }

    /// Sets the hops of a switch through one of its links.
    pub fn set(&mut self, switch: SwitchId, link: usize, hops: u8) {
        self.by_link[link] = hops;
        let least = &mut self.least[switch.index()];
        *least = (*least).min(hops);
    }

    /// True if the link has the least hops of its switch, which is not the destination.
    pub fn is_best(&self, switch: SwitchId, link: usize) -> bool {
        let least = self.least[switch.index()];
        least != NO_PATH && self.by_link[link] == least
    }
}

/// The way in which an engine computes hops.
pub trait HopRule: Send + Sync + Debug {
    /// Computes the hops of all switches to `target`.
    fn hops_to(&self, graph: &SwitchGraph, target: SwitchId, hops: &mut TargetHops);

    /// The ranks of the switches if packets go up to lower ranks first and then down, with the
    /// least hops, and every link of the graph leads to a rank one above or below; else `None`.
    fn graded_ranks(&self, _graph: &SwitchGraph) -> Option<&[u32]> {
        None
    }
}

/// Shortest paths by the weights of the links.
#[derive(Clone, Copy, Debug)]
pub struct ShortestPaths;

impl HopRule for ShortestPaths {
    fn hops_to(&self, graph: &SwitchGraph, target: SwitchId, hops: &mut TargetHops) {
        hops.reset(graph, target);
        graph.distances_to(target, &mut hops.least);
        for switch in graph.switches() {
            for (index, link) in graph.numbered_links(switch) {
                let behind = hops.least[link.to.index()];
                hops.by_link[index] = behind.checked_add(link.weight).unwrap_or(NO_PATH);
            }
        }
    }
}

/// The output links of a switch that have the least hops, for all destinations.
pub trait BestLinks<S>: Sync {
    /// Adds to each set, by destination switch, the numbers of the links of `switch` (from 0, in
    /// the order of the graph) with the least hops.
    fn fill(&self, switch: SwitchId, sets: &mut [S]);
}

/// The distances between all pairs of switches.
#[derive(Clone, Debug)]
pub struct HopMatrix<'a> {
    graph: &'a SwitchGraph,
    rows: Vec<u8>,
}

impl<'a> HopMatrix<'a> {
    /// Computes the matrix of a graph, with its rows in parallel.
    pub fn new(graph: &'a SwitchGraph) -> Self {
        Self { graph, rows: graph.all_distances() }
    }

    /// The distances from a switch to all switches.
    pub fn row(&self, from: SwitchId) -> &[u8] {
        &self.rows[from.index() * self.graph.len()..][..self.graph.len()]
    }
}

impl<S: SmallSet> BestLinks<S> for HopMatrix<'_> {
    fn fill(&self, switch: SwitchId, sets: &mut [S]) {
        let own = self.row(switch);
        for (number, link) in self.graph.links(switch).iter().enumerate() {
            let behind = self.row(link.to);
            for ((set, &far), &near) in sets.iter_mut().zip(behind).zip(own) {
                let hops = u16::from(far) + u16::from(link.weight);
                set.insert_if(number, hops == u16::from(near) && near != NO_PATH);
            }
        }
    }
}

/// Destinations whose sets are computed together, which fill a cache line if a set is a byte.
const BLOCK: usize = SEARCHES;

/// The best links by a [`HopRule`] for all switches and destinations.
pub struct RuleTable<S> {
    switches: usize,
    /// By block of destinations: by switch, then by destination of the block.
    blocks: Vec<Vec<S>>,
}

impl<S: SmallSet> RuleTable<S> {
    /// Computes the hops to all destinations in parallel.
    pub fn new(graph: &SwitchGraph, rule: &dyn HopRule) -> Self {
        let switches = graph.len();
        let graded = rule.graded_ranks(graph).map(|ranks| Graded::new(graph, ranks));
        let firsts: Vec<usize> = (0..switches).step_by(BLOCK).collect();
        let blocks = firsts.into_par_iter().map_init(
            Default::default,
            |(hops, searches): &mut (TargetHops, SearchSets), first: usize| {
                let mut sets = vec![S::default(); switches * BLOCK];
                let count = BLOCK.min(switches - first);
                match &graded {
                    Some(graded) => graded.fill(searches, first, count, &mut sets),
                    None => (0..count).for_each(|offset| {
                        rule.hops_to(graph, SwitchId((first + offset) as u32), hops);
                        insert_best(graph, hops, offset, &mut sets);
                    }),
                }
                sets
            },
        );
        Self { switches, blocks: blocks.collect() }
    }
}

/// Adds the best links to a destination of a block to the sets of all switches.
fn insert_best<S: SmallSet>(graph: &SwitchGraph, hops: &TargetHops, offset: usize, sets: &mut [S]) {
    for switch in graph.switches() {
        let set = &mut sets[switch.index() * BLOCK + offset];
        for (number, (index, _)) in graph.numbered_links(switch).enumerate() {
            set.insert_if(number, hops.is_best(switch, index));
        }
    }
}

impl<S: SmallSet> BestLinks<S> for RuleTable<S> {
    fn fill(&self, switch: SwitchId, sets: &mut [S]) {
        for (first, block) in (0..self.switches).step_by(BLOCK).zip(&self.blocks) {
            let count = BLOCK.min(self.switches - first);
            let own = &block[switch.index() * BLOCK..][..count];
            sets[first..first + count].copy_from_slice(own);
        }
    }
}
