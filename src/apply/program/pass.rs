//! One pass over the devices: sends the Sets of a plan, phase by phase, and records what the devices
//! hold afterwards.

use super::answers::{AnswerChanges, Answers, update_observation};
use super::control::ApplyControl;
use super::failures::PassFailures;
use super::phases::{PHASES, Phase};
use super::refused_ports;
use super::report::{ApplyReport, TransitionReport};
use super::round::Round;
use crate::apply::acknowledged::Acknowledged;
use crate::apply::delta::scope::Scope;
use crate::apply::delta::{Delta, changed};
use crate::apply::link_down;
use crate::apply::transition::progress::{Drain, TransitionProgress, Unapplied};
use crate::apply::transition::{self, Steps, strict};
use crate::config::options::Options;
use crate::fabric::{NodeId, PortId};
use crate::ids::Guid;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::plan::Plan;
use crate::transport::client::SmpClient;
use crate::verify::Verified;
use crate::verify::idle_ports::IdlePorts;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The devices that a pass programs, and what is known about them. After the pass `observation`
/// contains the state that the devices acknowledged, and `acknowledged` their tables.
pub struct PassDevices<'a> {
    pub client: &'a SmpClient,
    pub observation: &'a mut Observation,
    pub acknowledged: &'a mut Acknowledged,
    /// The M_Keys that ports hold.
    pub keys: &'a MKeys,
}

impl PassDevices<'_> {
    fn delta<'d>(&'d self, plan: &'d Plan, scope: Scope<'d>) -> Delta<'d> {
        Delta { scope, ..Delta::new(self.observation, plan, self.acknowledged, self.keys) }
    }
}

/// How plans are applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApplySettings {
    /// Write equal SL to VL mappings for many ports at once (`use_optimized_slvl`).
    pub optimized_sl_to_vl: bool,
    /// The option `fdr10`; 0 leaves the ports as they are.
    pub fdr10: u8,
    /// Treat a refused SL to VL mapping as accepted (`suppress_sl2vl_mad_status_errors`).
    pub ignores_sl_to_vl_errors: bool,
    /// Time for which packets drain in strict transitions; `None` if transitions are not strict.
    pub drain_time: Option<Duration>,
}

impl From<&Options> for ApplySettings {
    fn from(options: &Options) -> Self {
        Self {
            optimized_sl_to_vl: options.use_optimized_slvl,
            fdr10: options.fdr10,
            ignores_sl_to_vl_errors: options.suppress_sl2vl_mad_status_errors,
            drain_time: options.strict_transitions.then(|| strict::drain_time(options)),
        }
    }
}

/// Applies `plan` to the devices, unless `control` ends it early. The links of the ports
/// `unreachable`, whose peers do not answer, are taken down.
pub async fn apply(
    devices: PassDevices<'_>,
    plan: &Verified,
    settings: ApplySettings,
    control: ApplyControl<'_>,
    unreachable: &[PortId],
) -> ApplyReport {
    let mut pass = Pass::begin(devices, plan.plan(), PassExtent::Plan, settings, control);
    pass.compare_changed_nodes();
    let inactive = pass.delta().inactive_switch_ports();
    pass.clear_state_changes().await;
    pass.order();
    for phase in PHASES {
        pass.run_phase(phase).await;
    }
    pass.take_links_down(unreachable).await;
    let unapplied = pass.conclude().await;
    let is_clean = pass.report.links_down.reset.is_empty() && unreachable.is_empty();
    pass.record_plan(unapplied, &inactive, is_clean);
    pass.report
}

/// Applies a plan that differs from the last one in multicast groups only; see [`apply`].
pub async fn apply_groups(
    devices: PassDevices<'_>,
    plan: &Verified,
    control: ApplyControl<'_>,
) -> ApplyReport {
    let settings = ApplySettings::default();
    let mut pass = Pass::begin(devices, plan.plan(), PassExtent::Groups, settings, control);
    pass.order();
    pass.run_phase(Phase::Tables).await;
    let unapplied = pass.conclude().await;
    pass.record_groups(&unapplied);
    pass.report
}

/// The phases that write no forwarding, SL to VL or VL arbitration table. P_Keys come before the port
/// settings that may enforce them.
const IDLE_PORT_PHASES: [Phase; 4] =
    [Phase::Keys, Phase::Ports, Phase::SwitchKeys, Phase::Activation];

