//! Failure analysis: removes switches and cables in turn, alone and in pairs, and plans the remaining
//! fabric. `choice` selects the failures.
//!
//! Only cables between switches are removed. Each failure is planned as by the daemon on the
//! running fabric: with the LIDs and the routes from before the failure. `cure` proposes what routes
//! those that are not routed.

mod choice;
mod cure;

pub use choice::{DEFAULT_SAMPLES, FailureExtent};

use super::json::{
    Cure, FailedCableEnd, FailedComponent, FailureCause, FailureFacts, FailureKind, FailureResult,
    KindFacts, Reason, WhatIf,
};
use super::progress;
use super::scenario::{OfflineScenario, SmLocation, snapshot};
use super::trial::{OfflineTrial, PreviousPlan, TrialOutcome};
use crate::fabric::Fabric;
use crate::fabric::topology::Topology;
use crate::fabric::topology::TopologyNode;
use crate::plan::Plan;
use crate::plan::routing::RoutingError;
use crate::plan::routing::torus::Torus;
use crate::wire::attr::NodeKind;
use choice::{Components, FailedPart};
use indicatif::ProgressBar;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Plans the fabric without each component in turn, and without pairs of them, as `extent` says, and looks
/// for a cure of failures that are not routed. `whole` is the plan of the whole fabric.
pub fn run(
    scenario: &mut OfflineScenario,
    fabric: &Fabric,
    whole: &OfflineTrial,
    extent: FailureExtent,
) -> WhatIf {
    let topology = scenario.topology.clone();
    let components = Components::new(&topology);
    let kinds = components.failures(extent);
    let study = FailureStudy::new(scenario, fabric, whole);
    let bar = progress::bar("what if", kinds.iter().map(|kind| kind.tried.len()).sum());
    let mut by_kind = Vec::new();
    let mut facts = Vec::new();
    let mut lost = Vec::new();
    for kind in &kinds {
        let results = study.without_each(&kind.tried, &bar);
        by_kind.push(kind_facts(kind.kind, kind.possible, &results));
        let tried = kind.tried.iter().zip(&results).filter(|(_, facts)| facts.reason.is_some());
        lost.extend(tried.map(|(failure, _)| failure.clone()));
        facts.extend(results);
    }
    bar.finish_and_clear();
    drop(study);
    WhatIf {
        at_a_time: usize::from(extent.at_a_time),
        switches: components.switches.len(),
        cables: components.cables.len(),
        routed: count(&facts, FailureResult::Routed),
        fallback: count(&facts, FailureResult::Fallback),
        unrouted: count(&facts, FailureResult::Unrouted),
        seed: extent.seed,
        kinds: by_kind,
        worst: worst(&facts),
        causes: causes(&facts),
        cure: cure(scenario, fabric, whole, &lost),
        failures: facts,
    }
}

fn count(facts: &[FailureFacts], result: FailureResult) -> usize {
    facts.iter().filter(|failure| failure.result == result).count()
}

/// The seed with which most of the failures `lost` are routed by the same engine. The seeds of
/// `scenario` are the same again afterwards.
fn cure(
    scenario: &mut OfflineScenario,
    fabric: &Fabric,
    whole: &OfflineTrial,
    lost: &[Vec<FailedPart>],
) -> Option<Cure> {
    let TrialOutcome::Routed(verified) = &whole.outcome else { return None };
    let torus = Torus::of(&verified.plan().routing)?;
    let seeds = scenario.torus_config.as_ref().map_or(0, |config| config.seeds.len());
    let further = match &scenario.torus_config {
        Ok(config) if !lost.is_empty() => cure::further_seeds(fabric, torus, config),
        _ => return None,
    };
    let bar = progress::bar("cure", further.len() * lost.len());
    let mut best: Option<Cure> = None;
    for seed in further {
        if let Ok(config) = &mut scenario.torus_config {
            config.seeds.push(seed);
        }
        let results = FailureStudy::new(scenario, fabric, whole).without_each(lost, &bar);
        if let Ok(config) = &mut scenario.torus_config {
            config.seeds.pop();
        }
        let routed = results.iter().filter(|facts| facts.reason.is_none()).count();
        if routed > best.as_ref().map_or(0, |best| best.routed) {
            let config = format!("next_seed\n{seed}");
            best = Some(Cure { seeds, config, routed, failures: lost.len() });
        }
        if routed == lost.len() {
            break;
        }
    }
    bar.finish_and_clear();
    best
}

/// Maximum number of failures listed as the worst.
const MAX_WORST: usize = 10;

