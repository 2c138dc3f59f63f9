//! Channels and the ways in which one depends on another, which all layers share.
//!
//! A *channel* leads from a switch to a neighbour, over whichever cable. A path makes each of its
//! channels depend on the next one.

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

    /// Number of dependencies.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The dependency of a channel on the channel from its end to a neighbour.
    fn of(&self, channel: u32, neighbour: u8) -> u32 {
        self.first[channel as usize] + u32::from(neighbour)
    }
}

/// The structure that all layers share.
pub(super) struct LayerNetwork<'a> {
    pub neighbours: &'a Neighbours,
    pub paths: &'a Paths,
    pub numbers: &'a DependencyNumbers,
}

/// A dependency between two channels.
#[derive(Clone, Copy)]
pub(super) struct LayerDependency {
    pub number: u32,
    pub from: u32,
    pub to: u32,
}

impl LayerNetwork<'_> {
    /// True if there is a path from one switch to another, and so back.
    pub(super) fn is_connected(&self, from: u32, to: u32) -> bool {
        self.paths.to(to)[from as usize] != NONE
    }

    /// The dependencies along a path.
    pub(super) fn dependencies(&self, from: u32, to: u32) -> impl Iterator<Item = LayerDependency> {
        let next = self.paths.to(to);
        let mut last = self.channel_at(next, from, to);
        std::iter::from_fn(move || {
            let (from, _) = last?;
            last = self.channel_at(next, self.neighbours.end(from).switch, to);
            let (to, place) = last?;
            Some(LayerDependency { number: self.numbers.of(from, place), from, to })
        })
    }

    /// The channels on which a channel depends, by the uses of dependencies.
    pub(super) fn successors<'b>(
        &'b self,
        uses: &'b [u32],
        channel: u32,
    ) -> impl Iterator<Item = u32> + 'b {
        let end = self.neighbours.end(channel).switch;
        let places = 0..self.neighbours.of(end).len() as u8;
        places
            .filter(move |&place| uses[self.numbers.of(channel, place) as usize] > 0)
            .map(move |place| self.neighbours.channel(end, place))
    }

    /// The channels that depend on a channel, by the uses of dependencies.
    pub(super) fn predecessors<'b>(
        &'b self,
        uses: &'b [u32],
        channel: u32,
    ) -> impl Iterator<Item = u32> + 'b {
        let end = self.neighbours.end(channel);
        // The switch from which the channel leads, and its place among that switch's neighbours.
        let start = self.neighbours.of(end.switch)[usize::from(end.back)];
        let (start, place) = (start.switch, start.back);
        let before = self.neighbours.of(start).iter();
        before
            .map(|before| self.neighbours.channel(before.switch, before.back))
            .filter(move |&before| uses[self.numbers.of(before, place) as usize] > 0)
    }

    fn channel_at(&self, next: &[u8], switch: u32, to: u32) -> Option<(u32, u8)> {
        let place = next[switch as usize];
        (switch != to).then(|| (self.neighbours.channel(switch, place), place))
    }
}
