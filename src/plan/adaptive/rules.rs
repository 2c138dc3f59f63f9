//! The sets of equivalent ports, by the rule of the engine.
//!
//! For paths that go up, then down, links have a direction by a total order of the switches: their
//! distance from the roots, then their GUIDs. A switch above the destination goes down by the shortest way
//! down, any other one goes up by the shortest way that ends so. A packet that has gone down therefore
//! never goes up again, whichever port each switch chooses.

use super::{EquivalenceRule, MAX_PATH_SWITCHES};
use crate::fabric::{Fabric, SwitchId};
use crate::plan::Plan;
use crate::plan::routing::PortMask;
use crate::plan::routing::switch_graph::{NO_PATH, SwitchGraph};
use rayon::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// The sets of equivalent ports of a switch. Numbers count from 1; 0 is none.
pub(super) struct Sets {
    pub masks: Vec<PortMask>,
    /// The set of each static port; `None` if it depends on the destination.
    pub by_port: Option<Vec<u16>>,
    /// The set of each destination switch.
    pub by_destination: Vec<u16>,
}

/// The links of a fabric, and what the rule needs to know of each destination.
pub(super) struct Candidates<'a> {
    fabric: &'a Fabric,
    graph: SwitchGraph,
    rule: EquivalenceRule,
    /// The distance from each switch to each destination, by destination and switch.
    distances: Vec<u8>,
    /// The place of each switch in the order from the roots down; empty without directions.
    places: Vec<u32>,
}

impl<'a> Candidates<'a> {
    pub(super) fn find(fabric: &'a Fabric, plan: &Plan) -> Self {
        let graph = SwitchGraph::new(fabric, &[]);
        let roots = plan.routing.policy.structure().roots;
        let roots: Vec<SwitchId> =
            roots.into_iter().filter(|root| root.index() < graph.len()).collect();
        let rule = match EquivalenceRule::of(plan.routing.engine) {
            // Nothing tells up from down.
            EquivalenceRule::UpDown if roots.is_empty() => EquivalenceRule::ParallelCables,
            rule => rule,
        };
        let places = match rule {
            EquivalenceRule::UpDown => places(fabric, &graph, &roots),
            _ => Vec::new(),
        };
        let mut all = Self { fabric, graph, rule, distances: Vec::new(), places };
        all.distances = all.all_distances();
        all
    }

    pub(super) fn rule(&self) -> EquivalenceRule {
        self.rule
    }

    fn all_distances(&self) -> Vec<u8> {
        let switches = self.graph.len();
        if self.rule == EquivalenceRule::ParallelCables || switches == 0 {
            return Vec::new();
        }
        let mut order: Vec<SwitchId> = self.graph.switches().collect();
        if self.rule == EquivalenceRule::UpDown {
            order.sort_by_key(|switch| self.places[switch.index()]);
        }
        let mut distances = vec![NO_PATH; switches * switches];
        let rows = distances.par_chunks_exact_mut(switches).enumerate();
        rows.for_each(|(destination, row)| {
            let destination = SwitchId(destination as u32);
            if self.rule == EquivalenceRule::UpDown {
                self.fill_up_down(destination, &order, row);
            } else {
                self.fill_along(destination, row, |_, _| true);
            }
        });
        distances
    }

    fn is_down(&self, from: SwitchId, to: SwitchId) -> bool {
        self.places[from.index()] < self.places[to.index()]
    }

    /// Fills in the hops of all switches from which links for which `is_used` holds lead to a
    /// destination.
    fn fill_along(
        &self,
        destination: SwitchId,
        row: &mut [u8],
        is_used: impl Fn(SwitchId, SwitchId) -> bool,
    ) {
        row[destination.index()] = DOWN;
        let mut queue = VecDeque::from([destination]);
        while let Some(switch) = queue.pop_front() {
            let next = row[switch.index()] + 1;
            for link in self.graph.links(switch) {
                let known = &mut row[link.to.index()];
                if *known == NO_PATH && hops(next) <= MAX_HOPS && is_used(link.to, switch) {
                    *known = next;
                    queue.push_back(link.to);
                }
            }
        }
    }

    fn fill_up_down(&self, destination: SwitchId, order: &[SwitchId], row: &mut [u8]) {
        self.fill_along(destination, row, |from, to| self.is_down(from, to));
        for &switch in order {
            if row[switch.index()] != NO_PATH {
                continue;
            }
            let above =
                self.graph.links(switch).iter().filter(|link| self.is_down(link.to, switch));
            let known = above.map(|link| row[link.to.index()]).filter(|&hops| hops != NO_PATH);
            if let Some(least) = known.map(hops).min().filter(|&least| least < MAX_HOPS) {
                row[switch.index()] = least + 1;
            }
        }
    }

