//! Seeds, found by trial: the discovery of the routing engine must find the embedding from each
//! seed.

use super::embedding::Embedding;
use super::graph::SimpleGraph;
use crate::config::torus::{Seed, SeedLink};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Guid;
use crate::plan::routing::torus::Lattice;
use crate::plan::routing::torus::{Cabling, Direction, Position, SeedTrial};
use std::cmp::Reverse;

/// Maximum number of backup seeds.
const MAX_BACKUP_SEEDS: usize = 3;
/// Maximum number of trials for the first seed, and again for the others.
const MAX_TRIALS: usize = 24;
/// Up to this number of candidates all are tried.
const MAX_EXHAUSTIVE_CANDIDATES: usize = 256;
/// Maximum number of trials for each mirror image, times the number of candidates.
const MAX_MIRRORED_TRIALS: usize = 20_000;
/// All permutations of three axes.
const AXIS_ORDERS: [[usize; 3]; 6] =
    [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]];

/// Input of the search for seeds.
#[derive(Clone, Copy)]
pub(super) struct SeedFinder<'a> {
    pub fabric: &'a Fabric,
    pub cabling: &'a Cabling,
    pub graph: &'a SimpleGraph,
    /// The `portgroup_max_ports` to try seeds with.
    pub portgroup_max_ports: u32,
}

/// An embedding with its origin at the first seed, and the seeds.
pub(super) struct SeededEmbedding {
    pub embedding: Embedding,
    /// Disjoint seeds that all give the same coordinates.
    pub seeds: Vec<Seed>,
    /// The `portgroup_max_ports` of the trials.
    pub portgroup_max_ports: u32,
    /// Result of the trial of the first seed.
    pub found: SeedTrialResult,
    /// Index of the embedding among the candidates.
    pub chosen: usize,
}

/// Result of a trial discovery; greater is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SeedTrialResult {
    is_routable: bool,
    switches: usize,
    cables: usize,
}

impl SeedTrialResult {
    /// True if all switches of an embedding are placed and can be routed.
    pub(super) fn is_complete(&self, embedding: &Embedding) -> bool {
        self.is_routable && self.switches == embedding.placed()
    }
}

/// A possible seed: the origin, and the neighbours that the seed names, by [`Direction`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SeedCandidate {
    origin: u32,
    neighbors: [Option<u32>; 6],
}

impl SeedCandidate {
    fn switches(&self) -> impl Iterator<Item = u32> + '_ {
        [self.origin].into_iter().chain(self.neighbors.into_iter().flatten())
    }
}

