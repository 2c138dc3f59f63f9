//! Candidate embeddings, and the choice of the best.
//!
//! Factors become at most three dimensions: factors of radix 2 may be paired into rings of four. A
//! ring of four is the product of two edges, so that a 4x2 torus and a 2x2x2 mesh are the same
//! graph, and a 4x4 torus has three ways to pair its factors. Few dimensions are preferred, because
//! rings survive the loss of a cable and dimensions of radix 2 do not; among pairings of the same
//! shape, the one in which port numbers correspond best to directions, because people cable by port
//! number.

use super::embedding::Embedding;
use super::exhaustive;
use super::graph::SimpleGraph;
use super::layers::FactorLayers;
use super::region_growing;
use crate::fabric::SwitchId;
use crate::plan::routing::torus::Cabling;
use std::cmp::Reverse;

/// Maximum number of embeddings grown, times the number of switches.
const MAX_GROWN_SWITCHES: usize = 2_000;
/// Minimum number of corners to grow from.
const MIN_CORNERS: usize = 6;
/// Maximum number of embeddings with equally few faults that are kept.
const MAX_CANDIDATES: usize = 12;

/// Order of candidates: greater is better, the most important criterion is first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CandidateRank {
    cost: Reverse<usize>,
    /// The engine's discovery cannot find the fourth switch of a single ring.
    is_no_single_ring: bool,
    faults: Reverse<usize>,
    dimensions: Reverse<usize>,
    /// Agreement of port numbers with directions.
    agreement: u64,
}

/// Returns the embeddings with the fewest faults, all different, the preferred one first. `factors`
/// are those of the whole graph.
pub(super) fn candidates(
    graph: &SimpleGraph,
    cabling: &Cabling,
    factors: Vec<FactorLayers>,
) -> Vec<Embedding> {
    let mut pool = CandidatePool { graph, cabling, fewest: usize::MAX, embeddings: Vec::new() };
    for mut embedding in products(graph, factors) {
        embedding.place_remaining(graph);
        pool.add(embedding);
    }
    if pool.fewest > 0 {
        grow(graph, &mut pool);
        exhaustive::search(graph, pool.fewest)
            .into_iter()
            .for_each(|embedding| pool.add(embedding));
    }
    pool.embeddings.sort_by_key(|(rank, _)| Reverse(*rank));
    pool.embeddings.into_iter().map(|(_, embedding)| embedding).collect()
}

/// Adds embeddings grown from the least irregular corners.
fn grow(graph: &SimpleGraph, pool: &mut CandidatePool) {
    let mut origins: Vec<(usize, u32)> = (0..graph.len() as u32)
        .filter(|&vertex| graph.degree(vertex) > 1)
        .map(|vertex| (irregularity(graph, vertex), vertex))
        .collect();
    origins.sort_unstable();
    let most = (MAX_GROWN_SWITCHES / graph.len().max(1)).max(MIN_CORNERS);
    let stride = (origins.len() / MIN_CORNERS).max(1);
    let origins = (0..stride).flat_map(|first| origins.iter().skip(first).step_by(stride));
    let corners = origins.flat_map(|&(_, vertex)| region_growing::corners(graph, vertex));
    for corner in corners.take(most) {
        region_growing::maps(graph, &corner).into_iter().for_each(|embedding| pool.add(embedding));
    }
}

/// Number of signs of damage or surplus cables at a vertex: pairs of neighbours with more than two
/// common neighbours, and the difference of its degree from six.
fn irregularity(graph: &SimpleGraph, vertex: u32) -> usize {
    let around = graph.neighbors(vertex);
    let pairs = around
        .iter()
        .enumerate()
        .flat_map(|(index, &(a, _))| around[index + 1..].iter().map(move |&(b, _)| (a, b)));
    let odd = pairs.filter(|&(a, b)| graph.common(a, b) > 2).count();
    odd + 6usize.abs_diff(around.len())
}

/// Embeddings with the lowest cost so far. The cost is the number of faults, plus one for a
/// doubtful shape.
struct CandidatePool<'a> {
    graph: &'a SimpleGraph,
    cabling: &'a Cabling,
    /// The lowest cost so far.
    fewest: usize,
    embeddings: Vec<(CandidateRank, Embedding)>,
}

impl CandidatePool<'_> {
    fn add(&mut self, embedding: Embedding) {
        let dimensions = (0..3).filter(|&axis| embedding.lattice.is_active(axis)).count();
        let faults = embedding.faults(self.graph);
        let cost = faults + usize::from(dimensions == 1 && is_doubtful_shape(&embedding));
        let is_full = cost == self.fewest && self.embeddings.len() == MAX_CANDIDATES;
        if cost > self.fewest || is_full {
            return;
        }
        if cost < self.fewest {
            self.fewest = cost;
            self.embeddings.clear();
        }
        let identity = embedding.identity();
        if self.embeddings.iter().any(|(_, known)| known.identity() == identity) {
            return;
        }
        let Some(embedding) = embedding.with_axes(order(&embedding)) else { return };
        let rank = CandidateRank {
            cost: Reverse(cost),
            is_no_single_ring: dimensions > 1 || embedding.lattice.radix(0) <= 3,
            faults: Reverse(faults),
            dimensions: Reverse(dimensions),
            agreement: port_agreement(&embedding, self.cabling),
        };
        self.embeddings.push((rank, embedding));
    }
}

