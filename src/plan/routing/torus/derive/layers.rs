//! The layers along a factor, and their order.
//!
//! All switches that are connected by edges of other factors lie in one layer; so do all
//! switches on the same side of a class of parallel edges. What is left when each layer is
//! shrunk to a point is a ring or a line. Where damage or stray cables make it anything else,
//! the connections with the most cables are believed.

use super::graph::Graph;
use super::squares::Classes;
use std::collections::BTreeMap;

/// A line or ring of layers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// By vertex: its layer, in 0..radix; `None` where that is unknown.
    pub at: Vec<Option<u32>>,
    /// Number of layers.
    pub radix: u32,
    /// True for rings.
    pub is_looped: bool,
}

/// The layers along `factor`; `None` if there are fewer than two.
pub fn layers(
    graph: &Graph,
    classes: &Classes,
    factor_of: &[Option<u32>],
    factor: u32,
) -> Option<Line> {
    let mut sets = Sets((0..graph.len() as u32).collect());
    let mut sides: BTreeMap<(u32, bool), u32> = BTreeMap::new();
    let factor_of_edge = |edge: u32| factor_of[classes.of[edge as usize] as usize];
    for (edge, id) in graph.edges.iter().zip(0..) {
        match factor_of_edge(id) {
            Some(own) if own == factor => {
                for end in edge.ends {
                    let side = (classes.of[id as usize], classes.side(graph, id, end));
                    let first = *sides.entry(side).or_insert(end);
                    sets.join(first, end);
                }
            }
            Some(_) => sets.join(edge.ends[0], edge.ends[1]),
            None => {}
        }
    }
    let layer: Vec<u32> = (0..graph.len() as u32).map(|vertex| sets.find(vertex)).collect();
    let mut joints: BTreeMap<[u32; 2], u32> = BTreeMap::new();
    for (edge, id) in graph.edges.iter().zip(0..) {
        let mut ends = edge.ends.map(|end| layer[end as usize]);
        ends.sort_unstable();
        if factor_of_edge(id) == Some(factor) && ends[0] != ends[1] {
            *joints.entry(ends).or_default() += 1;
        }
    }
    let mut size: BTreeMap<u32, usize> = BTreeMap::new();
    layer.iter().for_each(|&layer| *size.entry(layer).or_default() += 1);
    let (order, is_looped) = longest(&believed(&joints), &size)?;
    let position: BTreeMap<u32, u32> = order.iter().copied().zip(0..).collect();
    Some(Line {
        at: layer.iter().map(|layer| position.get(layer).copied()).collect(),
        radix: order.len() as u32,
        is_looped,
    })
}

/// Neighbours of each layer: at most two, those with the most cables.
fn believed(joints: &BTreeMap<[u32; 2], u32>) -> BTreeMap<u32, Vec<u32>> {
    let mut order: Vec<([u32; 2], u32)> = joints.iter().map(|(&ends, &n)| (ends, n)).collect();
    order.sort_by_key(|&(ends, cables)| (std::cmp::Reverse(cables), ends));
    let mut next: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for ([a, b], _) in order {
        let degree = |layer| next.get(&layer).map_or(0, Vec::len);
        if degree(a) < 2 && degree(b) < 2 {
            next.entry(a).or_default().push(b);
            next.entry(b).or_default().push(a);
        }
    }
    next.values_mut().for_each(|list| list.sort_unstable());
    next
}

/// The line or ring with the most switches, in order, and whether it is a ring.
fn longest(
    next: &BTreeMap<u32, Vec<u32>>,
    size: &BTreeMap<u32, usize>,
) -> Option<(Vec<u32>, bool)> {
    let mut seen: BTreeMap<u32, ()> = BTreeMap::new();
    let mut best: Option<(usize, Vec<u32>, bool)> = None;
    let ends = next.iter().filter(|(_, list)| list.len() == 1);
    for (&start, _) in ends.chain(next) {
        if seen.contains_key(&start) {
            continue;
        }
        let mut order = vec![start];
        seen.insert(start, ());
        let mut at = start;
        while let Some(&on) =
            next.get(&at).and_then(|list| list.iter().find(|on| !seen.contains_key(on)))
        {
            seen.insert(on, ());
            order.push(on);
            at = on;
        }
        let is_looped = order.len() > 2 && next.get(&at).is_some_and(|list| list.contains(&start));
        let switches = order.iter().filter_map(|layer| size.get(layer)).sum();
        if best.as_ref().is_none_or(|(most, ..)| switches > *most) {
            best = Some((switches, order, is_looped));
        }
    }
    best.map(|(_, order, is_looped)| (order, is_looped))
}

/// Disjoint sets of vertices.
struct Sets(Vec<u32>);

impl Sets {
    fn find(&mut self, vertex: u32) -> u32 {
        let mut at = vertex;
        while self.0[at as usize] != at {
            let above = self.0[at as usize];
            self.0[at as usize] = self.0[above as usize];
            at = above;
        }
        at
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}
