//! The sweeps of the manager: heavy, focused and light, and which of them changed links interrupt.

use crate::daemon::sm_loop::manager::{Exit, MAX_UNFINISHED, Manager};
use crate::daemon::sm_loop::pending::PendingWork;
use crate::daemon::sm_loop::{mastership, own_port};
use crate::ids::Guid;
use crate::manage::loop_status::{Cause, SweepKind, SweepResult};
use crate::notes::{counted, time_text};
use crate::observe::discovery_state::DiscoveryState;
use crate::observe::focused::Focus;
use crate::observe::light::LightFocus;
use crate::observe::{Observation, SweepError, focused, heavy, light};
use crate::record::entry::EventKind;
use crate::wire::attr::SmState;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

/// Maximum number of light sweeps in a row that confirm focused ones: a switch whose
/// PortStateChange cannot be cleared looks changed for ever.
const MAX_RECHECKS: u32 = 4;

/// Delay of a second light sweep after a focused sweep.
const RECHECK_DELAY: Duration = Duration::from_millis(25);

/// Maximum number of switches of a focused sweep that a recording names.
const MAX_RECORDED_SUSPECTS: usize = 16;

impl Manager {
    /// True if a snapshot is the base for a focused sweep, and changed links have not postponed
    /// other work for too long.
    pub(super) fn may_focus(&self) -> bool {
        self.observation.is_some()
            && self.state() == SmState::Master
            && self.unfinished < MAX_UNFINISHED
    }

    /// Runs a sweep that changed links interrupt. Returns `None` if they did: they are in
    /// `pending`.
    pub(super) async fn unless_links_change<T>(
        &mut self,
        pending: &mut PendingWork,
        sweep: impl Future<Output = T>,
    ) -> Option<T> {
        let mut sweep = std::pin::pin!(sweep);
        loop {
            tokio::select! {
                biased;
                () = self.events.link_change() => {
                    self.take_events(pending);
                    if !pending.suspects.is_empty() {
                        return None;
                    }
                }
                output = &mut sweep => return Some(output),
            }
        }
    }

    /// Takes the causes of a sweep, and reports its start.
    fn begin_sweep(&mut self, kind: SweepKind, pending: &mut PendingWork) -> Instant {
        self.causes = std::mem::take(&mut pending.causes);
        if self.causes.is_empty() {
            self.causes.insert(Cause::Unfinished);
        }
        self.monitor.sweep_started(kind, &self.causes);
        Instant::now()
    }

    fn sweep_ended(
        &mut self,
        kind: SweepKind,
        start: Instant,
        result: Result<&Observation, &SweepError>,
    ) {
        let result = match result {
            Ok(_) => SweepResult::Done,
            Err(problem) => SweepResult::Failed(problem.to_string()),
        };
        self.monitor.sweep_ended(kind, self.causes.clone(), start, result);
    }

    /// Reports that changed links interrupted a sweep; the next one has its causes, too.
    fn sweep_interrupted(&mut self, kind: SweepKind, start: Instant, pending: &mut PendingWork) {
        let causes = std::mem::take(&mut self.causes);
        pending.causes.extend(&causes);
        self.monitor.sweep_ended(kind, causes, start, SweepResult::Interrupted);
    }

    pub(super) async fn heavy_sweep(&mut self, pending: &mut PendingWork) -> Option<Exit> {
        self.reload_if_changed().await;
        let start = self.begin_sweep(SweepKind::Heavy, pending);
        self.record(EventKind::SweepBegan, || "heavy");
        let Some(result) = self.interruptible_heavy_sweep(pending).await else {
            self.record(EventKind::SweepEnded, || "interrupted by changed links or roles");
            debug!("heavy sweep interrupted after {}", time_text(start.elapsed()));
            self.sweep_interrupted(SweepKind::Heavy, start, pending);
            pending.heavy = true;
            return None;
        };
        let result = match result {
            Ok(observation) if self.is_locked_out(&observation).await => {
                Err(SweepError::LocalProtected)
            }
            result => result,
        };
        self.sweep_ended(SweepKind::Heavy, start, result.as_ref());
        match result {
            Ok(observation) => {
                self.record(EventKind::SweepEnded, || found(&observation));
                self.port_up();
                self.report_foreign_changes(&observation);
                self.reconfigurer.swept(&observation, start.elapsed());
                let observation = self.quarantine(observation);
                self.notify_sa_server(&observation, true).await;
                self.observed(observation, pending).await
            }
            Err(problem) => {
                self.record(EventKind::SweepEnded, || format!("failed: {problem}"));
                self.reconfigurer.log_sweep_failure(&problem);
                match problem {
                    SweepError::LocalDown | SweepError::LocalLost(_) => self.port_down(pending),
                    _ => self.failed(problem.to_string()),
                }
            }
        }
    }

