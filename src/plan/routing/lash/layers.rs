//! The layer of each pair of switches.
//!
//! Each pair is put into the first layer in which its two paths, there and back, close no cycle of
//! dependencies with those of pairs before it, else into a new layer. Layers are filled one after
//! another: each tries the pairs that the one before refused, in order. Afterwards pairs are moved
//! from the fullest layer to the emptiest one, in a random order, until both hold about the same
//! number.

use super::layer::Layer;
use super::network::LayerNetwork;
use crate::plan::routing::balancing::random::Random;

/// The difference in paths between the fullest layer and the emptiest one that needs no balancing.
const BALANCED: usize = 6;

/// The layer of a switch and itself, and of switches without a path.
pub(super) const NO_LAYER: u8 = u8::MAX;

/// The layers of all pairs.
pub(super) struct Layers {
    switches: usize,
    /// By source and destination.
    by_pair: Vec<u8>,
    /// The number of paths in each layer.
    pub paths: Vec<usize>,
    /// The same before balancing.
    pub paths_before_balancing: Vec<usize>,
}

/// The paths need more layers than there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooFewLayers;

impl Layers {
    /// Puts all pairs into layers, and balances these.
    ///
    /// # Errors
    /// Returns [`TooFewLayers`] if more than `most` layers are needed.
    pub(super) fn assign(
        network: &LayerNetwork<'_>,
        most: usize,
        random: &mut Random,
    ) -> Result<Self, TooFewLayers> {
        let switches = network.neighbours.len();
        let by_pair = vec![NO_LAYER; switches * switches];
        let mut own =
            Self { switches, by_pair, paths: Vec::new(), paths_before_balancing: Vec::new() };
        let mut layers = Vec::new();
        let mut waiting = own.pairs(network);
        while !waiting.is_empty() {
            if layers.len() >= most {
                return Err(TooFewLayers);
            }
            let mut layer = Layer::new(network, &waiting);
            own.paths.push(0);
            waiting.retain(|&(one, other)| {
                let is_added = layer.add(network, one, other);
                if is_added {
                    own.set(one, other, layers.len() as u8);
                    own.paths[layers.len()] += 2;
                }
                !is_added
            });
            layers.push(layer);
        }
        if own.paths.is_empty() {
            own.paths.push(0); // hosts of a single switch have a layer, too
        }
        own.paths_before_balancing.clone_from(&own.paths);
        LayerBalancing { network, layers: &mut layers, own: &mut own }.run(random);
        Ok(own)
    }

    /// All pairs of switches with paths, in the order in which they are tried.
    fn pairs(&self, network: &LayerNetwork<'_>) -> Vec<(u32, u32)> {
        let switches = 0..self.switches as u32;
        let pairs = switches.flat_map(|one| (one + 1..self.switches as u32).map(move |o| (one, o)));
        pairs.filter(|&(one, other)| network.is_connected(one, other)).collect()
    }

    fn set(&mut self, one: u32, other: u32, layer: u8) {
        let switches = self.switches;
        self.by_pair[one as usize * switches + other as usize] = layer;
        self.by_pair[other as usize * switches + one as usize] = layer;
    }

    /// The layer of the path from one switch to another.
    pub(super) fn of(&self, from: u32, to: u32) -> u8 {
        self.by_pair[from as usize * self.switches + to as usize]
    }
}

/// The layers while pairs move between them.
struct LayerBalancing<'a, 'b> {
    network: &'a LayerNetwork<'b>,
    layers: &'a mut [Layer],
    own: &'a mut Layers,
}

/// The pairs of each layer that may still be moved to the emptiest one.
struct Movable {
    switches: usize,
    /// By layer and source: the number of destinations.
    counts: Vec<u32>,
    /// By source and destination: true if the emptiest layer refused the pair.
    is_refused: Vec<bool>,
    refused: Vec<(u32, u32)>,
}

