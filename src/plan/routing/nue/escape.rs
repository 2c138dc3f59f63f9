//! Escape paths: a spanning tree whose dependencies are reserved, so that there are paths to each
//! LID of a layer whatever else is in use.
//!
//! The root is the switch in the middle of the destinations: of the switches on shortest paths
//! between them (their convex hull), the one with the most shortest paths through it (betweenness
//! centrality by the algorithm of Brandes, "A Faster Algorithm for Betweenness Centrality", 2001).
//! Dependencies are reserved for the paths from all switches to the root, and from the root to the
//! switches with destinations.

use super::channels::Channels;
use super::colors::Colors;
use crate::plan::routing::weighted_paths::network::WeightedLink;
use crate::plan::routing::weighted_paths::network::{Network, ReachedSwitches, UNREACHED};
use crate::plan::routing::weighted_paths::search::{NONE, Root, Search};
use rayon::prelude::*;

/// Switches from which paths are searched in parallel before their shares are added up; bounds the
/// memory for these.
const SOURCES_AT_A_TIME: usize = 64;

/// The switches with destinations of a layer.
#[derive(Clone)]
pub(super) struct Targets {
    /// By switch: true if it is a destination or has hosts that are.
    pub has_destinations: Vec<bool>,
    /// By switch: the number of its hosts that are destinations.
    pub hosts: Vec<u8>,
}

/// The switches in the middle of the destinations of layers.
pub(super) fn centers<'t>(
    network: &Network,
    layers: impl IntoIterator<Item = &'t Targets>,
) -> Vec<u32> {
    let layers: Vec<&Targets> = layers.into_iter().collect();
    let hulls = layers.par_iter().map(|layer| convex_hull(network, &layer.has_destinations));
    let hulls: Vec<Vec<bool>> = hulls.collect();
    let mut centers = vec![0; layers.len()];
    for (first, hull) in hulls.iter().enumerate() {
        if hulls[..first].contains(hull) {
            continue;
        }
        // The paths within a hull are found once for all layers that have it.
        let same: Vec<usize> = (first..layers.len()).filter(|&at| hulls[at] == *hull).collect();
        let hosts: Vec<&[u8]> = same.iter().map(|&at| layers[at].hosts.as_slice()).collect();
        for (at, center) in same.into_iter().zip(central_switches(network, hull, &hosts)) {
            centers[at] = center;
        }
    }
    centers
}

/// Reserves the dependencies of a spanning tree of shortest paths from `root`. Returns the tree: by
/// switch, the link that leads to it; [`NONE`] for the root.
pub(super) fn mark(
    graph: &Channels<'_>,
    colors: &mut Colors,
    targets: &Targets,
    root: u32,
    lengths: &[u64],
) -> Vec<u32> {
    let network = graph.network;
    let mut search = Search::default();
    search.run(network, lengths, Root::Switch(root));
    let tree = search.used;
    let mut first_links = Vec::new();
    for switch in 0..network.len() as u32 {
        reserve_path(graph, colors, &tree, switch, targets, &mut first_links);
    }
    for &link in &first_links {
        for &other in first_links.iter().filter(|&&other| other != link) {
            let back = graph.reverse(other).map(|back| graph.of_link(back));
            colors.reserve(graph.of_link(link));
            if let Some(back) = back {
                colors.reserve(back);
                colors.reserve_edge(graph.edge(back, graph.of_link(link)));
            }
        }
    }
    tree
}

/// Reserves the path from a switch to the root, and back if the switch has destinations. Adds the
/// path's link at the root to `first_links`.
fn reserve_path(
    graph: &Channels<'_>,
    colors: &mut Colors,
    tree: &[u32],
    switch: u32,
    targets: &Targets,
    first_links: &mut Vec<u32>,
) {
    let links = graph.network.links();
    let mut link = tree[switch as usize];
    while link != NONE {
        colors.reserve(graph.of_link(link));
        let parent = links[link as usize].from;
        let next = tree[parent as usize];
        if next == NONE {
            if !first_links.contains(&link) {
                first_links.push(link);
            }
            return;
        }
        colors.reserve(graph.of_link(next));
        colors.reserve_edge(graph.edge(graph.of_link(next), graph.of_link(link)));
        if targets.has_destinations[switch as usize] {
            reserve_way_back(graph, colors, tree, link, next);
        }
        link = next;
    }
}

