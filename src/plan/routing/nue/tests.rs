//! The parts of Nue by themselves, on random fabrics. The comparison with OpenSM is in the
//! integration tests.

use super::*;
use crate::plan::LidTable;
use crate::plan::routing::balancing::tests::{number, picture, ring, wiring};
use crate::plan::routing::weighted_paths::search::Root as SearchRoot;
use colors::{BLOCKED, ESCAPE, UNUSED};
use order::ChannelOrder;
use proptest::prelude::*;
use std::sync::atomic::AtomicBool;

fn network(fabric: &Fabric) -> Network {
    Network::new(fabric, false, |switch| u64::from(switch.0))
}

/// True if channels in use have a cycle: not all can be removed one by one when no edge in use
/// leads to them any more.
fn has_cycle(graph: &Channels<'_>, is_used: impl Fn(u32) -> bool) -> bool {
    let mut left: Vec<u32> = (0..graph.len() as u32).collect();
    loop {
        let before = left.len();
        left = left
            .iter()
            .copied()
            .filter(|&channel| {
                let mut edges = graph.edges_to(channel).iter();
                edges.any(|&(edge, from)| is_used(edge) && left.contains(&from))
            })
            .collect();
        if left.len() == before {
            return before > 0;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn edges_lead_to_all_links_but_the_way_back(topology in wiring()) {
        let fabric = picture(&topology);
        let network = network(&fabric);
        let graph = Channels::new(&network);
        let mut edges = 0;
        for from in 0..graph.len() as u32 {
            let link = graph.link(from);
            let end = match link {
                NONE => (0..network.len() as u32).find(|&at| graph.source(at) == from),
                link => Some(graph.link_end(link)),
            };
            for to in 0..graph.len() as u32 {
                let next = graph.link(to);
                let follows = next != NONE
                    && Some(network.links()[next as usize].from) == end
                    && (link == NONE || graph.reverse(link) != Some(next));
                let edge = graph.edge(from, to);
                prop_assert_eq!(edge.is_some(), follows, "from {} to {}", from, to);
                if let Some(edge) = edge {
                    prop_assert_eq!(graph.end(edge), to);
                    prop_assert!(graph.edges(from).contains(&edge));
                    prop_assert!(graph.edges_to(to).contains(&(edge, from)));
                    edges += 1;
                }
            }
        }
        prop_assert_eq!(edges + graph.ways_back().count(), graph.edge_count());
    }

    /// The order admits an edge if, and only if, it closes no cycle; edges may go out of use. With
    /// narrow gaps, and with places near the ends of their range, channels often get new places.
    #[test]
    fn the_order_admits_edges_that_close_no_cycle(
        topology in wiring(),
        tries in prop::collection::vec((any::<prop::sample::Index>(), 0..5_u8), 1..120),
        spacing in prop::sample::select(vec![1, 2, 1 << 32, 1 << 53]),
    ) {
        let fabric = picture(&topology);
        let network = network(&fabric);
        let graph = Channels::new(&network);
        let ends: Vec<(u32, u32)> = (0..graph.len() as u32)
            .flat_map(|from| graph.edges(from).map(move |edge| (from, edge)))
            .filter(|&(from, edge)| graph.edge(from, graph.end(edge)).is_some())
            .collect();
        prop_assume!(!ends.is_empty());
        let mut used = vec![false; graph.edge_count()];
        let order = ChannelOrder::with_spacing(&graph, |edge| used[edge as usize], spacing);
        let mut order = order.expect("no cycle");
        for (index, action) in tries {
            let (from, edge) = ends[index.index(ends.len())];
            if action == 0 {
                used[edge as usize] = false;
                continue;
            }
            let admitted = order.admit(&graph, from, graph.end(edge), |edge| used[edge as usize]);
            let closes_cycle = has_cycle(&graph, |other| other == edge || used[other as usize]);
            prop_assert_eq!(admitted.is_err(), closes_cycle);
            used[edge as usize] |= admitted.is_ok();
        }
        prop_assert!(ChannelOrder::new(&graph, |edge| used[edge as usize]).is_some());
        let back: Vec<u32> = graph.ways_back().collect();
        let all = |edge: u32| !back.contains(&edge);
        prop_assert!(ChannelOrder::new(&graph, all).is_some() != has_cycle(&graph, all));
    }

    /// Escape paths lead from all switches to all others without a cycle of dependencies.
    #[test]
    fn escape_paths_span_the_network(topology in wiring()) {
        let fabric = picture(&topology);
        let network = network(&fabric);
        let graph = Channels::new(&network);
        let mut colors = Colors::new(&graph);
        let targets = escape::Targets {
            has_destinations: vec![true; network.len()],
            hosts: vec![1; network.len()],
        };
        let lengths = vec![1; network.links().len()];
        let center = escape::centers(&network, [&targets])[0];
        let tree = escape::mark(&graph, &mut colors, &targets, center, &lengths);
        prop_assert!(!has_cycle(&graph, |edge| colors.edge(edge) == ESCAPE));
        for root in 0..network.len() as u32 {
            let mut turned = tree.clone();
            let old_root = (0..).find(|&at| tree[at as usize] == NONE).expect("a root");
            search::turn_tree(&graph, &mut turned, root);
            prop_assert_eq!(turned[root as usize], NONE);
            prop_assert!(root == old_root || turned[old_root as usize] != NONE);
            for switch in 0..network.len() as u32 {
                let path = path_to_root(&network, &turned, switch, root);
                prop_assert!(path.is_some(), "{} does not reach {}", switch, root);
                for pair in path.iter().flat_map(|path| path.windows(2)) {
                    let edge = graph.edge(graph.of_link(pair[1]), graph.of_link(pair[0]));
                    prop_assert!(edge.is_some_and(|edge| colors.edge(edge) == ESCAPE));
                }
            }
        }
    }

    /// Searches for all switches, in turn, find paths whose dependencies together have no cycle.
    #[test]
    fn searches_find_paths_without_cycles(topology in wiring(), order in any::<[u8; 10]>()) {
        let fabric = picture(&topology);
        let lids = number(&fabric, 0);
        with_setup(&fabric, &lids, |setup| {
            let mut routes = setup.without_paths();
            let (mut colors, escape) = setup.escape_from(setup.layers[0].center, &routes.dependencies[0], &routes.lengths);
            let mut search = NueSearch::new(setup.graph, setup.one_hop);
            search.backtracking.keep_dependencies = true;
            let mut roots: Vec<u32> = (0..setup.graph.network.len() as u32).collect();
            roots.sort_by_key(|&root| order[root as usize % order.len()]);
            for root in roots {
                let color = colors.new_color();
                let mut layer = NueLayer {
                    colors: &mut colors,
                    color,
                    lengths: &routes.lengths,
                    escape: &escape,
                    dependencies: &mut routes.dependencies[0],
                };
                search.run(&mut layer, root, true);
                for switch in 0..setup.graph.network.len() as u32 {
                    let path = path_to_root(setup.graph.network, &search.used, switch, root);
                    assert!(path.is_some(), "{switch} does not reach {root}");
                }
                let dependencies = &routes.dependencies[0];
                assert!(!has_cycle(setup.graph, |edge| dependencies[edge as usize]));
            }
        });
    }

    /// Links get longer by all paths over them, also if these were changed after the order was made.
    #[test]
    fn links_get_longer_by_all_paths(
        topology in wiring(),
        changed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let fabric = picture(&topology);
        let lids = number(&fabric, 0);
        with_setup(&fabric, &lids, |setup| {
            let network = setup.graph.network;
            let first = setup.first_lengths();
            let mut search = SimpleSearch::default();
            search.run(network, &first, SearchRoot::Switch(0));
            let mut used = search.used.clone();
            for index in changed {
                let link = index.index(network.links().len().max(1));
                if let Some(link) = network.links().get(link).filter(|link| link.to != 0) {
                    used[link.to as usize] = network.link_at(link.from, link.port).unwrap_or(NONE);
                }
            }
            let [mut lengths, mut expected] = [first.clone(), first];
            setup.lengthen(&mut lengths, &used, search.order.iter().copied());
            setup.lengthen_one_by_one(&mut expected, &used);
            assert_eq!(lengths, expected);
        });
    }

    /// The edges on which paths depend are those that the forwarding tables have.
    #[test]
    fn dependencies_are_those_of_the_tables(
        topology in wiring(),
        include_switches in any::<bool>(),
        layers in 1u8..4,
    ) {
        let fabric = picture(&topology);
        let lids = number(&fabric, 0);
        with_setup(&fabric, &lids, |setup| {
            let hosts = targets::layers(setup.targets, layers, include_switches);
            let hosts = HostLayer::all(setup.graph.network, hosts);
            let setup = Setup { include_switches, layers: hosts, ..setup };
            assert_dependencies(&setup, setup.routes());
            if !include_switches {
                // As if OpenSM's routes to switches had a loop, and those to hosts, too.
                let of_hosts = setup.hosts(Rules::default(), layers.into());
                let mut protected = of_hosts.clone();
                if setup.protect_switches(&mut protected, &AtomicBool::new(true)) {
                    assert_dependencies(&setup, protected);
                }
                assert_dependencies(&setup, setup.with_reserve(of_hosts));
            }
        });
    }
}

/// Checks that routes have a path to each LID, that no layer has a cycle, and that the dependencies
/// are those of the tables.
fn assert_dependencies(setup: &Setup<'_>, mut routes: NueRoutes) {
    routes.columns.flush(&mut routes.tables);
    let graph = setup.graph;
    let network = setup.graph.network;
    let mut expected = vec![vec![false; graph.edge_count()]; setup.layers.len()];
    for lid in setup.targets.iter().flat_map(|target| target.lids()) {
        let of_layer = &mut expected[usize::from(routes.by_lid[lid.index()])];
        for switch in 0..network.len() as u32 {
            let Some(link) = output(&routes.tables, network, switch, lid) else { continue };
            let Some(next) = output(&routes.tables, network, graph.link_end(link), lid) else {
                continue;
            };
            let edge = graph.edge(back(graph, next), back(graph, link)).expect("no way back");
            of_layer[edge as usize] = true;
        }
    }
    let source_edges: Vec<u32> =
        (0..network.len() as u32).flat_map(|at| graph.edges(graph.source(at))).collect();
    for (found, expected) in routes.dependencies.iter().zip(&expected) {
        let mut found = found.clone();
        source_edges.iter().for_each(|&edge| found[edge as usize] = false);
        assert_eq!(&found, expected);
    }
    assert!(!setup.has_loop(&routes.dependencies));
}

fn back(graph: &Channels<'_>, link: u32) -> u32 {
    graph.of_link(graph.reverse(link).expect("a cable"))
}

fn output(tables: &[Vec<u8>], network: &Network, switch: u32, lid: Lid) -> Option<u32> {
    let port = tables[switch as usize][lid.index()];
    assert_ne!(port, LFT_NO_PATH, "{switch} has no path to LID {lid}");
    network.link_at(switch, port)
}

/// The links from a root to a switch, last one first; `None` if the switch does not reach it.
fn path_to_root(network: &Network, tree: &[u32], switch: u32, root: u32) -> Option<Vec<u32>> {
    let mut at = switch;
    let mut path = Vec::new();
    while at != root {
        let &link = network.links().get(tree[at as usize] as usize)?;
        path.push(tree[at as usize]);
        at = link.from;
        if path.len() > network.len() {
            return None;
        }
    }
    Some(path)
}

/// Runs a function on the input of the algorithm, with a single layer.
fn with_setup(fabric: &Fabric, lids: &LidTable, run: impl FnOnce(Setup<'_>)) {
    let network = network(fabric);
    let graph = Channels::new(&network);
    let targets = targets::targets(fabric, lids, &network);
    let hosts = targets::layers(&targets, 1, false);
    run(Setup {
        graph: &graph,
        targets: &targets,
        layers: HostLayer::all(&network, hosts),
        include_switches: false,
        one_hop: one_hop(fabric, lids),
        table_size: Lft::empty(lids.max()).len(),
        lids_by_switch: lids_by_switch(&network, &targets),
    });
}

/// The edges around a ring in one direction, as (channel, edge).
fn edges_around(graph: &Channels<'_>, switches: u32) -> Vec<(u32, u32)> {
    let links = graph.network.links();
    let around: Vec<u32> = (0..links.len() as u32)
        .filter(|&link| {
            let link = links[link as usize];
            link.to == (link.from + 1) % switches
        })
        .map(|link| graph.of_link(link))
        .collect();
    let next = around.iter().cycle().skip(1);
    around
        .iter()
        .zip(next)
        .map(|(&from, &to)| (from, graph.edge(from, to).expect("an edge")))
        .collect()
}

#[test]
fn the_last_edge_around_a_ring_is_blocked() {
    let fabric = ring(5);
    let network = network(&fabric);
    let graph = Channels::new(&network);
    for is_ordered in [true, false] {
        let mut colors = Colors::new(&graph);
        if is_ordered {
            colors.order_channels(&graph);
        }
        let edges = edges_around(&graph, 5);
        let color = colors.new_color();
        colors.begin(graph.source(0), color);
        let source = graph.source(0);
        let first = graph.edge(source, edges[0].0).expect("an edge");
        assert!(colors.use_edge(&graph, source, first, color));
        for &(from, edge) in &edges[..4] {
            assert!(colors.use_edge(&graph, from, edge, color), "nothing leads back yet");
        }
        let (from, last) = edges[4];
        assert!(!colors.use_edge(&graph, from, last, color), "it closes the ring");
        assert_eq!(colors.edge(last), BLOCKED);
        colors.dry(edges[1].0, Some(edges[0].1));
        colors.settle();
        assert_eq!(colors.edge(edges[0].1), color, "a path uses it");
        assert_eq!(colors.edge(edges[1].1), UNUSED, "no path uses it");
        assert_eq!(colors.edge(last), BLOCKED, "blocked edges stay so");
    }
}

#[test]
fn a_search_takes_over_the_colors_that_it_meets() {
    let fabric = ring(4);
    let network = network(&fabric);
    let graph = Channels::new(&network);
    let mut colors = Colors::new(&graph);
    colors.order_channels(&graph);
    let edges = edges_around(&graph, 4);
    let old = colors.new_color();
    let start = graph.source(1);
    colors.begin(start, old);
    let entry = graph.edge(start, edges[1].0).expect("an edge");
    assert!(colors.use_edge(&graph, start, entry, old));
    colors.dry(edges[1].0, Some(entry));
    colors.settle();
    let new = colors.new_color();
    let start = graph.source(0);
    colors.begin(start, new);
    let entry = graph.edge(start, edges[0].0).expect("an edge");
    assert!(colors.use_edge(&graph, start, entry, new));
    assert_eq!(colors.channel(edges[1].0), old);
    assert!(colors.use_edge(&graph, edges[0].0, edges[0].1, new));
    assert_eq!(colors.channel(edges[1].0), new, "both subgraphs are one now");
    assert!(colors.is_wet(edges[0].1));
    colors.reset(Some(edges[0].1));
    assert_eq!(colors.edge(edges[0].1), UNUSED);
    colors.settle();
    assert_eq!(colors.channel(edges[1].0), new);
    assert_eq!(colors.channel(edges[0].0), UNUSED, "no path was kept");
}
