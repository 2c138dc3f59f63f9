//! Properties of the routes on any connected fabric. The comparison with OpenSM is in the
//! integration tests.

use super::*;
use crate::config::guid_lists::HopWeight;
use crate::fabric::ibnet;
use crate::fabric::synthetic::SyntheticView;
use crate::fabric::topology::{NextPorts, Topology, TopologyNode};
use crate::ids::{Guid, PortNum};
use crate::plan::routing::Engine;
use crate::plan::routing::minhop::MinHop;
use crate::wire::attr::NodeKind;
use proptest::prelude::*;
use std::collections::HashSet;
use std::hash::Hash;
use std::path::Path;

/// Number of ports of a switch in [`wiring`].
const PORTS: u8 = 16;

/// A strategy for connected fabrics: each switch but the first is linked to an earlier one; then
/// further links and hosts are added. Cables without a free port are dropped.
pub(in crate::plan) fn wiring() -> impl Strategy<Value = Topology> {
    (2usize..10).prop_flat_map(|switches| {
        let parents = prop::collection::vec(any::<prop::sample::Index>(), switches - 1);
        let chords = prop::collection::vec((0..switches, 0..switches), 0..14);
        let hosts = prop::collection::vec(0..switches, 2..12);
        (parents, chords, hosts).prop_map(move |(parents, chords, hosts)| {
            let tree = parents.iter().zip(1..).map(|(parent, child)| (child, parent.index(child)));
            build(switches, tree.chain(chords), &hosts)
        })
    })
}

fn build(
    switches: usize,
    cables: impl Iterator<Item = (usize, usize)>,
    hosts: &[usize],
) -> Topology {
    let mut topology = Topology::default();
    let mut ports = NextPorts::new(switches);
    for index in 0..switches as u64 {
        topology.nodes.push(node(NodeKind::Switch, 0x100 + index * 0x3001, PORTS));
    }
    for (from, to) in cables.filter(|(from, to)| from != to) {
        if let (Some(from), Some(to)) = (next_free(&mut ports, from), next_free(&mut ports, to)) {
            topology.cables.push([from, to]);
        }
    }
    for (index, &switch) in hosts.iter().enumerate() {
        let Some(end) = next_free(&mut ports, switch) else { continue };
        topology.cables.push([(topology.nodes.len(), PortNum(1)), end]);
        topology.nodes.push(node(NodeKind::Ca, 0xA0000 + index as u64 * 16, 1));
    }
    topology
}

fn next_free(ports: &mut NextPorts, switch: usize) -> Option<(usize, PortNum)> {
    Some(ports.take(switch)).filter(|(_, num)| num.0 <= PORTS)
}

fn node(kind: NodeKind, guid: u64, num_ports: u8) -> TopologyNode {
    TopologyNode::new(kind, Guid(guid), num_ports)
}

pub(in crate::plan) fn picture(topology: &Topology) -> Fabric {
    Fabric::from_topology(topology, 0, &SyntheticView::default()).expect("a first node")
}

/// True if the pairs, as edges of a graph, have no cycle.
pub(in crate::plan) fn is_acyclic<C: Copy + Eq + Hash>(mut edges: HashSet<[C; 2]>) -> bool {
    loop {
        let before = edges.len();
        let heads: HashSet<C> = edges.iter().map(|&[_, head]| head).collect();
        edges.retain(|[tail, _]| heads.contains(tail));
        if edges.len() == before {
            return edges.is_empty();
        }
    }
}

/// A ring of switches with one host each.
pub(in crate::plan) fn ring(switches: u64) -> Fabric {
    let mut text = String::new();
    for index in 0..switches {
        let next = (index + 1) % switches;
        let last = (index + switches - 1) % switches;
        text += &format!("Switch 3 \"S-{:016x}\"\n", 0x100 + index);
        text += &format!("[1] \"S-{:016x}\"[2]\n", 0x100 + next);
        text += &format!("[2] \"S-{:016x}\"[1]\n", 0x100 + last);
        text += &format!("[3] \"H-{:016x}\"[1]\n\n", 0x1000 + index * 16);
    }
    for index in 0..switches {
        text += &format!("Ca 1 \"H-{:016x}\"\n", 0x1000 + index * 16);
        text += &format!("[1] \"S-{:016x}\"[3]\n\n", 0x100 + index);
    }
    let topology = ibnet::parse(Path::new("ring"), &text).expect("a ring");
    picture(&topology)
}

/// Assigns LIDs in the order of end ports.
pub(in crate::plan) fn number(fabric: &Fabric, lmc: u8) -> LidTable {
    let mut lids = LidTable::new(fabric.ports().len());
    let mut next = 1 << lmc;
    for port in fabric.end_ports() {
        lids.assign(port, Lid(next), if fabric.node_of(port).is_switch() { 0 } else { lmc });
        next += 1 << lmc;
    }
    lids
}

/// Follows the tables from a switch. Returns the number of switches passed; `None` if the packet is
/// lost.
fn walk(
    fabric: &Fabric,
    routing: &Routing,
    mut here: SwitchId,
    lid: Lid,
    target: PortId,
) -> Option<u8> {
    for passed in 0..u8::MAX {
        let out = routing.lft(here).out(lid)?;
        let port = fabric.switch_port(here, PortNum(out))?;
        let reached = if out == 0 { port } else { fabric.port(port).peer? };
        if reached == target {
            return Some(passed);
        }
        here = fabric.node_of(reached).switch.filter(|_| out != 0)?;
    }
    None
}

