//! Data packets between hosts, walked through the forwarding tables one after another: the load of each
//! cable, and what is lost.
//!
//! Packets take no time and never wait: the counts are those of an endless repetition of the pattern. Each
//! switch chooses among the ports of a group that are up at random, for each packet or, with bounded entries,
//! for each flow from a host to a LID; or an adversary makes every choice ([`SimFabric::unreached`]).

use super::adaptive::Exits;
use super::adaptive_tables::PacketClass;
use super::devices::Devices;
use super::random::Random;
use super::sim_fabric::SimFabric;
use crate::ids::{Guid, Lid, PortNum};
use crate::wire::attr::PortState;
use std::collections::{BTreeMap, HashMap};

/// Switches that a packet passes; more are taken for a loop.
const MAX_SWITCHES: usize = 64;

/// Which hosts send to which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrafficPattern {
    /// Each host sends each packet to a random other one.
    Uniform,
    /// Host i sends to host i + k.
    Shift(usize),
    /// All hosts send to one.
    HotSpot(usize),
    AllToAll,
}

/// How switches forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarding {
    /// By the plain forwarding tables.
    Plain,
    /// By their groups, where adaptive routing is on.
    Adaptive,
}

/// Packets to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    pub pattern: TrafficPattern,
    /// Packets of each host to each of its destinations.
    pub packets: u32,
    pub packet: PacketClass,
    pub seed: u64,
}

/// A cable in one direction: node GUID and number of the port that sends.
pub type CableEnd = (Guid, PortNum);

/// What became of the packets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrafficReport<C: Ord = CableEnd> {
    pub delivered: u64,
    pub lost: u64,
    /// Packets on each cable between switches that carried any.
    pub loads: BTreeMap<C, u64>,
}

/// A [`TrafficReport`] with cables by the slot of the port that sends.
pub(super) type TrafficResult = TrafficReport<u32>;

impl<C: Ord> TrafficReport<C> {
    /// The packets on the most loaded cable.
    pub fn highest(&self) -> u64 {
        self.loads.values().copied().max().unwrap_or(0)
    }
}

/// What happens to packets, the worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PacketFate {
    Arrives,
    Lost,
    Circles,
}

impl TrafficPattern {
    /// The hosts that host `source` of `hosts` sends to.
    pub(crate) fn destinations(
        self,
        source: usize,
        hosts: usize,
        random: &mut Random,
    ) -> Vec<usize> {
        let others = hosts.saturating_sub(1) as u64;
        let mut all: Vec<usize> = match self {
            Self::Uniform if others > 0 => {
                vec![(source + 1 + random.below(others) as usize) % hosts]
            }
            Self::Uniform => Vec::new(),
            Self::Shift(by) => vec![(source + by) % hosts],
            Self::HotSpot(host) => vec![host % hosts],
            Self::AllToAll => (0..hosts).collect(),
        };
        all.retain(|&host| host != source);
        all
    }
}

impl SimFabric {
    /// Sends packets between all hosts with an ACTIVE port, which are numbered in the order of their LIDs.
    pub fn send_traffic(&self, traffic: &Traffic, by: Forwarding) -> TrafficReport {
        let net = self.shared.lock();
        let devices = &net.devices;
        let TrafficResult { delivered, lost, loads } = send_traffic(devices, traffic, by);
        let loads = loads.into_iter().map(|(slot, load)| (end(devices, slot), load)).collect();
        TrafficReport { delivered, lost, loads }
    }

    /// The pairs of a host and the LID of another one whose packets an adversary can lose, or let circle, by
    /// its choices among the ports of groups.
    pub fn unreached(&self, packet: PacketClass) -> Vec<(Guid, Lid)> {
        self.fates(packet, Forwarding::Adaptive)
            .into_iter()
            .map(|(from, lid, _)| (from, lid))
            .collect()
    }

