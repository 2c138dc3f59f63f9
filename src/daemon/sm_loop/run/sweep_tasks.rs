//! The tasks that observe the fabric, and which of them changed links interrupt.

use super::{Exit, SmLoop};
use crate::daemon::sm_loop::agenda::{ChangedPorts, FollowUp, LinkErrors, TaskKind};
use crate::daemon::sm_loop::stages::mastership;
use crate::daemon::sm_loop::stages::sweep;
use crate::daemon::sm_loop::timers::Timer;
use crate::daemon::sm_loop::{own_port, port_errors, reload};
use crate::ids::Guid;
use crate::manage::loop_status::{Cause, SweepKind, SweepResult};
use crate::notes::{counted, time_text};
use crate::observe::light::{LightFindings, LightFocus};
use crate::observe::local_changes::{self, LocalChanges};
use crate::observe::{Observation, SweepError, heavy};
use crate::record::entry::EventKind;
use crate::wire::attr::SmState;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, error, info};

/// Maximum number of light sweeps in a row that confirm focused ones: a switch whose
/// PortStateChange cannot be cleared looks changed for ever.
const MAX_RECHECKS: u32 = 4;

/// Delay of a second light sweep after a focused sweep.
const RECHECK_DELAY: Duration = Duration::from_millis(25);

/// Interval at which an SM whose port has no link looks whether the link is back.
const PORT_RETRY_INTERVAL: Duration = Duration::from_millis(500);

impl SmLoop {
    /// Runs a sweep that changed links interrupt. Returns `None` if they did: the agenda has them.
    async fn unless_links_change<T>(&mut self, sweep: impl Future<Output = T>) -> Option<T> {
        let mut sweep = std::pin::pin!(sweep);
        loop {
            tokio::select! {
                biased;
                () = self.events.link_change() => {
                    self.take_events();
                    if self.agenda.has_suspects() {
                        return None;
                    }
                }
                output = &mut sweep => return Some(output),
            }
        }
    }

    /// Takes the causes of a sweep, and reports its start.
    fn begin_sweep(&mut self, kind: SweepKind) -> Instant {
        self.state.causes = self.agenda.take_causes();
        if self.state.causes.is_empty() {
            self.state.causes.insert(Cause::Unfinished);
        }
        self.env.monitor.sweep_started(kind, &self.state.causes);
        Instant::now()
    }

    fn end_sweep(&mut self, kind: SweepKind, start: Instant, result: SweepResult) {
        self.env.monitor.sweep_ended(kind, self.state.causes.clone(), start, result);
    }

    /// Reports that changed links interrupted a sweep; the next one has its causes, too.
    fn sweep_interrupted(&mut self, kind: SweepKind, start: Instant) {
        let causes = std::mem::take(&mut self.state.causes);
        self.agenda.absorb(FollowUp { causes: causes.clone(), ..FollowUp::nothing() });
        self.env.monitor.sweep_ended(kind, causes, start, SweepResult::Interrupted);
    }

    pub(super) async fn heavy_sweep(&mut self) -> Option<Exit> {
        if reload::have_changed(&self.read_files) {
            self.reload().await;
        }
        let start = self.begin_sweep(SweepKind::Heavy);
        self.env.record(EventKind::SweepBegan, || "heavy");
        let Some(result) = self.interruptible_heavy_sweep().await else {
            self.env.record(EventKind::SweepEnded, || "interrupted by changed links or roles");
            debug!("heavy sweep interrupted after {}", time_text(start.elapsed()));
            self.sweep_interrupted(SweepKind::Heavy, start);
            self.agenda.absorb(FollowUp::task(TaskKind::HeavySweep));
            return None;
        };
        let client = &self.env.context.client;
        let keys = self.reconfigurer.m_keys();
        let result = match result {
            Ok(seen) if own_port::is_locked(client, keys, &seen.fabric).await => {
                Err(SweepError::LocalProtected)
            }
            result => result,
        };
        self.end_sweep(SweepKind::Heavy, start, sweep::result(&result));
        let mut observation = match result {
            Ok(observation) => observation,
            Err(problem) => return self.heavy_sweep_failed(&problem),
        };
        self.env.record(EventKind::SweepEnded, || sweep::found(&observation));
        self.mastership.port_up();
        if let Some(last) = &self.state.observation
            && self.env.context.published.subnet.borrow().is_some()
            && let Some(changes) = own_port::report_foreign_changes(last, &observation)
        {
            self.env.monitor.own_port_changed(changes);
        }
        self.reconfigurer.swept(&observation, start.elapsed());
        self.state.recent.share(&mut observation);
        let mut observation = self.quarantine(observation);
        observation.set_virtual_ports(&self.env.context.shared.virtual_ports.load());
        self.env.report_sweep(&observation, true).await;
        self.observed(observation).await
    }

