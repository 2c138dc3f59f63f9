//! Fat Tree with roots, compute nodes and I/O nodes given or not, on damaged and uneven trees.

use super::{EngineCase, daemons};
use testkit::fabrics::{self, Family};
use testkit::torus::random::Random;
use torus_sm::fabric::topology::TopologyNode;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::NodeKind;

pub(super) const FAMILIES: [Family; 6] = [
    Family::FatTree2,
    Family::FatTree3,
    Family::FatTree2,
    Family::FatTree3,
    Family::Irregular,
    Family::FatTree3,
];

#[test]
fn ftree_equals_opensm() {
    super::compare("ftree", &FAMILIES, options, 30);
}

#[test]
fn ftree_runs_as_opensm() {
    daemons::compare("ftree", &FAMILIES, options, 1);
}

pub(super) fn options(case: &mut EngineCase, random: &mut Random) {
    // With another LMC, both programs only refuse.
    if random.percent(95) {
        case.set("lmc", 0);
    }
    for key in ["quasi_ftree_indexing", "connect_roots"] {
        if random.percent(30) {
            case.set(key, "TRUE");
        }
    }
    // Aggregation nodes make a leaf of each switch unless roots are given.
    let is_aggregation_node = |node: &TopologyNode| node.description == fabrics::AGGREGATION_NODE;
    let has_aggregation_nodes = case.topology.nodes.iter().any(is_aggregation_node);
    if random.percent(if has_aggregation_nodes { 95 } else { 60 }) {
        let roots = upper_switches(case);
        case.add_file("root_guid_file", lines(&roots));
    }
    let mut hosts = case.host_ports();
    random.shuffle(&mut hosts);
    if has_aggregation_nodes && random.percent(80) {
        // As the administrator of such a tree: the hosts compute, aggregation nodes do not.
        let nodes = case.topology.nodes.iter().filter(|node| !is_aggregation_node(node));
        let compute: Vec<Guid> = nodes
            .filter(|node| node.kind == NodeKind::Ca)
            .flat_map(|node| (1..=node.num_ports).map(|num| node.port_guid(PortNum(num))))
            .collect();
        case.add_file("cn_guid_file", lines(&compute));
    } else if random.percent(20) {
        let compute = hosts.len() - random.below(hosts.len().div_ceil(3));
        case.add_file("cn_guid_file", lines(&hosts[..compute]));
    }
    let mut io_nodes = Vec::new();
    if random.percent(30) {
        random.shuffle(&mut hosts);
        io_nodes.extend(&hosts[..1 + random.below(hosts.len().div_ceil(4))]);
    }
    if random.percent(30) {
        io_nodes.extend(attach_hosts(case, random));
    }
    if !io_nodes.is_empty() {
        case.add_file("io_guid_file", lines(&io_nodes));
        case.set("max_reverse_hops", random.below(4));
    }
}

/// Attaches a host to free ports of some switches. Returns the port GUIDs of the hosts.
fn attach_hosts(case: &mut EngineCase, random: &mut Random) -> Vec<Guid> {
    let mut added = Vec::new();
    for (switch, (_, ports)) in case.switches().into_iter().enumerate() {
        let is_used =
            |port| case.topology.cables.iter().flatten().any(|&end| end == (switch, port));
        let free = (1..=ports).map(PortNum).find(|&port| !is_used(port));
        let Some(port) = free.filter(|_| random.percent(30)) else { continue };
        let guid = Guid(0x0011_0000_0000_0000 | (random.below(1 << 20) as u64) << 24);
        let guid = Guid(guid.0 | (switch as u64) << 8);
        added.push(Guid(guid.0 + 1));
        let description = format!("I/O node {:x}", guid.0);
        fabrics::attach(&mut case.topology, &description, guid, (switch, port));
    }
    added
}

/// The switches without hosts and without a neighbour that is farther from all hosts; aggregation
/// nodes are no hosts.
fn upper_switches(case: &EngineCase) -> Vec<Guid> {
    let topology = &case.topology;
    let is_switch = |node: usize| node < case.switches().len();
    let mut heights = vec![usize::MAX; topology.nodes.len()];
    for (height, node) in heights.iter_mut().zip(&topology.nodes) {
        if node.kind == NodeKind::Ca && node.description != fabrics::AGGREGATION_NODE {
            *height = 0;
        }
    }
    for _ in 0..case.switches().len() {
        for &[(from, _), (to, _)] in &topology.cables {
            heights[from] = heights[from].min(heights[to].saturating_add(1));
            heights[to] = heights[to].min(heights[from].saturating_add(1));
        }
    }
    let is_root = |node: usize| {
        let ends = |&[(from, _), (to, _)]: &[(usize, _); 2]| [(from, to), (to, from)];
        let neighbours = topology.cables.iter().flat_map(ends);
        let mut above = neighbours
            .filter(|&(from, to)| from == node && is_switch(to) && heights[to] > heights[node]);
        is_switch(node) && heights[node] > 1 && above.next().is_none()
    };
    let roots = (0..topology.nodes.len()).filter(|&node| is_root(node));
    roots.map(|node| topology.nodes[node].guid).collect()
}

fn lines(guids: &[Guid]) -> String {
    guids.iter().map(|guid| format!("{:#x}\n", guid.0)).collect()
}
