//! Exhaustive search for embeddings, for small damaged fabrics.
//!
//! A thin fabric, such as a ladder that lost a rung or a switch, has hardly any 4-loops left. But
//! few lattices have as many positions as there are switches, and as many links as there are
//! cables, up to the number of assumed faults. On each of them the switches are placed one by one
//! next to their neighbours; a branch ends when it needs more faults than assumed. Zero faults are
//! tried first, then one, and so on. Unless one of the limits below is reached, the result has the
//! fewest faults and contains all embeddings with as few, which shows whether an embedding is
//! unique.

use super::embedding::Embedding;
use super::graph::SimpleGraph;
use crate::config::torus::TorusSize;
use crate::plan::routing::torus::{Direction, Lattice, Position};

/// Maximum number of faults assumed.
pub(super) const MAX_FAULTS: usize = 4;
/// Maximum number of switches; damage to larger fabrics leaves enough faces for the other methods.
const MAX_SWITCHES: usize = 512;
/// Maximum number of placements tried for one lattice and number of faults.
const MAX_PLACEMENTS_PER_LATTICE: usize = 40_000;
const MAX_PLACEMENTS: usize = 400_000;
/// Maximum number of embeddings returned; most of them mirror each other.
const MAX_EMBEDDINGS: usize = 256;
const NONE: u32 = u32::MAX;