    /// The sets of ports of a switch with two ports at least, in the order of their ports.
    pub(super) fn of_switch(&self, switch: SwitchId) -> Sets {
        if self.rule == EquivalenceRule::ParallelCables {
            return self.parallel_cables(switch);
        }
        let switches = self.graph.len();
        let mut by_mask: BTreeMap<[u64; 4], Vec<u32>> = BTreeMap::new();
        for destination in 0..switches {
            let row = &self.distances[destination * switches..][..switches];
            let mask = self.ports_to(switch, row);
            if mask.iter().nth(1).is_some() {
                by_mask.entry(mask.0).or_default().push(destination as u32);
            }
        }
        let mut sets = Sets { masks: Vec::new(), by_port: None, by_destination: vec![0; switches] };
        for (mask, destinations) in by_mask {
            sets.masks.push(PortMask(mask));
            for destination in destinations {
                sets.by_destination[destination as usize] = sets.masks.len() as u16;
            }
        }
        sets
    }

    /// The ports of a switch that lead one hop nearer to the destination of a row of distances.
    fn ports_to(&self, switch: SwitchId, row: &[u8]) -> PortMask {
        let mut mask = PortMask::default();
        let here = row[switch.index()];
        if here == NO_PATH || hops(here) == 0 {
            return mask;
        }
        for link in self.graph.links(switch) {
            let there = row[link.to.index()];
            let is_nearer = there != NO_PATH && hops(there) + 1 == hops(here);
            let keeps_direction = match self.rule {
                EquivalenceRule::UpDown if here & DOWN != 0 => {
                    there & DOWN != 0 && self.is_down(switch, link.to)
                }
                EquivalenceRule::UpDown => self.is_down(link.to, switch),
                EquivalenceRule::ShortestPaths | EquivalenceRule::ParallelCables => true,
            };
            if is_nearer && keeps_direction {
                mask.insert(link.port);
            }
        }
        mask
    }

    fn parallel_cables(&self, switch: SwitchId) -> Sets {
        let mut by_neighbour: BTreeMap<SwitchId, PortMask> = BTreeMap::new();
        for link in self.graph.links(switch) {
            by_neighbour.entry(link.to).or_default().insert(link.port);
        }
        let mut masks: Vec<PortMask> = by_neighbour.into_values().collect();
        masks.retain(|mask| mask.iter().nth(1).is_some());
        masks.sort_unstable_by_key(|mask| mask.iter().next());
        let mut by_port = vec![0; usize::from(self.fabric.switch(switch).num_ports()) + 1];
        for (mask, number) in masks.iter().zip(1..) {
            mask.iter().for_each(|port| by_port[usize::from(port)] = number);
        }
        Sets { masks, by_port: Some(by_port), by_destination: Vec::new() }
    }
}

/// Marks a distance over links that all lead down, or of shortest paths in any direction.
const DOWN: u8 = 0x80;
/// The longest path, in hops between switches.
const MAX_HOPS: u8 = MAX_PATH_SWITCHES - 1;

/// The hops of a distance.
fn hops(distance: u8) -> u8 {
    distance & !DOWN
}

/// The place of each switch in the order from the roots down, by distance and GUID.
fn places(fabric: &Fabric, graph: &SwitchGraph, roots: &[SwitchId]) -> Vec<u32> {
    let mut ranks = vec![u32::MAX; graph.len()];
    roots.iter().for_each(|root| ranks[root.index()] = 0);
    let mut queue: VecDeque<SwitchId> = roots.iter().copied().collect();
    while let Some(switch) = queue.pop_front() {
        let next = ranks[switch.index()] + 1;
        for link in graph.links(switch) {
            if ranks[link.to.index()] == u32::MAX {
                ranks[link.to.index()] = next;
                queue.push_back(link.to);
            }
        }
    }
    let mut order: Vec<SwitchId> = graph.switches().collect();
    order.sort_by_key(|&switch| (ranks[switch.index()], fabric.switch(switch).guid()));
    let mut places = vec![0; graph.len()];
    for (place, switch) in order.into_iter().enumerate() {
        places[switch.index()] = place as u32;
    }
    places
}