/// Reserves the dependencies from the reverse of a link to that of the next one, and to the links
/// that lead down from the switch between them.
fn reserve_way_back(graph: &Channels<'_>, colors: &mut Colors, tree: &[u32], link: u32, next: u32) {
    let links = graph.network.links();
    let backs = graph.reverse(link).zip(graph.reverse(next));
    let Some((back, next_back)) = backs.map(|(a, b)| (graph.of_link(a), graph.of_link(b))) else {
        return;
    };
    colors.reserve(back);
    colors.reserve(next_back);
    colors.reserve_edge(graph.edge(back, next_back));
    let own = links[link as usize];
    for neighbour in graph.network.range(own.from).map(|at| links[at].to) {
        let down = tree[neighbour as usize];
        if down != NONE && is_turn(links, &own.from, &own.to, down) {
            colors.reserve_edge(graph.edge(back, graph.of_link(down)));
        }
    }
}

fn is_turn(links: &[WeightedLink], from: &u32, to: &u32, down: u32) -> bool {
    let down = links[down as usize];
    down.from == *from && down.to != *to
}

/// True, by switch, if it is on a shortest path between switches with destinations.
fn convex_hull(network: &Network, has_destinations: &[bool]) -> Vec<bool> {
    let mut hull = has_destinations.to_vec();
    let mut outside = hull.iter().filter(|&&is_inside| !is_inside).count();
    let mut found = ReachedSwitches::default();
    for from in 0..network.len() as u32 {
        if outside == 0 {
            break;
        }
        if !hull[from as usize] {
            continue;
        }
        network.hops_from(std::iter::once(from), &mut found);
        let ReachedSwitches { order, hops } = &found;
        // From the farthest one inwards: a switch is on a path to each one that is known to be in
        // the hull and one hop farther away.
        for &at in order.iter().rev().filter(|&&at| at != from) {
            let beyond = hops[at as usize] + 1;
            let mut ends = network.ends()[network.range(at)].iter().map(|&to| to as usize);
            if !hull[at as usize] && ends.any(|to| hull[to] && hops[to] == beyond) {
                hull[at as usize] = true;
                outside -= 1;
            }
        }
    }
    hull
}

/// The switches of the hull with the greatest betweenness, where hosts count as nodes: one for each
/// of these numbers of hosts by switch.
fn central_switches(network: &Network, hull: &[bool], hosts: &[&[u8]]) -> Vec<u32> {
    let mut centrality = vec![vec![0.0; network.len()]; hosts.len()];
    let sources: Vec<usize> = (0..network.len()).filter(|&at| hull[at]).collect();
    for part in sources.chunks((SOURCES_AT_A_TIME / hosts.len()).max(1)) {
        let shares: Vec<_> = part
            .par_iter()
            .map_init(
                || HullPaths::new(network),
                |paths, &from| {
                    paths.search(network, hull, from as u32);
                    SourceShares::new(paths, hosts, from)
                },
            )
            .collect();
        // In the order of the sources, because sums of fractions depend on it.
        centrality.par_iter_mut().zip(hosts).enumerate().for_each(
            |(layer, (centrality, hosts))| {
                shares.iter().for_each(|shares| shares.add_to(centrality, layer, hosts));
            },
        );
    }
    centrality
        .iter()
        .map(|centrality| {
            let mut best = (0, -1.0);
            for &at in &sources {
                if best.1 < centrality[at] {
                    best = (at as u32, centrality[at]);
                }
            }
            best.0
        })
        .collect()
}

/// The shares of switches in the shortest paths that begin at a switch and at its hosts.
struct SourceShares {
    from: usize,
    order: Vec<u32>,
    /// By layer, then by switch: its share of the paths to all switches and hosts behind it.
    shares: Vec<Vec<f64>>,
}

impl SourceShares {
    fn new(paths: &HullPaths, hosts: &[&[u8]], from: usize) -> Self {
        let shares = hosts.iter().map(|hosts| paths.shares(hosts)).collect();
        Self { from, order: paths.order.clone(), shares }
    }

