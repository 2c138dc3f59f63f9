//! The dependencies of a layer, which stay free of cycles.
//!
//! A layer counts the paths that use each dependency, and keeps its channels in an order in which
//! every dependency leads forward (the algorithm of Pearce and Kelly, "A Dynamic Topological Sort
//! Algorithm for Directed Acyclic Graphs", 2006): adding a dependency that leads forward already
//! costs nothing, and any other searches only between the places of its channels. The first order
//! suits the paths that are going to be tried ([`order`]).

use super::network::{LayerDependency, LayerNetwork};
use super::order;

/// The dependencies of the paths in a layer.
pub(super) struct Layer {
    /// By dependency: the number of paths.
    uses: Vec<u32>,
    /// By channel: its place in the order.
    places: Vec<u32>,
    search: LayerSearch,
}

/// Buffers of a search.
#[derive(Default)]
struct LayerSearch {
    /// By channel: true if the search met it.
    met: Vec<bool>,
    behind: Vec<u32>,
    ahead: Vec<u32>,
    free: Vec<u32>,
}

impl Layer {
    /// An empty layer, for pairs of switches whose paths are going to be tried.
    pub(super) fn new(network: &LayerNetwork<'_>, pairs: &[(u32, u32)]) -> Self {
        let mut uses = vec![0; network.numbers.count()];
        for &(one, other) in pairs {
            let there = network.dependencies(one, other);
            there.chain(network.dependencies(other, one)).for_each(|dependency| {
                uses[dependency.number as usize] = 1;
            });
        }
        let places = order::places(network, &uses);
        uses.fill(0);
        let met = vec![false; network.neighbours.channels()];
        Self { uses, places, search: LayerSearch { met, ..LayerSearch::default() } }
    }

    /// Adds the paths between two switches in both directions, unless that makes a cycle.
    pub(super) fn add(&mut self, network: &LayerNetwork<'_>, one: u32, other: u32) -> bool {
        if !self.add_path(network, one, other) {
            return false;
        }
        let is_added = self.add_path(network, other, one);
        if !is_added {
            self.remove_first(network, one, other, usize::MAX);
        }
        is_added
    }

    /// Removes the paths between two switches in both directions.
    pub(super) fn remove(&mut self, network: &LayerNetwork<'_>, one: u32, other: u32) {
        self.remove_first(network, one, other, usize::MAX);
        self.remove_first(network, other, one, usize::MAX);
    }

    fn add_path(&mut self, network: &LayerNetwork<'_>, from: u32, to: u32) -> bool {
        for (index, dependency) in network.dependencies(from, to).enumerate() {
            let uses = &mut self.uses[dependency.number as usize];
            *uses += 1;
            if *uses == 1 && !self.insert(network, dependency) {
                self.remove_first(network, from, to, index + 1);
                return false;
            }
        }
        true
    }

    /// Removes the first dependencies of a path.
    fn remove_first(&mut self, network: &LayerNetwork<'_>, from: u32, to: u32, count: usize) {
        for dependency in network.dependencies(from, to).take(count) {
            self.uses[dependency.number as usize] -= 1;
        }
    }

    /// Changes the order so that a new dependency leads forward; false if it closes a cycle.
    fn insert(&mut self, network: &LayerNetwork<'_>, new: LayerDependency) -> bool {
        let first = self.places[new.to as usize];
        let last = self.places[new.from as usize];
        if last < first {
            return true;
        }
        let mut search = std::mem::take(&mut self.search);
        let is_acyclic = self.find_ahead(network, new, last, &mut search);
        if is_acyclic {
            self.find_behind(network, new.from, first, &mut search);
            self.reorder(&mut search);
        }
        for channel in search.ahead.drain(..).chain(search.behind.drain(..)) {
            search.met[channel as usize] = false;
        }
        self.search = search;
        is_acyclic
    }

    /// Finds the channels ahead of the new dependency, up to place `last`; false if it is among
    /// them itself.
    fn find_ahead(
        &self,
        network: &LayerNetwork<'_>,
        new: LayerDependency,
        last: u32,
        search: &mut LayerSearch,
    ) -> bool {
        let LayerSearch { met, ahead, .. } = search;
        met[new.to as usize] = true;
        ahead.push(new.to);
        let mut index = 0;
        while let Some(&channel) = ahead.get(index) {
            index += 1;
            for next in network.successors(&self.uses, channel) {
                if next == new.from {
                    return false;
                }
                if !met[next as usize] && self.places[next as usize] < last {
                    met[next as usize] = true;
                    ahead.push(next);
                }
            }
        }
        true
    }

    /// Finds the channels behind `from`, itself included, down to place `first`.
    fn find_behind(
        &self,
        network: &LayerNetwork<'_>,
        from: u32,
        first: u32,
        search: &mut LayerSearch,
    ) {
        let LayerSearch { met, behind, .. } = search;
        met[from as usize] = true;
        behind.push(from);
        let mut index = 0;
        while let Some(&channel) = behind.get(index) {
            index += 1;
            for before in network.predecessors(&self.uses, channel) {
                if !met[before as usize] && self.places[before as usize] > first {
                    met[before as usize] = true;
                    behind.push(before);
                }
            }
        }
    }

    /// Moves the channels behind before those ahead, within the places of both.
    fn reorder(&mut self, search: &mut LayerSearch) {
        let LayerSearch { behind, ahead, free, .. } = search;
        let place = |channel: &u32| self.places[*channel as usize];
        behind.sort_unstable_by_key(place);
        ahead.sort_unstable_by_key(place);
        free.clear();
        free.extend(behind.iter().chain(ahead.iter()).map(place));
        free.sort_unstable();
        for (&channel, &place) in behind.iter().chain(ahead.iter()).zip(free.iter()) {
            self.places[channel as usize] = place;
        }
    }
}
