//! Embeddings grown from a corner, for damaged fabrics.
//!
//! Classes of parallel edges are global: one surplus cable that closes a 4-loop joins two of them.
//! Region growing is local. It starts with a switch and two or three neighbours that pairwise span
//! 4-loops, and continues, in unbounded coordinates, with the switch whose position is supported
//! best: by its cables to placed switches, and by the 4-loops that it would form with them. Cables
//! between positions far apart along one axis show that the axis is a ring, which is then folded. A
//! bad corner gives a bad embedding, but many corners are tried, and the embedding with the fewest
//! faults is used.

use super::embedding::Embedding;
use super::graph::SimpleGraph;
use crate::config::torus::TorusSize;
use crate::plan::routing::torus::Direction;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

const NO_VERTEX: u32 = u32::MAX;
/// Coordinates before folding.
type Point = [i32; 3];
/// A possible step; greater is better, the most important criterion is first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct GrowthStep {
    /// No other position is as good for the vertex.
    is_unique: bool,
    score: u32,
    vertex: Reverse<u32>,
    /// The placed neighbour.
    base: Reverse<u32>,
    /// The direction from the placed neighbour.
    direction: usize,
}

/// Grown positions, and possible further steps.
struct RegionGrower<'a> {
    graph: &'a SimpleGraph,
    at: Vec<Option<Point>>,
    /// By vertex and direction: the placed neighbour.
    next: Vec<[u32; 6]>,
    vertex: HashMap<Point, u32>,
    heap: BinaryHeap<GrowthStep>,
}

/// A corner to grow from.
pub(super) struct Corner {
    origin: u32,
    /// Its neighbours along x, y and perhaps z.
    arms: Vec<u32>,
}

/// The corners at a vertex.
pub(super) fn corners(graph: &SimpleGraph, origin: u32) -> Vec<Corner> {
    let around: Vec<u32> = graph.neighbors(origin).iter().map(|&(vertex, _)| vertex).collect();
    let mut flat = Vec::new();
    let mut deep = Vec::new();
    for (index, &a) in around.iter().enumerate() {
        for (other, &b) in around.iter().enumerate().skip(index + 1) {
            if !spans(graph, a, b) {
                continue;
            }
            flat.push(Corner { origin, arms: vec![a, b] });
            let third =
                around[other + 1..].iter().filter(|&&c| spans(graph, a, c) && spans(graph, b, c));
            deep.extend(third.map(|&c| Corner { origin, arms: vec![a, b, c] }));
        }
    }
    deep.extend(flat);
    deep
}

fn spans(graph: &SimpleGraph, a: u32, b: u32) -> bool {
    graph.edge(a, b).is_none() && graph.common(a, b) >= 2
}

/// All embeddings to which the region grown from a corner can be folded.
pub(super) fn maps(graph: &SimpleGraph, Corner { origin, arms }: &Corner) -> Vec<Embedding> {
    let mut grower = RegionGrower {
        graph,
        at: vec![None; graph.len()],
        next: vec![[NO_VERTEX; 6]; graph.len()],
        vertex: HashMap::new(),
        heap: BinaryHeap::new(),
    };
    grower.place(*origin, [0; 3]);
    for (axis, &arm) in arms.iter().enumerate() {
        grower.place(arm, step([0; 3], Direction::plus(axis).index()));
    }
    grower.offer(*origin, arms.len());
    arms.iter().for_each(|&arm| grower.offer(arm, arms.len()));
    grower.run(arms.len());
    grower.fold(arms.len())
}

