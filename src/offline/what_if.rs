//! Failure analysis: removes switches and cables in turn, and plans the remaining fabric.
//!
//! Only cables between switches are removed. Each failure is planned as by the daemon on the
//! running fabric: with the LIDs and the routes from before the failure.

use super::json::{CableEnd, Cause, FailedComponent, FailureFacts, FailureResult, Reason, WhatIf};
use super::progress;
use super::scenario::{Scenario, SmLocation, snapshot};
use super::trial::{PreviousPlan, Trial, TrialOutcome};
use crate::fabric::Fabric;
use crate::fabric::topology::Topology;
use crate::ids::PortNum;
use crate::plan::Plan;
use crate::plan::routing::RoutingError;
use crate::wire::attr::NodeKind;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A component that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailedPart {
    /// Index of a node of the topology.
    Switch(usize),
    /// Index of a cable of the topology.
    Cable(usize),
}

/// Plans the fabric without each switch and each cable in turn; with `pairs` also without each pair
/// of them. `whole` is the plan of the whole fabric.
pub fn run(scenario: &Scenario, fabric: &Fabric, whole: &Trial, pairs: bool) -> WhatIf {
    let topology = &scenario.topology;
    let is_switch = |index: usize| topology.nodes[index].kind == NodeKind::Switch;
    let switches: Vec<FailedPart> = (0..topology.nodes.len())
        .filter(|&index| is_switch(index))
        .map(FailedPart::Switch)
        .collect();
    let joins = |cable: &usize| topology.cables[*cable].iter().all(|&(node, _)| is_switch(node));
    let cables: Vec<FailedPart> =
        (0..topology.cables.len()).filter(joins).map(FailedPart::Cable).collect();
    let parts: Vec<FailedPart> = switches.iter().chain(&cables).copied().collect();
    let failures = failures(topology, &parts, pairs);
    let study = FailureStudy::new(scenario, fabric, whole);
    let bar = progress::bar(failures.len());
    let try_one = |failure: &Vec<FailedPart>| {
        let facts = study.without(failure);
        bar.inc(1);
        facts
    };
    let facts: Vec<FailureFacts> = failures.par_iter().map(try_one).collect();
    bar.finish_and_clear();
    let count = |result| facts.iter().filter(|failure| failure.result == result).count();
    WhatIf {
        at_a_time: if pairs { 2 } else { 1 },
        switches: switches.len(),
        cables: cables.len(),
        routed: count(FailureResult::Routed),
        fallback: count(FailureResult::Fallback),
        unrouted: count(FailureResult::Unrouted),
        causes: causes(&facts),
        failures: facts,
    }
}

/// All single failures; with `pairs` then all double failures, except those of a switch and one of
/// its own cables.
fn failures(topology: &Topology, parts: &[FailedPart], pairs: bool) -> Vec<Vec<FailedPart>> {
    let mut failures: Vec<Vec<FailedPart>> = parts.iter().map(|&part| vec![part]).collect();
    if !pairs {
        return failures;
    }
    for (index, &first) in parts.iter().enumerate() {
        let others = parts.iter().skip(index + 1).filter(|&&second| match (first, second) {
            (FailedPart::Switch(node), FailedPart::Cable(cable)) => {
                topology.cables[cable].iter().all(|&(end, _)| end != node)
            }
            _ => true,
        });
        failures.extend(others.map(|&second| vec![first, second]));
    }
    failures
}

/// The fabric before the failures.
struct FailureStudy<'a> {
    scenario: &'a Scenario,
    /// The plan before the failures, if the whole fabric could be routed.
    before: Option<PreviousPlan<'a>>,
    /// The engine that routed the whole fabric, else the first one configured.
    engine: Option<&'static str>,
    end_ports: usize,
    /// By node: the node at the other end of its first cable.
    home: Vec<Option<usize>>,
}

