//! Groups of ports for adaptive routing, and the load of cables under patterns of traffic.
//!
//! Loads are computed, not simulated: every flow has weight 1, and a switch spreads it evenly over the
//! ports of a group. The busiest cable carries the flows of which the pattern has most in common.

use super::json::{AdaptiveFacts, Busiest, TrafficFacts};
use super::scenario::Scenario;
use super::trial::{Trial, TrialOutcome};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, PortNum};
use crate::plan::Plan;
use crate::plan::adaptive::modes::AdaptiveModes;
use crate::plan::adaptive::{AdaptiveGroups, GroupsInput};
use crate::plan::routing::PortMask;
use crate::sim::TrafficPattern;
use crate::sim::random::Random;
use crate::verify::adaptive::{ProvenGroups, prove};
use crate::verify::{Checks, MAX_PATH_SWITCHES};
use crate::wire::attr::tables::LFT_NO_PATH;
use clap::ValueEnum;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Random patterns of which the median is shown.
const SAMPLES: usize = 50;

/// Which hosts send to which, up to what a sample draws at random.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum RandomPattern {
    /// Each host sends to a random other one.
    Uniform,
    /// Host i sends to host i + k, with a random k.
    Shift,
    /// All hosts send to a random one.
    HotSpot,
    /// Each host sends to all others.
    AllToAll,
}

impl RandomPattern {
    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Shift => "shift",
            Self::HotSpot => "hot-spot",
            Self::AllToAll => "all-to-all",
        }
    }

    fn samples(self) -> usize {
        if self == Self::AllToAll { 1 } else { SAMPLES }
    }

    /// The pattern of a sample.
    fn draw(self, hosts: usize, random: &mut Random) -> TrafficPattern {
        match self {
            Self::Uniform => TrafficPattern::Uniform,
            Self::Shift => TrafficPattern::Shift(1 + random.below(hosts as u64 - 1) as usize),
            Self::HotSpot => TrafficPattern::HotSpot(random.below(hosts as u64) as usize),
            Self::AllToAll => TrafficPattern::AllToAll,
        }
    }

    /// The pairs of hosts of a sample, by their numbers. There are at least two hosts.
    fn pairs(self, hosts: usize, random: &mut Random) -> Vec<[usize; 2]> {
        let pattern = self.draw(hosts, random);
        let mut pairs = Vec::new();
        for from in 0..hosts {
            let destinations = pattern.destinations(from, hosts, random);
            pairs.extend(destinations.into_iter().map(|to| [from, to]));
        }
        pairs
    }
}

/// The proven groups of a plan; `None` without a plan or without an engine or a key that needs them.
pub(super) fn groups(scenario: &Scenario, fabric: &Fabric, trial: &Trial) -> Option<ProvenGroups> {
    let TrialOutcome::Routed(verified) = &trial.outcome else { return None };
    let plan = verified.plan();
    if !AdaptiveModes::of(&scenario.options, plan.routing.engine).needs_groups() {
        return None;
    }
    let groups = GroupsInput::new(fabric, plan).groups();
    let checks = Checks::of(&scenario.options);
    Some(match &trial.findings {
        Some(findings) => findings.prove_groups(fabric, &checks, groups),
        None => prove(fabric, plan, &checks, groups),
    })
}

pub(super) fn facts(proven: &ProvenGroups) -> AdaptiveFacts {
    AdaptiveFacts {
        rule: proven.groups.rule.name(),
        groups: proven.groups.count(),
        static_lids: proven.groups.masked().len(),
        dependencies: proven.dependencies,
    }
}

