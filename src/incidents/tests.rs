//! Pairs of swapped cables in random places: each is named with plugs whose exchange restores it.

use super::fact::{Cable, ExchangedCables};
use super::losses::Register;
use super::tree_levels;
use crate::fabric::synthetic::SyntheticView;
use crate::fabric::topology::Topology;
use crate::fabric::topology::TopologyNode;
use crate::fabric::{End, Fabric};
use crate::ids::{Guid, PortNum};
use crate::sim::generate::FabricShape;
use crate::wire::attr::NodeKind;
use std::collections::BTreeSet;

/// Random swaps of each fabric.
const SWAPS: u64 = 100;

fn snapshot(topology: &Topology) -> Fabric {
    let home = topology.nodes.iter().position(|node| node.kind == NodeKind::Ca).expect("a host");
    Fabric::from_topology(topology, home, &SyntheticView::default()).expect("a fabric")
}

/// A number below `limit` (Lehmer, Park and Miller, CACM 31(10), 1988).
fn random(state: &mut u64, limit: usize) -> usize {
    *state = (*state * 48_271) % 0x7FFF_FFFF;
    *state as usize % limit
}

/// Two random cables that fit. There must be such ones.
fn two_of(cables: &[usize], state: &mut u64, fit: impl Fn([usize; 2]) -> bool) -> [usize; 2] {
    loop {
        let pair = [0, 1].map(|_| cables[random(state, cables.len())]);
        if fit(pair) {
            return pair;
        }
    }
}

fn share_no_node(topology: &Topology, cables: [usize; 2]) -> bool {
    let [one, other] = cables.map(|cable| topology.cables[cable].map(|(node, _)| node));
    !one.iter().any(|node| other.contains(node))
}

fn end(topology: &Topology, (node, port): (usize, PortNum)) -> End {
    (topology.nodes[node].guid, port)
}

#[test]
fn swapped_cables_are_named_wherever_they_are() {
    for shape in ["6x6", "8x8x8", "fattree:18x9"] {
        let shape: FabricShape = shape.parse().expect("a shape");
        let whole = shape.build().expect("it fits");
        let before = snapshot(&whole);
        let cables = cables_between_switches(&whole);
        for seed in 1..=SWAPS {
            let mut state = seed * 7919;
            let [one, other] = two_of(&cables, &mut state, |pair| pair[0] != pair[1]);
            let mut swapped = whole.clone();
            (swapped.cables[one][1], swapped.cables[other][1]) =
                (whole.cables[other][1], whole.cables[one][1]);
            let after = snapshot(&swapped);
            let mut losses = Register::default();
            // Both cables are unplugged first, and plugged in one after the other.
            let mut unplugged = whole.clone();
            let mut number = 0..;
            unplugged.cables.retain(|_| {
                let number = number.next();
                number != Some(one) && number != Some(other)
            });
            let mut half = unplugged.clone();
            half.cables.push(swapped.cables[one]);
            let mut last = before.clone();
            for now in [snapshot(&unplugged), snapshot(&half), after] {
                losses.update(&last, &now);
                last = now;
            }
            let found = losses.exchanged(&last);
            assert_eq!(found.len(), 1, "{shape:?}, seed {seed}: {found:?}");
            assert_eq!(losses.cables().count(), 0, "{shape:?}, seed {seed}");
            let plugs: Vec<End> = found[0].plugs.iter().map(super::fact::CableEnd::end).collect();
            let exchanged = [0, 1].map(|side| {
                let mut ends = [one, other].map(|cable| end(&whole, whole.cables[cable][side]));
                ends.sort_unstable();
                ends.to_vec()
            });
            assert!(exchanged.contains(&plugs), "{shape:?}, seed {seed}: {found:?}");
            // Plugged in as before, there is nothing to tell.
            losses.update(&last, &before);
            assert_eq!((losses.exchanged(&before).len(), losses.cables().count()), (0, 0));
        }
    }
}

/// Indexes of the cables with a switch at both ends.
fn cables_between_switches(topology: &Topology) -> Vec<usize> {
    let cables = 0..topology.cables.len();
    let between = cables.filter(|&cable| {
        let mut ends = topology.cables[cable].iter();
        ends.all(|&(node, _)| topology.nodes[node].kind == NodeKind::Switch)
    });
    between.collect()
}

