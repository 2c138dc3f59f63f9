//! The best links of paths that go up first and then down, for 64 destinations at a time, in a
//! graph in which every link leads to a rank one above or below.
//!
//! The searches run from the destinations against the direction of the packets, in rounds of one
//! hop. In such a graph a switch above the destination is reached upwards first, in as many hops as
//! ranks, and any other switch downwards only; so each is reached in one round, over its best links.
//! The sets of searches that reach a switch are the bits of a word.

use super::port_set::SmallSet;
use crate::fabric::SwitchId;
use crate::plan::routing::switch_graph::SwitchGraph;

/// The number of searches that run together.
pub(super) const SEARCHES: usize = u64::BITS as usize;

/// True if every link leads to a rank one above or below.
pub(in crate::plan::routing) fn is_graded(graph: &SwitchGraph, ranks: &[u32]) -> bool {
    graph.switches().all(|switch| {
        let own = ranks[switch.index()];
        graph.links(switch).iter().all(|link| ranks[link.to.index()].abs_diff(own) == 1)
    })
}

/// The links of a graph by the searches that arrive over them.
pub(super) struct Graded<'a> {
    graph: &'a SwitchGraph,
    /// By link: the place of its far end's searches in [`SearchSets::frontier`].
    sources: Vec<u32>,
}

/// The searches that reached a switch in the last round. Those that arrive from below may have gone
/// up only.
const UPWARDS: u32 = 0;
const ALL: u32 = 1;

/// Sets of searches, as bits.
#[derive(Clone, Debug, Default)]
pub(super) struct SearchSets {
    /// By switch: the searches that have reached it.
    reached: Vec<u64>,
    /// By switch: those that reached it upwards in the last round, then all of the last round.
    frontier: Vec<u64>,
    next: Vec<u64>,
}

impl<'a> Graded<'a> {
    /// Ranks are by switch; 0 is the highest.
    pub(super) fn new(graph: &'a SwitchGraph, ranks: &[u32]) -> Self {
        let sources = graph.switches().flat_map(|switch| {
            graph.links(switch).iter().map(move |link| {
                let is_from_below = ranks[link.to.index()] > ranks[switch.index()];
                link.to.0 * 2 + if is_from_below { UPWARDS } else { ALL }
            })
        });
        Self { graph, sources: sources.collect() }
    }

    /// Adds the best links to `count` destinations from `first` on: to the sets by switch, then by
    /// destination.
    pub(super) fn fill<S: SmallSet>(
        &self,
        searches: &mut SearchSets,
        first: usize,
        count: usize,
        sets: &mut [S],
    ) {
        searches.start(self.graph.len(), first, count);
        let all = u64::MAX >> (SEARCHES - count);
        let mut is_done = false;
        while !is_done {
            is_done = true;
            for switch in self.graph.switches() {
                let reached = searches.reached[switch.index()];
                let arrived = if reached == all {
                    [0; 2]
                } else {
                    let sets = &mut sets[switch.index() * SEARCHES..][..SEARCHES];
                    self.arrive(switch, &searches.frontier, !reached & all, sets)
                };
                searches.next[switch.index() * 2..][..2].copy_from_slice(&arrived);
                searches.reached[switch.index()] |= arrived[ALL as usize];
                is_done &= arrived[ALL as usize] == 0;
            }
            std::mem::swap(&mut searches.frontier, &mut searches.next);
        }
    }

    /// The searches of `wanted` that reach a switch in this round: upwards, and all. Adds the links
    /// over which they do to its sets.
    fn arrive<S: SmallSet>(
        &self,
        switch: SwitchId,
        frontier: &[u64],
        wanted: u64,
        sets: &mut [S],
    ) -> [u64; 2] {
        let sources = &self.sources[self.graph.range(switch)];
        let mut arrived = [0; 2];
        for (number, &source) in sources.iter().enumerate() {
            let mut arriving = frontier[source as usize] & wanted;
            arrived[ALL as usize] |= arriving;
            if source % 2 == UPWARDS {
                arrived[UPWARDS as usize] |= arriving;
            }
            while arriving != 0 {
                sets[arriving.trailing_zeros() as usize].insert_if(number, true);
                arriving &= arriving - 1;
            }
        }
        arrived
    }
}

impl SearchSets {
    fn start(&mut self, switches: usize, first: usize, count: usize) {
        self.reached.clear();
        self.reached.resize(switches, 0);
        self.frontier.clear();
        self.frontier.resize(switches * 2, 0);
        self.next.resize(switches * 2, 0);
        for search in 0..count {
            let target = first + search;
            self.reached[target] |= 1 << search;
            self.frontier[target * 2] |= 1 << search;
            self.frontier[target * 2 + 1] |= 1 << search;
        }
    }
}
