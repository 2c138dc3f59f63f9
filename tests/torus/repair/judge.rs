//! What the tables of a repaired torus must be, from coordinates alone: next hops, SLs, SL to VL mappings and
//! channel dependencies by formulas of their own, without the engine.

use super::trial::places;
use testkit::torus::subnet::Subnet;
use torus_sm::fabric::{PortId, SwitchId};
use torus_sm::ids::{PortNum, Sl};
use torus_sm::plan::routing::Routing;
use torus_sm::plan::routing::torus::Torus;
use torus_sm::sim::generate::Shape;

/// Stands for the destination itself.
const ARRIVED: u8 = 6;
/// Stands for no route.
const UNROUTED: u8 = 7;
/// The axis of an input port to which a host is attached.
const LOCAL: usize = 0;
/// Directions (-x, +x, -y, +y, -z, +z) by VLs of a QoS level.
const CHANNELS: usize = 24;
/// Maximum number of channels of a path.
const MAX_HOPS: usize = 62;

/// A torus by coordinates. Places are numbered like the GUIDs of the generator.
pub(super) struct Judge {
    shape: Shape,
    places: Vec<[u16; 3]>,
}

/// The next hops of a routed torus.
pub(super) struct NextHops {
    /// By place: the switch.
    pub(super) switches: Vec<Option<SwitchId>>,
    /// By place and direction: the neighbour to which a cable leads.
    neighbors: Vec<[Option<usize>; 6]>,
    /// By place and place of the destination: a direction, [`ARRIVED`] or [`UNROUTED`].
    ways: Vec<u8>,
}

/// Number of paths over the channel that has the most of them, and number of channels of the longest path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Burden {
    pub(super) most_paths: u32,
    pub(super) longest: usize,
}

impl NextHops {
    fn way(&self, from: usize, to: usize) -> u8 {
        self.ways[from * self.switches.len() + to]
    }

    pub(super) fn present(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.switches.len()).filter(|&place| self.switches[place].is_some())
    }

    /// The places and directions of a path; `None` without a route.
    pub(super) fn path(&self, from: usize, to: usize) -> Option<Vec<(usize, usize)>> {
        let mut here = from;
        let mut steps = Vec::new();
        while here != to {
            match self.way(here, to) {
                UNROUTED if here == from => return None,
                way => {
                    assert!(way < ARRIVED, "a path from {from} to {to} ends at {here}");
                    assert!(steps.len() < MAX_HOPS, "a path from {from} to {to} does not end");
                    steps.push((here, usize::from(way)));
                    here = self.neighbors[here][usize::from(way)].expect("a cable");
                }
            }
        }
        Some(steps)
    }

    /// Paths between all pairs of switches.
    pub(super) fn burden(&self) -> Burden {
        let mut load = vec![[0u32; 6]; self.switches.len()];
        let mut longest = 0;
        for to in self.present() {
            for path in self.present().filter_map(|from| self.path(from, to)) {
                longest = longest.max(path.len());
                path.into_iter().for_each(|(at, way)| load[at][way] += 1);
            }
        }
        let most_paths = load.into_iter().flatten().max().unwrap_or(0);
        Burden { most_paths, longest }
    }

    /// Number of next hops that differ from those of `before` although the path of before is over
    /// cables that are still there.
    pub(super) fn changes_of_intact_paths(&self, before: &Self) -> usize {
        let mut count = 0;
        for to in self.present().filter(|&to| before.switches[to].is_some()) {
            let others = self.present().filter(|&from| before.switches[from].is_some());
            for from in others.filter(|&from| self.way(from, to) != before.way(from, to)) {
                let is_intact = |(at, way): (usize, usize)| {
                    self.switches[at].is_some() && self.neighbors[at][way].is_some()
                };
                let path = before.path(from, to);
                count += usize::from(path.is_some_and(|path| path.into_iter().all(is_intact)));
            }
        }
        count
    }
}

impl Judge {
    pub(super) fn new(shape: &Shape) -> Self {
        Self { shape: shape.clone(), places: places(shape) }
    }

    fn is_ring(&self, axis: usize) -> bool {
        self.shape.looped[axis] && self.shape.radix[axis] > 2
    }

    /// True if the way round between two coordinates is shorter than the direct one. SLs show it in open
    /// dimensions, too, as OpenSM's do.
    fn crosses(&self, axis: usize, from: u16, to: u16) -> bool {
        let direct = from.abs_diff(to);
        direct > self.shape.radix[axis] - direct
    }

