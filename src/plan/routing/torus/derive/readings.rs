//! From factors to at most three dimensions: which factors of two are rings of four in pairs,
//! and what the axes are called.
//!
//! A ring of four is the product of two edges, so that a 4x2 torus and a 2x2x2 mesh are the
//! same graph, and a 4x4 torus has three pairs of rings to choose from. Preferred are few
//! dimensions, as rings survive the loss of a cable and radix 2 does not; between pairings of the
//! same shape, the one in which port numbers tell directions best, since people cable by rule.

use super::graph::Graph;
use super::layers::Line;
use super::map::Map;
use crate::config::torus::TorusSize;
use crate::fabric::SwitchId;
use crate::plan::routing::torus::wiring::Wiring;
use std::cmp::Reverse;

/// The map that is preferred, and the other shapes that explain as many cables.
pub struct Readings {
    /// The map.
    pub map: Map,
    /// Other shapes, axes in descending order of radix.
    pub alternatives: Vec<TorusSize>,
}

/// What makes a reading better, most important first.
type Merit = (usize, bool, Reverse<usize>, u64);

/// Reads factors as a torus. `None` if they make more than three dimensions in any way.
pub fn read(graph: &Graph, wiring: &Wiring, factors: Vec<Line>) -> Option<Readings> {
    let (twos, others): (Vec<Line>, Vec<Line>) =
        factors.into_iter().partition(|line| line.radix == 2);
    let mut best: Option<(Merit, Map)> = None;
    let mut shapes: Vec<(usize, bool, TorusSize)> = Vec::new();
    for pairing in pairings(twos.len(), others.len()) {
        let mut lines = others.clone();
        lines.extend(pairing.iter().map(|&(a, b)| match b {
            Some(b) => ring_of_four(&twos[a], &twos[b]),
            None => twos[a].clone(),
        }));
        let dimensions = lines.len();
        let Some(map) = Map::new(&lines, graph.len()).and_then(|map| map.with_axes(order(&map)))
        else {
            continue;
        };
        // The engine finds no fourth switch of a single ring.
        let is_single_ring = dimensions == 1 && map.lattice.radix(0) > 3;
        let explained = map.explained(graph);
        let merit = (explained, !is_single_ring, Reverse(dimensions), port_agreement(&map, wiring));
        let size = TorusSize {
            radix: map.lattice.radices(),
            looped: [0, 1, 2].map(|axis| map.lattice.is_looped(axis)),
        };
        shapes.push((explained, is_single_ring, size));
        if best.as_ref().is_none_or(|(most, _)| merit > *most) {
            best = Some((merit, map));
        }
    }
    let ((most, ..), map) = best?;
    let own = map.lattice.radices();
    let mut alternatives: Vec<TorusSize> = Vec::new();
    for (explained, is_single_ring, size) in shapes {
        let is_new = size.radix != own && !alternatives.contains(&size);
        if explained == most && is_new && !is_single_ring {
            alternatives.push(size);
        }
    }
    Some(Readings { map, alternatives })
}

/// All ways to leave factors of two alone or pair them, so that with `others` there are at most
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

/// The ring whose coordinate goes round the square of two factors of two.
fn ring_of_four(a: &Line, b: &Line) -> Line {
    let round = |(a, b): (&Option<u32>, &Option<u32>)| match (a, b) {
        (Some(0), Some(0)) => Some(0),
        (Some(_), Some(0)) => Some(1),
        (Some(0), Some(_)) => Some(3),
        (Some(_), Some(_)) => Some(2),
        _ => None,
    };
    Line { at: a.at.iter().zip(&b.at).map(round).collect(), radix: 4, is_looped: true }
}

/// Axes in descending order of radix, rings before lines. Where several switches are missing in
/// a line, that line becomes z, since only there can the engine route around more than one.
fn order(map: &Map) -> [usize; 3] {
    let lattice = &map.lattice;
    let mut axes = [0, 1, 2];
    axes.sort_by_key(|&axis| (Reverse(lattice.radix(axis)), !lattice.is_looped(axis), axis));
    let missing: Vec<_> = map.missing().map(|at| lattice.coordinates(at).0).collect();
    let varies = |axis: usize| missing.iter().any(|at| at[axis] != missing[0][axis]);
    let line: Vec<usize> = (0..3).filter(|&axis| varies(axis)).collect();
    if let [along] = line[..] {
        let others: Vec<usize> = axes.into_iter().filter(|&axis| axis != along).collect();
        axes = [others[0], others[1], along];
    }
    axes
}

/// How well port numbers tell directions: for each port number, the cables in the direction in
/// which most of its cables lead.
fn port_agreement(map: &Map, wiring: &Wiring) -> u64 {
    let mut counts = vec![[0u64; 6]; 256];
    for from in 0..map.positions.len() as u32 {
        for link in wiring.links(SwitchId(from)) {
            if let Some(direction) = map.direction([from, link.peer.0]) {
                counts[usize::from(link.port)][direction.index()] += 1;
            }
        }
    }
    counts.iter().filter_map(|by_direction| by_direction.iter().max()).sum()
}
