//! Actions of the management interface, and what it learns of reconfigurations.

use super::Manager;
use crate::config::options::Options;
use crate::daemon::sm_loop::mastership;
use crate::daemon::sm_loop::pending::PendingWork;
use crate::daemon::sm_loop::reconfigure::ReconfigureOutcome;
use crate::ids::Guid;
use crate::manage::action::RequestId;
use crate::manage::loop_status::ReconfigureResult;
use crate::notes::Severity;
use crate::observe::Observation;
use crate::wire::attr::SmState;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

/// Time in which the other SMs must answer before a HANDOVER that an operator requests.
const SUCCESSOR_QUERY_LIMIT: Duration = Duration::from_secs(1);

impl Manager {
    /// Takes the request of an operator to allow or inhibit sweeps, if there is one. A heavy sweep
    /// replaces those that were inhibited.
    pub(super) fn allow_sweeps(&mut self, request: Option<bool>, pending: &mut PendingWork) {
        if let Some(is_enabled) = request
            && is_enabled == self.are_sweeps_inhibited
        {
            self.are_sweeps_inhibited = !is_enabled;
            self.monitor.sweeps_enabled(is_enabled);
            pending.heavy |= is_enabled;
            info!("an operator {} sweeps", if is_enabled { "allows" } else { "inhibits" });
        }
    }

    /// Sets the priority of this SM until the next reload.
    pub(super) async fn set_priority(&mut self, request: RequestId, priority: u8) {
        let old = self.options.sm_priority;
        info!("an operator changes the priority of this SM from {old} to {priority}");
        let options = Options { sm_priority: priority, ..Options::clone(&self.options) };
        self.context.sm_status.send_modify(|status| status.reload(&options));
        self.options = Arc::new(options);
        self.priority_reloaded(old).await;
        if self.state() == SmState::Master {
            self.mastership.look_soon();
        }
        let as_master = match self.options.master_sm_priority {
            master if master > priority => format!(", {master} as master"),
            _ => String::new(),
        };
        self.ended("priority", request, Ok(format!("priority {priority}{as_master}")));
    }

    /// Reports the result of an action.
    fn ended(&self, action: &str, request: RequestId, result: Result<String, String>) {
        self.monitor.events().action_ended(action, request, result);
    }

    /// Carries out requests that only a master can.
    pub(super) async fn carry_out(&mut self, todo: &PendingWork, pending: &mut PendingWork) {
        let state = self.state();
        if state != SmState::Master {
            let problem = format!("this SM is not master: its state is {state}");
            for &request in &todo.dumps {
                self.ended("dump", request, Err(problem.clone()));
            }
            for &(request, _) in &todo.handovers {
                self.ended("handover", request, Err(problem.clone()));
            }
            return;
        }
        if !todo.dumps.is_empty() {
            self.reconfigurer.dump(&self.context, todo.dumps.clone());
        }
        if !todo.released.is_empty() {
            self.release_by_request(&todo.released, pending);
        }
        if !todo.quarantined.is_empty() {
            self.quarantine_by_request(&todo.quarantined, pending);
        }
        for &(request, to) in &todo.handovers {
            if let Err(problem) = self.hand_over_by_request(request, to, pending).await {
                warn!("no HANDOVER as an operator requests: {problem}");
                self.ended("handover", request, Err(problem));
            }
        }
    }

    /// Hands over to the standby SM at port GUID `to`, or to the best one. A task reports when that
    /// is master.
    async fn hand_over_by_request(
        &mut self,
        request: RequestId,
        to: Option<Guid>,
        pending: &mut PendingWork,
    ) -> Result<(), String> {
        if self.state() != SmState::Master {
            return Err("this SM is not master any more".to_owned());
        }
        let observation = self.observation.as_ref().ok_or("the fabric has not been swept yet")?;
        let (client, keys) = (self.context.client.clone(), self.reconfigurer.m_keys());
        let query = mastership::query(&client, keys, &observation.fabric);
        // If one of them does not answer, all are judged as last seen.
        let managers = timeout(SUCCESSOR_QUERY_LIMIT, query).await;
        let managers = managers.unwrap_or_else(|_| observation.managers.clone());
        let others = mastership::peers(&Observation { managers, ..observation.clone() });
        let status = *self.context.sm_status.borrow();
        let successor = status.chosen_successor(&others, to)?;
        let (guid, key) = (successor.guid(), keys.of(successor.guid()));
        self.hand_over(&successor, pending).await.map_err(|problem| {
            format!(
                "the SM at port GUID {guid} does not take over: {problem}; this SM stays master"
            )
        })?;
        info!("handed over to the SM at port GUID {guid}, as an operator requests");
        let (own, events) = (status.standby_candidate(), self.monitor.events().clone());
        tokio::spawn(async move {
            let confirmed = mastership::confirm_master(&client, &successor, key, own).await;
            events.action_ended("handover", request, confirmed);
        });
        Ok(())
    }

    /// Reports a reconfiguration that began at `start`, after a trap that arrived at `trap`.
    pub(super) fn record_reconfiguration(
        &mut self,
        outcome: &ReconfigureOutcome,
        (start, trap): (Instant, Option<Instant>),
    ) {
        let result = match outcome {
            ReconfigureOutcome::Up => ReconfigureResult::Up,
            ReconfigureOutcome::EndedEarly(_) => ReconfigureResult::Interrupted,
            ReconfigureOutcome::Incomplete(text) => ReconfigureResult::Incomplete(text.clone()),
            ReconfigureOutcome::Delayed(text) => ReconfigureResult::Delayed(text.clone()),
            ReconfigureOutcome::Rejected(text) => ReconfigureResult::Rejected(text.clone()),
        };
        let mut figures = self.reconfigurer.take_figures();
        figures.total = start.elapsed();
        let refused = self.context.refused.borrow().clone();
        let notes = refused.iter().flat_map(|refused| &refused.notes);
        let shown = notes.filter(|note| note.severity >= Severity::Warning);
        let messages = shown.map(ToString::to_string).collect();
        let causes = self.causes.clone();
        self.monitor.reconfigured(causes, (start, trap), result, figures, messages);
    }
}