/// True for a line of more than two switches, and for a ring of more than three, which the engine
/// cannot place. A two-dimensional shape with a fault can leave the same cables: a square that lost
/// a switch is a line of three. A doubtful shape is therefore no better than one with a fault.
fn is_doubtful_shape(embedding: &Embedding) -> bool {
    let longest = embedding.lattice.radices().into_iter().max().unwrap_or(0);
    let is_ring = (0..3).all(|axis| embedding.lattice.is_looped(axis));
    longest > 3 || (longest == 3 && !is_ring)
}

/// All embeddings with at most three dimensions that are products of the factors.
fn products(graph: &SimpleGraph, factors: Vec<FactorLayers>) -> Vec<Embedding> {
    let (twos, others): (Vec<FactorLayers>, Vec<FactorLayers>) =
        factors.into_iter().partition(|line| line.radix == 2);
    pairings(twos.len(), others.len())
        .into_iter()
        .filter_map(|pairing| {
            let mut lines = others.clone();
            lines.extend(pairing.iter().map(|&(a, b)| match b {
                Some(b) => ring_of_four(&twos[a], &twos[b]),
                None => twos[a].clone(),
            }));
            Embedding::new(&lines, graph.len())
        })
        .collect()
}

/// All ways to pair factors of radix 2 or leave them alone, so that with `others` there are at most
/// three dimensions.
fn pairings(twos: usize, others: usize) -> Vec<Vec<(usize, Option<usize>)>> {
    let room = 3usize.saturating_sub(others);
    if others > 3 || twos > 2 * room {
        return Vec::new();
    }
    let mut all = Vec::new();
    extend(&mut vec![false; twos], &mut Vec::new(), room, &mut all);
    all
}

fn extend(
    used: &mut Vec<bool>,
    chosen: &mut Vec<(usize, Option<usize>)>,
    room: usize,
    all: &mut Vec<Vec<(usize, Option<usize>)>>,
) {
    let Some(first) = used.iter().position(|&used| !used) else {
        all.push(chosen.clone());
        return;
    };
    if room == 0 {
        return;
    }
    used[first] = true;
    let rest: Vec<usize> = (first + 1..used.len()).filter(|&other| !used[other]).collect();
    for partner in rest.into_iter().map(Some).chain([None]) {
        if let Some(other) = partner {
            used[other] = true;
        }
        chosen.push((first, partner));
        extend(used, chosen, room - 1, all);
        chosen.pop();
        if let Some(other) = partner {
            used[other] = false;
        }
    }
    used[first] = false;
}

/// The ring around the square of two factors of radix 2.
fn ring_of_four(a: &FactorLayers, b: &FactorLayers) -> FactorLayers {
    FactorLayers {
        at: a
            .at
            .iter()
            .zip(&b.at)
            .map(|(a, b)| match (a, b) {
                (Some(0), Some(0)) => Some(0),
                (Some(_), Some(0)) => Some(1),
                (Some(0), Some(_)) => Some(3),
                (Some(_), Some(_)) => Some(2),
                _ => None,
            })
            .collect(),
        radix: 4,
        is_looped: true,
    }
}

/// Axes in descending order of radix, rings before lines. If several switches are missing in one
/// line, that line becomes z, because the engine can route around several missing switches only
/// along z. For the same reason a fabric of two dimensions extends along y and z: x is the unused
/// axis, so that later failures in a row along one of its dimensions can be routed around.
fn order(embedding: &Embedding) -> [usize; 3] {
    let lattice = &embedding.lattice;
    let mut axes = [0, 1, 2];
    axes.sort_by_key(|&axis| (Reverse(lattice.radix(axis)), !lattice.is_looped(axis), axis));
    let missing: Vec<_> = embedding.missing().map(|at| lattice.coordinates(at).0).collect();
    let line: Vec<usize> = (0..3).filter(|&axis| varies(&missing, axis)).collect();
    if let [along] = line[..] {
        let others: Vec<usize> = axes.into_iter().filter(|&axis| axis != along).collect();
        axes = [others[0], others[1], along];
    }
    let (unused, used): (Vec<usize>, Vec<usize>) =
        axes.into_iter().partition(|&axis| !lattice.is_active(axis));
    if let ([unused], [first, last]) = (&unused[..], &used[..]) {
        axes = [*unused, *first, *last];
    }
    axes
}

fn varies(missing: &[[u32; 3]], axis: usize) -> bool {
    missing.iter().any(|at| at[axis] != missing[0][axis])
}

/// Agreement of port numbers with directions: for each port number the number of cables in its most
/// frequent direction, summed up.
fn port_agreement(embedding: &Embedding, cabling: &Cabling) -> u64 {
    let mut counts = vec![[0u64; 6]; 256];
    for from in 0..embedding.positions.len() as u32 {
        for link in cabling.links(SwitchId(from)) {
            if let Some(direction) = embedding.direction([from, link.peer.0]) {
                counts[usize::from(link.port)][direction.index()] += 1;
            }
        }
    }
    counts.iter().filter_map(|by_direction| by_direction.iter().max()).sum()
}
