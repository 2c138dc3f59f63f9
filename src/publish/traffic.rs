//! The load of cables between switches under a pattern of traffic between hosts, computed from the routes.
//!
//! Every flow has weight 1, and a switch spreads it evenly over the ports that it may choose. For each
//! destination the switches are visited in topological order, so that the work is one visit of each switch that
//! its packets pass, however many hosts send.

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, PortNum};
use crate::plan::Plan;
use crate::plan::routing::PortMask;
use rayon::prelude::*;

/// Destinations in one task.
const HOSTS_PER_CHUNK: usize = 32;

/// Which hosts send to which; hosts are numbered in the order of their LIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadPattern {
    /// Each host sends one flow to a random other host: the expected load.
    Uniform,
    /// Host i sends to host i + k, modulo their number.
    Shift(usize),
    /// All other hosts send to this one.
    HotSpot(usize),
    /// Each host sends to each other one.
    AllToAll,
}

impl LoadPattern {
    /// The flow from a host to another one.
    fn weight(self, from: usize, to: usize, hosts: usize) -> f64 {
        let sends = match self {
            Self::Uniform => return 1.0 / (hosts - 1) as f64,
            Self::Shift(by) => (from + by) % hosts == to,
            Self::HotSpot(host) => host % hosts == to,
            Self::AllToAll => true,
        };
        f64::from(u8::from(sends))
    }
}

/// The ports that a switch may choose for a LID; `None` for the static port alone.
pub type PortChoices<'a> = dyn Fn(SwitchId, Lid) -> Option<PortMask> + Sync + 'a;

/// The routes of a fabric.
pub struct RoutedTraffic<'a> {
    pub fabric: &'a Fabric,
    pub plan: &'a Plan,
    pub choices: &'a PortChoices<'a>,
}

/// The load of ports.
#[derive(Clone, PartialEq, Debug)]
pub struct PatternLoad {
    /// Number of hosts with a LID.
    pub hosts: usize,
    /// Flows through each port of a switch that leads to another switch, by port slot; 0 for others.
    pub ports: Vec<f64>,
}

impl PatternLoad {
    /// The load of the busiest port.
    pub fn highest(&self) -> f64 {
        self.ports.iter().copied().fold(0.0, f64::max)
    }

    fn add(mut self, other: &Self) -> Self {
        self.ports.iter_mut().zip(&other.ports).for_each(|(sum, more)| *sum += more);
        self
    }
}

struct TrafficHost {
    lid: Lid,
    switch: SwitchId,
}

impl RoutedTraffic<'_> {
    /// The load of all ports under a pattern.
    pub fn load(&self, pattern: LoadPattern) -> PatternLoad {
        let hosts = self.hosts().len();
        self.load_of(&|to| {
            let flows = (0..hosts).map(|from| (from, pattern.weight(from, to, hosts)));
            flows.filter(|(_, weight)| *weight > 0.0).collect()
        })
    }

    /// The load of all ports with these flows: `flows_to` has the senders and weights of the flows to a host. A
    /// host sends nothing to itself.
    pub fn load_of(&self, flows_to: &(dyn Fn(usize) -> Vec<(usize, f64)> + Sync)) -> PatternLoad {
        let hosts = self.hosts();
        let none =
            || PatternLoad { hosts: hosts.len(), ports: vec![0.0; self.fabric.ports().len()] };
        let numbers: Vec<usize> = (0..hosts.len()).collect();
        let chunks = numbers.par_chunks(HOSTS_PER_CHUNK).map(|chunk| {
            let mut walk = FlowWalk::new(self);
            let mut load = none();
            for &to in chunk {
                walk.begin();
                for (from, weight) in flows_to(to).into_iter().filter(|(from, _)| *from != to) {
                    walk.send(hosts[from].switch, weight);
                }
                walk.deliver(hosts[to].lid, &mut load.ports);
            }
            load
        });
        chunks.reduce(none, |sum, more| sum.add(&more))
    }

    /// Number of hosts with a LID.
    pub fn host_count(&self) -> usize {
        self.hosts().len()
    }

    fn hosts(&self) -> Vec<TrafficHost> {
        let Self { fabric, plan, .. } = self;
        let ports = fabric.end_ports().filter(|port| !fabric.node_of(*port).is_switch());
        let hosts = ports.filter_map(|port| {
            Some(TrafficHost { lid: plan.lids.base(port)?, switch: fabric.switch_behind(port)? })
        });
        let mut hosts: Vec<TrafficHost> = hosts.collect();
        hosts.sort_unstable_by_key(|host| host.lid);
        hosts
    }

    fn ports(&self, switch: SwitchId, lid: Lid) -> PortMask {
        let Some(fixed) = self.plan.routing.lft(switch).out(lid) else {
            return PortMask::default();
        };
        (self.choices)(switch, lid).unwrap_or_else(|| PortMask::only(fixed))
    }
}