/// Returns all embeddings of all switches with the fewest faults, at most `most` faults. Several
/// may differ only in the names of axes, reflection and rotation.
pub(super) fn search(graph: &SimpleGraph, most: usize) -> Vec<Embedding> {
    let edges = graph.edges.len();
    let switches = (0..graph.len() as u32).filter(|&vertex| graph.degree(vertex) > 0).count();
    if switches > MAX_SWITCHES {
        return Vec::new();
    }
    let order = order(graph);
    let mut effort = MAX_PLACEMENTS;
    for faults in 0..=most.min(MAX_FAULTS).min(edges.div_ceil(3)) {
        let mut found = Vec::new();
        for size in sizes(order.len(), edges, faults) {
            let Some(lattice) = Lattice::new(size) else { continue };
            let mut search = EmbeddingSearch::new(
                graph,
                &order,
                lattice,
                faults,
                effort.min(MAX_PLACEMENTS_PER_LATTICE),
            );
            let before = search.effort;
            search.search(&mut found);
            effort -= before - search.effort;
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// All switches with cables, in the order in which they are placed. The next switch is always the
/// one with the most neighbours earlier in the order; ties are broken by the earliest such
/// neighbour, then by the number of neighbours.
fn order(graph: &SimpleGraph) -> Vec<u32> {
    let vertices = (0..graph.len() as u32).filter(|&vertex| graph.degree(vertex) > 0);
    let mut order: Vec<u32> = Vec::new();
    let mut before = vec![0usize; graph.len()];
    let mut is_known = vec![false; graph.len()];
    // By vertex: index in `order` of its earliest neighbour. It breaks ties so that the placed
    // region stays compact.
    let mut since = vec![usize::MAX; graph.len()];
    loop {
        let open = vertices.clone().filter(|&vertex| !is_known[vertex as usize]);
        let next = open.max_by_key(|&v| {
            let waiting = std::cmp::Reverse(since[v as usize]);
            (before[v as usize], waiting, graph.degree(v), std::cmp::Reverse(v))
        });
        let Some(next) = next else { return order };
        is_known[next as usize] = true;
        for &(other, _) in graph.neighbors(next) {
            before[other as usize] += 1;
            since[other as usize] = since[other as usize].min(order.len());
        }
        order.push(next);
    }
}

/// All lattices whose numbers of positions and links fit `switches` and `edges` with at most
/// `faults` faults; radices descending, rings before lines. Single rings and lines are omitted:
/// with a fault they are lines, or in pieces.
fn sizes(switches: usize, edges: usize, faults: usize) -> Vec<TorusSize> {
    let mut sizes = Vec::new();
    for positions in switches..=switches + faults {
        for radix in radices(positions).into_iter().filter(|radix| radix[1] > 1) {
            for loops in 0..8u8 {
                let looped = [0, 1, 2].map(|axis| loops >> axis & 1 == 0);
                let size = TorusSize { radix, looped };
                let is_named_once = (0..3).all(|axis| match radix[axis] {
                    1 => looped[axis],
                    2 => !looped[axis],
                    own => axis == 0 || own != radix[axis - 1] || looped[axis - 1] >= looped[axis],
                });
                if is_named_once && could_hold(size, switches, edges, faults) {
                    sizes.push(size);
                }
            }
        }
    }
    sizes
}

/// All triples of factors, each in descending order, whose product is `positions`.
fn radices(positions: usize) -> Vec<[u32; 3]> {
    let mut all = Vec::new();
    for z in (1..).take_while(|z| z * z * z <= positions).filter(|z| positions.is_multiple_of(*z)) {
        let rest = positions / z;
        for y in (z..).take_while(|y| y * y <= rest).filter(|y| rest.is_multiple_of(*y)) {
            all.push([rest / y, y, z].map(|radix| radix as u32));
        }
    }
    all
}

/// True if the numbers of positions and links fit the switches and edges with at most `faults`
/// faults. An empty position removes its links.
fn could_hold(size: TorusSize, switches: usize, edges: usize, faults: usize) -> bool {
    let positions: usize = size.radix.iter().map(|&radix| radix as usize).product();
    let Some(rest) = (switches + faults).checked_sub(positions) else { return false };
    let mut links = 0;
    let mut around = 0;
    for (&radix, looped) in size.radix.iter().zip(size.looped) {
        let radix = radix as usize;
        let along = if looped && radix > 2 { radix } else { radix - 1 };
        links += positions / radix * along;
        around += along.min(2);
    }
    let empty = positions - switches;
    edges <= links + rest && links <= edges + rest + empty * around
}

struct PlacedVertices {
    /// By vertex: its position, or [`NONE`].
    at: Vec<u32>,
    /// By position: the vertex placed there.
    vertex: Vec<Option<u32>>,
}

/// A partial embedding.
struct EmbeddingSearch<'a> {
    graph: &'a SimpleGraph,
    order: &'a [u32],
    lattice: Lattice,
    /// By position and direction: the neighbouring position, or [`NONE`].
    next: Vec<[u32; 6]>,
    placed: PlacedVertices,
    /// By placed vertex: number of free neighbouring positions, and of unplaced neighbours.
    open: Vec<[i32; 2]>,
    /// Number of cables that cannot join neighbours any more, and of links that will have no cable
    /// or lead to an empty position.
    doomed: [usize; 2],
    /// Number of links that may lead to empty positions.
    grace: usize,
    /// Number of further faults allowed: cables between positions that are not neighbours, and
    /// neighbouring positions without a cable.
    budget: usize,
    /// By axis: number of placed switches whose coordinate differs from that of the first one.
    away: [usize; 3],
    effort: usize,
}

impl<'a> EmbeddingSearch<'a> {
    fn new(
        graph: &'a SimpleGraph,
        order: &'a [u32],
        lattice: Lattice,
        faults: usize,
        effort: usize,
    ) -> Self {
        let next: Vec<[u32; 6]> = lattice
            .positions()
            .map(|at| Direction::ALL.map(|direction| step(&lattice, at, direction)))
            .collect();
        let empty = lattice.len() - order.len();
        let most = next
            .iter()
            .map(|links| links.iter().filter(|&&to| to != NONE).count())
            .max()
            .unwrap_or(0);
        Self {
            graph,
            order,
            next,
            placed: PlacedVertices {
                at: vec![NONE; graph.len()],
                vertex: vec![None; lattice.len()],
            },
            open: vec![[0; 2]; graph.len()],
            doomed: [0; 2],
            grace: empty * most,
            budget: faults - empty,
            away: [0; 3],
            effort,
            lattice,
        }
    }

    /// Finds all embeddings. Mirror images and rotations are skipped where the first few switches
    /// identify them.
    fn search(&mut self, found: &mut Vec<Embedding>) {
        let Some(&first) = self.order.first() else { return };
        let starts: Vec<Position> = self
            .lattice
            .positions()
            .filter(|at| {
                (0..3).all(|axis| {
                    let here = self.lattice.coordinate(*at, axis);
                    let last = if self.lattice.is_looped(axis) { 0 } else { self.mirror(axis) };
                    here <= last
                })
            })
            .collect();
        for at in starts {
            let cost = self.place(first, at.0);
            if cost == 0 && self.is_promising() {
                self.extend(1, at, found);
            }
            self.lift(first);
        }
    }

    /// The last coordinate of the first half of an axis.
    fn mirror(&self, axis: usize) -> u32 {
        (self.lattice.radix(axis) - 1) / 2
    }

    fn extend(&mut self, depth: usize, root: Position, found: &mut Vec<Embedding>) {
        let Some(&vertex) = self.order.get(depth) else {
            found.extend(self.map());
            return;
        };
        for at in self.candidates(vertex, root) {
            if self.effort == 0 || found.len() >= MAX_EMBEDDINGS {
                return;
            }
            self.effort -= 1;
            let cost = self.place(vertex, at);
            if cost <= self.budget {
                self.budget -= cost;
                self.count_away(at, root, true);
                if self.is_promising() {
                    self.extend(depth + 1, root, found);
                }
                self.count_away(at, root, false);
                self.budget += cost;
            }
            self.lift(vertex);
        }
    }

    /// Free positions next to placed neighbours of a vertex.
    fn candidates(&self, vertex: u32, root: Position) -> Vec<u32> {
        let mut all = Vec::new();
        for &(other, _) in self.graph.neighbors(vertex) {
            let from = self.placed.at[other as usize];
            if from == NONE {
                continue;
            }
            for direction in Direction::ALL {
                let to = self.next[from as usize][direction.index()];
                let is_free = to != NONE && self.placed.vertex[to as usize].is_none();
                if is_free && !all.contains(&to) && !self.is_mirrored(direction, root) {
                    all.push(to);
                }
            }
        }
        all
    }

    /// True for the first step along an axis if its mirror image is tried as well: the step in the
    /// plus direction, or along an equivalent axis with a lower number.
    fn is_mirrored(&self, direction: Direction, root: Position) -> bool {
        let axis = direction.axis();
        if self.away[axis] > 0 {
            return false;
        }
        let (radix, looped, at) = root_key(&self.lattice, axis, root);
        let is_symmetric = looped || 2 * at + 1 == radix;
        let is_backward = is_symmetric && !direction.is_plus();
        is_backward
            || (0..axis).any(|other| {
                self.away[other] == 0
                    && root_key(&self.lattice, other, root) == root_key(&self.lattice, axis, root)
            })
    }

    fn count_away(&mut self, at: u32, root: Position, is_placed: bool) {
        for axis in 0..3 {
            let here = self.lattice.coordinate(Position(at), axis);
            if here == self.lattice.coordinate(root, axis) {
                continue;
            }
            if is_placed {
                self.away[axis] += 1;
            } else {
                self.away[axis] -= 1;
            }
        }
    }

    /// Places a vertex at a free position. Returns the number of new faults: cables to placed
    /// vertices that are not neighbours, and neighbours without a cable.
    fn place(&mut self, vertex: u32, at: u32) -> usize {
        self.placed.at[vertex as usize] = at;
        self.placed.vertex[at as usize] = Some(vertex);
        let mut free = 0;
        let mut future = 0;
        let mut joined = 0;
        let mut absent = 0;
        for to in self.next[at as usize] {
            match (to != NONE).then(|| self.placed.vertex[to as usize]) {
                Some(Some(other)) => {
                    self.shift(other, [-1, 0]);
                    let is_there = self.graph.edge(vertex, other).is_some();
                    joined += usize::from(is_there);
                    absent += usize::from(!is_there);
                }
                Some(None) => free += 1,
                None => {}
            }
        }
        let graph = self.graph;
        let mut placed = 0;
        for &(other, _) in graph.neighbors(vertex) {
            if self.placed.at[other as usize] == NONE {
                future += 1;
            } else {
                self.shift(other, [0, -1]);
                placed += 1;
            }
        }
        self.shift(vertex, [free, future]);
        absent + placed - joined
    }

    /// Removes a placed vertex.
    fn lift(&mut self, vertex: u32) {
        let at = std::mem::replace(&mut self.placed.at[vertex as usize], NONE);
        let [free, future] = self.open[vertex as usize];
        self.shift(vertex, [-free, -future]);
        self.placed.vertex[at as usize] = None;
        for to in self.next[at as usize] {
            if to != NONE
                && let Some(other) = self.placed.vertex[to as usize]
            {
                self.shift(other, [1, 0]);
            }
        }
        let graph = self.graph;
        for &(other, _) in graph.neighbors(vertex) {
            if self.placed.at[other as usize] != NONE {
                self.shift(other, [0, 1]);
            }
        }
    }

    /// Adds `by` to the `open` counts of a vertex, and updates `doomed`.
    fn shift(&mut self, vertex: u32, by: [i32; 2]) {
        let open = &mut self.open[vertex as usize];
        let before = excess_of(*open);
        *open = [open[0] + by[0], open[1] + by[1]];
        let after = excess_of(*open);
        for (doomed, (before, after)) in self.doomed.iter_mut().zip(before.into_iter().zip(after)) {
            *doomed = *doomed + after - before;
        }
    }

    /// False if the remaining switches cannot be placed with the faults that are left.
    fn is_promising(&self) -> bool {
        let [cables, links] = self.doomed;
        cables + links.saturating_sub(self.grace) <= self.budget
    }

    fn map(&self) -> Option<Embedding> {
        let looped = [0, 1, 2].map(|axis| self.lattice.is_looped(axis));
        let size = TorusSize { radix: self.lattice.radices(), looped };
        Embedding::of(
            size,
            self.placed.at.iter().map(|&at| {
                (at != NONE).then(|| self.lattice.coordinates(Position(at)).0.map(i64::from))
            }),
        )
    }
}

fn excess_of([free, future]: [i32; 2]) -> [usize; 2] {
    [(future - free).max(0) as usize, (free - future).max(0) as usize]
}

fn root_key(lattice: &Lattice, axis: usize, root: Position) -> (u32, bool, u32) {
    let at = lattice.coordinate(root, axis);
    (lattice.radix(axis), lattice.is_looped(axis), at)
}

/// The position one step away; [`NONE`] along inactive axes and at the edge of open ones. Axes of
/// radix 2 are open, so that their two positions have one link only.
fn step(lattice: &Lattice, at: Position, direction: Direction) -> u32 {
    let is_inside = lattice.is_active(direction.axis()) && !lattice.is_edge(at, direction);
    if is_inside { lattice.step(at, direction).0 } else { NONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_told_by_counting() {
        let healthy = sizes(30, 60, 0);
        let torus = TorusSize { radix: [6, 5, 1], looped: [true; 3] };
        assert!(healthy.contains(&torus), "{healthy:?}");
        assert!(healthy.iter().all(|size| size.radix.iter().product::<u32>() == 30));
        // A switch with its four cables is missing, or one cable is.
        assert!(sizes(29, 56, 1).contains(&torus) && !sizes(29, 56, 0).contains(&torus));
        assert!(sizes(30, 59, 1).contains(&torus) && !sizes(30, 59, 0).contains(&torus));
    }

    #[test]
    fn products_of_three() {
        assert_eq!(radices(8), [[8, 1, 1], [4, 2, 1], [2, 2, 2]]);
        assert_eq!(radices(7), [[7, 1, 1]]);
    }
}