impl RegionGrower<'_> {
    fn place(&mut self, vertex: u32, place: Point) {
        self.at[vertex as usize] = Some(place);
        self.vertex.insert(place, vertex);
        for direction in 0..6 {
            if let Some(&other) = self.vertex.get(&step(place, direction)) {
                self.next[vertex as usize][direction] = other;
                let back = Direction::ALL[direction].opposite().index();
                self.next[other as usize][back] = vertex;
            }
        }
    }

    fn run(&mut self, dimensions: usize) {
        while let Some(offer) = self.heap.pop() {
            let GrowthStep { vertex: Reverse(vertex), base: Reverse(base), direction, .. } = offer;
            let is_taken = self.at[vertex as usize].is_some()
                || self.next[base as usize][direction] != NO_VERTEX;
            if is_taken {
                continue;
            }
            let now = self.score(vertex, base, dimensions);
            let Some(now) = now.into_iter().flatten().find(|step| step.direction == direction)
            else {
                continue;
            };
            if now < offer {
                self.heap.push(now);
                continue;
            }
            let Some(from) = self.at[base as usize] else { continue };
            self.place(vertex, step(from, direction));
            self.offer(vertex, dimensions);
            for near in self.next[vertex as usize] {
                if near != NO_VERTEX {
                    self.offer(near, dimensions);
                }
            }
        }
    }

    /// Queues the steps from `base` to its unplaced neighbours.
    fn offer(&mut self, base: u32, dimensions: usize) {
        for &(vertex, _) in self.graph.neighbors(base) {
            if self.at[vertex as usize].is_none() {
                let steps = self.score(vertex, base, dimensions);
                self.heap.extend(steps.into_iter().flatten());
            }
        }
    }

    /// Scores the free positions next to `base` for a vertex; positions supported only
    /// by the cable to `base` are omitted.
    fn score(&self, vertex: u32, base: u32, dimensions: usize) -> [Option<GrowthStep>; 6] {
        let mut steps = [None; 6];
        let Some(from) = self.at[base as usize] else { return steps };
        let mut spans = [None; 6];
        let mut loops = |direction: usize| {
            let arm = self.next[base as usize][direction];
            *spans[direction]
                .get_or_insert_with(|| arm != NO_VERTEX && self.graph.common(arm, vertex) >= 2)
        };
        let mut scores = [0; 6];
        for (direction, score) in scores.iter_mut().enumerate().take(2 * dimensions) {
            let axis = Direction::ALL[direction].axis();
            if self.next[base as usize][direction] != NO_VERTEX {
                continue;
            }
            let hole = step(from, direction);
            let around = self.graph.neighbors(vertex).iter();
            let votes = around
                .filter(|&&(other, _)| {
                    self.at[other as usize].is_some_and(|at| distance(at, hole) == 1)
                })
                .count();
            let across = (0..2 * dimensions)
                .filter(|&other| Direction::ALL[other].axis() != axis && loops(other))
                .count();
            *score = 3 * (votes.saturating_sub(1) as u32) + across as u32;
        }
        let most = scores.iter().copied().max().unwrap_or(0);
        let is_unique = scores.iter().filter(|&&score| score == most).count() == 1;
        for (direction, &score) in scores.iter().enumerate() {
            if score > 0 && score == most {
                steps[direction] = Some(GrowthStep {
                    is_unique,
                    score,
                    vertex: Reverse(vertex),
                    base: Reverse(base),
                    direction,
                });
            }
        }
        steps
    }

    /// Folds axes into rings, with the radices that most cables between distant positions suggest.
    fn fold(&self, dimensions: usize) -> Vec<Embedding> {
        let mut radix = [None; 3];
        let mut choices: Vec<Vec<Option<i32>>> = vec![Vec::new(); 3];
        for _ in 0..dimensions {
            let votes = self.votes(radix);
            let open = (0..dimensions).filter(|&axis| choices[axis].is_empty());
            let most = open.max_by_key(|&axis| votes[axis].values().max().copied());
            let Some(axis) = most else { break };
            let mut lengths: Vec<(usize, i32)> =
                votes[axis].iter().map(|(&length, &count)| (count, length)).collect();
            lengths.sort_unstable_by_key(|&(count, length)| (Reverse(count), length));
            lengths.truncate(2);
            radix[axis] = lengths.first().map(|&(_, length)| length);
            choices[axis] = lengths.into_iter().map(|(_, length)| Some(length)).collect();
            choices[axis].push(None);
        }
        choices[dimensions..].fill(vec![None]);
        let mut embeddings = Vec::new();
        for &x in &choices[0] {
            for &y in &choices[1] {
                for &z in &choices[2] {
                    embeddings.extend(self.map([x, y, z]));
                }
            }
        }
        embeddings
    }

    /// By axis: radices suggested by cables between distant positions, with the number of these
    /// cables, after folding the axes of known radix.
    fn votes(&self, radix: [Option<i32>; 3]) -> [BTreeMap<i32, usize>; 3] {
        let mut votes: [BTreeMap<i32, usize>; 3] = Default::default();
        for edge in &self.graph.edges {
            let [a, b] = edge.ends.map(|end| self.at[end as usize]);
            let (Some(a), Some(b)) = (a, b) else { continue };
            let apart: [i32; 3] = std::array::from_fn(|axis| match radix[axis] {
                Some(radix) => (b[axis] - a[axis]).rem_euclid(radix),
                None => (b[axis] - a[axis]).abs(),
            });
            for axis in 0..3 {
                let is_along = (0..3).all(|other| other == axis || apart[other] == 0);
                if is_along && radix[axis].is_none() && apart[axis] > 1 {
                    *votes[axis].entry(apart[axis] + 1).or_default() += 1;
                }
            }
        }
        votes
    }

    /// The embedding with rings of the given radices; other axes have the length to which they
    /// grew.
    fn map(&self, rings: [Option<i32>; 3]) -> Option<Embedding> {
        let mut size = TorusSize { radix: [1; 3], looped: [true; 3] };
        let mut low = [0; 3];
        for axis in 0..3 {
            let along = self.at.iter().flatten().map(|at| at[axis]);
            low[axis] = along.clone().min()?;
            let extent = along.max()? - low[axis] + 1;
            size.radix[axis] = u32::try_from(rings[axis].unwrap_or(extent)).ok()?;
            size.looped[axis] = rings[axis].is_some() || extent == 1;
        }
        let positions: u64 = size.radix.iter().map(|&radix| u64::from(radix)).product();
        if positions > 2 * self.graph.len() as u64 + 8 {
            return None;
        }
        let places = self
            .at
            .iter()
            .map(|at| at.map(|at| std::array::from_fn(|axis| i64::from(at[axis] - low[axis]))));
        let mut embedding = Embedding::of(size, places)?;
        embedding.place_remaining(self.graph);
        Some(embedding)
    }
}

fn step(from: Point, direction: usize) -> Point {
    let direction = Direction::ALL[direction];
    let mut to = from;
    to[direction.axis()] += if direction.is_plus() { 1 } else { -1 };
    to
}

fn distance(a: Point, b: Point) -> u32 {
    (0..3).map(|axis| a[axis].abs_diff(b[axis])).sum()
}