    fn heavy_sweep_failed(&mut self, problem: &SweepError) -> Option<Exit> {
        self.env.record(EventKind::SweepEnded, || format!("failed: {problem}"));
        self.reconfigurer.log_sweep_failure(problem);
        if !matches!(problem, SweepError::LocalDown | SweepError::LocalLost(_)) {
            return self.failed(problem.to_string());
        }
        let keys = self.reconfigurer.m_keys();
        let outcome = self.mastership.port_down(&mut self.env, keys);
        self.after_role_change(outcome);
        if self.env.once {
            return Some(Exit::SubnetDown("the link of the SM port is down".into()));
        }
        self.env.timers.set(Timer::Sweep, Instant::now() + PORT_RETRY_INTERVAL);
        self.state.needs_heavy_sweep = true;
        None
    }

    /// Sweeps the whole fabric. `None` if links change meanwhile, or, while this SM is DISCOVERING,
    /// if another SM requests a change of role: what the sweep found does not matter then.
    async fn interruptible_heavy_sweep(&mut self) -> Option<Result<Observation, SweepError>> {
        let client = self.env.context.client.clone();
        let keys = self.reconfigurer.m_keys().clone();
        let role = self.env.role();
        let mut settings = self.reconfigurer.sweep_settings(&self.env.options);
        settings.silent_manager = self.mastership.take_silent();
        if let Some(last) = &self.state.observation
            && role == SmState::Master
        {
            settings.known = Some(self.unresponsive.known_devices(&self.env.options, last));
        }
        let sweep = heavy::sweep(&client, &keys, &settings);
        if role == SmState::Discovering {
            return tokio::select! {
                biased;
                result = sweep => Some(result),
                () = self.events.role_request() => None,
            };
        }
        if !self.state.may_focus(role) {
            return Some(sweep.await);
        }
        let result = self.unless_links_change(sweep).await;
        if result.is_none() {
            self.state.add_unfinished();
        }
        result
    }

    pub(super) async fn focused_sweep(&mut self, suspects: &[Guid]) -> Option<Exit> {
        let Some(last) = self.state.observation.clone() else {
            self.agenda.absorb(FollowUp::task(TaskKind::HeavySweep));
            return None;
        };
        self.env.record(EventKind::SweepBegan, || sweep::focus_text(suspects));
        let start = self.begin_sweep(SweepKind::Focused);
        let inputs = sweep::FocusedSweep {
            client: &self.env.context.client,
            keys: self.reconfigurer.m_keys(),
            settings: &self.reconfigurer.sweep_settings(&self.env.options),
            last: &last,
            suspects,
            avoided: &self.links.avoidable(&last.fabric),
            restarted: self.reconfigurer.restarted(),
        };
        let result = inputs.run().await;
        self.end_sweep(SweepKind::Focused, start, sweep::result(&result));
        let mut observation = match result {
            Ok(observation) => observation,
            Err(problem) => {
                self.env.record(EventKind::SweepEnded, || format!("failed: {problem}"));
                error!("focused sweep failed, a heavy sweep follows: {problem}");
                if matches!(problem, SweepError::RoutesOutdated(_)) {
                    self.reconfigurer.cables_moved();
                }
                self.agenda.absorb(FollowUp::task(TaskKind::HeavySweep));
                return None;
            }
        };
        self.env.record(EventKind::SweepEnded, || sweep::found(&observation));
        // A silent device is left to a heavy sweep. Else a light sweep looks for changes whose traps
        // were lost.
        let is_unresolved = observation.is_unresolved;
        self.state.recent.share(&mut observation);
        let observation = self.quarantine(observation);
        let is_noise = self.links.explains(&last, &observation);
        let follow_up = FollowUp::nothing()
            .and(TaskKind::HeavySweep, is_unresolved)
            .and(TaskKind::Confirm, !is_noise);
        self.agenda.absorb(follow_up);
        self.env.report_sweep(&observation, false).await;
        self.observed(observation).await
    }

