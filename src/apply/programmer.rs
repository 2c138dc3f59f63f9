//! Sends the Sets of a plan and records the answers.

use super::acknowledged::Acknowledged;
use super::answers::{Answers, Changes, update_observation};
use super::control::ApplyControl;
use super::delta::{Delta, SetRequest};
use super::pass::{PassFailures, Sent};
use super::phases::{PHASES, Phase};
use super::progress::{Progress, Unapplied};
use super::refused_ports;
use super::report::{ApplyReport, TransitionReport};
use super::scope::Scope;
use super::sender::Sender;
use super::set_id::SetId;
use super::transition::{self, Steps};
use super::{changed, fdr10, link_down};
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId};
use crate::ids::Guid;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::plan::Plan;
use crate::transport::client::SmpClient;
use crate::verify::Verified;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::time::Instant;

/// Applies `plan` to the devices of `observation`, unless `control` ends it early. Afterwards
/// `observation` contains the state that the devices acknowledged, and `acknowledged` their tables.
/// The links of the ports `unreachable`, whose peers do not answer, are taken down.
pub async fn apply(
    client: &SmpClient,
    observation: &mut Observation,
    plan: &Verified,
    acknowledged: &mut Acknowledged,
    (options, keys, mut control): (&Options, &MKeys, ApplyControl<'_>),
    unreachable: &[PortId],
) -> ApplyReport {
    let start = Instant::now();
    let mut report = ApplyReport::default();
    acknowledged.failures_mut().forget_restarted(&observation.fabric);
    let mut changed = changed::changed_nodes(acknowledged, observation, plan.plan(), keys);
    let scope = changed.as_deref().map_or(Scope::All, Scope::Nodes);
    acknowledged.forget_doubtful(&observation.fabric, scope, &observation.changed_switches);
    if acknowledged.settled().is_none() {
        changed = None;
    }
    let scope = changed.as_deref().map_or(Scope::All, Scope::Nodes);
    let delta = Delta { scope, ..Delta::new(observation, plan.plan(), acknowledged, keys) };
    debug_assert!(changed::is_complete(&delta), "a node outside of the scope needs Sets");
    report.unknown = changed::guids(&delta, |node| delta.known(node).is_none()).collect();
    let (restarted, inactive) = (restarted(&delta), delta.inactive_switch_ports());
    acknowledged.record_restarted(restarted);
    let mut failures = PassFailures::new(&observation.fabric, keys);
    let delta = Delta { scope, ..Delta::new(observation, plan.plan(), acknowledged, keys) };
    let undrained_since = acknowledged.undrained_since();
    let steps = ordered(&delta, options, &mut report);
    let mut progress = steps.as_ref().map(|steps| match options.strict_transitions {
        true => Progress::strict(steps, transition::strict::drain_time(options), undrained_since),
        false => Progress::new(steps),
    });
    for phase in PHASES {
        let phase_start = Instant::now();
        let mut sets = 0;
        for _ in 0..phase.max_rounds() {
            let delta = Delta {
                // In an ordered transition, each mapping is a step of its own.
                optimized_sl_to_vl: options.use_optimized_slvl && progress.is_none(),
                fdr10: options.fdr10,
                scope,
                ..Delta::new(observation, plan.plan(), acknowledged, keys)
            };
            let failed = report.failed.len();
            let answers = Answers {
                start,
                report: &mut report,
                before: acknowledged.failures(),
                failures: &mut failures,
                changes: Changes::default(),
                ignore_sl_to_vl_errors: options.suppress_sl2vl_mad_status_errors,
            };
            let mut run = PhaseRun { client, answers, control: &mut control };
            let sent = match &mut progress {
                Some(progress) => run.ordered_phase(phase, delta, progress).await,
                None => run.phase(phase, delta).await,
            };
            let changes = run.answers.changes;
            update_observation(observation, changes);
            let rekeyed = refused_ports::take_rekeyed(
                client,
                (observation, plan.plan()),
                &mut report,
                failed,
            );
            for port in rekeyed.await {
                failures.recovered(observation.fabric.port(port.0).node);
                let ports = vec![port];
                update_observation(observation, Changes { ports, ..Changes::default() });
            }
            sets += sent;
            // A Set that failed would fail again.
            if sent == 0 || report.failed.len() > failed {
                break;
            }
        }
        report.sent[phase as usize] = (sets, phase_start.elapsed());
    }
    if control.stop().is_none() {
        let delta = Delta { scope, ..Delta::new(observation, plan.plan(), acknowledged, keys) };
        let answers = Answers {
            start,
            report: &mut report,
            before: acknowledged.failures(),
            failures: &mut failures,
            changes: Changes::default(),
            ignore_sl_to_vl_errors: false,
        };
        // The traps about the links that it takes down must not end it.
        let control = &mut ApplyControl::to_the_end();
        let mut run = PhaseRun { client, answers, control };
        run.take_links_down(delta, unreachable).await;
        let changes = run.answers.changes;
        update_observation(observation, changes);
    }
    report.stop = control.into_stop();
    let ports = refused_ports::read(client, &observation.fabric, &report.failed, keys).await;
    update_observation(observation, Changes { ports, ..Changes::default() });
    report.conclude(&observation.fabric, plan.plan(), &mut failures);
    let mut left = report.unapplied();
    if let (Some(transition), Some(progress)) = (&mut report.transition, &progress) {
        let delta = Delta::new(observation, plan.plan(), acknowledged, keys);
        (transition.forced, transition.withheld) =
            progress.outcome(&delta, report.stop.is_some(), &mut left);
    }
    let undrained_since = progress.as_ref().and_then(Progress::undrained_since);
    drop(progress);
    report.committed_routes = steps.map(Steps::into_committed_routes).unwrap_or_default();
    record(acknowledged, observation, plan.plan(), left);
    acknowledged.record_undrained(undrained_since);
    if report.stop.is_none() && report.reset_links.is_empty() && unreachable.is_empty() {
        let delta = Delta::new(observation, plan.plan(), acknowledged, keys);
        let settled = changed::settled_after(&delta, &observation.pkeys, failures.admitted());
        acknowledged.settle(settled);
    }
    acknowledged.record_raised(&observation.fabric, &inactive);
    acknowledged.record_unanswered(&observation.fabric, report.unanswered(), report.not_sent());
    let (fabric, now) = (&observation.fabric, Instant::now());
    if report.stop.is_none() {
        let new = failures.to_record(&report.delayed);
        acknowledged.failures_mut().replace(fabric, plan.plan(), &new, now);
    }
    report
}

/// Applies a plan that differs from the last one in multicast groups only; see [`apply`].
pub async fn apply_groups(
    client: &SmpClient,
    observation: &mut Observation,
    plan: &Verified,
    acknowledged: &mut Acknowledged,
    (keys, mut control): (&MKeys, ApplyControl<'_>),
) -> ApplyReport {
    let start = Instant::now();
    let mut report = ApplyReport::default();
    let delta = Delta::new(observation, plan.plan(), acknowledged, keys);
    let steps = transition::order_groups(&delta);
    report.transition = Some(order_report(&steps, start));
    let mut progress = Progress::new(&steps);
    let mut failures = PassFailures::new(&observation.fabric, keys);
    let answers = Answers {
        start,
        report: &mut report,
        before: acknowledged.failures(),
        failures: &mut failures,
        changes: Changes::default(),
        ignore_sl_to_vl_errors: false,
    };
    let mut run = PhaseRun { client, answers, control: &mut control };
    let sets = run.send_steps(delta, &mut progress, std::iter::empty()).await;
    let changes = run.answers.changes;
    report.stop = control.into_stop();
    report.sent[Phase::Tables as usize] = (sets, start.elapsed());
    report.conclude(&observation.fabric, plan.plan(), &mut failures);
    let mut left = report.unapplied();
    if let Some(transition) = &mut report.transition {
        // Branches over links that are not up wait for the reconfiguration that activates them.
        (transition.forced, transition.withheld) = progress.outcome(&delta, true, &mut left);
    }
    let sets: Vec<SetId> = steps.iter().filter_map(|step| step.set).collect();
    let arrived = sets.into_iter().filter(|set| progress.is_complete(set));
    let arrived: Vec<SetId> = arrived.collect();
    update_observation(observation, changes);
    acknowledged.advance(&observation.fabric, plan.plan(), arrived.into_iter(), &left.failed);
    let new = failures.to_record(&report.delayed);
    acknowledged.failures_mut().add(&observation.fabric, plan.plan(), &new, Instant::now());
    report
}

/// The channel adapters and routers that have lost their tables.
fn restarted(delta: &Delta<'_>) -> HashSet<Guid> {
    let is_switch = |node| delta.fabric.node(node).is_switch();
    changed::guids(delta, |node| !is_switch(node) && delta.has_lost_tables(node)).collect()
}

/// Orders the tables, if the fabric is live.
fn ordered(delta: &Delta<'_>, options: &Options, report: &mut ApplyReport) -> Option<Steps> {
    if !transition::is_live(delta) {
        return None;
    }
    let start = Instant::now();
    let is_strict = options.strict_transitions;
    let steps = if is_strict { transition::strict::order(delta) } else { transition::order(delta) };
    report.transition = Some(TransitionReport { is_strict, ..order_report(&steps, start) });
    Some(steps)
}

fn order_report(steps: &Steps, start: Instant) -> TransitionReport {
    let sets = || steps.iter().filter(|step| step.set.is_some());
    TransitionReport {
        sets: sets().count(),
        intermediate: steps.intermediate(),
        deferred: sets().filter(|step| step.is_deferred && !step.is_secondary).count(),
        removed_entries: steps.removed_entries(),
        ordering: start.elapsed(),
        ..TransitionReport::default()
    }
}

fn record(
    acknowledged: &mut Acknowledged,
    observation: &Observation,
    plan: &Arc<Plan>,
    left: Unapplied,
) {
    acknowledged.replace(&observation.fabric, plan, &left.failed);
    for (set, data) in left.withheld_blocks {
        let guid = observation.fabric.node(set.node).guid();
        acknowledged.withhold(guid, set.attr_mod, data);
    }
}

pub(super) struct PhaseRun<'r, 'c> {
    pub client: &'r SmpClient,
    pub answers: Answers<'r>,
    pub control: &'r mut ApplyControl<'c>,
}

impl PhaseRun<'_, '_> {
    /// Sends the Sets of a phase in any order.
    pub(super) async fn phase(&mut self, phase: Phase, delta: Delta<'_>) -> usize {
        let fabric = delta.fabric;
        match phase {
            Phase::Tables => {
                let changes = delta
                    .switch_infos()
                    .chain(delta.lfts())
                    .chain(delta.mfts())
                    .chain(delta.sl_to_vls())
                    .chain(delta.vl_arbitrations())
                    .chain(delta.pkey_tables_and_doubtful())
                    .chain(delta.guid_tables());
                let sent = self.send(fabric, changes).await;
                sent + self.send(fabric, delta.sl_to_vl_exceptions()).await
            }
            Phase::Keys => self.send(fabric, delta.pkey_tables()).await,
            Phase::Ports => {
                let changes = delta.port_infos().chain(fdr10::changes(delta));
                self.send(fabric, changes).await
            }
            Phase::SwitchKeys => self.send(fabric, delta.rekeyed_switches()).await,
            Phase::Activation => {
                self.send(fabric, delta.activations(|slot| delta.is_ready(slot))).await
            }
            Phase::Moves => 0,
        }
    }

    /// Sends the Sets of a phase of an ordered transition.
    async fn ordered_phase(
        &mut self,
        phase: Phase,
        delta: Delta<'_>,
        progress: &mut Progress<'_>,
    ) -> usize {
        match phase {
            Phase::Tables => {
                let others = delta.vl_arbitrations().chain(delta.pkey_tables_and_doubtful());
                let others = others.chain(delta.guid_tables());
                self.send_steps(delta, progress, others).await
            }
            Phase::Moves => {
                let is_active = |slot: PortId| {
                    let peer = delta.fabric.port(slot).peer;
                    peer.is_some_and(|peer| transition::is_active(delta.fabric, slot, peer))
                };
                progress.dispatch.ports_active(is_active);
                self.send_steps(delta, progress, std::iter::empty()).await
            }
            Phase::Keys | Phase::Ports | Phase::SwitchKeys | Phase::Activation => {
                self.phase(phase, delta).await
            }
        }
    }

    /// Takes links down whose MTU or operational VLs change, and those of the ports `unreachable`.
    /// Waits until the former are trained; both their ends count as being in INIT until the next
    /// sweep.
    async fn take_links_down(&mut self, delta: Delta<'_>, unreachable: &[PortId]) {
        let fabric = delta.fabric;
        let mut links: Vec<PortId> = delta.reset_links().collect();
        for ports in link_down::farthest_first(fabric, links.iter().chain(unreachable)) {
            self.send(fabric, delta.take_down(&ports)).await;
        }
        let acknowledged = self.answers.changes.ports.iter().map(|&(id, _)| id);
        let down: HashSet<PortId> = acknowledged.collect();
        links.retain(|id| down.contains(id));
        link_down::await_training(self.client, fabric, &links, delta.keys).await;
        self.answers.changes.ports.extend(link_down::in_init(fabric, &links));
        let report = &mut self.answers.report;
        report.unreachable_peers = unreachable.to_vec();
        report.unreachable_peers.retain(|id| down.contains(id));
        report.reset_ports.extend(links.iter().flat_map(|&id| link_down::sets_of_link(fabric, id)));
        report.reset_links = links;
    }

    async fn send(&mut self, fabric: &Fabric, changes: impl Iterator<Item = SetRequest>) -> usize {
        let (mut changes, answers) = (changes.fuse(), &mut self.answers);
        let mut sender = Sender::new(self.client, self.control);
        let mut count = 0;
        loop {
            while sender.has_room()
                && let Some((set, request)) = changes.next()
            {
                if answers.failures.admits(fabric, answers.before, set, &request.data) {
                    sender.submit(Sent { set, step: None, data: request.data }, request);
                    count += 1;
                }
            }
            let Some((sent, answer)) = sender.next().await else { break };
            if answers.answered(fabric, &sent, answer) {
                let waiting = sender.cancel(sent.set.node);
                answers.failures.unsent.extend(waiting.iter().map(|other| other.set));
            }
        }
        answers.report.cut(sender.into_cut(), changes);
        count
    }

    /// Sends the steps, each when its predecessors are done, and the `others`, which are
    /// secondary, too.
    async fn send_steps(
        &mut self,
        delta: Delta<'_>,
        progress: &mut Progress<'_>,
        others: impl Iterator<Item = SetRequest>,
    ) -> usize {
        let (mut others, answers) = (others.fuse(), &mut self.answers);
        let mut sender = Sender::new(self.client, self.control);
        let mut count = 0;
        loop {
            while sender.has_room() {
                let with_secondary = sender.has_room_for_secondary();
                let step = progress.dispatch.take(with_secondary);
                let change = step.and_then(|step| progress.request(step, delta));
                let other = || if with_secondary { others.next() } else { None };
                let Some((set, request)) = change.or_else(other) else { break };
                if answers.failures.admits(delta.fabric, answers.before, set, &request.data) {
                    sender.submit(Sent { set, step, data: request.data }, request);
                    count += 1;
                } else if let Some(index) = step {
                    progress.done(index, false);
                }
            }
            let Some((sent, answer)) = sender.next().await else {
                if !sender.is_stopped()
                    && let Some(end) = progress.drain_end()
                {
                    let start = Instant::now();
                    sender.wait_until(end).await;
                    if let Some(report) = &mut answers.report.transition {
                        report.drained_for = start.elapsed();
                    }
                    if !sender.is_stopped() {
                        progress.dispatch.drained();
                    }
                    continue;
                }
                if !sender.is_stopped() && progress.dispatch.break_cycle() {
                    continue;
                }
                break;
            };
            let is_done = answer.is_ok();
            let is_silent = answers.answered(delta.fabric, &sent, answer);
            if let Some(index) = sent.step {
                progress.done(index, is_done);
            }
            if is_silent {
                let waiting = sender.cancel(sent.set.node);
                answers.failures.unsent.extend(waiting.iter().map(|other| other.set));
                waiting.iter().filter_map(|other| other.step).for_each(|step| {
                    progress.done(step, false);
                });
            }
        }
        answers.report.cut(sender.into_cut(), others);
        // A failed intermediate version is irrelevant if the planned version was acknowledged.
        answers.report.failed.retain(|(set, _)| !progress.is_complete(set));
        count
    }
}
