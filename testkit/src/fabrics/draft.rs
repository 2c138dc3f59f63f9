//! A fabric under construction: switches, links and hosts without GUIDs and port numbers.

use super::RandomFabric;
use crate::torus::random::Random;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::NodeKind;

/// Switches are numbers from 0.
pub(super) struct Draft {
    switches: usize,
    links: Vec<(usize, usize)>,
    /// The switch of each port of each host.
    hosts: Vec<Vec<usize>>,
}

impl Draft {
    pub(super) fn new(switches: usize) -> Self {
        Self { switches, links: Vec::new(), hosts: Vec::new() }
    }

    pub(super) fn switches(&self) -> usize {
        self.switches
    }

    /// Adds `parallel` links between two switches.
    pub(super) fn link(&mut self, from: usize, to: usize, parallel: usize) {
        self.links.extend(std::iter::repeat_n((from, to), parallel));
    }

    /// Adds up to `most` hosts to each of `switches`; some have a second port. All of them have the
    /// same number in half of the fabrics.
    pub(super) fn hosts(
        &mut self,
        random: &mut Random,
        switches: impl IntoIterator<Item = usize>,
        most: usize,
    ) {
        let switches: Vec<usize> = switches.into_iter().collect();
        let even = random.percent(50).then(|| 1 + random.below(most));
        for &switch in &switches {
            for _ in 0..even.unwrap_or_else(|| random.below(most + 1)) {
                let mut ports = vec![switch];
                if random.percent(12) {
                    ports.push(switches[random.below(switches.len())]);
                }
                self.hosts.push(ports);
            }
        }
        while self.hosts.len() < 2 {
            self.hosts.push(vec![switches[random.below(switches.len())]]);
        }
    }

    /// Removes links and adds some that do not belong to the topology, in half of the fabrics.
    pub(super) fn damage(&mut self, random: &mut Random) {
        if random.percent(50) {
            return;
        }
        let share = 1 + random.below(12);
        self.links.retain(|_| !random.percent(share));
        if random.percent(25) && self.switches > 1 {
            let lost = random.below(self.switches);
            self.links.retain(|&(from, to)| from != lost && to != lost);
        }
        if random.percent(20) && self.switches > 1 {
            let from = random.below(self.switches);
            let to = (from + 1 + random.below(self.switches - 1)) % self.switches;
            self.links.push((from, to));
        }
    }

    /// Gives the nodes GUIDs in random order, and the links port numbers: in order, or shuffled.
    pub(super) fn build(self, random: &mut Random) -> RandomFabric {
        let mut free = self.port_numbers(random);
        let hosts_first = random.percent(50);
        let mut topology = Topology::default();
        let shared_system = switch_guid(random, 0xfff);
        for (index, free) in free.iter().enumerate() {
            let guid = switch_guid(random, index);
            let system = if random.percent(15) { shared_system } else { guid };
            topology.nodes.push(node(NodeKind::Switch, guid, system, free.len() as u8));
        }
        for (index, ports) in self.hosts.iter().enumerate() {
            let guid = host_guid(random, index);
            topology.nodes.push(node(NodeKind::Ca, guid, guid, ports.len() as u8));
        }
        let mut end =
            |switch: usize| (switch, PortNum(free[switch].pop().expect("as many ports as cables")));
        let hosts = self.host_cables();
        // Hosts are at the first ports of the switches, or at the last.
        let first = if hosts_first { hosts.len() } else { 0 };
        let cables = hosts[..first].iter().map(|&(host, switch)| [host, end(switch)]);
        topology.cables.extend(cables);
        topology.cables.extend(self.links.iter().map(|&(from, to)| [end(from), end(to)]));
        let cables = hosts[first..].iter().map(|&(host, switch)| [host, end(switch)]);
        topology.cables.extend(cables);
        let local = self.switches + random.below(self.hosts.len());
        RandomFabric { topology, local }
    }

    /// The free ports of each switch, the next one last.
    fn port_numbers(&self, random: &mut Random) -> Vec<Vec<u8>> {
        let mut used = vec![0usize; self.switches];
        let links = self.links.iter().flat_map(|&(from, to)| [from, to]);
        links.chain(self.hosts.iter().flatten().copied()).for_each(|switch| used[switch] += 1);
        let spare = random.below(3);
        let shuffled = random.percent(60);
        used.into_iter()
            .map(|used| {
                let mut ports: Vec<u8> = (1..=(used + spare).max(2) as u8).rev().collect();
                if shuffled {
                    random.shuffle(&mut ports);
                }
                ports
            })
            .collect()
    }

    /// The host end of each cable of a host, and the switch at the other end.
    fn host_cables(&self) -> Vec<((usize, PortNum), usize)> {
        let hosts = (self.switches..).zip(&self.hosts);
        let cables = hosts.flat_map(|(host, ports)| {
            (1..).zip(ports).map(move |(num, &switch)| ((host, PortNum(num)), switch))
        });
        cables.collect()
    }
}

/// A GUID whose bytes are in no order, since OpenSM sorts by byte-swapped GUIDs.
fn switch_guid(random: &mut Random, index: usize) -> Guid {
    let high = random.below(1 << 20) as u64;
    Guid(0x0002_0000_0000_0000 | high << 24 | (index as u64) << 8 | random.below(256) as u64)
}

/// As [`switch_guid`]; the lowest four bits are free for the GUIDs of ports.
fn host_guid(random: &mut Random, index: usize) -> Guid {
    let high = random.below(1 << 20) as u64;
    Guid(0x0010_0000_0000_0000 | high << 24 | (index as u64) << 8 | (random.below(16) as u64) << 4)
}

fn node(kind: NodeKind, guid: Guid, system_guid: Guid, num_ports: u8) -> TopologyNode {
    let node = TopologyNode::new(kind, guid, num_ports);
    TopologyNode { system_guid, ..node.described(format!("{kind} {:x}", guid.0)) }
}
