//! The switches and the links between them: switches in the order of an engine, the links of a
//! switch by port.

use crate::fabric::{Fabric, SwitchId};
use crate::ids::PortNum;
use crate::plan::routing::link_rate::is_throttled;
use crate::plan::routing::switch_graph::SwitchGraph;

/// A link from one switch to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::plan::routing) struct WeightedLink {
    /// Number of the switch.
    pub from: u32,
    pub port: u8,
    /// Number of the peer switch.
    pub to: u32,
    /// The port of the peer switch.
    pub to_port: u8,
}

/// The switches by number, and the links between them.
pub(in crate::plan::routing) struct Network {
    pub switches: Vec<SwitchId>,
    /// The switches in the order of OpenSM's maps, by byte-swapped GUID.
    pub by_guid: Vec<u32>,
    /// Numbers by [`SwitchId`].
    pub numbers: Vec<u32>,
    links: Vec<WeightedLink>,
    /// By link: the numbers of the switch and of its peer, by themselves because searches read nothing
    /// else.
    starts: Vec<u32>,
    ends: Vec<u32>,
    /// By switch: the index of its first link; the last entry is the number of links.
    first: Vec<u32>,
    /// By switch, then by port: the index of its link.
    by_port: Vec<Vec<Option<u32>>>,
}

/// The hops of a switch that is not reached.
pub(in crate::plan::routing) const UNREACHED: u32 = u32::MAX;

/// The switches that are reached from some of them, and by how many hops.
#[derive(Default)]
pub(in crate::plan::routing) struct ReachedSwitches {
    /// The switches that are reached, nearest first.
    pub order: Vec<u32>,
    /// By switch: the hops, or [`UNREACHED`].
    pub hops: Vec<u32>,
}

impl Network {
    /// The network of a fabric, without throttled links if these are to be avoided. Switches are
    /// numbered by ascending keys.
    pub(in crate::plan::routing) fn new(
        fabric: &Fabric,
        avoid_throttled_links: bool,
        key: impl Fn(SwitchId) -> u64,
    ) -> Self {
        let graph = SwitchGraph::new(fabric, &[]);
        let mut switches: Vec<_> = fabric.switch_ids().collect();
        switches.sort_by_cached_key(|&switch| key(switch));
        let mut numbers = vec![0; switches.len()];
        for (number, switch) in (0..).zip(&switches) {
            numbers[switch.index()] = number;
        }
        let mut links = Vec::with_capacity(graph.link_count());
        let mut first = vec![0];
        for (from, &switch) in (0..).zip(&switches) {
            let own = graph
                .links(switch)
                .iter()
                .filter(|link| !is_avoided(fabric, switch, link.port, avoid_throttled_links));
            links.extend(own.map(|link| WeightedLink {
                from,
                port: link.port,
                to: numbers[link.to.index()],
                to_port: link.to_port,
            }));
            first.push(links.len() as u32);
        }
        let mut by_guid: Vec<_> = (0..switches.len() as u32).collect();
        by_guid
            .sort_by_cached_key(|&at| fabric.switch(switches[at as usize]).guid().opensm_order());
        let starts = links.iter().map(|link: &WeightedLink| link.from).collect();
        let ends = links.iter().map(|link| link.to).collect();
        let by_port = links_by_port(switches.len(), &links);
        Self { switches, by_guid, numbers, links, starts, ends, first, by_port }
    }

    /// Number of switches.
    pub(in crate::plan::routing) fn len(&self) -> usize {
        self.switches.len()
    }

    /// All links, by switch and port.
    pub(in crate::plan::routing) fn links(&self) -> &[WeightedLink] {
        &self.links
    }

    /// By link: the number of the switch from which it leads.
    pub(in crate::plan::routing) fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// By link: the number of the switch to which it leads.
    pub(in crate::plan::routing) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The indexes of the links of a switch.
    pub(in crate::plan::routing) fn range(&self, switch: u32) -> std::ops::Range<usize> {
        self.first[switch as usize] as usize..self.first[switch as usize + 1] as usize
    }

    /// The index of the link from a port of a switch.
    pub(in crate::plan::routing) fn link_at(&self, switch: u32, port: u8) -> Option<u32> {
        self.by_port[switch as usize].get(usize::from(port)).copied().flatten()
    }

    /// Finds the hops from the nearest of these switches to all others. Replaces the contents of
    /// `found`.
    pub(in crate::plan::routing) fn hops_from(
        &self,
        starts: impl Iterator<Item = u32>,
        found: &mut ReachedSwitches,
    ) {
        let ReachedSwitches { order, hops } = found;
        order.clear();
        hops.clear();
        hops.resize(self.len(), UNREACHED);
        for start in starts {
            if std::mem::replace(&mut hops[start as usize], 0) == UNREACHED {
                order.push(start);
            }
        }
        // One more than can be used: a switch is written before it is known whether it is new, which
        // could not be predicted.
        let mut place = 0;
        let mut count = order.len();
        order.resize(self.len() + 1, 0);
        while place < count {
            let at = order[place];
            place += 1;
            let beyond = hops[at as usize] + 1;
            for &to in &self.ends[self.range(at)] {
                let known = &mut hops[to as usize];
                order[count] = to;
                count += usize::from(*known == UNREACHED);
                *known = beyond.min(*known);
            }
        }
        order.truncate(count);
    }
}

fn is_avoided(fabric: &Fabric, switch: SwitchId, port: u8, avoid_throttled_links: bool) -> bool {
    let port = fabric.switch_port(switch, PortNum(port));
    avoid_throttled_links && port.is_some_and(|port| is_throttled(fabric, port))
}

/// By switch, then by port: the index of the link from there.
fn links_by_port(switches: usize, links: &[WeightedLink]) -> Vec<Vec<Option<u32>>> {
    let mut by_port = vec![Vec::new(); switches];
    for (number, link) in (0..).zip(links) {
        let own = &mut by_port[link.from as usize];
        let port = usize::from(link.port);
        own.resize(own.len().max(port + 1), None);
        own[port] = Some(number);
    }
    by_port
}
