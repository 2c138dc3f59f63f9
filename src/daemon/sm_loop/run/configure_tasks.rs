//! The tasks that bring the fabric that a sweep found to its configured state.

use super::{Exit, SmLoop};
use crate::apply::ApplyControl;
use crate::daemon::messages::FirstSweep;
use crate::daemon::sm_loop::agenda::{FollowUp, TaskKind};
use crate::daemon::sm_loop::env::LoopEnv;
use crate::daemon::sm_loop::known_changes::KnownChanges;
use crate::daemon::sm_loop::monitor::ReconfigureTimes;
use crate::daemon::sm_loop::stages::mastership::Election;
use crate::daemon::sm_loop::stages::reconfigure::Reconfigured;
use crate::daemon::sm_loop::state::{MAX_UNFINISHED, MIN_RETRY_DELAY};
use crate::daemon::sm_loop::timers::Timer;
use crate::daemon::virtual_ports::early::is_early;
use crate::daemon::virtual_ports::takeover;
use crate::fabric::End;
use crate::fabric::{DiscoveryFault, Fabric};
use crate::manage::action::{OperatorAction, RequestId};
use crate::manage::loop_status::{Cause, ReconfigureResult};
use crate::notes::Severity;
use crate::observe::Observation;
use crate::record::entry::EventKind;
use crate::vendor::virtual_ports::DisabledPorts;
use crate::wire::attr::SmState;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time for which the first plan waits for the discovery of vports: as long as for a silent device. A large
/// fabric takes longer to program, a small one has few vports.
const MAX_DISCOVERY_WAIT: Duration = Duration::from_millis(200);

impl SmLoop {
    /// Handles the result of a sweep: elects the master, and configures the subnet as master.
    pub(super) async fn observed(&mut self, mut observation: Observation) -> Option<Exit> {
        observation.set_virtual_ports(&self.env.context.shared.virtual_ports.load());
        if self.state.observation.is_none()
            && self.env.options.exit_on_fatal
            && let Some(fault) = fatal_fault(&observation.fabric)
        {
            return Some(Exit::Fatal(fault.to_string()));
        }
        let LoopEnv { monitor, options, .. } = &mut self.env;
        monitor.observed(&observation);
        self.unresponsive.observe(options, monitor, &observation);
        self.env.show_protection(&observation);
        self.state.observation = Some(observation.clone());
        let keys = self.reconfigurer.m_keys();
        let (election, outcome) = self.mastership.elect(&mut self.env, keys, &observation).await;
        self.after_role_change(outcome);
        match election {
            Election::Configure => self.configure().await,
            Election::Await => {
                self.env.once.then(|| Exit::SubnetDown("another SM is master".into()))
            }
            Election::SweepAgain { problem: Some(problem), .. } if self.env.once => {
                Some(Exit::SubnetDown(problem))
            }
            Election::SweepAgain { pause, .. } => {
                self.env.timers.set(Timer::Sweep, Instant::now() + pause);
                self.state.needs_heavy_sweep = true;
                None
            }
            Election::Failed(problem) => self.failed(problem),
        }
    }

    /// Plans for the last snapshot and programs it, unless changed links make the plan out of date
    /// before.
    pub(super) async fn configure(&mut self) -> Option<Exit> {
        debug_assert_eq!(self.env.role(), SmState::Master, "only a master programs devices");
        let mut causes = self.agenda.take_causes();
        self.state.causes.append(&mut causes);
        self.env.timers.stop(Timer::Balancing);
        let start = Instant::now();
        let may_end_early =
            self.state.unfinished < MAX_UNFINISHED && self.reconfigurer.may_end_early();
        let is_storm = self.agenda.is_storm(start);
        let known = self.known_changes();
        if may_end_early && !is_storm && self.events.has_unknown_link_change(&known) {
            self.postpone_plan();
            return None;
        }
        let engine = self.env.engine();
        let is_patient = self.state.was_silent;
        if !may_end_early {
            self.prepare_vports().await;
        }
        let observation = self.state.observation.as_mut()?;
        observation.set_virtual_ports(&self.env.context.shared.virtual_ports.load());
        let control = if !may_end_early {
            ApplyControl::to_the_end()
        } else if is_storm {
            ApplyControl::until(std::future::pending(), is_patient)
        } else {
            ApplyControl::until(self.events.unknown_link_change(known), is_patient)
        };
        self.env.monitor.reconfigure_started();
        let LoopEnv { context, options, .. } = &self.env;
        let outcome = self.reconfigurer.run(context, options, observation, control).await;
        self.env.show_protection(observation);
        let is_complete = outcome.result != ReconfigureResult::Interrupted;
        let trap = self.agenda.trap_arrived().filter(|_| is_complete);
        self.report_reconfiguration(&outcome, ReconfigureTimes { start, trap });
        self.state.was_silent = !outcome.silent.is_empty();
        if is_complete {
            self.state.unfinished = 0;
            self.state.completed = self.state.observation.as_ref().map(|seen| seen.fabric.clone());
            self.agenda.traps_handled();
        }
        self.check_quarantine(engine, &outcome.result);
        self.state.causes.clear();
        self.state.needs_heavy_sweep |= outcome.needs_heavy_sweep;
        let heavy = FollowUp::nothing().and(TaskKind::HeavySweep, outcome.links_in_init);
        self.agenda.absorb(heavy);
        self.configured(outcome)
    }

