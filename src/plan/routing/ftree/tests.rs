//! Refusals, options and properties of Fat Tree's routes. The comparison with OpenSM is in the
//! integration tests.

use super::*;
use crate::fabric::PortId;
use crate::fabric::topology::{NextPorts, Topology, TopologyNode};
use crate::ids::{Guid, Lid, PortNum};
use crate::plan::routing::balancing::tests::{number, picture};
use crate::wire::attr::NodeKind;
use proptest::prelude::*;

/// Switches by number of links, and hosts by the numbers of their switches; ports are in the order
/// of links, then hosts. Switches have the GUIDs 0x100, 0x200 …, hosts 0x10000, 0x20000 ….
fn topology(switches: usize, links: &[(usize, usize)], hosts: &[usize]) -> Topology {
    let mut topology = Topology::default();
    for index in 0..switches {
        topology.nodes.push(node(NodeKind::Switch, 0x100 * (index as u64 + 1), 36));
    }
    for index in 0..hosts.len() {
        topology.nodes.push(node(NodeKind::Ca, 0x10000 * (index as u64 + 1), 1));
    }
    let mut ports = NextPorts::new(switches);
    for &(from, to) in links {
        topology.cables.push([ports.take(from), ports.take(to)]);
    }
    for (index, &switch) in hosts.iter().enumerate() {
        topology.cables.push([(switches + index, PortNum(1)), ports.take(switch)]);
    }
    topology
}

fn node(kind: NodeKind, guid: u64, num_ports: u8) -> TopologyNode {
    TopologyNode::new(kind, Guid(guid), num_ports).described(format!("N{guid:x}"))
}

/// Two spines (switches 0 and 1) above `leaves` leaves with two hosts each.
fn two_level(leaves: usize) -> Topology {
    let links: Vec<_> = (2..2 + leaves).flat_map(|leaf| [(leaf, 0), (leaf, 1)]).collect();
    let hosts: Vec<_> = (2..2 + leaves).flat_map(|leaf| [leaf, leaf]).collect();
    topology(2 + leaves, &links, &hosts)
}

fn try_route(topology: &Topology, options: &FtreeOptions<'_>) -> Result<Routing, String> {
    let fabric = picture(topology);
    let result = route(&fabric, &number(&fabric, 0), options);
    result.map_err(|notes| notes.last().expect("a reason").to_string())
}

fn refusal_of(topology: &Topology, options: &FtreeOptions<'_>) -> String {
    try_route(topology, options).expect_err("a refusal")
}

fn without_link(mut topology: Topology, link: usize) -> Topology {
    topology.cables.remove(link);
    topology
}

#[test]
fn refusals_name_the_reason() {
    let plain = FtreeOptions::default();
    let tree = two_level(3);
    assert_eq!(
        refusal_of(&tree, &FtreeOptions { lmc: 1, ..plain }),
        "LMC 1 is not supported by ftree; set lmc to 0"
    );
    assert_eq!(
        refused(&plain, &topology(1, &[], &[0, 0])),
        "the fabric has 1 switch and 2 other nodes; a fat tree has 2 of each at least"
    );
    assert_eq!(
        refused(&plain, &topology(2, &[(0, 1)], &[0, 1])),
        "ERR AB2B: every switch is a root; a fat tree has switches below the roots"
    );
    assert_eq!(
        refused(&plain, &topology(2, &[(0, 1)], &[0, 0])),
        "all compute nodes are at switch 0x0000000000000100 \"N100\" of rank 1; a fat tree has \
         two leaf switches at least"
    );
    // The second leaf lost its cable to spine 1.
    let uneven = without_link(tree.clone(), 3);
    assert_eq!(
        refused(&plain, &uneven),
        "ERR AB0A: the tree is uneven: switch 0x0000000000000200 \"N200\" of rank 0 (index 0.1) \
         has 2 downward port groups, but switch 0x0000000000000100 \"N100\" of rank 0 (index 0.0) \
         has 3 downward port groups; repair it, or name the root switches in root_guid_file to route \
         it as it is"
    );
    let roots = [Guid(0x100), Guid(0x200)];
    let given = FtreeOptions { roots: Some(&roots), has_root_file: true, ..plain };
    assert!(try_route(&uneven, &given).is_ok());
}

fn refused(plain: &FtreeOptions<'_>, topology: &Topology) -> String {
    refusal_of(topology, plain)
}