    /// The dateline bits of the SL.
    fn sl(&self, from: usize, to: usize) -> u8 {
        let [from, to] = [from, to].map(|place| self.places[place]);
        (0..3).map(|axis| u8::from(self.crosses(axis, from[axis], to[axis])) << axis).sum()
    }

    /// The direction of the next hop without damage.
    fn healthy_way(&self, from: usize, to: usize) -> u8 {
        let [from, to] = [from, to].map(|place| self.places[place]);
        let axis = (0..3).find(|&axis| from[axis] != to[axis]);
        axis.map_or(ARRIVED, |axis| {
            let goes_round = self.is_ring(axis) && self.crosses(axis, from[axis], to[axis]);
            let is_up = (to[axis] > from[axis]) != goes_round;
            2 * axis as u8 + u8::from(is_up)
        })
    }

    /// The direction from a place to a neighbour.
    fn direction(&self, from: usize, to: usize) -> usize {
        let [from, to] = [from, to].map(|place| self.places[place]);
        let axis = (0..3).find(|&axis| from[axis] != to[axis]).expect("another place");
        let radix = self.shape.radix[axis];
        let is_up = if self.is_ring(axis) {
            (from[axis] + 1) % radix == to[axis]
        } else {
            to[axis] > from[axis]
        };
        2 * axis + usize::from(is_up)
    }

    /// The VL on which packets leave in a direction that came along `axis`.
    fn vl(sl: u8, axis: usize, way: usize) -> u8 {
        sl >> (way / 2) & 1 | u8::from(axis > way / 2) << 1 | sl >> 3 << 2
    }

    /// The next hops of the forwarding tables. All LIDs at a switch have the same.
    pub(super) fn next_hops(&self, subnet: &Subnet, routing: &Routing) -> NextHops {
        let fabric = &subnet.fabric;
        let count = self.places.len();
        let first = self.shape.switch_guid([0; 3]).0;
        let torus = Torus::of(routing).expect("routed by torus-2QoS");
        let place_of = |switch: SwitchId| -> Option<usize> {
            let coordinates = torus.coordinates(switch)?.0;
            let place = (fabric.switch(switch).guid().0 - first) as usize;
            assert_eq!(coordinates.map(|c| c as u16), self.places[place], "a wrong position");
            Some(place)
        };
        let mut hops = NextHops {
            switches: vec![None; count],
            neighbors: vec![[None; 6]; count],
            ways: vec![UNROUTED; count * count],
        };
        let places: Vec<Option<usize>> = fabric.switch_ids().map(place_of).collect();
        for switch in fabric.switch_ids() {
            let Some(here) = places[switch.index()] else { continue };
            hops.switches[here] = Some(switch);
            let ports = 0..=fabric.switch(switch).num_ports();
            let by_port: Vec<Option<u8>> = ports
                .map(|num| {
                    let peer = fabric.port(fabric.switch_port(switch, PortNum(num))?).peer?;
                    let there = places[fabric.node_of(peer).switch?.index()]?;
                    let way = self.direction(here, there);
                    hops.neighbors[here][way] = Some(there);
                    Some(way as u8)
                })
                .collect();
            let mut seen = vec![None; count];
            for (lid, port) in subnet.lids.iter() {
                let node = fabric.node_of(port);
                let peer = || fabric.node_of(fabric.port(port).peer?).switch;
                let end = node.switch.or_else(peer).and_then(|switch| places[switch.index()]);
                let Some(to) = end.filter(|&to| to != here) else { continue };
                let out = routing.lft(switch).out(lid);
                let way = out.map_or(UNROUTED, |out| by_port[usize::from(out)].expect("a cable"));
                assert_eq!(*seen[to].get_or_insert(way), way, "LIDs of {to} at {here}");
                hops.ways[here * count + to] = way;
            }
            hops.ways[here * count + here] = ARRIVED;
        }
        hops
    }

    /// Asserts that intact paths are those without damage, that SLs and SL to VL mappings are those without
    /// damage, and that paths to every `step`th destination close no credit loop. Returns the number of pairs of
    /// switches without a route.
    pub(super) fn check(
        &self,
        subnet: &Subnet,
        routing: &Routing,
        step: usize,
        name: &str,
    ) -> usize {
        let hops = self.next_hops(subnet, routing);
        self.check_mappings(&hops, subnet, routing, name);
        let mut unrouted = 0;
        let mut successors = vec![0u32; CHANNELS * self.places.len()];
        for to in hops.present().step_by(step) {
            for from in hops.present() {
                let is_intact = self.is_intact(&hops, from, to);
                let way = hops.way(from, to);
                assert!(!is_intact || way == self.healthy_way(from, to), "{name}: {from} to {to}");
                self.check_sl(&hops, subnet, routing, [from, to], name);
                match hops.path(from, to) {
                    Some(path) => self.add_dependencies(&path, self.sl(from, to), &mut successors),
                    None => unrouted += 1,
                }
            }
        }
        assert!(is_acyclic(&successors, &hops), "{name}: a credit loop");
        unrouted
    }