    /// Counts the links that went down since the last snapshot, and removes quarantined ones.
    fn quarantine(&mut self, observation: Observation) -> Observation {
        if let Some(last) = &self.state.observation {
            self.links.observe(last, &observation);
        }
        self.without_quarantined(observation)
    }

    /// Confirms a focused sweep by a light one.
    pub(super) async fn confirm(&mut self) {
        if self.state.rechecks >= MAX_RECHECKS {
            return;
        }
        self.state.rechecks += 1;
        self.env.schedule_light_sweep();
        self.light_sweep().await;
        if !self.agenda.needs_sweep()
            && let Some(observation) = &self.state.observation
        {
            // The snapshot is complete: ports that it lacks are absent.
            self.env.report_sweep(observation, true).await;
        }
        // A device that changes again meanwhile may not repeat its trap for seconds.
        self.env.timers.set(Timer::Sweep, Instant::now() + RECHECK_DELAY);
    }

    /// Runs a light sweep, and requests focused or heavy ones for what it finds, or a heavy one if
    /// something was left open.
    pub(super) async fn light_sweep(&mut self) {
        let is_incomplete = std::mem::replace(&mut self.state.needs_heavy_sweep, false);
        let Some(observation) = &self.state.observation else {
            return self.agenda.absorb(FollowUp::task(TaskKind::HeavySweep));
        };
        if is_incomplete || self.env.options.force_heavy_sweep {
            let heavy = FollowUp::task(TaskKind::HeavySweep);
            let heavy = if is_incomplete { heavy.because_of(Cause::Unfinished) } else { heavy };
            return self.agenda.absorb(heavy);
        }
        // Sets that devices refused are sent again after a delay.
        let is_retry_due = self.reconfigurer.is_retry_due();
        self.agenda.absorb(FollowUp::nothing().and(TaskKind::Configure, is_retry_due));
        self.env.record(EventKind::SweepBegan, || "light");
        let client = self.env.context.client.clone();
        let keys = self.reconfigurer.m_keys().clone();
        let fabric = observation.fabric.clone();
        let cleared = observation.to_confirm();
        let waiting = self.unresponsive.waiting(Instant::now());
        let start = self.begin_sweep(SweepKind::Light);
        let focus = LightFocus { cleared: &cleared, waiting: &waiting };
        let queries = sweep::light(&client, &keys, &fabric, focus);
        let Some((mut findings, managers)) = self.unless_links_change(queries).await else {
            self.env.record(EventKind::SweepEnded, || "interrupted by changed links");
            return self.sweep_interrupted(SweepKind::Light, start);
        };
        self.env.record(EventKind::SweepEnded, || findings.to_string());
        self.end_sweep(SweepKind::Light, start, SweepResult::Done);
        if let Some(observation) = &mut self.state.observation {
            observation.changed_switches.clear();
            observation.unconfirmed.clear();
            let env = &mut self.env;
            let outcome = self.mastership.others_answered(env, &keys, observation, managers).await;
            self.after_role_change(outcome);
        }
        findings.changed.retain(|&guid| self.reconfigurer.clears_state_change(guid));
        let are_given_up = self.unresponsive.asked_again(&self.env.options, &findings);
        self.agenda.absorb(FollowUp::nothing().and(TaskKind::HeavySweep, are_given_up));
        if findings.is_empty() {
            self.state.rechecks = 0;
        } else {
            self.found_changes(findings);
        }
    }