fn option_sets() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>(), 0u32..3).prop_map(|(switches, shifting, seed)| Options {
        port_profile_switch_nodes: switches,
        port_shifting: shifting,
        scatter_ports: seed,
        ..Options::default()
    })
}

fn route(
    fabric: &Fabric,
    lids: &LidTable,
    options: &Options,
    previous: Option<&Routing>,
) -> Routing {
    let input = RoutingInput {
        fabric,
        lids,
        options,
        torus_config: &Err(Vec::new()),
        previous,
        previous_fabric: None,
    };
    MinHop::default().route(&input).expect("Min Hop never refuses")
}

proptest! {
    #[test]
    fn every_lid_is_reached_over_a_shortest_path(
        topology in wiring(), tuning in option_sets(), lmc in 0u8..3,
    ) {
        let fabric = picture(&topology);
        let lids = number(&fabric, lmc);
        let routing = route(&fabric, &lids, &tuning, None);
        prop_assert!(routing.notes.is_empty(), "{:?}", routing.notes);
        let graph = SwitchGraph::new(&fabric, &[]);
        let hops = HopMatrix::new(&graph);
        for switch in fabric.switch_ids() {
            for (lid, port) in lids.iter() {
                let end = fabric.switch_behind(port).expect("a switch");
                let passed = walk(&fabric, &routing, switch, lid, port);
                prop_assert_eq!(passed, Some(hops.row(switch)[end.index()]));
            }
        }
    }

    #[test]
    fn a_lost_cable_moves_only_its_own_routes_and_its_return_restores_all(
        topology in wiring(), lost in any::<prop::sample::Index>(),
    ) {
        let options = Options::default();
        let lids = number(&picture(&topology), 0);
        let before = route(&picture(&topology), &lids, &options, None);
        let mut cut = topology.clone();
        cut.cables.remove(lost.index(cut.cables.len()));
        let old = picture(&topology);
        let new = picture(&cut);
        // The LID table is indexed by port slot, which is stable as long as no node disappears.
        prop_assume!(new.nodes().len() == old.nodes().len());
        let graph = SwitchGraph::new(&new, &[]);
        let hops = HopMatrix::new(&graph);
        let after = route(&new, &lids, &options, Some(&before));
        for (switch, (lid, end)) in
            new.switch_ids().flat_map(|switch| lids.iter().map(move |entry| (switch, entry)))
        {
            let out = before.lft(switch).out(lid).expect("a path");
            let Some(target) = new.switch_behind(end).filter(|&target| target != switch) else {
                continue;
            };
            let port = new.switch_port(switch, PortNum(out)).expect("a port");
            let next = new.port(port).peer.and_then(|peer| new.node_of(peer).switch);
            let target = target.index();
            if next.is_some_and(|next| hops.row(next)[target] + 1 == hops.row(switch)[target]) {
                prop_assert_eq!(after.lft(switch).out(lid), Some(out));
            }
        }
        let again = route(&old, &lids, &options, Some(&after));
        prop_assert_eq!(again.lfts, before.lfts);
    }
}

#[test]
fn weights_cause_detours_and_paths_over_254_hops_are_ignored() {
    // In a triangle, the direct cable costs more than the detour.
    let topology = build(3, [(0, 1), (1, 2), (0, 2)].into_iter(), &[0, 1, 2]);
    let fabric = picture(&topology);
    let ids: Vec<_> = topology.nodes[..3]
        .iter()
        .map(|node| fabric.node(fabric.node_by_guid(node.guid).expect("known")).switch)
        .map(|switch| switch.expect("a switch"))
        .collect();
    assert_eq!(hops(&fabric, &topology.nodes, 1, ids[0], ids[1]), 1);
    assert_eq!(hops(&fabric, &topology.nodes, 9, ids[0], ids[1]), 2);
    assert_eq!(hops(&fabric, &topology.nodes, 9, ids[1], ids[0]), 1, "weights count one way only");
}

fn hops(fabric: &Fabric, nodes: &[TopologyNode], weight: u8, from: SwitchId, to: SwitchId) -> u8 {
    HopMatrix::new(&weigh(fabric, nodes, weight)).row(from)[to.index()]
}

fn weigh(fabric: &Fabric, nodes: &[TopologyNode], weight: u8) -> SwitchGraph {
    let entry = HopWeight { switch: nodes[0].guid, port: PortNum(1), weight };
    SwitchGraph::new(fabric, &[entry])
}

#[test]
fn ports_without_lid_and_unreachable_switches_are_noted() {
    let topology = build(2, [(0, 1)].into_iter(), &[0, 1]);
    let fabric = picture(&topology);
    let mut lids = LidTable::new(fabric.ports().len());
    let host = fabric.end_ports().last().expect("a host");
    lids.assign(host, Lid(7), 0);
    let routing = route(&fabric, &lids, &Options::default(), None);
    let [note] = &routing.notes[..] else { panic!("one line for all ports: {:?}", routing.notes) };
    assert_eq!(note.code, Some("3A04"));
    let expected = "3 ports have no LID and are not routed, the first is Switch 0x";
    assert!(note.text.starts_with(expected), "{note}");
    lids.assign(fabric.end_ports().next().expect("a switch"), Lid(8), 0);
    lids.assign(fabric.end_ports().nth(1).expect("a switch"), Lid(9), 0);
    let routing = route(&fabric, &lids, &Options::default(), None);
    assert!(routing.notes.iter().all(single) && routing.notes.len() == 1, "{:?}", routing.notes);
}

fn single(note: &Note) -> bool {
    note.text.ends_with(" has no LID and is not routed")
}