/// Brings up ports that carry no data, and writes no table of a switch (see
/// [`crate::plan::idle_ports`]). Nothing is recorded of the tables of the devices.
pub async fn apply_idle_ports(devices: PassDevices<'_>, plan: &IdlePorts) -> ApplyReport {
    let settings = ApplySettings::default();
    let control = ApplyControl::to_the_end();
    let mut pass = Pass::begin(devices, plan.plan(), PassExtent::IdlePorts, settings, control);
    for phase in IDLE_PORT_PHASES {
        pass.run_phase(phase).await;
    }
    pass.conclude().await;
    pass.record_failures();
    pass.report
}

/// The part of a plan that a pass applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PassExtent {
    Plan,
    /// Multicast forwarding tables, and the SwitchInfo that they need.
    Groups,
    /// P_Key tables and PortInfo.
    IdlePorts,
}

/// The part of a pass that a round sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RoundPart {
    /// The Sets of [`Delta::state_changes_near_restarted`].
    StateChanges,
    Phase(Phase),
}

struct Pass<'a> {
    devices: PassDevices<'a>,
    plan: &'a Arc<Plan>,
    extent: PassExtent,
    settings: ApplySettings,
    control: ApplyControl<'a>,
    start: Instant,
    /// The nodes that are compared, ascending; `None` stands for all.
    changed: Option<Vec<NodeId>>,
    /// The ordered transition; `None` if tables may be written in any order.
    transition: Option<TransitionProgress>,
    failures: PassFailures,
    report: ApplyReport,
}

impl<'a> Pass<'a> {
    fn begin(
        devices: PassDevices<'a>,
        plan: &'a Arc<Plan>,
        extent: PassExtent,
        settings: ApplySettings,
        control: ApplyControl<'a>,
    ) -> Self {
        let failures = PassFailures::new(&devices.observation.fabric, devices.keys);
        Self {
            devices,
            plan,
            extent,
            settings,
            control,
            start: Instant::now(),
            changed: None,
            transition: None,
            failures,
            report: ApplyReport::default(),
        }
    }