impl Movable {
    fn new(layers: &Layers) -> Self {
        let switches = layers.switches;
        let mut counts = vec![0; layers.paths.len() * switches];
        for (source, row) in layers.by_pair.chunks_exact(switches.max(1)).enumerate() {
            for &layer in row.iter().filter(|&&layer| layer != NO_LAYER) {
                counts[usize::from(layer) * switches + source] += 1;
            }
        }
        let is_refused = vec![false; switches * switches];
        Self { switches, counts, is_refused, refused: Vec::new() }
    }

    fn count(&mut self, layer: usize, source: u32) -> &mut u32 {
        &mut self.counts[layer * self.switches + source as usize]
    }

    /// Records that a pair is in another layer now.
    fn moved(&mut self, one: u32, other: u32, from: usize, to: usize) {
        for source in [one, other] {
            *self.count(from, source) -= 1;
            *self.count(to, source) += 1;
        }
    }

    /// Records that a pair of a layer cannot be moved.
    fn refuse(&mut self, one: u32, other: u32, layer: usize) {
        self.mark(one, other, true);
        self.refused.push((one, other));
        for source in [one, other] {
            *self.count(layer, source) -= 1;
        }
    }

    /// Forgets the refusals of pairs of a layer, because others are the extremes.
    fn restore(&mut self, layer: usize) {
        for (one, other) in std::mem::take(&mut self.refused) {
            self.mark(one, other, false);
            for source in [one, other] {
                *self.count(layer, source) += 1;
            }
        }
    }

    fn mark(&mut self, one: u32, other: u32, is_refused: bool) {
        for (from, to) in [(one, other), (other, one)] {
            self.is_refused[from as usize * self.switches + to as usize] = is_refused;
        }
    }

    /// The first pair of a layer from this one on: first along the destinations of the source, all
    /// around, then with the next source.
    fn find(
        &self,
        layers: &Layers,
        layer: usize,
        source: usize,
        destination: usize,
    ) -> Option<(u32, u32)> {
        let switches = self.switches;
        let counts = &self.counts[layer * switches..][..switches];
        let mut sources = (source..switches).chain(0..source);
        let source = sources.find(|&source| counts[source] > 0)?;
        let row = source * switches..(source + 1) * switches;
        let (row, is_refused) = (&layers.by_pair[row.clone()], &self.is_refused[row]);
        let mut destinations = (destination..switches).chain(0..destination);
        Some((
            source as u32,
            destinations.find(|&to| usize::from(row[to]) == layer && !is_refused[to])? as u32,
        ))
    }
}

impl LayerBalancing<'_, '_> {
    fn run(&mut self, random: &mut Random) {
        if self.layers.len() < 2 {
            return;
        }
        let mut fullest = 0;
        let mut emptiest = self.layers.len() - 1;
        let mut trials = self.own.paths[fullest];
        let mut movable = Movable::new(self.own);
        loop {
            let source = random.draw() as usize % self.own.switches;
            let destination = random.draw() as usize % self.own.switches;
            let Some((one, other)) = movable.find(self.own, fullest, source, destination) else {
                return;
            };
            if self.layers[emptiest].add(self.network, one, other) {
                self.layers[fullest].remove(self.network, one, other);
                self.own.set(one, other, emptiest as u8);
                self.own.paths[fullest] -= 2;
                self.own.paths[emptiest] += 2;
                movable.moved(one, other, fullest, emptiest);
            } else {
                movable.refuse(one, other, fullest);
                trials -= 2;
            }
            let paths = &self.own.paths;
            if trials == 0 || paths[fullest] < paths[emptiest] + BALANCED {
                return;
            }
            let before = (fullest, emptiest);
            (fullest, emptiest) = extremes(paths);
            if before != (fullest, emptiest) {
                movable.restore(before.0);
                trials = paths[fullest];
            }
        }
    }
}

/// The first layer with the most paths, and the first with the fewest.
fn extremes(paths: &[usize]) -> (usize, usize) {
    let most = paths.iter().max();
    let fewest = paths.iter().min();
    (place_of_layer(paths, most).unwrap_or(0), place_of_layer(paths, fewest).unwrap_or(0))
}

fn place_of_layer(paths: &[usize], count: Option<&usize>) -> Option<usize> {
    paths.iter().position(|paths| Some(paths) == count)
}