    fn is_intact(&self, hops: &NextHops, from: usize, to: usize) -> bool {
        let mut here = from;
        while here != to {
            let way = usize::from(self.healthy_way(here, to));
            let Some(next) = hops.neighbors[here][way] else { return false };
            here = next;
        }
        true
    }

    fn add_dependencies(&self, path: &[(usize, usize)], sl: u8, successors: &mut [u32]) {
        let mut axis = LOCAL;
        let mut last = None;
        for &(at, way) in path {
            let branch = 4 * way + usize::from(Self::vl(sl, axis, way));
            if let Some(channel) = last.replace(CHANNELS * at + branch) {
                successors[channel] |= 1 << branch;
            }
            axis = way / 2;
        }
    }

    fn check_sl(
        &self,
        hops: &NextHops,
        subnet: &Subnet,
        routing: &Routing,
        pair: [usize; 2],
        name: &str,
    ) {
        let end = |place: usize| -> PortId {
            let switch = hops.switches[place].expect("a switch");
            subnet.fabric.switch(switch).first_port
        };
        let [from, to] = pair.map(end);
        for level in [0, 8] {
            let expected = Sl(self.sl(pair[0], pair[1]) | level);
            assert_eq!(routing.policy.path_sl(from, to, Sl(level)), expected, "{name}: {pair:?}");
        }
    }

    /// Each row of each SL to VL table.
    fn check_mappings(&self, hops: &NextHops, subnet: &Subnet, routing: &Routing, name: &str) {
        let fabric = &subnet.fabric;
        for here in hops.present() {
            let switch = hops.switches[here].expect("a switch");
            let ports = (0..=fabric.switch(switch).num_ports()).filter_map(|num| {
                let port = fabric.switch_port(switch, PortNum(num))?;
                let peer = fabric.port(port).peer.map(|peer| fabric.node_of(peer));
                let Some(far) = peer.filter(|node| node.is_switch()) else {
                    return (num == 0 || peer.is_some()).then_some((port, None));
                };
                // Ports to switches that stay out of the torus carry no packets.
                let there = (far.guid().0 - self.shape.switch_guid([0; 3]).0) as usize;
                hops.switches[there].map(|_| (port, Some(self.direction(here, there))))
            });
            let ports: Vec<(PortId, Option<usize>)> = ports.collect();
            for &(input, came) in &ports {
                for &(output, way) in ports.iter().filter(|(output, _)| *output != input) {
                    let mapping = routing.policy.sl_to_vl(input, output).expect("a mapping");
                    let expected = (0..16u8).map(|sl| match way {
                        Some(way) => Self::vl(sl, came.map_or(LOCAL, |way| way / 2), way),
                        None => sl >> 3,
                    });
                    let vls: Vec<u8> = mapping.vls().to_vec();
                    assert_eq!(
                        vls,
                        expected.collect::<Vec<_>>(),
                        "{name}: {here} {came:?} {way:?}"
                    );
                }
            }
        }
    }
}

/// True if the dependencies of channels, by channel a mask of those at the next switch, have no cycle.
fn is_acyclic(successors: &[u32], hops: &NextHops) -> bool {
    let followers = |channel: usize| {
        let mask = successors[channel];
        let end = hops.neighbors[channel / CHANNELS][channel % CHANNELS / 4];
        (0..CHANNELS)
            .filter(move |bit| mask >> bit & 1 == 1)
            .map(move |bit| end.expect("a cable") * CHANNELS + bit)
    };
    let mut pending = vec![0u32; successors.len()];
    (0..successors.len()).flat_map(followers).for_each(|channel| pending[channel] += 1);
    let mut free: Vec<usize> =
        (0..pending.len()).filter(|&channel| pending[channel] == 0).collect();
    let mut sorted = 0;
    while let Some(channel) = free.pop() {
        sorted += 1;
        for next in followers(channel) {
            pending[next] -= 1;
            if pending[next] == 0 {
                free.push(next);
            }
        }
    }
    sorted == pending.len()
}
