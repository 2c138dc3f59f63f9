//! The distances between the neighbours of a switch.

use super::super::paths::Neighbours;
use rayon::prelude::*;

/// Maximum number of neighbours of a switch in a known shape.
pub(super) const MAX_NEIGHBOURS: usize = 8;

/// The distance of neighbours whose paths all lead through the switch. OpenSM calculates with it as
/// with other numbers.
const UNREACHABLE: i32 = i32::MAX;

/// The distance of neighbours in different dimensions, which have another neighbour in common.
const CORNER: i32 = 2;

/// The distances in hops between the neighbours of a switch over paths that avoid the switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LocalDistances {
    neighbours: usize,
    /// By pair of neighbours.
    cells: Vec<i32>,
}

impl LocalDistances {
    pub(super) fn new(neighbours: usize, distance: impl Fn(usize, usize) -> i32) -> Self {
        let pairs = (0..neighbours).flat_map(|from| (0..neighbours).map(move |to| (from, to)));
        Self { neighbours, cells: pairs.map(|(from, to)| distance(from, to)).collect() }
    }

    /// The distances of all switches; `None` for those with more than [`MAX_NEIGHBOURS`].
    pub(super) fn of_all(neighbours: &Neighbours) -> Vec<Option<Self>> {
        let switches = (0..neighbours.len() as u32).into_par_iter();
        switches
            .map_init(
                || GeometrySearch::new(neighbours.len()),
                |search, switch| {
                    let few = neighbours.of(switch).len() <= MAX_NEIGHBOURS;
                    few.then(|| Self::of(neighbours, switch, search))
                },
            )
            .collect()
    }

    fn of(neighbours: &Neighbours, switch: u32, search: &mut GeometrySearch) -> Self {
        let own = neighbours.of(switch);
        let mut cells = Vec::with_capacity(own.len() * own.len());
        for from in own {
            search.run(neighbours, from.switch, switch);
            cells.extend(own.iter().map(|to| search.distances[to.switch as usize]));
            search.clear();
        }
        Self { neighbours: own.len(), cells }
    }

    /// Number of neighbours.
    pub(super) fn len(&self) -> usize {
        self.neighbours
    }

    /// The distance from one neighbour to another.
    pub(super) fn get(&self, from: usize, to: usize) -> i32 {
        self.cells[from * self.neighbours + to]
    }

    /// True if two neighbours are in different dimensions.
    pub(super) fn is_corner(&self, one: usize, other: usize) -> bool {
        one != other && self.get(one, other) == CORNER
    }

    /// The other neighbours that may be in the dimension of this one.
    pub(super) fn opposites(&self, neighbour: usize) -> impl Iterator<Item = usize> + '_ {
        let others = (0..self.neighbours).filter(move |&other| other != neighbour);
        others.filter(move |&other| self.get(neighbour, other) != CORNER)
    }
}

/// A breadth-first search around a switch.
struct GeometrySearch {
    /// By switch.
    distances: Vec<i32>,
    /// The switches that have a distance.
    met: Vec<u32>,
}

impl GeometrySearch {
    fn new(switches: usize) -> Self {
        Self { distances: vec![UNREACHABLE; switches], met: Vec::new() }
    }

    /// Finds the distances from a neighbour of a switch to all others.
    fn run(&mut self, neighbours: &Neighbours, from: u32, avoided: u32) {
        let mut missing = neighbours.of(avoided).len() - 1;
        self.meet(from, 0);
        let mut index = 0;
        while let Some(&here) = self.met.get(index).filter(|_| missing > 0) {
            index += 1;
            let distance = self.distances[here as usize] + 1;
            for next in neighbours.of(here) {
                if next.switch == avoided || self.distances[next.switch as usize] != UNREACHABLE {
                    continue;
                }
                self.meet(next.switch, distance);
                let is_wanted = neighbours.of(next.switch).iter().any(|n| n.switch == avoided);
                missing -= usize::from(is_wanted);
            }
        }
    }

    fn meet(&mut self, switch: u32, distance: i32) {
        self.distances[switch as usize] = distance;
        self.met.push(switch);
    }

    fn clear(&mut self) {
        for switch in self.met.drain(..) {
            self.distances[switch as usize] = UNREACHABLE;
        }
    }
}