/// The load of the busiest cable under a pattern, static and with groups. `None` with fewer than two
/// hosts.
pub(super) fn traffic(
    fabric: &Fabric,
    plan: &Plan,
    groups: Option<&AdaptiveGroups>,
    pattern: RandomPattern,
    seed: u64,
) -> Option<TrafficFacts> {
    let is_host = |port: &PortId| !fabric.node_of(*port).is_switch();
    let mut hosts: Vec<(Lid, PortId)> = fabric
        .end_ports()
        .filter(is_host)
        .filter_map(|port| Some((plan.lids.base(port)?, port)))
        .collect();
    hosts.sort_unstable();
    if hosts.len() < 2 {
        return None;
    }
    let mut random = Random(seed);
    let samples: Vec<Vec<[usize; 2]>> =
        (0..pattern.samples()).map(|_| pattern.pairs(hosts.len(), &mut random)).collect();
    let loaded = |pairs: &Vec<[usize; 2]>, groups| {
        let mut load = Load { fabric, plan, groups, ports: vec![0.0; fabric.ports().len()] };
        for &[from, to] in pairs {
            load.add(hosts[from].1, hosts[to].0);
        }
        load
    };
    let of_samples = samples.par_iter().map(|pairs| {
        let fixed = loaded(pairs, None);
        [fixed.busiest(), fixed.busiest_shared()]
    });
    let of_samples: Vec<[f64; 2]> = of_samples.collect();
    let adaptive = groups.map(|groups| {
        let loads = samples.par_iter().map(|pairs| loaded(pairs, Some(groups)).busiest());
        Busiest::of(loads.collect())
    });
    Some(TrafficFacts {
        pattern: pattern.name(),
        samples: pattern.samples(),
        busiest_static: Busiest::of(of_samples.iter().map(|[fixed, _]| *fixed).collect()),
        busiest_adaptive: adaptive,
        busiest_shared: Busiest::of(of_samples.iter().map(|[_, shared]| *shared).collect()),
    })
}

impl Busiest {
    /// `loads`: one or more.
    fn of(mut loads: Vec<f64>) -> Self {
        loads.sort_by(f64::total_cmp);
        Self { median: loads[loads.len() / 2], highest: loads[loads.len() - 1] }
    }
}

/// The load of the ports between switches.
struct Load<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    groups: Option<&'a AdaptiveGroups>,
    /// By port slot.
    ports: Vec<f64>,
}

impl Load<'_> {
    fn busiest(&self) -> f64 {
        self.ports.iter().copied().fold(0.0, f64::max)
    }

    /// The load of the busiest cable if the cables between two switches shared their flows evenly.
    fn busiest_shared(&self) -> f64 {
        let mut shared = 0.0_f64;
        for switch in self.fabric.switch_ids() {
            let mut loads: BTreeMap<SwitchId, (f64, f64)> = BTreeMap::new();
            let node = self.fabric.switches()[switch.index()];
            for port in self.fabric.ports_of(node) {
                let Some(peer) = port.peer else { continue };
                let Some(to) = self.fabric.node_of(peer).switch else { continue };
                let (load, cables) = loads.entry(to).or_default();
                let slot = self.fabric.port_of(node, port.num);
                *load += slot.map_or(0.0, |slot| self.ports[slot.index()]);
                *cables += 1.0;
            }
            shared = loads.values().map(|(load, cables)| load / cables).fold(shared, f64::max);
        }
        shared
    }

    /// Adds a flow, which spreads over all ports that each switch may choose.
    fn add(&mut self, from: PortId, lid: Lid) {
        let Some(first) = self.fabric.switch_behind(from) else { return };
        let mut here: BTreeMap<SwitchId, f64> = [(first, 1.0)].into();
        for _ in 0..MAX_PATH_SWITCHES {
            let mut next: BTreeMap<SwitchId, f64> = BTreeMap::new();
            for (switch, weight) in here {
                let fixed = self.plan.routing.lft(switch).entry(lid);
                if fixed == LFT_NO_PATH {
                    continue;
                }
                let ports = match self.groups {
                    Some(groups) => groups.ports(switch, lid, fixed),
                    None => PortMask::only(fixed),
                };
                let share = weight / ports.iter().count() as f64;
                for num in ports.iter().map(PortNum) {
                    let Some(port) = self.fabric.switch_port(switch, num) else { continue };
                    let peer = self.fabric.port(port).peer;
                    let Some(to) = peer.and_then(|peer| self.fabric.node_of(peer).switch) else {
                        continue;
                    };
                    self.ports[port.index()] += share;
                    *next.entry(to).or_default() += share;
                }
            }
            if next.is_empty() {
                return;
            }
            here = next;
        }
    }
}