    /// [`Self::unreached`], with the worst that can happen to packets of each pair.
    pub fn fates(&self, packet: PacketClass, by: Forwarding) -> Vec<(Guid, Lid, PacketFate)> {
        let net = self.shared.lock();
        let devices = &net.devices;
        let hosts = hosts(devices);
        let paths = PacketPaths { devices, packet, by };
        let mut unreached = Vec::new();
        for &to in &hosts {
            let lid = devices.port(to).info.lid();
            let mut known = HashMap::new();
            for &from in hosts.iter().filter(|&&from| from != to) {
                let fate = match crossed(devices, from) {
                    Some(first) => paths.worst_fate(first, lid, &mut known),
                    None => PacketFate::Lost,
                };
                if fate != PacketFate::Arrives {
                    let node = devices.port(from).node;
                    unreached.push((devices.node(node).info.node_guid(), lid, fate));
                }
            }
        }
        unreached
    }
}

/// Sends packets between all hosts with an ACTIVE port, which are numbered in the order of their LIDs.
pub(super) fn send_traffic(devices: &Devices, traffic: &Traffic, by: Forwarding) -> TrafficResult {
    let hosts = hosts(devices);
    let paths = PacketPaths { devices, packet: traffic.packet, by };
    let mut random_hosts = Random(traffic.seed);
    let mut random_ports = Random(!traffic.seed);
    let mut choices = Choices { random: &mut random_ports, loads: HashMap::new() };
    let mut result = TrafficResult::default();
    for (source, &start) in hosts.iter().enumerate() {
        for _ in 0..traffic.packets {
            for to in traffic.pattern.destinations(source, hosts.len(), &mut random_hosts) {
                let lid = devices.port(hosts[to]).info.lid();
                if paths.is_delivered(start, lid, &mut choices) {
                    result.delivered += 1;
                } else {
                    result.lost += 1;
                }
            }
        }
    }
    result.loads = choices.loads.into_iter().collect();
    result
}

/// The paths of packets of one class through the switches.
struct PacketPaths<'a> {
    devices: &'a Devices,
    packet: PacketClass,
    by: Forwarding,
}

impl PacketPaths<'_> {
    /// Walks a packet from a host's port. Returns true if it arrives.
    fn is_delivered(&self, start: u32, lid: Lid, choices: &mut Choices<'_>) -> bool {
        let devices = self.devices;
        let Some(mut at) = crossed(devices, start) else { return false };
        for _ in 0..=MAX_SWITCHES {
            if devices.owns_lid(devices.end_port(at), lid) {
                return true;
            }
            let node = devices.port(at).node;
            let exits = self.exits(node, lid);
            let exit =
                exits.and_then(|exits| choices.port(&exits, Flow { from: start, lid, node }));
            let Some(slot) = exit.and_then(|exit| self.exit_slot(node, exit)) else { return false };
            let Some(next) = crossed(devices, slot) else { return false };
            if devices.is_switch_slot(next) {
                *choices.loads.entry(slot).or_default() += 1;
            }
            at = next;
        }
        false
    }

    /// The ports for a packet to a LID.
    fn exits(&self, node: u32, lid: Lid) -> Option<Exits> {
        match self.by {
            Forwarding::Plain => self.devices.lft_entry(node, lid).map(Exits::Static),
            Forwarding::Adaptive => self.devices.exits(node, lid, self.packet),
        }
    }

    /// The slot of a port that leads to a cable.
    fn exit_slot(&self, node: u32, port: PortNum) -> Option<u32> {
        self.devices.slot(node, port).filter(|_| port != PortNum::ZERO)
    }

    /// The worst that can happen to packets to a LID from a switch by the choices of the switches. `known`
    /// has the result for switches that were visited, `None` while the walk is behind them.
    fn worst_fate(
        &self,
        at: u32,
        lid: Lid,
        known: &mut HashMap<u32, Option<PacketFate>>,
    ) -> PacketFate {
        let devices = self.devices;
        if devices.owns_lid(devices.end_port(at), lid) {
            return PacketFate::Arrives;
        }
        let node = devices.port(at).node;
        if !devices.is_switch(node) {
            return PacketFate::Lost;
        }
        if let Some(fate) = known.get(&node) {
            // A switch behind which the walk is would be met again.
            return fate.unwrap_or(PacketFate::Circles);
        }
        known.insert(node, None);
        let ports = match self.exits(node, lid) {
            Some(Exits::Static(port)) => vec![port],
            Some(Exits::Group(ports) | Exits::Flow(ports)) => ports,
            None => Vec::new(),
        };
        let fates = ports.iter().map(|&port| {
            match self.exit_slot(node, port).and_then(|slot| crossed(devices, slot)) {
                Some(next) => self.worst_fate(next, lid, known),
                None => PacketFate::Lost,
            }
        });
        let worst = fates.max().unwrap_or(PacketFate::Lost);
        known.insert(node, Some(worst));
        worst
    }
}