    /// Before the first plan as master, learns the vports of an earlier master and their LIDs, and
    /// lets others be discovered.
    async fn prepare_vports(&self) {
        let LoopEnv { context, options, .. } = &self.env;
        let Some(observation) = &self.state.observation else { return };
        let keys = self.reconfigurer.m_keys();
        let fabric = &observation.fabric;
        let mut disabled = DisabledPorts::default();
        if context.shared.virtual_ports.load().is_empty() {
            let carried = takeover::carried_vports(&context.client, keys, options, fabric).await;
            if !carried.virtual_ports.is_empty() {
                context.shared.virtual_ports.store(Arc::new(carried.virtual_ports));
            }
            disabled = carried.disabled;
        }
        let has_begun = context.published.first_sweep.borrow().is_some();
        if !has_begun && !context.shared.virtual_ports.load().is_empty() {
            // Vports that carry data wait for the subnet.
            return;
        }
        let (first_sweep, discovered) =
            FirstSweep::new(fabric.clone(), options.clone(), Arc::new(keys.clone()), disabled);
        let is_discovered_first =
            is_early(&first_sweep) && context.published.subnet.borrow().is_none();
        context.published.first_sweep.send_replace(Some(Arc::new(first_sweep)));
        if is_discovered_first {
            // Vports that are not found in time are planned later.
            let _ = timeout(MAX_DISCOVERY_WAIT, discovered).await;
        }
    }

    /// Schedules what follows from a reconfiguration.
    fn configured(&mut self, outcome: Reconfigured) -> Option<Exit> {
        match outcome.result {
            ReconfigureResult::Interrupted => {
                self.state.add_unfinished();
                let follow_up = FollowUp::task(TaskKind::Confirm)
                    .because_of(Cause::Unfinished)
                    .with_suspects(outcome.silent);
                self.agenda.absorb(follow_up);
                None
            }
            ReconfigureResult::Up => {
                self.env.context.recordings.succeeded();
                self.state.retry_delay = MIN_RETRY_DELAY;
                self.env.schedule_light_sweep();
                let window = self.reconfigurer.balancing_window(&self.env.options);
                let balancing = window.map(|window| Instant::now() + window);
                self.env.timers.set(Timer::Balancing, balancing);
                let is_over = self.env.once && !self.agenda.is_heavy_sweep_due();
                is_over.then_some(Exit::Clean)
            }
            ReconfigureResult::Delayed(problem) if self.env.once => Some(Exit::SubnetDown(problem)),
            ReconfigureResult::Delayed(_) => {
                self.state.retry_delay = MIN_RETRY_DELAY;
                self.env.schedule_light_sweep();
                let sweep = self.env.timers.get(Timer::Sweep);
                let retry = self.reconfigurer.next_retry();
                self.env.timers.set(Timer::Sweep, sweep.into_iter().chain(retry).min());
                None
            }
            ReconfigureResult::Incomplete(problem) | ReconfigureResult::Rejected(problem) => {
                self.failed(problem)
            }
        }
    }

    /// Ends all quarantines if the fabric cannot be routed without these links, or by a later
    /// routing engine only. `engine`: the engine of the plan before.
    fn check_quarantine(&mut self, engine: Option<&'static str>, result: &ReconfigureResult) {
        let is_rejected = matches!(result, ReconfigureResult::Rejected(_));
        let is_worse = engine.is_some() && self.env.engine() != engine;
        if !self.links.removed().is_empty()
            && (is_rejected || is_worse)
            && let Some(observation) = &self.state.observation
        {
            let lifted = self.links.lift(&self.env.monitor, &observation.fabric);
            self.agenda.absorb(lifted);
        }
    }

    /// The link changes since the last reconfiguration that did not end early. None if silent
    /// devices ended the last one: their neighbours may know more.
    fn known_changes(&self) -> KnownChanges {
        match (&self.state.completed, &self.state.observation) {
            (Some(last), Some(seen)) if !self.state.was_silent => {
                KnownChanges::between(last, &seen.fabric)
            }
            _ => KnownChanges::default(),
        }
    }

