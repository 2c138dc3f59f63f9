//! Fat Tree with roots, compute nodes and I/O nodes given or not, on damaged and uneven trees.

use super::EngineCase;
use testkit::fabrics::Family;
use testkit::torus::random::Random;
use torus_sm::fabric::topology::TopologyNode;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::NodeKind;

#[test]
fn ftree_equals_opensm() {
    let families = [
        Family::FatTree2,
        Family::FatTree3,
        Family::FatTree2,
        Family::FatTree3,
        Family::Irregular,
        Family::FatTree3,
    ];
    super::compare("ftree", &families, options, 30);
}

fn options(case: &mut EngineCase, random: &mut Random) {
    // With another LMC, both programs only refuse.
    if random.percent(95) {
        case.set("lmc", 0);
    }
    for key in ["quasi_ftree_indexing", "connect_roots"] {
        if random.percent(30) {
            case.set(key, "TRUE");
        }
    }
    if random.percent(60) {
        let roots = upper_switches(case);
        case.add_file("root_guid_file", lines(&roots));
    }
    let mut hosts = case.host_ports();
    random.shuffle(&mut hosts);
    if random.percent(20) {
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
        case.topology.cables.push([(case.topology.nodes.len(), PortNum(1)), (switch, port)]);
        case.topology.nodes.push(TopologyNode {
            model: Default::default(),
            kind: NodeKind::Ca,
            guid,
            system_guid: guid,
            description: format!("I/O node {:x}", guid.0),
            num_ports: 1,
            port_guids: Vec::new(),
            lids: Vec::new(),
        });
    }
    added
}

/// The switches without hosts and without a neighbour that is farther from all hosts.
fn upper_switches(case: &EngineCase) -> Vec<Guid> {
    let topology = &case.topology;
    let is_switch = |node: usize| node < case.switches().len();
    let mut heights = vec![usize::MAX; topology.nodes.len()];
    heights[case.switches().len()..].fill(0);
    for _ in 0..case.switches().len() {
        for &[(from, _), (to, _)] in &topology.cables {
            heights[from] = heights[from].min(heights[to].saturating_add(1));
            heights[to] = heights[to].min(heights[from].saturating_add(1));
        }
    }
    let is_root = |node: usize| {
        let ends = |&[(from, _), (to, _)]: &[(usize, _); 2]| [(from, to), (to, from)];
        let neighbours = topology.cables.iter().flat_map(ends);
        let mut above =
            neighbours.filter(|&(from, to)| from == node && heights[to] > heights[node]);
        is_switch(node) && heights[node] > 1 && above.next().is_none()
    };
    let roots = (0..topology.nodes.len()).filter(|&node| is_root(node));
    roots.map(|node| topology.nodes[node].guid).collect()
}

fn lines(guids: &[Guid]) -> String {
    guids.iter().map(|guid| format!("{:#x}\n", guid.0)).collect()
}
