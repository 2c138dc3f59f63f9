//! The layer of each pair of switches.
//!
//! The pairs are tried in order: each is put into the first layer in which its two paths, there and
//! back, close no cycle of dependencies, else into a new layer. Afterwards pairs are moved from the
//! fullest layer to the emptiest one, in a random order, until both hold about the same number.

use super::layer::{Layer, Network};
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
        network: &Network<'_>,
        most: usize,
        random: &mut Random,
    ) -> Result<Self, TooFewLayers> {
        let switches = network.neighbours.len();
        let by_pair = vec![NO_LAYER; switches * switches];
        let mut own = Self { switches, by_pair, paths: Vec::new() };
        let mut layers = Vec::new();
        for one in 0..switches as u32 {
            for other in one + 1..switches as u32 {
                own.assign_pair(network, &mut layers, (one, other), most)?;
            }
        }
        Balancing { network, layers: &mut layers, own: &mut own }.run(random);
        Ok(own)
    }

    fn assign_pair(
        &mut self,
        network: &Network<'_>,
        layers: &mut Vec<Layer>,
        (one, other): (u32, u32),
        most: usize,
    ) -> Result<(), TooFewLayers> {
        if !network.is_connected(one, other) {
            return Ok(());
        }
        let found = layers.iter_mut().position(|layer| layer.add(network, one, other));
        let layer = match found {
            Some(layer) => layer,
            None if layers.len() >= most => return Err(TooFewLayers),
            None => {
                let mut layer = Layer::new(network);
                layer.add(network, one, other);
                layers.push(layer);
                self.paths.push(0);
                layers.len() - 1
            }
        };
        self.set(one, other, layer as u8);
        self.paths[layer] += 2;
        Ok(())
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
struct Balancing<'a, 'b> {
    network: &'a Network<'b>,
    layers: &'a mut [Layer],
    own: &'a mut Layers,
}

/// The pairs of the fullest layer that may still be moved to the emptiest one.
struct Movable {
    /// By source and destination.
    pairs: Vec<bool>,
    /// By source: their number.
    counts: Vec<u32>,
}

impl Movable {
    fn new(layers: &Layers, fullest: usize) -> Self {
        let pairs: Vec<_> =
            layers.by_pair.iter().map(|&layer| usize::from(layer) == fullest).collect();
        let rows = pairs.chunks_exact(layers.switches.max(1));
        let counts = rows.map(|row| row.iter().filter(|&&is| is).count() as u32).collect();
        Self { pairs, counts }
    }

    fn remove(&mut self, one: u32, other: u32) {
        let switches = self.counts.len();
        for (from, to) in [(one, other), (other, one)] {
            self.pairs[from as usize * switches + to as usize] = false;
            self.counts[from as usize] -= 1;
        }
    }

    /// The first pair from this one on: first along the destinations of the source, all around,
    /// then with the next source.
    fn find(&self, source: usize, destination: usize) -> Option<(u32, u32)> {
        let switches = self.counts.len();
        let mut sources = (source..switches).chain(0..source);
        let source = sources.find(|&source| self.counts[source] > 0)?;
        let mut destinations = (destination..switches).chain(0..destination);
        let is_movable = |&to: &usize| self.pairs[source * switches + to];
        Some((source as u32, destinations.find(is_movable)? as u32))
    }
}

impl Balancing<'_, '_> {
    fn run(&mut self, random: &mut Random) {
        if self.layers.len() < 2 {
            return;
        }
        let (mut fullest, mut emptiest) = (0, self.layers.len() - 1);
        let mut trials = self.own.paths[fullest];
        let mut movable = Movable::new(self.own, fullest);
        loop {
            let mut draw = || random.draw() as usize % self.own.switches;
            let (source, destination) = (draw(), draw());
            let Some((one, other)) = movable.find(source, destination) else { return };
            movable.remove(one, other);
            if self.layers[emptiest].add(self.network, one, other) {
                self.layers[fullest].remove(self.network, one, other);
                self.own.set(one, other, emptiest as u8);
                self.own.paths[fullest] -= 2;
                self.own.paths[emptiest] += 2;
            } else {
                trials -= 2;
            }
            let paths = &self.own.paths;
            if trials == 0 || paths[fullest] < paths[emptiest] + BALANCED {
                return;
            }
            let before = (fullest, emptiest);
            (fullest, emptiest) = extremes(paths);
            if before != (fullest, emptiest) {
                trials = paths[fullest];
                movable = Movable::new(self.own, fullest);
            }
        }
    }
}

/// The first layer with the most paths, and the first with the fewest.
fn extremes(paths: &[usize]) -> (usize, usize) {
    let most = paths.iter().max();
    let fewest = paths.iter().min();
    let position = |count: Option<&usize>| paths.iter().position(|paths| Some(paths) == count);
    (position(most).unwrap_or(0), position(fewest).unwrap_or(0))
}
