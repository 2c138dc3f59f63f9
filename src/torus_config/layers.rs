//! The layers of a factor, and their order.
//!
//! All switches connected by edges of other factors are in one layer; so are all switches on the
//! same side of a class of parallel edges. Contracting each layer to a vertex leaves a ring or a
//! line. Where damage or surplus cables leave anything else, the connections with the most cables
//! are kept.

use super::edge_classes::EdgeClasses;
use super::graph::SimpleGraph;
use std::collections::{BTreeMap, BTreeSet};

/// A factor: a line or ring of layers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FactorLayers {
    /// By vertex: its layer, 0 to radix - 1; `None` if unknown.
    pub at: Vec<Option<u32>>,
    pub radix: u32,
    pub is_looped: bool,
}

/// Number of edges between two layers, by layers (lower first).
type Connections = BTreeMap<[u32; 2], u32>;

/// The layers of `count` factors; factors of a single layer are omitted. `factor_of` is the factor
/// of each class, and is completed where the layers determine it.
pub(super) fn factor_layers(
    graph: &SimpleGraph,
    classes: &EdgeClasses,
    count: usize,
    mut factor_of: Vec<Option<u32>>,
) -> Vec<FactorLayers> {
    let layers: Vec<Vec<u32>> =
        (0..count as u32).map(|factor| layers(graph, classes, &factor_of, factor)).collect();
    // An edge without faces runs along the only factor in which its ends differ.
    for (edge, id) in graph.edges.iter().zip(0..) {
        let class = classes.of[id as usize] as usize;
        if factor_of[class].is_some() || classes.is_in_square[id as usize] {
            continue;
        }
        let [a, b] = edge.ends.map(|end| end as usize);
        let along: Vec<u32> = (0..count as u32)
            .filter(|factor| layers[*factor as usize][a] != layers[*factor as usize][b])
            .collect();
        if let [factor] = along[..] {
            factor_of[class] = Some(factor);
        }
    }
    (0..)
        .zip(layers)
        .filter_map(|(factor, layer)| {
            let connections = connections(graph, classes, &factor_of, factor, &layer);
            let mut size: BTreeMap<u32, usize> = BTreeMap::new();
            layer.iter().for_each(|&layer| *size.entry(layer).or_default() += 1);
            let (mut order, mut is_looped) = longest(&strongest_neighbours(&connections), &size)?;
            is_looped = is_looped && closes(&mut order, &connections);
            let position: BTreeMap<u32, u32> = order.iter().copied().zip(0..).collect();
            let at = layer.iter().map(|layer| position.get(layer).copied()).collect();
            Some(FactorLayers { at, radix: order.len() as u32, is_looped })
        })
        .collect()
}

/// By vertex: its layer along `factor`, named by the lowest vertex in it.
fn layers(
    graph: &SimpleGraph,
    classes: &EdgeClasses,
    factor_of: &[Option<u32>],
    factor: u32,
) -> Vec<u32> {
    let mut sets = DisjointSets((0..graph.len() as u32).collect());
    let mut sides: BTreeMap<(u32, bool), u32> = BTreeMap::new();
    for (edge, id) in graph.edges.iter().zip(0..) {
        let class = classes.of[id as usize];
        match factor_of[class as usize] {
            Some(own) if own == factor => {
                for end in edge.ends {
                    let first = *sides.entry((class, classes.side(graph, id, end))).or_insert(end);
                    sets.join(first, end);
                }
            }
            Some(_) => sets.join(edge.ends[0], edge.ends[1]),
            None => {}
        }
    }
    (0..graph.len() as u32).map(|vertex| sets.find(vertex)).collect()
}

fn connections(
    graph: &SimpleGraph,
    classes: &EdgeClasses,
    factor_of: &[Option<u32>],
    factor: u32,
    layer: &[u32],
) -> Connections {
    let mut connections = Connections::new();
    for (edge, &class) in graph.edges.iter().zip(&classes.of) {
        let mut ends = edge.ends.map(|end| layer[end as usize]);
        ends.sort_unstable();
        if factor_of[class as usize] == Some(factor) && ends[0] != ends[1] {
            *connections.entry(ends).or_default() += 1;
        }
    }
    connections
}

/// True if a ring closes. If its weakest connection has less than a third of the edges of the
/// strongest, its edges count as surplus cables between the ends of a line, and `order` is rotated
/// so that they join its last and first layer.
fn closes(order: &mut [u32], connections: &Connections) -> bool {
    let strongest =
        (0..order.len()).map(|index| weight_of(order, connections, index)).max().unwrap_or(0);
    let Some(weakest) = (0..order.len()).min_by_key(|&index| weight_of(order, connections, index))
    else {
        return false;
    };
    if 3 * weight_of(order, connections, weakest) >= strongest {
        return true;
    }
    let first = (weakest + 1) % order.len();
    order.rotate_left(first);
    false
}

fn weight_of(order: &[u32], connections: &BTreeMap<[u32; 2], u32>, index: usize) -> u32 {
    let mut ends = [order[index], order[(index + 1) % order.len()]];
    ends.sort_unstable();
    connections.get(&ends).copied().unwrap_or(0)
}

/// Neighbours of each layer: at most two, those with the most cables.
fn strongest_neighbours(connections: &Connections) -> BTreeMap<u32, Vec<u32>> {
    let mut order: Vec<([u32; 2], u32)> = connections.iter().map(|(&ends, &n)| (ends, n)).collect();
    order.sort_by_key(|&(ends, cables)| (std::cmp::Reverse(cables), ends));
    let mut next: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for ([a, b], _) in order {
        if degree(&next, a) < 2 && degree(&next, b) < 2 {
            next.entry(a).or_default().push(b);
            next.entry(b).or_default().push(a);
        }
    }
    next.values_mut().for_each(|list| list.sort_unstable());
    next
}

fn degree(next: &BTreeMap<u32, Vec<u32>>, layer: u32) -> usize {
    next.get(&layer).map_or(0, Vec::len)
}

/// The line or ring with the most switches, in order, and whether it is a ring.
fn longest(
    next: &BTreeMap<u32, Vec<u32>>,
    size: &BTreeMap<u32, usize>,
) -> Option<(Vec<u32>, bool)> {
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut best: Option<(usize, Vec<u32>, bool)> = None;
    let ends = next.iter().filter(|(_, list)| list.len() == 1);
    for (&start, _) in ends.chain(next) {
        if seen.contains(&start) {
            continue;
        }
        let mut order = vec![start];
        seen.insert(start);
        let mut at = start;
        while let Some(&on) =
            next.get(&at).and_then(|list| list.iter().find(|on| !seen.contains(on)))
        {
            seen.insert(on);
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

/// Disjoint sets of vertices (union-find).
struct DisjointSets(Vec<u32>);

impl DisjointSets {
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
        let a = self.find(a);
        let b = self.find(b);
        self.0[a.max(b) as usize] = a.min(b);
    }
}
