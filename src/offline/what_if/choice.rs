//! The failures that are tried: all of a kind, or a sample.
//!
//! A large torus has millions of pairs of components. Of a kind with more failures than the limit, a
//! sample is drawn from a seed; the same seed gives the same sample.

use super::super::json::FailureKind;
use crate::fabric::topology::Topology;
use crate::fabric::topology::TopologyNode;
use crate::sim::random::Random;
use crate::wire::attr::NodeKind;
use std::collections::BTreeSet;

/// A component that fails.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(super) enum FailedPart {
    /// Index of a node of the topology.
    Switch(usize),
    /// Index of a cable of the topology.
    Cable(usize),
}

/// How many failures are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailureExtent {
    /// Number of components that fail together: 1 or 2.
    pub at_a_time: u8,
    /// Maximum number of failures of each kind; `None` tries all single failures, and
    /// [`DEFAULT_SAMPLES`] of each kind of double failure.
    pub samples: Option<usize>,
    pub seed: u64,
}

/// Default limit of double failures of each kind.
pub const DEFAULT_SAMPLES: usize = 1000;

/// The failures of one kind.
pub(super) struct KindOfFailure {
    pub kind: FailureKind,
    /// Number of such failures of the fabric.
    pub possible: usize,
    pub tried: Vec<Vec<FailedPart>>,
}

/// The components of a fabric that can fail.
pub(super) struct Components<'a> {
    topology: &'a Topology,
    pub switches: Vec<FailedPart>,
    /// Cables between switches.
    pub cables: Vec<FailedPart>,
}

impl<'a> Components<'a> {
    pub(super) fn new(topology: &'a Topology) -> Self {
        let switches = (0..topology.nodes.len()).filter(|&index| is_switch(&topology.nodes, index));
        let cables = (0..topology.cables.len()).filter(|cable| {
            topology.cables[*cable].iter().all(|&(node, _)| is_switch(&topology.nodes, node))
        });
        Self {
            topology,
            switches: switches.map(FailedPart::Switch).collect(),
            cables: cables.map(FailedPart::Cable).collect(),
        }
    }

    /// The failures to try, by kind.
    pub(super) fn failures(&self, extent: FailureExtent) -> Vec<KindOfFailure> {
        let switches = &self.switches[..];
        let cables = &self.cables[..];
        let mut random = Random(extent.seed);
        let mut kinds = vec![
            self.single(FailureKind::Switch, switches, extent, &mut random),
            self.single(FailureKind::Cable, cables, extent, &mut random),
        ];
        if extent.at_a_time > 1 {
            kinds.extend([
                self.double(FailureKind::TwoSwitches, switches, switches, extent, &mut random),
                self.double(FailureKind::SwitchAndCable, switches, cables, extent, &mut random),
                self.double(FailureKind::TwoCables, cables, cables, extent, &mut random),
            ]);
        }
        kinds
    }

    fn single(
        &self,
        kind: FailureKind,
        parts: &[FailedPart],
        extent: FailureExtent,
        random: &mut Random,
    ) -> KindOfFailure {
        let limit = extent.samples.unwrap_or(parts.len());
        let mut indexes: BTreeSet<usize> = BTreeSet::new();
        while parts.len() > limit && indexes.len() < limit {
            indexes.insert(below(random, parts.len()));
        }
        let tried = if parts.len() > limit {
            indexes.into_iter().map(|index| vec![parts[index]]).collect()
        } else {
            parts.iter().map(|&part| vec![part]).collect()
        };
        KindOfFailure { kind, possible: parts.len(), tried }
    }