#[test]
fn hosts_without_a_common_root_have_no_route_or_strictly_are_refused() {
    // Leaf 2 has spine 0 only, leaf 3 spine 1 only; leaf 4 has both.
    let halves = topology(5, &[(2, 0), (3, 1), (4, 0), (4, 1)], &[2, 3, 4]);
    let roots = [Guid(0x100), Guid(0x200)];
    let given =
        FtreeOptions { roots: Some(&roots), has_root_file: true, ..FtreeOptions::default() };
    let fabric = picture(&halves);
    let lids = number(&fabric, 0);
    let ends = [host(&fabric, 0x10001), host(&fabric, 0x20001)];
    let routing = route(&fabric, &lids, &given).expect("routes");
    for [from, to] in [ends, [ends[1], ends[0]]] {
        let lft = routing.lft(fabric.switch_behind(from).expect("a switch"));
        assert_eq!(lft.out(lids.base(to).expect("a LID")), None);
    }
    assert_eq!(
        refusal_of(&halves, &FtreeOptions { refuses_gaps: true, ..given }),
        "no path up and down the tree leads from Channel Adapter 0x0000000000010000 \"N10000\"[1] \
         at switch 0x0000000000000300 \"N300\" of rank 1 to Channel Adapter \
         0x0000000000020000 \"N20000\"[1] (LID 7) at switch 0x0000000000000400 \"N400\" of rank \
         1"
    );
}

fn host(fabric: &Fabric, number: u64) -> PortId {
    fabric.port_by_guid(Guid(number)).expect("a host")
}

#[test]
fn files_are_needed_and_unknown_roots_are_noted() {
    let tree = two_level(2);
    let unreadable = FtreeOptions { has_compute_file: true, ..FtreeOptions::default() };
    assert_eq!(
        refusal_of(&tree, &unreadable),
        "ERR AB23: cn_guid_file cannot be read, or has no valid GUID"
    );
    let none = FtreeOptions { has_io_file: true, io_nodes: Some(&[]), ..FtreeOptions::default() };
    assert_eq!(
        refusal_of(&tree, &none),
        "ERR AB28: io_guid_file cannot be read, or has no valid GUID"
    );
    let roots = [Guid(0x999)];
    let options =
        FtreeOptions { roots: Some(&roots), has_root_file: true, ..FtreeOptions::default() };
    let notes = try_route(&tree, &options).expect("routes without the file").notes;
    let codes: Vec<_> = notes.iter().filter_map(|note| note.code).collect();
    assert_eq!(codes, ["AB24", "AB25"]);
}

#[test]
fn compute_nodes_are_at_one_rank() {
    // A host at spine 0, which is a leaf for that reason, and at the leaves below.
    let mut tree = two_level(2);
    let roots = [Guid(0x100), Guid(0x200)];
    tree.nodes.push(node(NodeKind::Ca, 0x50000, 1));
    tree.cables.push([(tree.nodes.len() - 1, PortNum(1)), (0, PortNum(30))]);
    let given =
        FtreeOptions { roots: Some(&roots), has_root_file: true, ..FtreeOptions::default() };
    assert_eq!(
        refusal_of(&tree, &given),
        "ERR AB26: compute node Channel Adapter 0x0000000000050000 \"N50000\"[1] is attached \
         to switch 0x0000000000000100 \"N100\" of rank 0, but leaf switches have rank 1"
    );
    let io = [Guid(0x50001)];
    let as_io = FtreeOptions { io_nodes: Some(&io), has_io_file: true, ..given };
    assert!(try_route(&tree, &as_io).is_ok());
}

#[test]
fn ca_order_has_dummies_for_missing_hosts() {
    let mut tree = two_level(3);
    tree.cables.pop(); // the last host
    let routing = try_route(&tree, &FtreeOptions::default()).expect("routes");
    let policy = routing.policy.as_any().downcast_ref::<FtreePolicy>().expect("its policy");
    assert_eq!(
        policy.dump(),
        "0x0006\tN10000\n0x0007\tN20000\n0x0008\tN30000\n0x0009\tN40000\n0x000a\tN50000\n\
         0xFFFF\tDUMMY\n"
    );
}

#[test]
fn roots_are_connected_on_request() {
    let tree = two_level(2);
    for connect_roots in [false, true] {
        let options = FtreeOptions { connect_roots, ..FtreeOptions::default() };
        let routing = try_route(&tree, &options).expect("routes");
        let is_noted = routing.notes.iter().any(|note| note.text.contains("connect_roots"));
        assert_eq!(routing.lfts[0].out(Lid(2)).is_some(), connect_roots);
        assert_eq!(is_noted, !connect_roots);
    }
}

#[test]
fn routes_of_a_regular_tree_are_balanced() {
    let tree = two_level(4);
    let routing = try_route(&tree, &FtreeOptions::default()).expect("routes");
    let fabric = picture(&tree);
    let lids = number(&fabric, 0);
    for leaf in (2..6).map(SwitchId) {
        let mut hosts = [0; 2];
        for (lid, port) in lids.iter().filter(|&(_, port)| !fabric.node_of(port).is_switch()) {
            if fabric.switch_behind(port) != Some(leaf) {
                hosts[usize::from(routing.lft(leaf).out(lid).expect("a route")) - 1] += 1;
            }
        }
        assert_eq!(hosts, [3, 3], "hosts behind the two cables of {leaf:?}");
    }
}

