//! The switches of a fabric as a simple graph: parallel cables form one edge, cables from a switch
//! to itself none. Only the largest connected component has edges.

use crate::fabric::SwitchId;
use crate::plan::routing::torus::Cabling;
use std::collections::{BTreeMap, VecDeque};

/// An edge: neighbouring switches and the cables between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    /// Its vertices, lower first.
    pub ends: [u32; 2],
    pub cables: u32,
}

/// A simple graph whose vertices are [`SwitchId`]s.
#[derive(Debug)]
pub(super) struct SimpleGraph {
    /// Edges by ascending vertices.
    pub edges: Vec<Edge>,
    /// By vertex: neighbours and the indices of the edges to them, ascending.
    neighbors: Vec<Vec<(u32, u32)>>,
}

impl SimpleGraph {
    /// The graph of the largest connected component of `cabling`.
    pub(super) fn new(cabling: &Cabling) -> Self {
        let count = cabling.switch_count();
        let mut cables: BTreeMap<[u32; 2], u32> = BTreeMap::new();
        for from in 0..count as u32 {
            for link in cabling.links(SwitchId(from)) {
                if from < link.peer.0 {
                    *cables.entry([from, link.peer.0]).or_default() += 1;
                }
            }
        }
        let all = cables.into_iter().map(|(ends, cables)| Edge { ends, cables }).collect();
        let whole = Self::with_edges(count, all);
        let parts = whole.parts();
        let mut size = vec![0usize; count];
        parts.iter().for_each(|&part| size[part as usize] += 1);
        let largest = (0..count).max_by_key(|&part| (size[part], std::cmp::Reverse(part)));
        let mut edges = whole.edges;
        edges.retain(|edge| Some(parts[edge.ends[0] as usize] as usize) == largest);
        Self::with_edges(count, edges)
    }

    fn with_edges(count: usize, edges: Vec<Edge>) -> Self {
        let mut neighbors = vec![Vec::new(); count];
        for (edge, id) in edges.iter().zip(0..) {
            let [a, b] = edge.ends;
            neighbors[a as usize].push((b, id));
            neighbors[b as usize].push((a, id));
        }
        neighbors.iter_mut().for_each(|list| list.sort_unstable());
        Self { edges, neighbors }
    }

    /// By vertex: the lowest vertex of its component.
    fn parts(&self) -> Vec<u32> {
        let mut part = vec![u32::MAX; self.len()];
        for start in 0..self.len() as u32 {
            if part[start as usize] != u32::MAX {
                continue;
            }
            part[start as usize] = start;
            let mut queue = VecDeque::from([start]);
            while let Some(at) = queue.pop_front() {
                for &(next, _) in self.neighbors(at) {
                    if part[next as usize] == u32::MAX {
                        part[next as usize] = start;
                        queue.push_back(next);
                    }
                }
            }
        }
        part
    }

    /// Number of vertices, with and without edges.
    pub(super) fn len(&self) -> usize {
        self.neighbors.len()
    }

    /// Neighbours of a vertex with the edges to them, ascending.
    pub(super) fn neighbors(&self, vertex: u32) -> &[(u32, u32)] {
        &self.neighbors[vertex as usize]
    }

    pub(super) fn degree(&self, vertex: u32) -> usize {
        self.neighbors(vertex).len()
    }

    /// Index of the edge between two vertices.
    pub(super) fn edge(&self, a: u32, b: u32) -> Option<u32> {
        let list = self.neighbors(a);
        list.binary_search_by_key(&b, |&(vertex, _)| vertex).ok().map(|index| list[index].1)
    }

    /// Number of common neighbours of two vertices.
    pub(super) fn common(&self, a: u32, b: u32) -> usize {
        let (short, long) = if self.degree(a) <= self.degree(b) { (a, b) } else { (b, a) };
        self.neighbors(short).iter().filter(|&&(v, _)| self.edge(long, v).is_some()).count()
    }
}