/// A fabric of which cables are swapped before the start, and how its links tell.
struct Swappable {
    shape: &'static str,
    swapped: fn(&Fabric) -> Option<ExchangedCables>,
    is_regular: fn(&Fabric) -> bool,
}

const GRID: Swappable = Swappable {
    shape: "6x6",
    swapped: super::grid_squares::swapped,
    is_regular: super::grid_squares::is_regular,
};
const CUBE: Swappable = Swappable { shape: "8x8x8", ..GRID };
const TREE: Swappable = Swappable {
    shape: "fattree:18x9",
    swapped: super::tree_links::swapped,
    is_regular: super::tree_links::is_regular,
};

/// Swaps cables in random places, of four different switches: those at one switch change places without
/// any effect on the links. Each exchange that is named must restore the fabric.
fn name_swaps(fabric: &Swappable) {
    let Swappable { shape, swapped: named, is_regular } = fabric;
    let whole = shape.parse::<FabricShape>().expect("a shape").build().expect("it fits");
    assert_eq!(named(&snapshot(&whole)), None, "{shape}");
    let cables = cables_between_switches(&whole);
    let mut missed = Vec::new();
    for seed in 1..=SWAPS {
        let mut state = seed * 7919;
        let [one, other] = two_of(&cables, &mut state, |pair| share_no_node(&whole, pair));
        let mut swapped = whole.clone();
        (swapped.cables[one][1], swapped.cables[other][1]) =
            (whole.cables[other][1], whole.cables[one][1]);
        let Some(exchanged) = named(&snapshot(&swapped)) else {
            let cables = [one, other].map(|cable| swapped.cables[cable]);
            missed.push((seed, cables.map(|ends| ends.map(|at| end(&swapped, at)))));
            continue;
        };
        // Some exchanges make another fabric of the same form.
        let repaired = snapshot(&with_exchange(&swapped, &exchanged));
        assert!(is_regular(&repaired), "{shape}, seed {seed}");
    }
    assert!(missed.is_empty(), "{shape}: {missed:?}");
}

#[test]
fn cables_that_were_swapped_before_the_start_are_named_from_the_links() {
    name_swaps(&GRID);
    name_swaps(&TREE);
    name_swaps(&CUBE);
}

/// Swaps cables between the same two levels of a tree of three, in random places.
#[test]
fn swapped_cables_between_levels_of_a_tree_are_named() {
    for shape in ["fattree:4x4x4x2", "fattree:6x4x2x4"] {
        let whole = shape.parse::<FabricShape>().expect("a shape").build().expect("it fits");
        assert_eq!(tree_levels::swapped(&snapshot(&whole)), None, "{shape}");
        let cables = cables_between_switches(&whole).into_iter();
        let (low, high): (Vec<usize>, Vec<usize>) = cables.partition(|at| {
            whole.cables[*at].iter().any(|end| has_host(&whole.cables, &whole.nodes, end.0))
        });
        for seed in 1..=SWAPS {
            let mut state = seed * 7919;
            let level = if seed % 2 == 0 { &low } else { &high };
            let pair = two_of(level, &mut state, |pair| share_no_node(&whole, pair));
            let mut swapped = whole.clone();
            (swapped.cables[pair[0]][1], swapped.cables[pair[1]][1]) =
                (whole.cables[pair[1]][1], whole.cables[pair[0]][1]);
            let found = tree_levels::swapped(&snapshot(&swapped));
            let found = found.unwrap_or_else(|| panic!("{shape}, seed {seed}: not named"));
            let repaired = snapshot(&with_exchange(&swapped, &found));
            // Some exchanges make another fabric of the same form.
            assert!(tree_levels::is_regular(&repaired), "{shape}, seed {seed}");
        }
    }
}

fn has_host(cables: &[[(usize, PortNum); 2]], nodes: &[TopologyNode], node: usize) -> bool {
    cables.iter().any(|ends| {
        ends.iter().any(|end| end.0 == node)
            && ends.iter().any(|end| nodes[end.0].kind == NodeKind::Ca)
    })
}