    /// Pairs of `first` and `second`, which are equal lists or of different kinds.
    fn double(
        &self,
        kind: FailureKind,
        first: &[FailedPart],
        second: &[FailedPart],
        extent: FailureExtent,
        random: &mut Random,
    ) -> KindOfFailure {
        let is_same = kind != FailureKind::SwitchAndCable;
        let possible = if is_same {
            first.len() * first.len().saturating_sub(1) / 2
        } else {
            first.len() * second.len() - self.own_cables()
        };
        let limit = extent.samples.unwrap_or(DEFAULT_SAMPLES);
        let mut tried = Vec::new();
        if possible <= limit {
            for (index, &one) in first.iter().enumerate() {
                let others = if is_same { &second[index + 1..] } else { second };
                let others = others.iter().filter(|&&other| !self.is_own_cable(one, other));
                tried.extend(others.map(|&other| vec![one, other]));
            }
            return KindOfFailure { kind, possible, tried };
        }
        let mut drawn = BTreeSet::new();
        while drawn.len() < limit {
            let one = first[below(random, first.len())];
            let other = second[below(random, second.len())];
            if one != other && !self.is_own_cable(one, other) {
                drawn.insert([one.min(other), one.max(other)]);
            }
        }
        tried.extend(drawn.into_iter().map(Vec::from));
        KindOfFailure { kind, possible, tried }
    }

    /// True for a switch and a cable at it, which fails with it.
    fn is_own_cable(&self, part: FailedPart, other: FailedPart) -> bool {
        match (part, other) {
            (FailedPart::Switch(node), FailedPart::Cable(cable)) => {
                self.topology.cables[cable].iter().any(|&(end, _)| end == node)
            }
            _ => false,
        }
    }

    /// Number of pairs of a switch and a cable at it.
    fn own_cables(&self) -> usize {
        let ends = self.cables.iter().map(|&cable| match cable {
            FailedPart::Cable(cable) => {
                let [(a, _), (b, _)] = self.topology.cables[cable];
                if a == b { 1 } else { 2 }
            }
            FailedPart::Switch(_) => 0,
        });
        ends.sum()
    }
}

fn is_switch(nodes: &[TopologyNode], index: usize) -> bool {
    nodes[index].kind == NodeKind::Switch
}

fn below(random: &mut Random, limit: usize) -> usize {
    (random.next() % limit.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::generate::Shape;
    use std::collections::HashSet;

    fn chosen(
        shape: [u16; 3],
        samples: Option<usize>,
        seed: u64,
    ) -> Vec<(usize, Vec<Vec<FailedPart>>)> {
        let topology = Shape::torus(shape).build().expect("a shape that can be built");
        let extent = FailureExtent { at_a_time: 2, samples, seed };
        let kinds = Components::new(&topology).failures(extent);
        kinds.into_iter().map(|kind| (kind.possible, kind.tried)).collect()
    }

    #[test]
    fn few_failures_are_all_tried() {
        let switches = 12;
        let cables = 24;
        let kinds = chosen([4, 3, 1], None, 1);
        let possible =
            [switches, cables, pairs(switches), switches * cables - 2 * cables, pairs(cables)];
        for ((count, tried), possible) in kinds.iter().zip(possible) {
            assert_eq!((*count, tried.len()), (possible, possible));
            assert_eq!(tried.iter().collect::<HashSet<_>>().len(), possible);
        }
    }

    fn pairs(count: usize) -> usize {
        count * (count - 1) / 2
    }

    #[test]
    fn samples_are_distinct_and_depend_on_the_seed_alone() {
        let kinds = chosen([8, 8, 4], Some(100), 7);
        for (possible, tried) in &kinds {
            assert!(*possible > 100);
            assert_eq!(tried.iter().collect::<HashSet<_>>().len(), 100);
            assert!(tried.iter().all(|parts| parts.len() < 2 || parts[0] != parts[1]));
        }
        assert!(chosen([8, 8, 4], Some(100), 7) == kinds);
        assert!(chosen([8, 8, 4], Some(100), 8) != kinds);
        // All single failures, and the default number of pairs.
        let counts: Vec<usize> =
            chosen([8, 8, 4], None, 7).iter().map(|(_, tried)| tried.len()).collect();
        assert_eq!(counts, [256, 768, DEFAULT_SAMPLES, DEFAULT_SAMPLES, DEFAULT_SAMPLES]);
    }
}