impl SeedFinder<'_> {
    /// Finds seeds for an embedding; `None` if no switch has the neighbours that a seed needs.
    pub(super) fn find_seeds(&self, embedding: &Embedding) -> Option<SeededEmbedding> {
        let (embedding, mut candidates, first, most) = self.first(embedding)?;
        let embedding = embedding.with_origin(embedding.positions[first.origin as usize]?)?;
        let mut chosen = vec![first];
        for _ in 0..MAX_TRIALS {
            candidates.retain(|candidate| is_disjoint(candidate, &chosen));
            let Some(next) = farthest(&embedding, &chosen, &candidates) else { break };
            let candidate = candidates.remove(next);
            if self.trial(&embedding, &candidate).is_some_and(|found| found >= most) {
                chosen.push(candidate);
            }
            if chosen.len() > MAX_BACKUP_SEEDS {
                break;
            }
        }
        let seeds = chosen.iter().map(|candidate| self.seed(&embedding, candidate)).collect();
        let portgroup_max_ports = self.portgroup_max_ports;
        Some(SeededEmbedding { embedding, seeds, portgroup_max_ports, found: most, chosen: 0 })
    }

    /// Finds the first seed. The engine treats axes and directions of a damaged torus differently:
    /// if it cannot route the preferred order of axes, other orders are tried, then mirror images.
    fn first(
        &self,
        embedding: &Embedding,
    ) -> Option<(Embedding, Vec<SeedCandidate>, SeedCandidate, SeedTrialResult)> {
        let mut best: Option<(Embedding, Vec<SeedCandidate>, SeedCandidate, SeedTrialResult)> =
            None;
        for mirrored in 0..8 {
            if (0..3).any(|axis| has_same_sign(&embedding.lattice, axis, mirrored)) {
                continue;
            }
            for order in AXIS_ORDERS {
                let image =
                    embedding.mirrored(mirrored).and_then(|embedding| embedding.with_axes(order));
                let Some(embedding) = image else { continue };
                let candidates = self.candidates(&embedding);
                let trials = match mirrored {
                    0 if candidates.len() <= MAX_EXHAUSTIVE_CANDIDATES => MAX_EXHAUSTIVE_CANDIDATES,
                    0 => MAX_TRIALS,
                    _ => (MAX_MIRRORED_TRIALS / candidates.len().max(1)).clamp(3, MAX_TRIALS),
                };
                let Some((candidate, found)) = self.best(&embedding, &candidates, trials) else {
                    continue;
                };
                let is_complete = found.is_complete(&embedding);
                if best.as_ref().is_none_or(|(.., most)| found > *most) {
                    best = Some((embedding, candidates, candidate, found));
                }
                if is_complete {
                    return best;
                }
            }
            if best.as_ref().is_some_and(|(.., found)| found.is_routable) {
                break;
            }
        }
        best
    }

    /// All candidates, those with the least damaged neighbourhood first.
    fn candidates(&self, embedding: &Embedding) -> Vec<SeedCandidate> {
        let health: Vec<usize> = (0..embedding.positions.len() as u32)
            .map(|vertex: u32| -> usize {
                let around = self.graph.neighbors(vertex);
                around
                    .iter()
                    .filter(|&&(other, _)| embedding.direction([vertex, other]).is_some())
                    .count()
            })
            .collect();
        let mut candidates: Vec<(usize, SeedCandidate)> = Vec::new();
        for origin in embedding.lattice.positions().filter_map(|at| embedding.switches[at.index()])
        {
            let around = self.graph.neighbors(origin).iter();
            let nearby: usize = around.map(|&(other, _)| health[other as usize]).sum();
            let own = candidates.len();
            for down in 0..8 {
                let candidate =
                    self.candidate(embedding, origin, down).map(|candidate| (nearby, candidate));
                candidates
                    .extend(candidate.filter(|candidate| !candidates[own..].contains(candidate)));
            }
        }
        candidates.sort_by_key(|&(nearby, _)| Reverse(nearby));
        candidates.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// The seed at `origin` with one link along each dimension, both links in a ring of four, and
    /// all links if there is only one dimension. A bit of `down` prefers the downward link of a
    /// dimension.
    fn candidate(&self, embedding: &Embedding, origin: u32, down: u8) -> Option<SeedCandidate> {
        let lattice = &embedding.lattice;
        let at = embedding.positions[origin as usize]?;
        let axes = (0..3).filter(|&axis| lattice.is_active(axis));
        let is_only = axes.clone().count() == 1;
        let mut candidate = SeedCandidate { origin, neighbors: [None; 6] };
        for axis in axes {
            let mut ways = [Direction::plus(axis), Direction::minus(axis)];
            ways.rotate_left(usize::from(down >> axis & 1));
            let [first, second] = ways.map(|direction| {
                let neighbor = embedding.neighbor(at, direction)?;
                self.graph.edge(origin, neighbor).map(|_| (direction, neighbor))
            });
            let needs_both = lattice.is_looped(axis) && lattice.radix(axis) == 4;
            if needs_both && (first.is_none() || second.is_none()) {
                return None;
            }
            let wanted = [first, second.filter(|_| needs_both || is_only || first.is_none())];
            for (direction, neighbor) in wanted.into_iter().flatten() {
                candidate.neighbors[direction.index()] = Some(neighbor);
            }
            first.or(second)?;
        }
        Some(candidate)
    }

    /// The best of up to `trials` candidates, the earliest of equals. Each is tried with the
    /// datelines just below it, as the seed will have them.
    fn best(
        &self,
        embedding: &Embedding,
        candidates: &[SeedCandidate],
        trials: usize,
    ) -> Option<(SeedCandidate, SeedTrialResult)> {
        let step = candidates.len().div_ceil(trials).max(1);
        let mut best: Option<(SeedCandidate, SeedTrialResult)> = None;
        for candidate in candidates.iter().step_by(step) {
            let origin = embedding.positions[candidate.origin as usize];
            let Some(embedding) = origin.and_then(|origin| embedding.with_origin(origin)) else {
                continue;
            };
            let Some(found) = self.trial(&embedding, candidate) else { continue };
            if best.is_none_or(|(_, most)| found > most) {
                best = Some((*candidate, found));
            }
            if found.is_routable && found.switches == embedding.placed() {
                break;
            }
        }
        best
    }

    /// Runs the discovery from a candidate. `None` if it fails or contradicts the embedding.
    fn trial(&self, embedding: &Embedding, candidate: &SeedCandidate) -> Option<SeedTrialResult> {
        let seed = self.seed(embedding, candidate);
        let max_ports = self.portgroup_max_ports;
        let trial =
            SeedTrial::place(self.fabric, self.cabling, &embedding.lattice, &seed, max_ports)?;
        let mut switches = 0;
        for (at, switch) in trial.switches() {
            match embedding.positions[switch.index()] {
                Some(known) if known != at => return None,
                _ => switches += 1,
            }
        }
        let is_routable = trial.is_routable(self.fabric);
        Some(SeedTrialResult { is_routable, switches, cables: trial.cable_count() })
    }

    fn seed(&self, embedding: &Embedding, candidate: &SeedCandidate) -> Seed {
        let mut seed = Seed::default();
        let at = embedding.positions[candidate.origin as usize].unwrap_or(Position(0));
        for direction in Direction::ALL {
            let axis = direction.axis();
            let slot = 2 * axis + usize::from(!direction.is_plus());
            seed.links[slot] = candidate.neighbors[direction.index()].map(|other| SeedLink {
                origin: guid_of(self.fabric, candidate.origin),
                neighbor: guid_of(self.fabric, other),
            });
            seed.dateline[axis] = -i64::from(embedding.lattice.coordinate(at, axis));
        }
        seed
    }
}