    /// Reports that another manager or program changed the port of this SM, which is configured
    /// again. The port does not tell who did it; other SMs that the sweep found are named. Before
    /// this SM has configured the subnet as master, the port is as another master has left it.
    fn report_foreign_changes(&mut self, observation: &Observation) {
        let own = |seen: &Observation| {
            let fabric = &seen.fabric;
            fabric.port(fabric.owner(fabric.local())).info
        };
        let is_configured = self.context.subnet.borrow().is_some();
        let last = self.observation.as_ref().filter(|_| is_configured);
        let (Some(last), Some(now)) = (last.and_then(own), own(observation)) else { return };
        let changes = own_port::foreign_changes(&last, &now).join(", ");
        if changes.is_empty() {
            return;
        }
        let others = observation.managers.iter().map(|(port, info)| {
            format!("{} ({})", info.guid(), observation.fabric.node_of(*port).name())
        });
        let others: Vec<String> = others.collect();
        let others = match others.is_empty() {
            true => "no other subnet manager is seen".to_owned(),
            false => format!("other subnet managers: {}", others.join(", ")),
        };
        warn!(
            "another manager or program changed the port of this SM: {changes}; it is configured \
             again; {others}; with an m_key the port refuses such requests and names their sender"
        );
        self.monitor.own_port_changed(changes);
    }

    /// True if the local port is protected by an unknown M_Key.
    async fn is_locked_out(&self, observation: &Observation) -> bool {
        let (client, keys) = (&self.context.client, self.reconfigurer.m_keys());
        own_port::is_locked(client, keys, &observation.fabric).await
    }

    /// Sweeps the whole fabric. `None` if links change meanwhile, or, while this SM is DISCOVERING,
    /// if another SM requests a change of role: what the sweep found does not matter then.
    async fn interruptible_heavy_sweep(
        &mut self,
        pending: &mut PendingWork,
    ) -> Option<Result<Observation, SweepError>> {
        let client = self.context.client.clone();
        let keys = self.reconfigurer.m_keys().clone();
        let mut settings = self.reconfigurer.sweep_settings(&self.options);
        settings.silent_manager = self.mastership.take_silent();
        settings.known = self.known_devices();
        let sweep = heavy::sweep(&client, &keys, &settings);
        if self.state() == SmState::Discovering {
            return tokio::select! {
                biased;
                result = sweep => Some(result),
                () = self.events.role_request() => None,
            };
        }
        if !self.may_focus() {
            return Some(sweep.await);
        }
        let result = self.unless_links_change(pending, sweep).await;
        self.unfinished += u32::from(result.is_none());
        result
    }

    pub(super) async fn focused_sweep(
        &mut self,
        suspects: &[Guid],
        pending: &mut PendingWork,
    ) -> Option<Exit> {
        self.storm.sweeping(Instant::now());
        let Some(last) = self.observation.as_ref() else {
            pending.heavy = true;
            return None;
        };
        let last = last.clone();
        self.record(EventKind::SweepBegan, || {
            let names = suspects.iter().take(MAX_RECORDED_SUSPECTS).map(ToString::to_string);
            let (count, names) = (suspects.len(), names.collect::<Vec<_>>().join(" "));
            format!("focused on {}: {names}", counted(count, "switch", "switches"))
        });
        let start = self.begin_sweep(SweepKind::Focused, pending);
        let result = self.query_suspects(&last, suspects).await;
        self.sweep_ended(SweepKind::Focused, start, result.as_ref());
        match result {
            Ok(observation) => {
                self.record(EventKind::SweepEnded, || found(&observation));
                // A silent device is left to a heavy sweep. Else a light sweep looks for changes
                // whose traps were lost.
                pending.heavy |= observation.is_unresolved;
                let observation = self.quarantine(observation);
                pending.confirmation |= !self.is_quarantine_noise(&observation);
                self.notify_sa_server(&observation, false).await;
                self.observed(observation, pending).await
            }
            Err(problem) => {
                self.record(EventKind::SweepEnded, || format!("failed: {problem}"));
                error!("focused sweep failed, a heavy sweep follows: {problem}");
                if matches!(problem, SweepError::RoutesOutdated(_)) {
                    self.reconfigurer.cables_moved();
                }
                pending.heavy = true;
                None
            }
        }
    }

