//! The environment of all tasks of the SM loop: its connections, options, status and deadlines.

use super::context::ManagerContext;
use super::monitor::Monitor;
use super::timers::{Timer, Timers};
use crate::config::options::Options;
use crate::daemon::messages::SaCommand;
use crate::observe::Observation;
use crate::record::entry::EventKind;
use crate::wire::attr::SmState;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) struct LoopEnv {
    pub(super) context: ManagerContext,
    pub(super) options: Arc<Options>,
    pub(super) monitor: Monitor,
    pub(super) timers: Timers,
    /// The daemon ends once the subnet is up (`-o`).
    pub(super) once: bool,
}

impl LoopEnv {
    /// The state of this SM.
    pub(super) fn role(&self) -> SmState {
        self.context.published.sm_status.borrow().state
    }

    /// Records an event.
    pub(super) fn record<T: AsRef<str>>(&self, kind: EventKind, text: impl FnOnce() -> T) {
        self.context.recordings.event(kind, text);
    }

    /// `sweep_interval`; `None` if light sweeps are off.
    pub(super) fn sweep_interval(&self) -> Option<Duration> {
        let seconds = self.options.sweep_interval;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Sets the next light sweep to come after the interval.
    pub(super) fn schedule_light_sweep(&mut self) {
        let deadline = self.sweep_interval().map(|pause| Instant::now() + pause);
        self.timers.set(Timer::Sweep, deadline);
    }

    /// Sends the result of a sweep to the SA server. `is_whole`: it read every node.
    pub(super) async fn report_sweep(&self, observation: &Observation, is_whole: bool) {
        let sent = self.context.client.sent() as u32;
        self.context.published.sm_status.send_modify(|sm_status| sm_status.act_count = sent);
        self.report_managers(observation, is_whole).await;
    }

    /// Sends the other SMs to the SA server; with `is_whole` also the fabric that a sweep found.
    pub(super) async fn report_managers(&self, observation: &Observation, is_whole: bool) {
        // Vports that are not discovered yet are not absent.
        let awaits_vports = self.options.virt_enabled == 2 && observation.fabric.awaits_vports();
        let command = SaCommand::SweepFinished {
            managers: observation.managers.iter().map(|&(_, info)| info).collect(),
            whole: (is_whole && !awaits_vports).then(|| observation.fabric.clone()),
            drop_subscriptions: self.options.drop_event_subscriptions,
        };
        // The server ends with the daemon.
        let _ = self.context.sa_server.send(command).await;
    }

    /// Other SMs must know the M_Key that the local port holds.
    pub(super) fn show_protection(&self, observation: &Observation) {
        let fabric = &observation.fabric;
        let owner = fabric.owner(fabric.local());
        if let Some(info) = fabric.port(owner).info() {
            self.context
                .published
                .sm_status
                .send_modify(|sm_status| sm_status.set_protection(&info));
        }
    }

    /// The routing engine of the published plan.
    pub(super) fn engine(&self) -> Option<&'static str> {
        self.context.published.subnet.borrow().as_ref().map(|subnet| subnet.plan.routing.engine)
    }
}
