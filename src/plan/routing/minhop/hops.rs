//! Distances between switches: the hop matrix.

use crate::config::guid_lists::HopWeight;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::wire::attr::PortState;
use rayon::prelude::*;

/// The distance of an unreachable switch. Paths longer than 254 hops are not found.
pub const NO_PATH: u8 = 0xFF;

/// A link from one switch to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Output port number.
    pub port: u8,
    /// Cost in hops, at least 1.
    pub weight: u8,
    /// The peer switch.
    pub to: SwitchId,
    /// The port number at the peer switch.
    pub to_port: u8,
}

/// The switches of a fabric and the links between them, in compressed sparse row form.
#[derive(Clone, Debug)]
pub struct SwitchGraph {
    /// The index of the first link of each switch in `links`; the last entry is the number of
    /// links.
    first: Vec<u32>,
    /// Links by switch and output port.
    links: Vec<Link>,
}

impl SwitchGraph {
    /// The graph of all links between different switches. A hop costs 1 unless `weights` contains
    /// the port; of several weights for a port, the last one applies.
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

    /// The subgraph of the switches for which `keep` is true.
    pub fn filtered(&self, keep: impl Fn(SwitchId) -> bool) -> Self {
        let mut graph = Self { first: vec![0], links: Vec::with_capacity(self.links.len()) };
        for switch in (0..self.len() as u32).map(SwitchId) {
            let links = self.links(switch).iter().copied();
            graph.links.extend(links.filter(|link| keep(switch) && keep(link.to)));
            graph.first.push(graph.links.len() as u32);
        }
        graph
    }

    /// The graph with all links reversed, whose distances from a switch are this graph's distances
    /// to it.
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

    /// The number of switches.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The links from a switch, by output port.
    pub fn links(&self, switch: SwitchId) -> &[Link] {
        &self.links[self.range(switch)]
    }

    fn range(&self, switch: SwitchId) -> std::ops::Range<usize> {
        self.first[switch.index()] as usize..self.first[switch.index() + 1] as usize
    }

    /// The distances from each of `sources` to all switches, one row per source.
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

    /// Dijkstra's algorithm with one bucket per distance.
    fn fill_row(&self, source: SwitchId, row: &mut [u8], buckets: &mut Buckets) {
        row[source.index()] = 0;
        buckets.push(0, source);
        for distance in 0..NO_PATH {
            while let Some(switch) = buckets.pop(distance) {
                if row[switch.index()] != distance {
                    continue; // a shorter path was found since
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

/// The links of a switch to other switches, by port.
fn links_of(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = Link> + '_ {
    let ports = (1..=fabric.switch(switch).num_ports()).map(crate::ids::PortNum);
    ports.filter_map(move |num| {
        let peer = linked_peer(fabric, fabric.switch_port(switch, num)?)?;
        let to = fabric.node_of(peer).switch.filter(|&to| to != switch)?;
        Some(Link { port: num.0, weight: 1, to, to_port: fabric.port(peer).num.0 })
    })
}

/// The peer of a port, unless either end reports the state Down. A port that did not answer counts
/// as up.
pub fn linked_peer(fabric: &Fabric, port: PortId) -> Option<PortId> {
    let up =
        |id: PortId| fabric.port(id).info.is_none_or(|info| info.port_state() != PortState::Down);
    fabric.port(port).peer.filter(|&peer| up(port) && up(peer))
}

/// Switches whose links have not been followed yet, by distance.
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
    /// Computes the matrix of a graph, with its rows in parallel.
    pub fn new(graph: &SwitchGraph) -> Self {
        let all: Vec<_> = (0..graph.len() as u32).map(SwitchId).collect();
        Self { switches: graph.len(), rows: graph.distances(&all) }
    }

    /// The distances from a switch to all switches.
    pub fn row(&self, from: SwitchId) -> &[u8] {
        &self.rows[from.index() * self.switches..][..self.switches]
    }
}