    /// Requests sweeps for what a light sweep found.
    fn found_changes(&mut self, findings: LightFindings) {
        info!(
            "light sweep: {} changed, {} lost, {} answered again",
            counted(findings.changed.len(), "switch", "switches"),
            findings.lost.len(),
            counted(findings.recovered.len(), "silent port", "silent ports")
        );
        let needs_heavy = !findings.lost.is_empty()
            || !findings.recovered.is_empty()
            || findings.local_link_changed;
        let mut follow_up = FollowUp::nothing()
            .because_of(Cause::LightSweep)
            .and(TaskKind::HeavySweep, needs_heavy);
        if !findings.local_link_changed {
            follow_up.suspects.extend(findings.changed.into_iter().chain(findings.lost));
        }
        self.agenda.absorb(follow_up);
    }

    /// Queries the other SMs as master, between heavy sweeps.
    pub(super) async fn query_others(&mut self) {
        if self.env.role() != SmState::Master || self.env.options.ignore_other_sm {
            return;
        }
        let Some(observation) = &self.state.observation else { return };
        let client = self.env.context.client.clone();
        let keys = self.reconfigurer.m_keys().clone();
        let fabric = observation.fabric.clone();
        // A device that hangs must not delay the repair of routes.
        let query = mastership::query(&client, &keys, &fabric);
        let Some(managers) = self.unless_links_change(query).await else {
            return mastership::look_soon(&mut self.env);
        };
        if let Some(observation) = &mut self.state.observation {
            let env = &mut self.env;
            let outcome = self.mastership.others_answered(env, &keys, observation, managers).await;
            self.after_role_change(outcome);
        }
    }

    /// Handles ports that report errors of their link.
    pub(super) async fn link_errors(&mut self, errors: &LinkErrors) {
        let Some(observation) = &self.state.observation else { return };
        let keys = self.reconfigurer.m_keys();
        let is_changed =
            port_errors::handle(&self.env, keys, observation, &mut self.links, errors).await;
        if is_changed && let Some(observation) = self.state.observation.take() {
            self.state.observation = Some(self.without_quarantined(observation));
            self.agenda.absorb(FollowUp::task(TaskKind::Configure));
        }
    }

    /// Handles traps 144 and 145: reads the attributes of ports that changed, and publishes them
    /// without a sweep.
    pub(super) async fn read_local_changes(&mut self, changed: &ChangedPorts) {
        let Some(observation) = &mut self.state.observation else {
            return self.agenda.absorb(FollowUp::task(TaskKind::HeavySweep));
        };
        let keys = self.reconfigurer.m_keys();
        let ports = local_changes::ports_by_lid(&observation.fabric, changed);
        let changes =
            local_changes::read(&self.env.context.client, keys, observation, &ports).await;
        let LocalChanges { is_changed, managers_changed, needs_plan, needs_sweep } = changes;
        info!("{} read again", counted(ports.len(), "changed port", "changed ports"));
        // A port that the snapshot does not have under its LID needs a sweep, too.
        let needs_sweep = needs_sweep || ports.len() < changed.len();
        let follow_up = FollowUp::nothing()
            .and(TaskKind::HeavySweep, needs_sweep)
            .and(TaskKind::Configure, needs_plan);
        self.agenda.absorb(follow_up);
        if managers_changed {
            let env = &mut self.env;
            let outcome = self.mastership.others_changed(env, keys, observation).await;
            self.after_role_change(outcome);
        } else if is_changed {
            // It may be the port of a new SM that does not answer yet.
            mastership::look_soon(&mut self.env);
        }
        if is_changed
            && !needs_plan
            && self.env.role() == SmState::Master
            && let Some(observation) = &self.state.observation
        {
            let context = &self.env.context;
            let options = &self.env.options;
            self.reconfigurer.publish_observation(context, options, observation).await;
        }
    }
}
