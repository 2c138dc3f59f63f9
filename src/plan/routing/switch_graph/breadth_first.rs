//! Distances between all pairs of switches if every link costs one hop: a breadth-first search from
//! 64 switches at a time, whose sets of visited switches are the bits of a word.

use super::{NO_PATH, SwitchGraph};
use crate::fabric::SwitchId;
use rayon::prelude::*;

/// The number of searches that run together.
const SEARCHES: usize = 64;

/// The distances, one row per source. Links lead both ways, so a row also holds the distances to
/// its switch.
pub(super) fn all_distances(graph: &SwitchGraph) -> Vec<u8> {
    let switches = graph.len();
    let mut rows = vec![NO_PATH; switches * switches];
    if switches > 0 {
        // The rows of the searches' sources, in order.
        let blocks = rows.par_chunks_mut(switches * SEARCHES).enumerate();
        blocks.for_each_init(Searches::default, |searches, (block, rows)| {
            searches.run(graph, block * SEARCHES, rows);
        });
    }
    rows
}

/// Sets of searches by switch, as bits.
#[derive(Default)]
struct Searches {
    /// The searches that have reached the switch.
    reached: Vec<u64>,
    /// The searches that reached the switch in the last round.
    frontier: Vec<u64>,
    /// The distances by switch and search.
    distances: Vec<u8>,
}

impl Searches {
    /// Fills `rows`, the rows of the switches from `first` on.
    fn run(&mut self, graph: &SwitchGraph, first: usize, rows: &mut [u8]) {
        let switches = graph.len();
        let count = rows.len() / switches;
        self.start(switches, first, count);
        for distance in 1..NO_PATH {
            let next: Vec<u64> =
                graph.switches().map(|switch| self.arriving(graph, switch)).collect();
            if next.iter().all(|&arriving| arriving == 0) {
                break;
            }
            for (switch, &arriving) in next.iter().enumerate() {
                self.reached[switch] |= arriving;
                let mut bits = arriving;
                while bits != 0 {
                    let search = bits.trailing_zeros() as usize;
                    self.distances[switch * SEARCHES + search] = distance;
                    bits &= bits - 1;
                }
            }
            self.frontier = next;
        }
        for (search, row) in rows.chunks_exact_mut(switches).enumerate() {
            for (switch, distance) in row.iter_mut().enumerate() {
                *distance = self.distances[switch * SEARCHES + search];
            }
        }
    }

    fn start(&mut self, switches: usize, first: usize, count: usize) {
        self.reached.clear();
        self.reached.resize(switches, 0);
        self.distances.clear();
        self.distances.resize(switches * SEARCHES, NO_PATH);
        for search in 0..count {
            self.reached[first + search] |= 1 << search;
            self.distances[(first + search) * SEARCHES + search] = 0;
        }
        self.frontier.clone_from(&self.reached);
    }

    /// The searches that reach `switch` in this round.
    fn arriving(&self, graph: &SwitchGraph, switch: SwitchId) -> u64 {
        let links = graph.links(switch).iter();
        let around = links.fold(0, |all, link| all | self.frontier[link.to.index()]);
        around & !self.reached[switch.index()]
    }
}
