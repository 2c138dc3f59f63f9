//! 4-loops, and the classes of parallel edges that they define.
//!
//! In a product of rings and lines two switches diagonal in a face have exactly two common
//! neighbours, the other corners of the face. The only other switches with two common neighbours
//! are opposite ones of a ring of four. If both diagonals of a 4-loop have exactly two common
//! neighbours, its opposite edges run along the same dimension between the same two layers. Missing
//! switches and cables remove 4-loops and create none; a surplus cable that closes one nearly
//! always gives a diagonal a third common neighbour.
//!
//! Opposite edges of a ring of four are parallel in the same sense: such a ring is the product of
//! two edges, and the graph does not distinguish the two.

use super::graph::SimpleGraph;
use std::collections::BTreeMap;

/// All 4-loops, as corners in cyclic order from the lowest.
pub(super) fn squares(graph: &SimpleGraph) -> Vec<[u32; 4]> {
    let mut found = Vec::new();
    for u in 0..graph.len() as u32 {
        let mut middles: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &(v, _) in graph.neighbors(u) {
            let ends = graph.neighbors(v).iter().map(|&(x, _)| x);
            ends.filter(|&x| x > u).for_each(|x| middles.entry(x).or_default().push(v));
        }
        for (x, between) in middles {
            if let [v, w] = between[..]
                && u < v.min(w)
                && graph.common(v, w) == 2
            {
                found.push([u, v, x, w]);
            }
        }
    }
    found
}

/// Classes of parallel edges.
#[derive(Debug)]
pub(super) struct EdgeClasses {
    pub count: usize,
    /// Class by edge.
    pub of: Vec<u32>,
    /// By edge: true if its lower end is on the second side of its class.
    flipped: Vec<bool>,
    /// By edge: true if it is part of a 4-loop.
    pub is_in_square: Vec<bool>,
    /// Corners of 4-loops as (vertex, lower edge, higher edge), ascending.
    corners: Vec<(u32, u32, u32)>,
}

impl EdgeClasses {
    /// The classes defined by 4-loops.
    pub(super) fn new(graph: &SimpleGraph, squares: &[[u32; 4]]) -> Self {
        let mut sets = OrientedSets::new(graph.edges.len());
        let mut is_in_square = vec![false; graph.edges.len()];
        let mut corners = Vec::with_capacity(4 * squares.len());
        for &[u, v, x, w] in squares {
            let sides = [(u, v), (v, x), (x, w), (w, u)].map(|(a, b)| graph.edge(a, b));
            let [Some(uv), Some(vx), Some(xw), Some(wu)] = sides else { continue };
            for (at, a, b) in [(u, wu, uv), (v, uv, vx), (x, vx, xw), (w, xw, wu)] {
                is_in_square[a as usize] = true;
                corners.push((at, a.min(b), a.max(b)));
            }
            // uv runs as wx does, uw as vx does.
            sets.join(uv, xw, (u < v) != (w < x));
            sets.join(wu, vx, (u < w) != (v < x));
        }
        corners.sort_unstable();
        let mut number = BTreeMap::new();
        let mut of = Vec::new();
        let mut flipped = Vec::new();
        for edge in 0..graph.edges.len() as u32 {
            let (root, flip) = sets.find(edge);
            let next = number.len() as u32;
            of.push(*number.entry(root).or_insert(next));
            flipped.push(flip);
        }
        Self { count: number.len(), of, flipped, is_in_square, corners }
    }

    /// The side of an edge's class on which its end `vertex` lies.
    pub(super) fn side(&self, graph: &SimpleGraph, edge: u32, vertex: u32) -> bool {
        (graph.edges[edge as usize].ends[1] == vertex) != self.flipped[edge as usize]
    }

    /// True if two edges at `vertex` are adjacent sides of a 4-loop.
    pub(super) fn is_corner(&self, vertex: u32, a: u32, b: u32) -> bool {
        self.corners.binary_search(&(vertex, a.min(b), a.max(b))).is_ok()
    }
}

/// Disjoint sets of edges with their relative orientation (union-find).
struct OrientedSets {
    /// By edge: parent, and whether the edge runs against it.
    parent: Vec<(u32, bool)>,
}

impl OrientedSets {
    fn new(edges: usize) -> Self {
        Self { parent: (0..edges as u32).map(|edge| (edge, false)).collect() }
    }

    fn find(&mut self, edge: u32) -> (u32, bool) {
        let mut at = edge;
        let mut flip = false;
        while self.parent[at as usize].0 != at {
            let (above, turned) = self.parent[at as usize];
            let (next, more) = self.parent[above as usize];
            self.parent[at as usize] = (next, turned != more);
            flip ^= turned != more;
            at = next;
        }
        (at, flip)
    }

    /// Joins the sets of two edges. If they are joined already, a contradicting orientation is
    /// ignored.
    fn join(&mut self, a: u32, b: u32, against: bool) {
        let (a, flip_a) = self.find(a);
        let (b, flip_b) = self.find(b);
        if a != b {
            let low = a.min(b);
            let high = a.max(b);
            self.parent[high as usize] = (low, against ^ flip_a ^ flip_b);
        }
    }
}
