//! Distances between switches: the hop matrix.

use crate::config::guid_lists::HopWeight;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::wire::attr::PortState;
use rayon::prelude::*;

/// The distance of what cannot be reached. Longer paths than 254 hops do not count as paths.
pub const NO_PATH: u8 = 0xFF;

/// A link that leaves a switch for another switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Output port.
    pub port: u8,
    /// Cost of taking it, at least 1.
    pub weight: u8,
    /// The switch at the other end.
    pub to: SwitchId,
    /// The port at the other end.
    pub to_port: u8,
}

/// The switches of a fabric and the links between them, in flat arrays.
#[derive(Clone, Debug)]
pub struct SwitchGraph {
    /// By switch: where its links start in `links`; one more entry at the end.
    first: Vec<u32>,
    /// Links by switch and output port.
    links: Vec<Link>,
}

impl SwitchGraph {
    /// The graph of all links between different switches, each hop costing 1 unless `weights`
    /// says otherwise. Of several weights for a port the last counts.
    pub fn new(fabric: &Fabric, weights: &[HopWeight]) -> Self {
        let mut graph = Self { first: vec![0], links: Vec::new() };
        for switch in fabric.switch_ids() {
            graph.links.extend(links_of(fabric, switch));
            graph.first.push(graph.links.len() as u32);
        }
        for entry in weights {
            graph.weigh(fabric, entry);
        }
        graph
    }

    fn weigh(&mut self, fabric: &Fabric, entry: &HopWeight) {
        let node = fabric.node_by_guid(entry.switch);
        let Some(switch) = node.and_then(|node| fabric.node(node).switch) else { return };
        let range = self.range(switch);
        if let Some(link) = self.links[range].iter_mut().find(|link| link.port == entry.port.0) {
            link.weight = entry.weight.max(1);
        }
    }

    /// The same graph without the switches for which `keep` says no.
    pub fn filtered(&self, keep: impl Fn(SwitchId) -> bool) -> Self {
        let mut graph = Self { first: vec![0], links: Vec::with_capacity(self.links.len()) };
        for switch in (0..self.len() as u32).map(SwitchId) {
            let links = self.links(switch).iter().copied();
            graph.links.extend(links.filter(|link| keep(switch) && keep(link.to)));
            graph.first.push(graph.links.len() as u32);
        }
        graph
    }

    /// The same graph with all links turned round: its distances from a switch are the
    /// distances to it.
    pub fn reversed(&self) -> Self {
        let mut by_target = vec![Vec::new(); self.len()];
        for from in (0..self.len() as u32).map(SwitchId) {
            for link in self.links(from) {
                let Link { port, weight, to, to_port } = *link;
                by_target[to.index()].push(Link { port: to_port, weight, to: from, to_port: port });
            }
        }
        let mut graph = Self { first: vec![0], links: Vec::with_capacity(self.links.len()) };
        for links in &mut by_target {
            links.sort_unstable_by_key(|link| link.port);
            graph.links.append(links);
            graph.first.push(graph.links.len() as u32);
        }
        graph
    }

    /// Number of switches.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// True if there is no switch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The links that leave a switch, by output port.
    pub fn links(&self, switch: SwitchId) -> &[Link] {
        &self.links[self.range(switch)]
    }

    fn range(&self, switch: SwitchId) -> std::ops::Range<usize> {
        self.first[switch.index()] as usize..self.first[switch.index() + 1] as usize
    }

    /// The distances from each of `sources` to all switches, a row each.
    pub fn distances(&self, sources: &[SwitchId]) -> Vec<u8> {
        let mut rows = vec![NO_PATH; sources.len() * self.len()];
        if !rows.is_empty() {
            let rows = rows.par_chunks_exact_mut(self.len()).zip(sources);
            rows.for_each_init(Buckets::default, |buckets, (row, &source)| {
                self.fill_row(source, row, buckets);
            });
        }
        rows
    }

    /// Dijkstra's algorithm on small integers: switches wait in a bucket per distance.
    fn fill_row(&self, source: SwitchId, row: &mut [u8], buckets: &mut Buckets) {
        row[source.index()] = 0;
        buckets.push(0, source);
        for distance in 0..NO_PATH {
            while let Some(switch) = buckets.pop(distance) {
                if row[switch.index()] != distance {
                    continue; // a shorter way was found meanwhile
                }
                for link in self.links(switch) {
                    let Some(longer) = distance.checked_add(link.weight) else { continue };
                    let known = &mut row[link.to.index()];
                    if longer < *known {
                        *known = longer;
                        buckets.push(longer, link.to);
                    }
                }
            }
            if buckets.waiting == 0 {
                return;
            }
        }
    }
}

/// The links of a switch that lead to other switches, by port.
fn links_of(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = Link> + '_ {
    let ports = (1..=fabric.switch(switch).num_ports()).map(crate::ids::PortNum);
    ports.filter_map(move |num| {
        let peer = linked_peer(fabric, fabric.switch_port(switch, num)?)?;
        let to = fabric.node_of(peer).switch.filter(|&to| to != switch)?;
        Some(Link { port: num.0, weight: 1, to, to_port: fabric.port(peer).num.0 })
    })
}

/// The port at the other end of a link, if packets can pass: neither end may say that it is
/// down. A port that did not answer does not say so.
pub fn linked_peer(fabric: &Fabric, port: PortId) -> Option<PortId> {
    let up =
        |id: PortId| fabric.port(id).info.is_none_or(|info| info.port_state() != PortState::Down);
    fabric.port(port).peer.filter(|&peer| up(port) && up(peer))
}

/// Switches that wait for their links to be followed, by distance.
struct Buckets {
    by_distance: Vec<Vec<SwitchId>>,
    waiting: usize,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { by_distance: vec![Vec::new(); usize::from(NO_PATH) + 1], waiting: 0 }
    }
}

impl Buckets {
    fn push(&mut self, distance: u8, switch: SwitchId) {
        self.by_distance[usize::from(distance)].push(switch);
        self.waiting += 1;
    }

    fn pop(&mut self, distance: u8) -> Option<SwitchId> {
        let switch = self.by_distance[usize::from(distance)].pop()?;
        self.waiting -= 1;
        Some(switch)
    }
}

/// The distances between all pairs of switches.
#[derive(Clone, Debug)]
pub struct HopMatrix {
    switches: usize,
    rows: Vec<u8>,
}

impl HopMatrix {
    /// The matrix of a graph; its rows are computed in parallel.
    pub fn new(graph: &SwitchGraph) -> Self {
        let all: Vec<_> = (0..graph.len() as u32).map(SwitchId).collect();
        Self { switches: graph.len(), rows: graph.distances(&all) }
    }

    /// The distances from a switch to all others.
    pub fn row(&self, from: SwitchId) -> &[u8] {
        &self.rows[from.index() * self.switches..][..self.switches]
    }
}