fn kind_facts(kind: FailureKind, possible: usize, failures: &[FailureFacts]) -> KindFacts {
    KindFacts {
        kind,
        possible,
        tried: failures.len(),
        complete: count_if(failures, |failure| is_routed(failure) && failure.loss() == (0, 0)),
        partial: count_if(failures, |failure| is_routed(failure) && failure.loss() != (0, 0)),
        fallback: count(failures, FailureResult::Fallback),
        unrouted: count(failures, FailureResult::Unrouted),
        repaired: count_if(failures, |failure| failure.is_repaired),
    }
}

fn count_if(failures: &[FailureFacts], is_such: impl Fn(&FailureFacts) -> bool) -> usize {
    failures.iter().filter(|failure| is_such(failure)).count()
}

fn is_routed(failure: &FailureFacts) -> bool {
    failure.result == FailureResult::Routed
}

/// The failures that cost most routes although the same engine routes the fabric; without any such,
/// those with the longest paths around damage.
fn worst(failures: &[FailureFacts]) -> Vec<FailureFacts> {
    let routed = failures.iter().filter(|failure| failure.result == FailureResult::Routed);
    let mut worst: Vec<&FailureFacts> =
        routed.filter(|failure| failure.loss() != (0, 0) || failure.is_repaired).collect();
    worst.sort_by_key(|failure| std::cmp::Reverse((failure.loss(), failure.longest_path)));
    worst.into_iter().take(MAX_WORST).cloned().collect()
}

/// The fabric before the failures.
struct FailureStudy<'a> {
    scenario: &'a OfflineScenario,
    /// The plan before the failures, if the whole fabric could be routed.
    before: Option<PreviousPlan<'a>>,
    /// The engine that routed the whole fabric, else the first one configured.
    engine: Option<&'static str>,
    end_ports: usize,
    /// By node: the node at the other end of its first cable.
    home: Vec<Option<usize>>,
}

impl<'a> FailureStudy<'a> {
    fn new(scenario: &'a OfflineScenario, fabric: &Fabric, whole: &'a OfflineTrial) -> Self {
        let plan = match &whole.outcome {
            TrialOutcome::Routed(verified) => Some(&**verified.plan()),
            _ => None,
        };
        let mut home = vec![None; scenario.topology.nodes.len()];
        for &[(a, _), (b, _)] in &scenario.topology.cables {
            home[a].get_or_insert(b);
            home[b].get_or_insert(a);
        }
        let engine = plan.map(|plan| plan.routing.engine);
        let end_ports = reached(fabric, plan);
        let engine = engine.or_else(|| scenario.chain.names().next());
        let before = plan.map(|plan| PreviousPlan::new(scenario, fabric, plan, &whole.memory));
        Self { scenario, before, engine, end_ports, home }
    }

    /// Plans the fabric without the parts of each failure.
    fn without_each(&self, failures: &[Vec<FailedPart>], bar: &ProgressBar) -> Vec<FailureFacts> {
        let each = failures.par_iter().map(|failure| {
            let facts = self.without(failure);
            bar.inc(1);
            facts
        });
        each.collect()
    }

    /// Plans the fabric without `parts`.
    fn without(&self, parts: &[FailedPart]) -> FailureFacts {
        let topology = &self.scenario.topology;
        let components = parts.iter().map(|&part| component(topology, part)).collect();
        let left = remaining(topology, parts);
        let location = self.sm_location(&left, parts);
        let Some(fabric) = location.and_then(|location| snapshot(&left, location)) else {
            let text = "no node with a cable is left".to_owned();
            return FailureFacts {
                components,
                result: FailureResult::Unrouted,
                cut_off: self.end_ports,
                unrouted_pairs: 0,
                is_repaired: false,
                longest_path: None,
                reason: Some(Reason { code: None, text }),
            };
        };
        let trial = OfflineTrial::run(self.scenario, &fabric, self.before.as_ref());
        let verified = match &trial.outcome {
            TrialOutcome::Routed(verified) => Some(verified),
            _ => None,
        };
        let plan = verified.map(|verified| &**verified.plan());
        let summary = verified.map(|verified| verified.summary());
        let torus = plan.and_then(|plan| Torus::of(&plan.routing));
        let gone = self.gone_with(parts);
        let (result, reason) = self.judge(&trial);
        FailureFacts {
            components,
            result,
            cut_off: self.end_ports.saturating_sub(reached(&fabric, plan) + gone),
            unrouted_pairs: summary.map_or(0, |summary| summary.unrouted.hosts),
            is_repaired: torus.is_some_and(|torus| torus.repair().is_some()),
            longest_path: summary.map(|summary| summary.longest_path),
            reason,
        }
    }

    /// Location of the subnet manager; if that fails with `parts`, the first host left, as for a
    /// standby.
    fn sm_location(&self, left: &Topology, parts: &[FailedPart]) -> Option<SmLocation> {
        let lives = |node: usize| {
            !is_gone(parts, node) && self.home[node].is_none_or(|home| !is_gone(parts, home))
        };
        if lives(self.scenario.sm_location.0) {
            return Some(self.scenario.sm_location);
        }
        let mut nodes = (0..left.nodes.len()).filter(|&node| lives(node));
        let host = nodes.clone().find(|&node| left.nodes[node].kind == NodeKind::Ca);
        host.or_else(|| nodes.next()).map(|node| (node, None))
    }

