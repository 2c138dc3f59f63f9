//! The links between switches, and distances over them.

mod breadth_first;

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
    /// By link: the index of the same cable's link in the other direction.
    reverse: Vec<u32>,
    /// True if all links cost one hop.
    is_plain: bool,
}

impl SwitchGraph {
    /// The graph of all links between different switches. A hop costs 1 unless `weights` contains
    /// the port; of several weights for a port, the last one applies.
    pub fn new(fabric: &Fabric, weights: &[HopWeight]) -> Self {
        let by_switch = fabric.switch_ids().map(|switch| links_of(fabric, switch));
        let mut graph = Self::assemble(by_switch);
        for entry in weights {
            graph.weigh(fabric, entry);
        }
        graph.is_plain = graph.links.iter().all(|link| link.weight == 1);
        graph
    }

    fn assemble(by_switch: impl Iterator<Item = impl Iterator<Item = Link>>) -> Self {
        let mut first = vec![0];
        let mut links = Vec::new();
        for own in by_switch {
            let start = links.len();
            links.extend(own);
            debug_assert!(links[start..].is_sorted_by_key(|link: &Link| link.port));
            first.push(links.len() as u32);
        }
        let mut graph = Self { first, links, reverse: Vec::new(), is_plain: false };
        graph.is_plain = graph.links.iter().all(|link| link.weight == 1);
        graph.reverse = graph.links.iter().map(|link| graph.index_of(link)).collect();
        graph
    }

    /// The index of the link in the other direction.
    fn index_of(&self, link: &Link) -> u32 {
        let range = self.range(link.to);
        let ports = self.links[range.clone()].binary_search_by_key(&link.to_port, |back| back.port);
        (range.start + ports.expect("links have two ends")) as u32
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
        let keep = &keep;
        Self::assemble(self.switches().map(|switch| {
            let links = self.links(switch).iter().copied();
            links.filter(move |link| keep(switch) && keep(link.to))
        }))
    }

    /// The number of switches.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn switches(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.len() as u32).map(SwitchId)
    }

    /// The number of links, both directions of a cable counted.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// The links from a switch with their indexes in the graph, by output port.
    pub fn numbered_links(&self, switch: SwitchId) -> impl Iterator<Item = (usize, &Link)> + Clone {
        self.range(switch).zip(self.links(switch))
    }

    /// The index of the link in the other direction of the cable of link `index`.
    pub fn reverse(&self, index: usize) -> usize {
        self.reverse[index] as usize
    }

    /// The links from a switch, by output port.
    pub fn links(&self, switch: SwitchId) -> &[Link] {
        &self.links[self.range(switch)]
    }

    /// The indexes of the links from a switch.
    pub(super) fn range(&self, switch: SwitchId) -> std::ops::Range<usize> {
        self.first[switch.index()] as usize..self.first[switch.index() + 1] as usize
    }

    /// The distances between all pairs of switches, one row per source.
    pub(super) fn all_distances(&self) -> Vec<u8> {
        if self.is_plain {
            return breadth_first::all_distances(self);
        }
        let mut rows = vec![NO_PATH; self.len() * self.len()];
        if !rows.is_empty() {
            let rows = rows.par_chunks_exact_mut(self.len()).enumerate();
            rows.for_each_init(Buckets::default, |buckets, (source, row)| {
                self.fill_row(SwitchId(source as u32), row, buckets, |_, link| link.weight);
            });
        }
        rows
    }

    /// The distances from all switches to `target`, in a row that holds [`NO_PATH`] only.
    pub(super) fn distances_to(&self, target: SwitchId, row: &mut [u8]) {
        self.fill_row(target, row, &mut Buckets::default(), |index, _| {
            self.links[self.reverse(index)].weight
        });
    }

    /// Dijkstra's algorithm with one bucket per distance.
    fn fill_row(
        &self,
        source: SwitchId,
        row: &mut [u8],
        buckets: &mut Buckets,
        weight: impl Fn(usize, &Link) -> u8,
    ) {
        row[source.index()] = 0;
        buckets.push(0, source);
        for distance in 0..NO_PATH {
            while let Some(switch) = buckets.pop(distance) {
                if row[switch.index()] != distance {
                    continue; // a shorter path was found since
                }
                for (index, link) in self.numbered_links(switch) {
                    let Some(longer) = distance.checked_add(weight(index, link)) else { continue };
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
        let port = fabric.switch_port(switch, num)?;
        let peer =
            linked_peer(fabric, port).filter(|&peer| fabric.port(peer).peer == Some(port))?;
        let to = fabric.node_of(peer).switch.filter(|&to| to != switch)?;
        Some(Link { port: num.0, weight: 1, to, to_port: fabric.port(peer).num.0 })
    })
}

/// The peer of a port, unless either end reports the state Down. A port that did not answer counts
/// as up.
pub fn linked_peer(fabric: &Fabric, port: PortId) -> Option<PortId> {
    let up =
        |id: PortId| fabric.port(id).info().is_none_or(|info| info.port_state() != PortState::Down);
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