/// The port at the other end of an ACTIVE link.
fn crossed(devices: &Devices, slot: u32) -> Option<u32> {
    let peer = devices.linked_peer(slot)?;
    let is_active =
        [slot, peer].iter().all(|&end| devices.port(end).info.port_state() == PortState::Active);
    is_active.then_some(peer)
}

/// The ports of hosts that are ACTIVE, in the order of their LIDs.
fn hosts(devices: &Devices) -> Vec<u32> {
    let mut hosts: Vec<u32> = (0..devices.ports.len() as u32)
        .filter(|&slot| {
            let port = devices.port(slot);
            let is_active = port.info.port_state() == PortState::Active;
            is_active && !devices.is_switch(port.node) && port.info.lid().is_unicast()
        })
        .collect();
    hosts.sort_by_key(|&slot| devices.port(slot).info.lid());
    hosts
}

/// The packets of a host to a LID at a switch.
#[derive(Clone, Copy)]
struct Flow {
    from: u32,
    lid: Lid,
    node: u32,
}

impl Flow {
    /// A number that is the same for all packets of the flow, below `limit`, which must not be 0.
    fn number(self, limit: u64) -> u64 {
        let key = u64::from(self.from) << 32 | u64::from(self.lid.0);
        Random(key ^ u64::from(self.node) << 48).below(limit)
    }
}

/// Makes the choices of the switches, and counts packets to switches by the port that sends.
struct Choices<'a> {
    random: &'a mut Random,
    loads: HashMap<u32, u64>,
}

impl Choices<'_> {
    fn port(&mut self, exits: &Exits, flow: Flow) -> Option<PortNum> {
        match exits {
            Exits::Static(port) => Some(*port),
            Exits::Group(ports) => {
                let count = ports.len() as u64;
                (count > 0).then(|| ports[self.random.below(count) as usize])
            }
            Exits::Flow(ports) => {
                let count = ports.len() as u64;
                (count > 0).then(|| ports[flow.number(count) as usize])
            }
        }
    }
}

fn end(devices: &Devices, slot: u32) -> (Guid, PortNum) {
    let port = devices.port(slot);
    (devices.node(port.node).info.node_guid(), port.num)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_flow_take_one_port_and_flows_take_all() {
        let mut random = Random(1);
        let mut choices = Choices { random: &mut random, loads: HashMap::new() };
        let ports: Vec<PortNum> = (3..7).map(PortNum).collect();
        let mut chosen: Vec<[usize; 2]> = Vec::new();
        for from in 0..64 {
            let flow = Flow { from, lid: Lid(9), node: 2 };
            let mut different = |exits: Exits| {
                let mut ports: Vec<_> = (0..32).map(|_| choices.port(&exits, flow)).collect();
                ports.sort_unstable();
                ports.dedup();
                ports.len()
            };
            let of_group = different(Exits::Group(ports.clone()));
            chosen.push([of_group, different(Exits::Flow(ports.clone()))]);
        }
        assert!(chosen.iter().all(|&counts| counts == [4, 1]), "{chosen:?}");
        let flows = (0..64).fold([0; 4], |mut flows, from| {
            flows[first(from) as usize] += 1;
            flows
        });
        assert!(flows.iter().all(|&count| count > 4), "{flows:?}");
    }

    fn first(from: u32) -> u64 {
        Flow { from, lid: Lid(9), node: 2 }.number(4)
    }
}