    /// The differences at present.
    fn delta(&self) -> Delta<'_> {
        self.devices.delta(self.plan, scope(&self.changed))
    }

    /// Finds the nodes that may need Sets, and those that have lost their tables.
    fn compare_changed_nodes(&mut self) {
        let PassDevices { observation, acknowledged, keys, .. } = &mut self.devices;
        let fabric = &observation.fabric;
        acknowledged.failures_mut().forget_restarted(fabric);
        self.changed = changed::changed_nodes(acknowledged, observation, self.plan, keys);
        acknowledged.forget_doubtful(fabric, scope(&self.changed), &observation.changed_switches);
        if acknowledged.settled().is_none() {
            self.changed = None;
        }
        let delta = self.delta();
        debug_assert!(changed::is_complete(&delta), "a node outside of the scope needs Sets");
        let unknown = changed::guids(&delta, |node| delta.known(node).is_none()).collect();
        let restarted: HashSet<Guid> = changed::guids(&delta, |node| {
            !delta.fabric.node(node).is_switch() && delta.has_lost_tables(node)
        })
        .collect();
        self.report.unknown = unknown;
        self.devices.acknowledged.record_restarted(restarted);
    }

    /// Clears PortStateChange of the switches of devices that get their tables again, before these are written: the
    /// bit then tells of a device that restarts once more ([`Acknowledged::forget_doubtful`]). On a fabric that is not
    /// live, the Sets of SwitchInfo are the first of all.
    async fn clear_state_changes(&mut self) {
        if transition::is_live(&self.delta()) {
            self.round(RoundPart::StateChanges).await;
        }
    }

    /// Orders the tables, if the fabric is live.
    fn order(&mut self) {
        let start = Instant::now();
        let delta = self.delta();
        let strict = self.settings.drain_time.filter(|_| self.extent == PassExtent::Plan);
        let steps = match self.extent {
            PassExtent::Groups => transition::order_groups(&delta),
            _ if !transition::is_live(&delta) => return,
            _ if strict.is_some() => strict::order(&delta),
            _ => transition::order(&delta),
        };
        let undrained_since = self.devices.acknowledged.undrained_since();
        let drain = strict.map(|time| Drain::new(time, undrained_since));
        self.report.transition =
            Some(TransitionReport { is_strict: strict.is_some(), ..order_report(&steps, start) });
        self.transition = Some(TransitionProgress::new(steps, drain));
    }

    /// Sends the Sets of a phase, in rounds.
    async fn run_phase(&mut self, phase: Phase) {
        let start = Instant::now();
        let mut sets = 0;
        for _ in 0..phase.max_rounds() {
            let failed = self.report.unacknowledged.failed.len();
            let sent = self.round(RoundPart::Phase(phase)).await;
            self.recover_rekeyed(failed).await;
            sets += sent;
            // A Set that failed would fail again.
            if sent == 0 || self.report.unacknowledged.failed.len() > failed {
                break;
            }
        }
        self.report.sent[phase as usize] = (sets, start.elapsed());
    }

    /// Sends the Sets that a part needs now. Returns their number.
    async fn round(&mut self, part: RoundPart) -> usize {
        let delta = Delta {
            // In an ordered transition, each mapping is a step of its own.
            optimized_sl_to_vl: self.settings.optimized_sl_to_vl && self.transition.is_none(),
            fdr10: self.settings.fdr10,
            ..self.devices.delta(self.plan, scope(&self.changed))
        };
        let mut round = Round {
            client: self.devices.client,
            control: &mut self.control,
            answers: Answers {
                start: self.start,
                report: &mut self.report,
                before: self.devices.acknowledged.failures(),
                failures: &mut self.failures,
                changes: AnswerChanges::default(),
                ignores_sl_to_vl_errors: self.settings.ignores_sl_to_vl_errors,
            },
        };
        let sent = match (part, &mut self.transition) {
            (RoundPart::StateChanges, _) => {
                round.send(delta.fabric, delta.state_changes_near_restarted()).await
            }
            (RoundPart::Phase(phase), None) => round.phase(phase, delta).await,
            (RoundPart::Phase(_), Some(steps)) if self.extent == PassExtent::Groups => {
                round.send_steps(delta, steps, std::iter::empty()).await
            }
            (RoundPart::Phase(phase), Some(steps)) => {
                round.ordered_phase(phase, delta, steps).await
            }
        };
        let changes = round.answers.changes;
        update_observation(self.devices.observation, changes);
        sent
    }

    /// Removes the failures from the one with index `first` on whose ports have taken another M_Key
    /// all the same.
    async fn recover_rekeyed(&mut self, first: usize) {
        let PassDevices { client, observation, .. } = &mut self.devices;
        let failed = &mut self.report.unacknowledged.failed;
        let ports =
            refused_ports::take_rekeyed(client, &observation.fabric, self.plan, failed, first);
        let ports = ports.await;
        for &(port, _) in &ports {
            self.failures.recovered(observation.fabric.port(port).node);
        }
        update_observation(observation, AnswerChanges { ports, ..AnswerChanges::default() });
    }

    /// Takes links down whose MTU or operational VLs change, and those of the ports `unreachable`.
    /// Waits until the former are trained; both their ends count as being in INIT until the next
    /// sweep.
    async fn take_links_down(&mut self, unreachable: &[PortId]) {
        if self.control.stop().is_some() {
            return;
        }
        let delta = self.devices.delta(self.plan, scope(&self.changed));
        let client = self.devices.client;
        let mut round = Round {
            client,
            // The traps about these links must not end it.
            control: &mut ApplyControl::to_the_end(),
            answers: Answers {
                start: self.start,
                report: &mut self.report,
                before: self.devices.acknowledged.failures(),
                failures: &mut self.failures,
                changes: AnswerChanges::default(),
                ignores_sl_to_vl_errors: false,
            },
        };
        let mut links: Vec<PortId> = delta.reset_links().collect();
        for ports in link_down::farthest_first(delta.fabric, links.iter().chain(unreachable)) {
            round.send(delta.fabric, delta.take_down(&ports)).await;
        }
        let mut changes = round.answers.changes;
        let down: HashSet<PortId> = changes.ports.iter().map(|&(id, _)| id).collect();
        links.retain(|id| down.contains(id));
        link_down::await_training(client, delta.fabric, &links, delta.keys).await;
        changes.ports.extend(link_down::in_init(delta.fabric, &links));
        let report = &mut self.report;
        report.links_down.unreachable_peers =
            unreachable.iter().copied().filter(|id| down.contains(id)).collect();
        let reset = links.iter().flat_map(|&id| link_down::sets_of_link(delta.fabric, id));
        report.links_down.reset_ports.extend(reset);
        report.links_down.reset = links;
        update_observation(self.devices.observation, changes);
    }

    /// Completes the report. Returns the Sets that the devices do not hold as planned.
    async fn conclude(&mut self) -> Unapplied {
        let PassDevices { client, observation, keys, .. } = &mut self.devices;
        self.report.stop = self.control.stop().cloned();
        let ports = refused_ports::read(
            client,
            &observation.fabric,
            &self.report.unacknowledged.failed,
            keys,
        )
        .await;
        update_observation(observation, AnswerChanges { ports, ..AnswerChanges::default() });
        let fabric = &self.devices.observation.fabric;
        self.report.conclude(fabric, self.plan, &mut self.failures);
        let mut unapplied = self.report.unapplied();
        if let Some(steps) = &self.transition {
            // Branches of groups over links that are not up wait for the reconfiguration that
            // activates them.
            let has_unsent = self.report.stop.is_some() || self.extent == PassExtent::Groups;
            let delta = self.devices.delta(self.plan, Scope::All);
            let withheld = steps.record_outcome(&delta, has_unsent, &mut unapplied);
            if let Some(report) = &mut self.report.transition {
                report.forced = steps.forced();
                report.withheld = withheld;
            }
        }
        unapplied
    }

    /// Records that the devices hold the plan, except for `unapplied`. `inactive`: ports of switches
    /// that were not up when the pass began. `is_clean`: no link was taken down.
    fn record_plan(&mut self, unapplied: Unapplied, inactive: &[PortId], is_clean: bool) {
        let undrained_since =
            self.transition.as_ref().and_then(TransitionProgress::undrained_since);
        if let Some(steps) = self.transition.take() {
            self.report.committed_routes = steps.into_committed_routes();
        }
        let observation = &*self.devices.observation;
        let fabric = &observation.fabric;
        let acknowledged = &mut *self.devices.acknowledged;
        acknowledged.replace(fabric, self.plan, &unapplied.failed);
        for (set, data) in unapplied.withheld_blocks {
            acknowledged.withhold(fabric.node(set.node).guid(), set.attr_mod, data);
        }
        acknowledged.record_undrained(undrained_since);
        if self.report.stop.is_none() && is_clean {
            let delta = Delta::new(observation, self.plan, acknowledged, self.devices.keys);
            let touched = self.failures.admitted();
            let settled = changed::settled_after(&delta, &observation.pkeys, touched);
            acknowledged.settle(settled);
        }
        acknowledged.record_raised(fabric, inactive);
        let report = &self.report;
        acknowledged.record_unanswered(fabric, report.unanswered(), report.not_sent());
        if self.report.stop.is_none() {
            let new = self.failures.to_record(&self.report.unacknowledged.delayed);
            acknowledged.failures_mut().replace(fabric, self.plan, &new, Instant::now());
        }
    }

    /// Records that the devices hold the changed groups, except for `unapplied`.
    fn record_groups(&mut self, unapplied: &Unapplied) {
        if let Some(steps) = &self.transition {
            let fabric = &self.devices.observation.fabric;
            let acknowledged = &mut *self.devices.acknowledged;
            acknowledged.advance(fabric, self.plan, steps.complete_sets(), &unapplied.failed);
        }
        self.record_failures();
    }

    /// Adds the failures of this pass to those of earlier ones.
    fn record_failures(&mut self) {
        let fabric = &self.devices.observation.fabric;
        let new = self.failures.to_record(&self.report.unacknowledged.delayed);
        self.devices.acknowledged.failures_mut().add(fabric, self.plan, &new, Instant::now());
    }
}

/// The nodes that are compared.
fn scope(changed: &Option<Vec<NodeId>>) -> Scope<'_> {
    changed.as_deref().map_or(Scope::All, Scope::Nodes)
}

fn order_report(steps: &Steps, start: Instant) -> TransitionReport {
    let sets = steps.iter().filter(|step| step.set.is_some());
    TransitionReport {
        sets: sets.clone().count(),
        intermediate: steps.intermediate(),
        deferred: sets.filter(|step| step.is_deferred && !step.is_secondary).count(),
        removed_entries: steps.removed_entries(),
        ordering: start.elapsed(),
        ..TransitionReport::default()
    }
}