    /// Number of end ports that fail with the switches: port 0 of each, and its hosts.
    fn gone_with(&self, parts: &[FailedPart]) -> usize {
        let nodes = &self.scenario.topology.nodes;
        let gone = parts.iter().filter_map(|part| match part {
            FailedPart::Switch(switch) => Some(1 + hosts_of(nodes, &self.home, *switch)),
            FailedPart::Cable(_) => None,
        });
        gone.sum()
    }

    fn judge(&self, trial: &OfflineTrial) -> (FailureResult, Option<Reason>) {
        match &trial.outcome {
            TrialOutcome::Routed(verified) => {
                let routing = &verified.plan().routing;
                if Some(routing.engine) == self.engine {
                    return (FailureResult::Routed, None);
                }
                (FailureResult::Fallback, Some(reason_of(&routing.routing_errors)))
            }
            TrialOutcome::Unrouted { routing_errors, .. } => {
                (FailureResult::Unrouted, Some(reason_of(routing_errors)))
            }
            TrialOutcome::Faulty(failure) => {
                let text = failure.faults.first().map_or_else(String::new, ToString::to_string);
                let code = Some("fault".to_owned());
                (FailureResult::Unrouted, Some(Reason { code, text }))
            }
        }
    }
}

fn hosts_of(nodes: &[TopologyNode], home: &[Option<usize>], switch: usize) -> usize {
    (0..nodes.len()).filter(|&index| is_host(nodes, home, index, switch)).count()
}

fn is_host(nodes: &[TopologyNode], home: &[Option<usize>], index: usize, switch: usize) -> bool {
    nodes[index].kind != NodeKind::Switch && home[index] == Some(switch)
}

fn is_gone(parts: &[FailedPart], node: usize) -> bool {
    parts.contains(&FailedPart::Switch(node))
}

/// Number of end ports that the plan reaches; all of them without a plan.
fn reached(fabric: &Fabric, plan: Option<&Plan>) -> usize {
    let Some(plan) = plan else { return fabric.end_ports().count() };
    fabric
        .end_ports()
        .filter(|&port| {
            let (Some(lid), Some(at)) = (plan.lids.base(port), fabric.switch_behind(port)) else {
                return false;
            };
            plan.routing.lfts.get(at.index()).is_some_and(|table| table.out(lid).is_some())
        })
        .count()
}

/// The reason of the first engine that gives one.
fn reason_of(errors: &[RoutingError]) -> Reason {
    match errors.iter().find_map(RoutingError::reason) {
        Some(note) => Reason { code: note.code.map(str::to_owned), text: note.text.clone() },
        None => {
            let names: Vec<&str> = errors.iter().map(|error| error.engine).collect();
            let text = format!("refused without a reason by {}", names.join(", "));
            Reason { code: None, text }
        }
    }
}

/// The topology without the cables of `parts`; sweeps do not see nodes without cables.
fn remaining(topology: &Topology, parts: &[FailedPart]) -> Topology {
    let mut left = topology.clone();
    let mut index = 0;
    left.cables.retain(|ends| {
        let here = FailedPart::Cable(index);
        index += 1;
        !parts.contains(&here)
            && !ends.iter().any(|&(node, _)| parts.contains(&FailedPart::Switch(node)))
    });
    left
}

fn component(topology: &Topology, part: FailedPart) -> FailedComponent {
    match part {
        FailedPart::Switch(index) => {
            let node = &topology.nodes[index];
            FailedComponent::Switch { guid: node.guid, description: node.description.clone() }
        }
        FailedPart::Cable(index) => {
            let ends = topology.cables[index].map(|(node, port)| {
                let node = &topology.nodes[node];
                let description = node.description.clone();
                FailedCableEnd { guid: node.guid, port: port.0, description }
            });
            FailedComponent::Cable { ends }
        }
    }
}

/// Groups the failures after which the fabric is not routed by the same engine, most frequent cause
/// first.
fn causes(failures: &[FailureFacts]) -> Vec<FailureCause> {
    let mut by_code: BTreeMap<Option<&str>, FailureCause> = BTreeMap::new();
    for reason in failures.iter().filter_map(|failure| failure.reason.as_ref()) {
        let cause = by_code.entry(reason.code.as_deref()).or_insert_with(|| FailureCause {
            code: reason.code.clone(),
            failures: 0,
            example: reason.text.clone(),
        });
        cause.failures += 1;
    }
    let mut causes: Vec<FailureCause> = by_code.into_values().collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.failures));
    causes
}