    fn add_to(&self, centrality: &mut [f64], layer: usize, hosts: &[u8]) {
        let shares = &self.shares[layer];
        let hosts = hosts[self.from];
        let at = self.order.iter().map(|&at| at as usize);
        let others = at.filter(|&at| at != self.from);
        // First the paths that begin at the switch, then those of each host, for which the switch
        // itself counts too.
        others.clone().for_each(|at| centrality[at] += shares[at]);
        let Some(other_hosts) = hosts.checked_sub(1) else { return };
        // Paths of a host do not end at the host itself.
        let of_first = (0..other_hosts).fold(shares[self.from], |sum, _| sum + 1.0);
        for _ in 0..hosts {
            centrality[self.from] += of_first;
            others.clone().for_each(|at| centrality[at] += shares[at]);
        }
    }
}

/// All shortest paths from a switch within the hull.
struct HullPaths {
    /// The switches by distance.
    order: Vec<u32>,
    /// By switch: the number of paths.
    counts: Vec<u64>,
    distances: Vec<u32>,
    /// The switches before each one, once for each link. Those of a switch follow each other, and
    /// behind them is a place that is written before it is known whether it counts, which could not
    /// be predicted.
    before: Vec<u32>,
    /// By switch: the place in `before` behind the last switch before it.
    last_before: Vec<u32>,
    /// By switch: the place in `before` of the first switch before it.
    first_before: Vec<u32>,
}

/// The distance of a switch outside the hull.
const OUTSIDE: u32 = UNREACHED - 1;

impl HullPaths {
    fn new(network: &Network) -> Self {
        let mut places = vec![1; network.len()];
        network.ends().iter().for_each(|&to| places[to as usize] += 1);
        let first_before = places.iter().scan(0, |next, count| {
            *next += count;
            Some(*next - count)
        });
        Self {
            order: Vec::new(),
            counts: Vec::new(),
            distances: Vec::new(),
            before: vec![0; network.links().len() + network.len()],
            last_before: Vec::new(),
            first_before: first_before.collect(),
        }
    }

    fn search(&mut self, network: &Network, hull: &[bool], from: u32) {
        let Self { order, counts, distances, before, last_before, first_before } = self;
        counts.clear();
        counts.resize(network.len(), 0);
        distances.clear();
        distances.extend(hull.iter().map(|&inside| if inside { UNREACHED } else { OUTSIDE }));
        last_before.clone_from(first_before);
        order.clear();
        order.resize(network.len() + 1, 0);
        order[0] = from;
        counts[from as usize] = 1;
        distances[from as usize] = 0;
        let mut place = 0;
        let mut found = 1;
        while place < found {
            let at = order[place];
            place += 1;
            let beyond = distances[at as usize] + 1;
            let paths = counts[at as usize];
            for &to in &network.ends()[network.range(at)] {
                let next = to as usize;
                order[found] = to;
                let is_new = distances[next] == UNREACHED;
                found += usize::from(is_new);
                distances[next] = if is_new { beyond } else { distances[next] };
                let is_behind = distances[next] == beyond;
                counts[next] = counts[next].wrapping_add(if is_behind { paths } else { 0 });
                before[last_before[next] as usize] = at;
                last_before[next] += u32::from(is_behind);
            }
        }
        order.truncate(found);
    }

    /// By switch: its share of the paths to all switches and hosts behind it, where those to hosts
    /// of the first switch are not counted.
    fn shares(&self, hosts: &[u8]) -> Vec<f64> {
        let mut shares = vec![0.0; hosts.len()];
        let counts: Vec<f64> = self.counts.iter().map(|&count| count as f64).collect();
        for &at in self.order.iter().skip(1).rev() {
            let at = at as usize;
            for _ in 0..hosts[at] {
                shares[at] += 1.0;
            }
            for place in self.first_before[at]..self.last_before[at] {
                let before = self.before[place as usize] as usize;
                shares[before] += counts[before] / counts[at] * (1.0 + shares[at]);
            }
        }
        shares
    }
}