    /// Postpones a plan: links have changed since the sweep, so that it would be out of date at
    /// once.
    fn postpone_plan(&mut self) {
        self.env.record(EventKind::SweepEnded, || "links changed meanwhile, they are read first");
        self.state.add_unfinished();
        let mut follow_up = FollowUp::task(TaskKind::Configure).and(TaskKind::Confirm, true);
        follow_up.causes = std::mem::take(&mut self.state.causes);
        self.agenda.absorb(follow_up);
    }

    /// Plans and programs changed multicast groups.
    pub(super) async fn update_multicast(&mut self) -> Option<Exit> {
        debug_assert_eq!(self.env.role(), SmState::Master, "only a master programs devices");
        if !self.update_prepared().await {
            self.agenda.absorb(FollowUp::task(TaskKind::Multicast));
            return None;
        }
        let observation = self.state.observation.as_mut()?;
        let start = Instant::now();
        let updated = self.reconfigurer.update_multicast(&self.env.context, observation).await;
        let Some(outcome) = updated else { return self.configure().await };
        self.state.causes = self.agenda.take_causes();
        self.report_reconfiguration(&outcome, ReconfigureTimes { start, trap: None });
        self.state.needs_heavy_sweep |= outcome.needs_heavy_sweep;
        match outcome.result {
            // There was no sweep, so the time of the next one does not change. The groups are
            // programmed, also if plans with new routes are rejected.
            ReconfigureResult::Up
            | ReconfigureResult::Rejected(_)
            | ReconfigureResult::Delayed(_) => None,
            ReconfigureResult::Incomplete(problem) => self.failed(problem),
            ReconfigureResult::Interrupted => self.configure().await,
        }
    }

    /// Waits for what an update of multicast groups needs. Returns false if work arrives meanwhile
    /// that comes first.
    async fn update_prepared(&mut self) -> bool {
        while !self.agenda.is_urgent() {
            tokio::select! {
                biased;
                event = self.events.recv() => self.received(event),
                () = self.reconfigurer.update_prepared() => return true,
            }
        }
        false
    }

    /// Reports a reconfiguration to the management interface.
    fn report_reconfiguration(&mut self, outcome: &Reconfigured, times: ReconfigureTimes) {
        let mut figures = outcome.figures;
        figures.total = times.start.elapsed();
        let rejected = self.env.context.published.refused.borrow().clone();
        let notes = rejected.iter().flat_map(|rejected| &rejected.notes);
        let shown = notes.filter(|note| note.severity >= Severity::Warning);
        let messages = shown.map(ToString::to_string).collect();
        let causes = self.state.causes.clone();
        self.env.monitor.reconfigured(causes, times, outcome.result.clone(), figures, messages);
    }

    /// Plans the fabric without the link at a port, on a thread of its own. One such plan is computed
    /// at a time; its result is an event.
    pub(super) async fn what_if(&mut self, request: RequestId, end: End) {
        let name = OperatorAction::WhatIf(end.0, end.1).name();
        let events = self.env.monitor.events().clone();
        let Ok(permit) = self.studies.clone().try_acquire_owned() else {
            let problem = "the loss of another link is being planned".to_owned();
            events.action_ended(name, request, Err(problem));
            return;
        };
        let Some(observation) = &self.state.observation else {
            events.action_ended(name, request, Err("no sweep has been completed yet".to_owned()));
            return;
        };
        let context = &self.env.context;
        let options = &self.env.options;
        match self.reconfigurer.study_link(context, options, observation, end).await {
            Err(problem) => events.action_ended(name, request, Err(problem)),
            Ok(study) => drop(tokio::spawn(async move {
                events.action_ended(name, request, study.run().await);
                drop(permit);
            })),
        }
    }

    /// Balances the routes in force again, and requests a reconfiguration if that improves them.
    /// Changed links end it; a reconfiguration follows them.
    pub(super) async fn balance(&mut self) {
        self.env.record(EventKind::Timer, || "off-sweep balancing");
        let Some(observation) = &self.state.observation else { return };
        let LoopEnv { context, options, .. } = &self.env;
        let is_better = tokio::select! {
            biased;
            () = self.events.link_change() => return,
            is_better = self.reconfigurer.balance(context, options, observation) => is_better,
        };
        if is_better {
            self.agenda.absorb(FollowUp::task(TaskKind::Configure).because_of(Cause::Timer));
        }
    }
}

/// The fault that ends the daemon after its first sweep (`exit_on_fatal`): a duplicate GUID. As in
/// OpenSM, only a fabric without switches is fatal, whose link seems to end at its own beginning:
/// there is nothing to manage.
fn fatal_fault(fabric: &Fabric) -> Option<&DiscoveryFault> {
    if !fabric.switches().is_empty() {
        return None;
    }
    fabric.faults().iter().find(|fault| {
        matches!(
            fault,
            DiscoveryFault::DuplicateNodeGuid { .. } | DiscoveryFault::DuplicatePortGuid { .. }
        )
    })
}
