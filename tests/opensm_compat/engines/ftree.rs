//! Fat Tree with roots, compute nodes and I/O nodes given or not, on damaged and uneven trees.

use super::EngineCase;
use testkit::fabrics::Family;
use testkit::torus::random::Random;
use torus_sm::ids::Guid;

#[test]
fn ftree_equals_opensm() {
    super::compare("ftree", &[Family::FatTree2, Family::FatTree3], options, 20);
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
    if random.percent(30) {
        random.shuffle(&mut hosts);
        case.add_file("io_guid_file", lines(&hosts[..1 + random.below(hosts.len().div_ceil(4))]));
        case.set("max_reverse_hops", random.below(4));
    }
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
