//! The dependencies of a layer, which stay free of cycles.
//!
//! A *channel* leads from a switch to a neighbour, over whichever cable. A path makes each of its
//! channels depend on the next one. A layer counts the paths that use each dependency, and keeps
//! its channels in an order in which every dependency leads forward (the algorithm of Pearce and
//! Kelly, "A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs", 2006): adding a
//! dependency that leads forward already costs nothing, and any other searches only between the
//! places of its channels.

use super::paths::{NONE, Neighbours, Paths};

/// The numbers of dependencies.
pub(super) struct DependencyNumbers {
    /// By channel: the number of its dependency on the first channel of the switch at its end.
    first: Vec<u32>,
    count: usize,
}

impl DependencyNumbers {
    pub(super) fn new(neighbours: &Neighbours) -> Self {
        let mut count = 0;
        let first = (0..neighbours.channels() as u32).map(|channel| {
            let first = count;
            count += neighbours.of(neighbours.end(channel).switch).len();
            first as u32
        });
        Self { first: first.collect(), count }
    }

    /// The dependency of a channel on the channel from its end to a neighbour.
    fn of(&self, channel: u32, neighbour: u8) -> u32 {
        self.first[channel as usize] + u32::from(neighbour)
    }
}

/// The structure that all layers share.
pub(super) struct Network<'a> {
    pub neighbours: &'a Neighbours,
    pub paths: &'a Paths,
    pub numbers: &'a DependencyNumbers,
}

/// A dependency between two channels.
#[derive(Clone, Copy)]
struct Dependency {
    number: u32,
    from: u32,
    to: u32,
}

impl Network<'_> {
    /// True if there is a path from one switch to another, and so back.
    pub(super) fn is_connected(&self, from: u32, to: u32) -> bool {
        self.paths.to(to)[from as usize] != NONE
    }

    /// The dependencies along a path.
    fn dependencies(&self, from: u32, to: u32) -> impl Iterator<Item = Dependency> {
        let next = self.paths.to(to);
        let channel_at = move |switch: u32| {
            let place = next[switch as usize];
            (switch != to).then(|| (self.neighbours.channel(switch, place), place))
        };
        let mut last = channel_at(from);
        std::iter::from_fn(move || {
            let (from, _) = last?;
            last = channel_at(self.neighbours.end(from).switch);
            let (to, place) = last?;
            Some(Dependency { number: self.numbers.of(from, place), from, to })
        })
    }

    /// The channels on which a channel depends in a layer.
    fn successors<'b>(&'b self, layer: &'b Layer, channel: u32) -> impl Iterator<Item = u32> + 'b {
        let end = self.neighbours.end(channel).switch;
        let places = 0..self.neighbours.of(end).len() as u8;
        places
            .filter(move |&place| layer.uses[self.numbers.of(channel, place) as usize] > 0)
            .map(move |place| self.neighbours.channel(end, place))
    }

    /// The channels that depend on a channel in a layer.
    fn predecessors<'b>(
        &'b self,
        layer: &'b Layer,
        channel: u32,
    ) -> impl Iterator<Item = u32> + 'b {
        let end = self.neighbours.end(channel);
        // The switch from which the channel leads, and its place among that switch's neighbours.
        let start = self.neighbours.of(end.switch)[usize::from(end.back)];
        let (start, place) = (start.switch, start.back);
        let before = self.neighbours.of(start).iter();
        before
            .map(|before| self.neighbours.channel(before.switch, before.back))
            .filter(move |&before| layer.uses[self.numbers.of(before, place) as usize] > 0)
    }
}

/// The dependencies of the paths in a layer.
pub(super) struct Layer {
    /// By dependency: the number of paths.
    uses: Vec<u32>,
    /// By channel: its place in the order.
    places: Vec<u32>,
    search: Search,
}

/// Buffers of a search.
#[derive(Default)]
struct Search {
    /// By channel: true if the search met it.
    met: Vec<bool>,
    behind: Vec<u32>,
    ahead: Vec<u32>,
    free: Vec<u32>,
}

impl Layer {
    pub(super) fn new(network: &Network<'_>) -> Self {
        let channels = network.neighbours.channels();
        Self {
            uses: vec![0; network.numbers.count],
            places: (0..channels as u32).collect(),
            search: Search { met: vec![false; channels], ..Search::default() },
        }
    }

    /// Adds the paths between two switches in both directions, unless that makes a cycle.
    pub(super) fn add(&mut self, network: &Network<'_>, one: u32, other: u32) -> bool {
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
    pub(super) fn remove(&mut self, network: &Network<'_>, one: u32, other: u32) {
        self.remove_first(network, one, other, usize::MAX);
        self.remove_first(network, other, one, usize::MAX);
    }

    fn add_path(&mut self, network: &Network<'_>, from: u32, to: u32) -> bool {
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
    fn remove_first(&mut self, network: &Network<'_>, from: u32, to: u32, count: usize) {
        for dependency in network.dependencies(from, to).take(count) {
            self.uses[dependency.number as usize] -= 1;
        }
    }

    /// Changes the order so that a new dependency leads forward; false if it closes a cycle.
    fn insert(&mut self, network: &Network<'_>, new: Dependency) -> bool {
        let (first, last) = (self.places[new.to as usize], self.places[new.from as usize]);
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
        network: &Network<'_>,
        new: Dependency,
        last: u32,
        search: &mut Search,
    ) -> bool {
        let Search { met, ahead, .. } = search;
        met[new.to as usize] = true;
        ahead.push(new.to);
        let mut index = 0;
        while let Some(&channel) = ahead.get(index) {
            index += 1;
            for next in network.successors(self, channel) {
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
    fn find_behind(&self, network: &Network<'_>, from: u32, first: u32, search: &mut Search) {
        let Search { met, behind, .. } = search;
        met[from as usize] = true;
        behind.push(from);
        let mut index = 0;
        while let Some(&channel) = behind.get(index) {
            index += 1;
            for before in network.predecessors(self, channel) {
                if !met[before as usize] && self.places[before as usize] > first {
                    met[before as usize] = true;
                    behind.push(before);
                }
            }
        }
    }

    /// Moves the channels behind before those ahead, within the places of both.
    fn reorder(&mut self, search: &mut Search) {
        let Search { behind, ahead, free, .. } = search;
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
