//! Groups of ports for adaptive routing, and the load of cables under patterns of traffic.
//!
//! Loads are computed, not simulated: every flow has weight 1, and a switch spreads it evenly over the
//! ports of a group. The busiest cable carries the flows of which the pattern has most in common.

use super::json::{AdaptiveFacts, BusiestCable, TrafficFacts};
use super::scenario::OfflineScenario;
use super::trial::{OfflineTrial, TrialOutcome};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Lid;
use crate::plan::Plan;
use crate::plan::adaptive::modes::AdaptiveModes;
use crate::plan::adaptive::{AdaptiveGroups, GroupsInput};
use crate::publish::traffic::{PatternLoad, RoutedTraffic};
use crate::sim::TrafficPattern;
use crate::sim::random::Random;
use crate::verify::Checks;
use crate::verify::adaptive::{ProvenGroups, prove};
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
pub(super) fn groups(
    scenario: &OfflineScenario,
    fabric: &Fabric,
    trial: &OfflineTrial,
) -> Option<ProvenGroups> {
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
    let samples = FlowSamples::draw(fabric, plan, pattern, seed)?;
    let of_samples = samples.pairs.par_iter().map(|pairs| {
        let fixed = samples.load(pairs, None);
        [fixed.highest(), busiest_shared(fabric, &fixed)]
    });
    let of_samples: Vec<[f64; 2]> = of_samples.collect();
    let adaptive = groups.map(|groups| {
        let loads =
            samples.pairs.par_iter().map(|pairs| samples.load(pairs, Some(groups)).highest());
        BusiestCable::of(loads.collect())
    });
    Some(TrafficFacts {
        pattern: pattern.name(),
        samples: pattern.samples(),
        busiest_static: BusiestCable::of(of_samples.iter().map(|[fixed, _]| *fixed).collect()),
        busiest_adaptive: adaptive,
        busiest_shared: BusiestCable::of(of_samples.iter().map(|[_, shared]| *shared).collect()),
    })
}

impl BusiestCable {
    /// `loads`: one or more.
    fn of(mut loads: Vec<f64>) -> Self {
        loads.sort_by(f64::total_cmp);
        Self { median: loads[loads.len() / 2], highest: loads[loads.len() - 1] }
    }
}

/// The flows through each port of a switch, by port slot: the mean of the samples of a pattern, with groups if
/// there are any. `None` with fewer than two hosts.
pub(super) fn mean_loads(
    fabric: &Fabric,
    plan: &Plan,
    groups: Option<&AdaptiveGroups>,
    pattern: RandomPattern,
    seed: u64,
) -> Option<Vec<f64>> {
    let samples = FlowSamples::draw(fabric, plan, pattern, seed)?;
    let count = samples.pairs.len() as f64;
    let mut mean = vec![0.0; fabric.ports().len()];
    for pairs in &samples.pairs {
        let load = samples.load(pairs, groups);
        mean.iter_mut().zip(load.ports).for_each(|(mean, load)| *mean += load / count);
    }
    Some(mean)
}

/// Samples of a pattern on the routes of a plan.
struct FlowSamples<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    /// Sender and receiver of each flow of a sample.
    pairs: Vec<Vec<[usize; 2]>>,
}

impl<'a> FlowSamples<'a> {
    /// `None` with fewer than two hosts.
    fn draw(fabric: &'a Fabric, plan: &'a Plan, pattern: RandomPattern, seed: u64) -> Option<Self> {
        let hosts = RoutedTraffic { fabric, plan, choices: &|_, _| None }.host_count();
        if hosts < 2 {
            return None;
        }
        let mut random = Random(seed);
        let pairs = (0..pattern.samples()).map(|_| pattern.pairs(hosts, &mut random)).collect();
        Some(Self { fabric, plan, pairs })
    }

    /// The load of a sample. With groups, a switch spreads each flow over all ports that it may choose.
    fn load(&self, pairs: &[[usize; 2]], groups: Option<&AdaptiveGroups>) -> PatternLoad {
        let Self { fabric, plan, .. } = *self;
        let choices = |switch: SwitchId, lid: Lid| {
            Some(groups?.ports(switch, lid, plan.routing.lft(switch).entry(lid)))
        };
        let routes = RoutedTraffic { fabric, plan, choices: &choices };
        let mut senders: Vec<Vec<(usize, f64)>> = vec![Vec::new(); routes.host_count()];
        pairs.iter().for_each(|&[from, to]| senders[to].push((from, 1.0)));
        routes.load_of(&|to| senders[to].clone())
    }
}

/// The load of the busiest cable if the cables between two switches shared their flows evenly.
fn busiest_shared(fabric: &Fabric, load: &PatternLoad) -> f64 {
    let mut shared = 0.0_f64;
    for switch in fabric.switch_ids() {
        let mut loads: BTreeMap<SwitchId, (f64, f64)> = BTreeMap::new();
        let node = fabric.switches()[switch.index()];
        for port in fabric.ports_of(node) {
            let Some(peer) = port.peer else { continue };
            let Some(to) = fabric.node_of(peer).switch else { continue };
            let (flows, cables) = loads.entry(to).or_default();
            let slot = fabric.port_of(node, port.num);
            *flows += slot.map_or(0.0, |slot| load.ports[slot.index()]);
            *cables += 1.0;
        }
        shared = loads.values().map(|(flows, cables)| flows / cables).fold(shared, f64::max);
    }
    shared
}