/// Packets to one destination at a time.
struct FlowWalk<'a> {
    routes: &'a RoutedTraffic<'a>,
    /// By switch: the flows that arrive there.
    weight: Vec<f64>,
    /// By switch: true if it was visited.
    is_visited: Vec<bool>,
    sources: Vec<SwitchId>,
}

/// A switch on the way of packets: its ports to switches, and how many of them were followed.
struct Visit {
    switch: SwitchId,
    next: Vec<(PortId, SwitchId)>,
    followed: usize,
}

impl<'a> FlowWalk<'a> {
    fn new(routes: &'a RoutedTraffic<'a>) -> Self {
        let switches = routes.fabric.switches().len();
        let weight = vec![0.0; switches];
        Self { routes, weight, is_visited: vec![false; switches], sources: Vec::new() }
    }

    fn begin(&mut self) {
        self.weight.fill(0.0);
        self.is_visited.fill(false);
        self.sources.clear();
    }

    /// Adds flows that begin at a switch.
    fn send(&mut self, switch: SwitchId, weight: f64) {
        if self.weight[switch.index()] == 0.0 {
            self.sources.push(switch);
        }
        self.weight[switch.index()] += weight;
    }

    /// Leads all flows to a LID, and adds them to the load of the ports. Flows that circle pass each switch
    /// once.
    fn deliver(&mut self, lid: Lid, load: &mut [f64]) {
        // Depth-first, so that the reverse order in which visits end is topological.
        let mut ended: Vec<Visit> = Vec::new();
        for source in std::mem::take(&mut self.sources) {
            let mut path: Vec<Visit> = self.visit(source, lid).into_iter().collect();
            while let Some(last) = path.last_mut() {
                let next = last.next.get(last.followed).map(|&(_, next)| next);
                last.followed += 1;
                match next {
                    Some(next) => path.extend(self.visit(next, lid)),
                    None => ended.extend(path.pop()),
                }
            }
        }
        for Visit { switch, next, .. } in ended.into_iter().rev() {
            let share = self.weight[switch.index()] / next.len().max(1) as f64;
            for (port, to) in next {
                load[port.index()] += share;
                self.weight[to.index()] += share;
            }
        }
    }

    /// Begins the visit of a switch; `None` if it was visited.
    fn visit(&mut self, switch: SwitchId, lid: Lid) -> Option<Visit> {
        if std::mem::replace(&mut self.is_visited[switch.index()], true) {
            return None;
        }
        let fabric = self.routes.fabric;
        let ports = self.routes.ports(switch, lid);
        let ports = ports.iter().filter_map(|num| fabric.switch_port(switch, PortNum(num)));
        let next = ports.filter_map(|port| {
            let peer = fabric.port(port).peer?;
            Some((port, fabric.node_of(peer).switch?))
        });
        Some(Visit { switch, next: next.collect(), followed: 0 })
    }
}