fn guid_of(fabric: &Fabric, vertex: u32) -> Guid {
    fabric.switch(SwitchId(vertex)).guid()
}

fn has_same_sign(lattice: &Lattice, axis: usize, mirrored: u8) -> bool {
    mirrored >> axis & 1 == 1 && lattice.radix(axis) < 3
}

fn is_disjoint(candidate: &SeedCandidate, chosen: &[SeedCandidate]) -> bool {
    !candidate
        .switches()
        .any(|vertex| chosen.iter().any(|other| other.switches().any(|own| own == vertex)))
}

/// Index of the candidate farthest from all chosen ones, the earliest of equals.
fn farthest(
    embedding: &Embedding,
    chosen: &[SeedCandidate],
    candidates: &[SeedCandidate],
) -> Option<usize> {
    let indices = candidates
        .iter()
        .map(|candidate| {
            let distances =
                chosen.iter().map(|other| distance(embedding, candidate.origin, other.origin));
            distances.min().unwrap_or(0)
        })
        .enumerate();
    indices.max_by_key(|&(index, distance)| (distance, Reverse(index))).map(|(index, _)| index)
}

fn distance(embedding: &Embedding, a: u32, b: u32) -> u32 {
    let (Some(a), Some(b)) = (embedding.positions[a as usize], embedding.positions[b as usize])
    else {
        return 0;
    };
    (0..3)
        .map(|axis| {
            let direct = embedding
                .lattice
                .coordinate(a, axis)
                .abs_diff(embedding.lattice.coordinate(b, axis));
            let around = embedding.lattice.radix(axis) - direct;
            if embedding.lattice.is_looped(axis) { direct.min(around) } else { direct }
        })
        .sum()
}
