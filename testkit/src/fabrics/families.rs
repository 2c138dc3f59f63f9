//! Switches, links and hosts of each family before damage.

use super::Family;
use super::draft::Draft;
use crate::torus::random::Random;

pub(super) fn draft(family: Family, random: &mut Random) -> Draft {
    match family {
        Family::FatTree2 => fat_tree_2(random),
        Family::FatTree3 => fat_tree_3(random),
        Family::Mesh => grid(random, 0),
        Family::Torus => grid(random, 80),
        Family::Hypercube => hypercube(random),
        Family::Irregular => irregular(random),
        Family::Dragonfly => dragonfly(random),
        Family::Lattice => lattice(random),
    }
}

fn fat_tree_2(random: &mut Random) -> Draft {
    let leaves = 2 + random.below(8);
    let spines = 1 + random.below(5);
    let mut draft = Draft::new(leaves + spines);
    let parallel = 1 + random.below(2);
    for leaf in 0..leaves {
        for spine in leaves..leaves + spines {
            draft.link(leaf, spine, parallel);
        }
    }
    draft.hosts(random, 0..leaves, 4);
    draft
}

fn fat_tree_3(random: &mut Random) -> Draft {
    let pods = 2 + random.below(3);
    let leaves = 1 + random.below(3);
    let aggregations = 1 + random.below(3);
    let cores_per_group = 1 + random.below(2);
    let pod = leaves + aggregations;
    let cores = aggregations * cores_per_group;
    let mut draft = Draft::new(pods * pod + cores);
    let mut all_leaves = Vec::new();
    for first in (0..pods).map(|index| index * pod) {
        for aggregation in 0..aggregations {
            for leaf in 0..leaves {
                draft.link(first + leaf, first + leaves + aggregation, 1 + random.below(6) / 5);
            }
            for core in 0..cores_per_group {
                let core = pods * pod + aggregation * cores_per_group + core;
                draft.link(first + leaves + aggregation, core, 1);
            }
        }
        all_leaves.extend(first..first + leaves);
    }
    draft.hosts(random, all_leaves, 4);
    draft
}

/// A grid; `looped` is the probability in percent that a dimension has wrap-around links.
fn grid(random: &mut Random, looped: usize) -> Draft {
    let sizes = loop {
        let sizes = [2 + random.below(4), 1 + random.below(5), 1 + random.below(3)];
        if (3..=40).contains(&sizes.iter().product::<usize>()) {
            break sizes;
        }
    };
    let rings = sizes.map(|size| size > 2 && random.percent(looped));
    let mut draft = Draft::new(sizes.iter().product());
    let parallel = 1 + random.below(8) / 7;
    for switch in 0..draft.switches() {
        let mut stride = 1;
        for (size, ring) in sizes.into_iter().zip(rings) {
            let place = switch / stride % size;
            if place + 1 < size {
                draft.link(switch, switch + stride, parallel);
            } else if ring {
                draft.link(switch, switch - place * stride, parallel);
            }
            stride *= size;
        }
    }
    draft.hosts(random, 0..draft.switches(), 2);
    draft
}

fn lattice(random: &mut Random) -> Draft {
    let (sizes, rings) = loop {
        let dimensions = 1 + random.below(5);
        let (sizes, rings): (Vec<usize>, Vec<bool>) =
            (0..dimensions).map(|_| (2 + random.below(8), random.percent(50))).unzip();
        if (3..=100).contains(&sizes.iter().product::<usize>()) {
            break (sizes, rings);
        }
    };
    let mut draft = Draft::new(sizes.iter().product());
    let parallel = 1 + random.below(4) / 3;
    for switch in 0..draft.switches() {
        let mut stride = 1;
        for (&size, &ring) in sizes.iter().zip(&rings) {
            let place = switch / stride % size;
            if place + 1 < size {
                draft.link(switch, switch + stride, parallel);
            } else if ring && size > 2 {
                draft.link(switch, switch - place * stride, 1);
            }
            stride *= size;
        }
    }
    draft.hosts(random, 0..draft.switches(), 2);
    draft
}

fn hypercube(random: &mut Random) -> Draft {
    let dimensions = 2 + random.below(4);
    let mut draft = Draft::new(1 << dimensions);
    for switch in 0..draft.switches() {
        for peer in (0..dimensions).map(|bit| switch ^ 1 << bit).filter(|&peer| peer > switch) {
            draft.link(switch, peer, 1);
        }
    }
    draft.hosts(random, 0..draft.switches(), 2);
    draft
}

fn irregular(random: &mut Random) -> Draft {
    let switches = 3 + random.below(22);
    let mut draft = Draft::new(switches);
    for switch in 1..switches {
        draft.link(random.below(switch), switch, 1 + random.below(4) / 3);
    }
    for _ in 0..random.below(switches * 2) {
        let from = random.below(switches);
        let to = random.below(switches);
        if from != to {
            draft.link(from, to, 1);
        }
    }
    draft.hosts(random, 0..switches, 3);
    draft
}

fn dragonfly(random: &mut Random) -> Draft {
    let groups = 3 + random.below(5);
    let size = 2 + random.below(4);
    let mut draft = Draft::new(groups * size);
    for group in 0..groups {
        for from in 0..size {
            for to in from + 1..size {
                draft.link(group * size + from, group * size + to, 1);
            }
        }
        for peer in group + 1..groups {
            let from = group * size + (peer - group - 1) % size;
            let to = peer * size + (groups - (peer - group) - 1) % size;
            draft.link(from, to, 1);
        }
    }
    draft.hosts(random, 0..draft.switches(), 2);
    draft
}