/// The topology after the exchange of two plugs.
fn with_exchange(topology: &Topology, exchanged: &ExchangedCables) -> Topology {
    let plugs = exchanged.plugs.each_ref().map(super::fact::CableEnd::end);
    let mut exchanged = topology.clone();
    for place in exchanged.cables.iter_mut().flatten() {
        if let Some(at) = plugs.iter().position(|&plug| plug == end(topology, *place)) {
            let (guid, port) = plugs[1 - at];
            let node = topology.nodes.iter().position(|node| node.guid == guid);
            *place = (node.expect("a node"), port);
        }
    }
    exchanged
}

/// A fabric has more cables than a register keeps.
#[test]
fn a_missing_cable_of_a_large_fabric_is_found() {
    let shape: FabricShape = "12x12x12".parse().expect("a shape");
    let whole = shape.build().expect("it fits");
    let expected: BTreeSet<[End; 2]> =
        whole.cables.iter().map(|&cable| sorted_ends(&whole, cable)).collect();
    let between_switches = cables_between_switches(&whole)
        .into_iter()
        .map(|cable| sorted_ends(&whole, whole.cables[cable]));
    let last = between_switches.max().expect("a cable");
    assert!(expected.range(..last).count() > 4096);
    let mut topology = whole.clone();
    topology.cables.retain(|&cable| sorted_ends(&whole, cable) != last);
    let missing = Register::of_expected(&expected, &snapshot(&topology));
    let found: Vec<[End; 2]> = missing.cables().map(Cable::key).collect();
    assert_eq!(found, [last]);
}

fn sorted_ends(topology: &Topology, cable: [(usize, PortNum); 2]) -> [End; 2] {
    let mut ends = cable.map(|at| end(topology, at));
    ends.sort_unstable();
    ends
}

/// The topology without some nodes, and without some of its cables.
fn without(topology: &Topology, nodes: &BTreeSet<usize>, cables: &BTreeSet<usize>) -> Topology {
    let mut part = Topology::default();
    let mut numbers = vec![None; topology.nodes.len()];
    for (number, node) in topology.nodes.iter().enumerate() {
        if !nodes.contains(&number) {
            numbers[number] = Some(part.nodes.len());
            part.nodes.push(node.clone());
        }
    }
    for (number, cable) in topology.cables.iter().enumerate() {
        if let [Some(one), Some(other)] = cable.map(|(node, _)| numbers[node])
            && !cables.contains(&number)
        {
            part.cables.push([(one, cable[0].1), (other, cable[1].1)]);
        }
    }
    part
}

/// Nodes and cables of one snapshot that another one lacks.
fn missing(whole: &Fabric, now: &Fabric) -> (BTreeSet<Guid>, BTreeSet<[End; 2]>) {
    (&guids(whole) - &guids(now), &cables(whole) - &cables(now))
}

fn cables(fabric: &Fabric) -> BTreeSet<[End; 2]> {
    let cables = fabric.port_ids().filter_map(|port| Cable::of(fabric, port));
    cables.map(|cable| cable.key()).collect()
}

fn guids(fabric: &Fabric) -> BTreeSet<Guid> {
    fabric.nodes().iter().map(crate::fabric::Node::guid).collect()
}

#[test]
fn losses_are_what_is_missing_after_each_change() {
    let whole = "4x4".parse::<FabricShape>().expect("a shape").build().expect("it fits");
    let home = whole.nodes.iter().position(|node| node.kind == NodeKind::Ca).expect("a host");
    let before = snapshot(&whole);
    let mut losses = Register::default();
    let mut last = before.clone();
    let mut state = 7919;
    let mut most = 0;
    for round in 0..200 {
        let mut nodes: BTreeSet<usize> =
            (0..round % 3).map(|_| random(&mut state, whole.nodes.len())).collect();
        nodes.remove(&home);
        let cables = (0..round % 5).map(|_| random(&mut state, whole.cables.len())).collect();
        let now = snapshot(&without(&whole, &nodes, &cables));
        losses.update(&last, &now);
        let (lost, unplugged) = missing(&before, &now);
        let known: BTreeSet<Guid> = losses.nodes().iter().map(|node| node.guid).collect();
        assert_eq!(known, lost, "round {round}");
        let known: BTreeSet<[End; 2]> = losses.cables().map(Cable::key).collect();
        assert_eq!(known, unplugged, "round {round}");
        most = most.max(lost.len());
        last = now;
    }
    assert!(most > 1, "{most} nodes");
}