impl<'a> FailureStudy<'a> {
    fn new(scenario: &'a Scenario, fabric: &Fabric, whole: &'a Trial) -> Self {
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

    /// Plans the fabric without `parts`.
    fn without(&self, parts: &[FailedPart]) -> FailureFacts {
        let topology = &self.scenario.topology;
        let components = parts.iter().map(|&part| component(topology, part)).collect();
        let facts = |result, cut_off, reason| FailureFacts { components, result, cut_off, reason };
        let lost = |text: &str| Some(Reason { code: None, text: text.to_owned() });
        let left = remaining(topology, parts);
        let Some(sm_location) = self.sm_location(&left, parts) else {
            return facts(
                FailureResult::Unrouted,
                self.end_ports,
                lost("no node with a cable is left"),
            );
        };
        let Some(fabric) = snapshot(&left, sm_location) else {
            return facts(
                FailureResult::Unrouted,
                self.end_ports,
                lost("no node with a cable is left"),
            );
        };
        let trial = Trial::run(self.scenario, &fabric, self.before.as_ref());
        let plan = match &trial.outcome {
            TrialOutcome::Routed(verified) => Some(&**verified.plan()),
            _ => None,
        };
        let gone = self.gone_with(parts);
        let cut_off = self.end_ports.saturating_sub(reached(&fabric, plan) + gone);
        let (result, reason) = self.judge(&trial);
        facts(result, cut_off, reason)
    }

    /// Location of the subnet manager; if that fails with `parts`, the first host left, as for a
    /// standby.
    fn sm_location(&self, left: &Topology, parts: &[FailedPart]) -> Option<SmLocation> {
        let is_gone = |node: usize| parts.contains(&FailedPart::Switch(node));
        let lives =
            |node: usize| !is_gone(node) && self.home[node].is_none_or(|home| !is_gone(home));
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
        let hosts_of = |switch: usize| {
            let is_host = |index: usize| {
                nodes[index].kind != NodeKind::Switch && self.home[index] == Some(switch)
            };
            (0..nodes.len()).filter(|&index| is_host(index)).count()
        };
        let gone = parts.iter().filter_map(|part| match part {
            FailedPart::Switch(switch) => Some(1 + hosts_of(*switch)),
            FailedPart::Cable(_) => None,
        });
        gone.sum()
    }

    fn judge(&self, trial: &Trial) -> (FailureResult, Option<Reason>) {
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
                let text = failure.faults.first().map(ToString::to_string).unwrap_or_default();
                let code = Some("fault".to_owned());
                (FailureResult::Unrouted, Some(Reason { code, text }))
            }
        }
    }
}

/// Number of end ports that the plan reaches; all of them without a plan.
fn reached(fabric: &Fabric, plan: Option<&Plan>) -> usize {
    let Some(plan) = plan else { return fabric.end_ports().count() };
    let has_route = |&port: &crate::fabric::PortId| {
        let (Some(lid), Some(at)) = (plan.lids.base(port), fabric.switch_behind(port)) else {
            return false;
        };
        plan.routing.lfts.get(at.index()).is_some_and(|table| table.out(lid).is_some())
    };
    fabric.end_ports().filter(has_route).count()
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
        let is_cut = |&(node, _): &(usize, PortNum)| parts.contains(&FailedPart::Switch(node));
        !parts.contains(&here) && !ends.iter().any(is_cut)
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
                CableEnd { guid: node.guid, port: port.0, description }
            });
            FailedComponent::Cable { ends }
        }
    }
}

/// Groups the failures after which the fabric is not routed by the same engine, most frequent cause
/// first.
fn causes(failures: &[FailureFacts]) -> Vec<Cause> {
    let mut by_code: BTreeMap<Option<&str>, Cause> = BTreeMap::new();
    for reason in failures.iter().filter_map(|failure| failure.reason.as_ref()) {
        let cause = by_code.entry(reason.code.as_deref()).or_insert_with(|| Cause {
            code: reason.code.clone(),
            failures: 0,
            example: reason.text.clone(),
        });
        cause.failures += 1;
    }
    let mut causes: Vec<Cause> = by_code.into_values().collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.failures));
    causes
}