    /// Sweeps the suspects. Quarantined links are crossed only if nodes would be lost otherwise.
    async fn query_suspects(
        &mut self,
        last: &Observation,
        suspects: &[Guid],
    ) -> Result<Observation, SweepError> {
        let settings = self.reconfigurer.sweep_settings(&self.options);
        let (client, keys) = (&self.context.client, self.reconfigurer.m_keys());
        let avoided = self.links.health.avoidable(Instant::now(), &last.fabric);
        let restarted = self.reconfigurer.restarted();
        let focus = Focus { suspects, avoided: &avoided, restarted };
        let state = DiscoveryState::of(&last.fabric, &last.pkeys);
        let observation = focused::sweep(client, keys, &settings, last, state, focus).await?;
        let is_lost = |guid| observation.fabric.node_by_guid(guid).is_none();
        if avoided.is_empty() || !last.fabric.nodes().iter().any(|node| is_lost(node.guid())) {
            return Ok(observation);
        }
        let state = DiscoveryState::of(&last.fabric, &last.pkeys);
        let focus = Focus { avoided: &[], ..focus };
        focused::sweep(client, keys, &settings, last, state, focus).await
    }

    /// Confirms a focused sweep by a light one.
    pub(super) async fn confirm(&mut self, pending: &mut PendingWork) {
        if self.rechecks >= MAX_RECHECKS {
            return;
        }
        self.rechecks += 1;
        self.light_sweep(pending).await;
        if !pending.heavy && pending.suspects.is_empty() {
            // The snapshot is complete: ports that it lacks are absent.
            if let Some(observation) = self.observation.clone() {
                self.notify_sa_server(&observation, true).await;
            }
        }
        // A device that changes again meanwhile may not repeat its trap for seconds.
        self.next_sweep = Some(Instant::now() + RECHECK_DELAY);
    }

    /// Runs a light sweep, and requests focused or heavy ones for what it finds, or a heavy one if
    /// the last reconfiguration is incomplete.
    pub(super) async fn light_sweep(&mut self, pending: &mut PendingWork) {
        self.next_sweep = self.interval().map(|pause| Instant::now() + pause);
        if self.are_sweeps_inhibited {
            return;
        }
        let is_incomplete = std::mem::take(&mut self.reconfigurer.needs_heavy_sweep);
        let Some(observation) = self.observation.as_ref() else {
            pending.heavy = true;
            return;
        };
        if is_incomplete || self.options.force_heavy_sweep {
            pending.heavy = true;
            if is_incomplete {
                pending.causes.insert(Cause::Unfinished);
            }
            return;
        }
        // Sets that devices refused are sent again after a delay.
        pending.plan |= self.reconfigurer.is_retry_due();
        self.context.recordings.event(EventKind::SweepBegan, || "light");
        let (client, fabric) = (self.context.client.clone(), observation.fabric.clone());
        let cleared = observation.to_confirm();
        let waiting = self.unresponsive.waiting(Instant::now());
        let focus = LightFocus { cleared: &cleared, waiting: &waiting };
        let keys = self.reconfigurer.m_keys().clone();
        let start = self.begin_sweep(SweepKind::Light, pending);
        let queries = async {
            tokio::join!(
                light::sweep(&client, &keys, &fabric, focus),
                mastership::query(&client, &keys, &fabric)
            )
        };
        let answers = self.unless_links_change(pending, queries).await;
        let Some((mut findings, managers)) = answers else {
            self.record(EventKind::SweepEnded, || "interrupted by changed links");
            return self.sweep_interrupted(SweepKind::Light, start, pending);
        };
        if let Some(observation) = self.observation.as_mut() {
            (observation.changed_switches, observation.unconfirmed) = Default::default();
        }
        self.record(EventKind::SweepEnded, || findings.to_string());
        let causes = self.causes.clone();
        self.monitor.sweep_ended(SweepKind::Light, causes, start, SweepResult::Done);
        self.others_answered(managers, pending).await;
        findings.changed.retain(|&guid| self.reconfigurer.clears_state_change(guid));
        pending.heavy |= self.unresponsive_asked(&findings);
        if findings.is_empty() {
            self.rechecks = 0;
            return;
        }
        pending.causes.insert(Cause::LightSweep);
        info!(
            "light sweep: {} changed, {} lost, {} answered again",
            counted(findings.changed.len(), "switch", "switches"),
            findings.lost.len(),
            counted(findings.recovered.len(), "silent port", "silent ports")
        );
        pending.heavy |= !findings.lost.is_empty()
            || !findings.recovered.is_empty()
            || findings.local_link_changed;
        if !findings.local_link_changed {
            pending.suspects.extend(findings.changed.into_iter().chain(findings.lost));
        }
    }
}

/// The result of a sweep, for the time line of a recording.
fn found(observation: &Observation) -> String {
    let Observation { fabric, is_unresolved, .. } = observation;
    let faults = fabric.faults();
    let mut text = format!(
        "{}, {}",
        counted(fabric.nodes().len(), "node", "nodes"),
        counted(faults.len(), "fault", "faults")
    );
    if let Some(first) = faults.first() {
        text += &format!(", the first: {first}");
    }
    if *is_unresolved {
        text += "; some devices are silent, a heavy sweep follows";
    }
    text
}
