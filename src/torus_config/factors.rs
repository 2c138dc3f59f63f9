//! From classes of parallel edges to factors.
//!
//! Two classes whose edges meet in corners of 4-loops run along different dimensions. Two classes
//! whose edges meet, but never in such a corner, follow each other along one dimension. Damage
//! makes single corners misleading: the pairs that meet most often are joined first, and a pair
//! that contradicts earlier ones is ignored.
//!
//! The results are the prime factors of the product: paths and cycles, where a ring of four counts
//! as two factors of radix 2.

use super::edge_classes::EdgeClasses;
use super::graph::SimpleGraph;
use std::collections::{BTreeMap, BTreeSet};

/// Weight of a corner in a triangle, which is a ring of three, relative to other corners.
const TRIANGLE_WEIGHT: u32 = 3;

/// Number of vertices at which edges of two classes meet.
#[derive(Clone, Copy, Default)]
struct PairCounts {
    in_squares: u32,
    elsewhere: u32,
}

/// The number of factors, and the factor of each class; `None` for classes that fit none.
pub(super) fn factors(graph: &SimpleGraph, classes: &EdgeClasses) -> (usize, Vec<Option<u32>>) {
    let (pair_counts, trusted) = pair_counts(graph, classes);
    let is_bare = !trusted.contains(&true) && !graph.edges.is_empty();
    if is_bare && (0..graph.len() as u32).all(|vertex| graph.degree(vertex) <= 2) {
        // A single ring or line has no 4-loops.
        return (1, vec![Some(0); classes.count]);
    }
    let mut clusters = Clusters::new(classes);
    for (&(a, b), counts) in &pair_counts {
        if counts.in_squares > 0 {
            clusters.across[a as usize].insert(b);
            clusters.across[b as usize].insert(a);
        }
    }
    let mut aligned: Vec<(u32, u32, u32)> = pair_counts
        .iter()
        .filter(|((a, b), counts)| {
            counts.in_squares == 0 && trusted[*a as usize] && trusted[*b as usize]
        })
        .map(|(&(a, b), counts)| (counts.elsewhere, a, b))
        .collect();
    aligned.sort_unstable_by_key(|&(weight, a, b)| (std::cmp::Reverse(weight), a, b));
    for (_, a, b) in aligned {
        clusters.join(a, b);
    }
    clusters.into_factors(&trusted)
}

/// Counts for all pairs of classes that meet; and by class, true if there is evidence for its
/// dimension.
fn pair_counts(
    graph: &SimpleGraph,
    classes: &EdgeClasses,
) -> (BTreeMap<(u32, u32), PairCounts>, Vec<bool>) {
    let mut pair_counts: BTreeMap<(u32, u32), PairCounts> = BTreeMap::new();
    let mut trusted = vec![false; classes.count];
    for (edge, &class) in classes.of.iter().enumerate() {
        trusted[class as usize] |= classes.is_in_square[edge];
    }
    for vertex in 0..graph.len() as u32 {
        let around = graph.neighbors(vertex);
        for (index, &(one, a)) in around.iter().enumerate() {
            for &(other, b) in &around[index + 1..] {
                let ca = classes.of[a as usize];
                let cb = classes.of[b as usize];
                let counts = pair_counts.entry((ca.min(cb), ca.max(cb))).or_default();
                if classes.is_corner(vertex, a, b) {
                    counts.in_squares += 1;
                } else if graph.edge(one, other).is_some() {
                    counts.elsewhere += TRIANGLE_WEIGHT;
                    trusted[ca as usize] = true;
                    trusted[cb as usize] = true;
                } else {
                    counts.elsewhere += 1;
                }
            }
        }
    }
    pair_counts.retain(|&(a, b), _| a != b);
    (pair_counts, trusted)
}

/// Sets of classes that probably run along one dimension (union-find).
struct Clusters {
    parent: Vec<u32>,
    /// By cluster: the clusters along other dimensions.
    across: Vec<BTreeSet<u32>>,
    edges: Vec<usize>,
}

impl Clusters {
    fn new(classes: &EdgeClasses) -> Self {
        let mut edges = vec![0; classes.count];
        classes.of.iter().for_each(|&class| edges[class as usize] += 1);
        Self {
            parent: (0..classes.count as u32).collect(),
            across: vec![BTreeSet::new(); classes.count],
            edges,
        }
    }

    fn find(&mut self, class: u32) -> u32 {
        let mut at = class;
        while self.parent[at as usize] != at {
            let above = self.parent[at as usize];
            self.parent[at as usize] = self.parent[above as usize];
            at = above;
        }
        at
    }

    /// Joins the clusters of two classes unless they are known to run along different dimensions.
    fn join(&mut self, a: u32, b: u32) {
        let a = self.find(a);
        let b = self.find(b);
        if a == b || self.across[a as usize].contains(&b) {
            return;
        }
        let (into, from) = if self.across[a as usize].len() >= self.across[b as usize].len() {
            (a, b)
        } else {
            (b, a)
        };
        for other in std::mem::take(&mut self.across[from as usize]) {
            self.across[other as usize].remove(&from);
            self.across[other as usize].insert(into);
            self.across[into as usize].insert(other);
        }
        self.parent[from as usize] = into;
        self.edges[into as usize] += self.edges[from as usize];
    }

    /// The largest clusters that all run across each other become factors. A smaller cluster that
    /// runs across all of them but one is joined to that one; any other is dropped.
    fn into_factors(mut self, trusted: &[bool]) -> (usize, Vec<Option<u32>>) {
        let classes = 0..self.parent.len() as u32;
        let root: Vec<u32> = classes.clone().map(|class| self.find(class)).collect();
        let mut order: Vec<u32> = classes
            .filter(|&class| root[class as usize] == class && trusted[class as usize])
            .collect();
        order.sort_by_key(|&class| (std::cmp::Reverse(self.edges[class as usize]), class));
        let mut factor: Vec<Option<u32>> = vec![None; root.len()];
        let mut taken: Vec<u32> = Vec::new();
        for cluster in order {
            let aligned: Vec<u32> = (0..)
                .zip(&taken)
                .filter(|(_, other)| !is_across(&self.across, other, cluster))
                .map(|(n, _)| n)
                .collect();
            match aligned[..] {
                [] => {
                    factor[cluster as usize] = Some(taken.len() as u32);
                    taken.push(cluster);
                }
                [one] => factor[cluster as usize] = Some(one),
                _ => {}
            }
        }
        let of_class = root.iter().map(|&cluster| factor[cluster as usize]).collect();
        (taken.len(), of_class)
    }
}

fn is_across(across: &[BTreeSet<u32>], other: &u32, cluster: u32) -> bool {
    across[cluster as usize].contains(other)
}