/// A tree of three levels in which some links and hosts are missing, and some siblings cabled.
fn damaged_tree() -> impl Strategy<Value = (Topology, Vec<Guid>)> {
    let sizes = (1usize..4, 2usize..5, 2usize..6);
    sizes.prop_flat_map(|(roots, middles, leaves)| {
        let first_middle = roots;
        let first_leaf = roots + middles;
        let upper = (0..roots)
            .flat_map(move |root| (first_middle..first_leaf).map(move |middle| (middle, root)));
        let lower = (first_middle..first_leaf).flat_map(move |middle| {
            (first_leaf..first_leaf + leaves).map(move |leaf| (leaf, middle))
        });
        let links: Vec<_> = upper.chain(lower).collect();
        let siblings = prop::collection::vec((0..leaves, 0..leaves), 0..2);
        let copies = prop::collection::vec(0usize..4, links.len());
        let hosts = prop::collection::vec(0..leaves, 2..12);
        (copies, siblings, hosts).prop_map(move |(copies, siblings, hosts)| {
            let copied = links.iter().zip(copies);
            let links = copied.flat_map(|(&link, copies)| std::iter::repeat_n(link, copies.min(2)));
            let siblings = siblings.into_iter().filter(|(from, to)| from != to);
            let siblings = siblings.map(|(from, to)| (first_leaf + from, first_leaf + to));
            let links: Vec<_> = links.chain(siblings).collect();
            let hosts: Vec<_> = hosts.into_iter().map(|host| first_leaf + host).collect();
            let guids = (1..=roots as u64).map(|index| Guid(0x100 * index)).collect();
            (topology(first_leaf + leaves, &links, &hosts), guids)
        })
    })
}

/// Follows the tables from a switch; `None` if the packet is lost.
fn path(
    fabric: &Fabric,
    routing: &Routing,
    from: SwitchId,
    lid: Lid,
    to: PortId,
) -> Option<Vec<SwitchId>> {
    let mut path = vec![from];
    while path.len() <= 64 {
        let here = *path.last()?;
        let out = routing.lft(here).out(lid)?;
        let port = fabric.switch_port(here, PortNum(out))?;
        let reached = if out == 0 { port } else { fabric.port(port).peer? };
        if reached == to {
            return Some(path);
        }
        path.push(fabric.node_of(reached).switch.filter(|_| out != 0)?);
    }
    None
}

proptest! {
    #[test]
    fn paths_end_at_their_destination_and_go_up_before_down(
        (topology, roots) in damaged_tree(),
        quasi_ftree_indexing in any::<bool>(),
        refuses_gaps in any::<bool>(),
    ) {
        let fabric = picture(&topology);
        let lids = number(&fabric, 0);
        let options = FtreeOptions {
            roots: Some(&roots),
            has_root_file: true,
            quasi_ftree_indexing,
            refuses_gaps,
            ..FtreeOptions::default()
        };
        let Ok(routing) = route(&fabric, &lids, &options) else { return Ok(()) };
        let graph = SwitchGraph::new(&fabric, &[]);
        // Roots that lost all links are not in the fabric.
        let nodes = roots.iter().filter_map(|&guid| fabric.node_by_guid(guid));
        let root_ids: Vec<_> = nodes.filter_map(|node| fabric.node(node).switch).collect();
        let ranks = TreeRanks::from_roots(&graph, &root_ids);
        for switch in fabric.switch_ids() {
            for (lid, port) in lids.iter().filter(|_| ranks.of(switch) != UNRANKED) {
                if routing.lft(switch).out(lid).is_none() {
                    let is_switch = fabric.node_of(port).is_switch();
                    let mut hosts = fabric.end_ports().filter(|&port| {
                        !fabric.node_of(port).is_switch() && fabric.switch_behind(port) == Some(switch)
                    });
                    let has_hosts = hosts.next().is_some();
                    prop_assert!(
                        !refuses_gaps || is_switch || !has_hosts,
                        "{:?} to LID {}", switch, lid
                    );
                    continue;
                }
                let path = path(&fabric, &routing, switch, lid, port);
                let path = path.expect("the destination");
                let turns_up = path.windows(3).any(|hops| {
                    let [before, top, after] = [0, 1, 2].map(|index| ranks.of(hops[index]));
                    before < top && top > after
                });
                prop_assert!(!turns_up, "from {:?} to LID {}: {:?}", switch, lid, path);
            }
        }
    }

    #[test]
    fn a_repaired_link_restores_the_tables(
        leaves in 2usize..6, lost in any::<prop::sample::Index>(),
    ) {
        let tree = two_level(leaves);
        let roots = [Guid(0x100), Guid(0x200)];
        let given =
            FtreeOptions { roots: Some(&roots), has_root_file: true, ..FtreeOptions::default() };
        let before = try_route(&tree, &given).expect("routes");
        let damaged = without_link(tree.clone(), lost.index(2 * leaves));
        // Without a cable, a leaf has one spine left and reaches all others.
        let between = try_route(&damaged, &given).expect("routes");
        prop_assert!(between.lfts != before.lfts);
        let after = try_route(&tree, &given).expect("routes");
        prop_assert_eq!(after.lfts, before.lfts);
    }
}
