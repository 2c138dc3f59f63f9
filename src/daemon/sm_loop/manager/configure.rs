//! Brings the fabric that a sweep found to its configured state, unless changed links make the plan
//! out of date before.

use super::{Exit, MAX_UNFINISHED, MIN_RETRY_DELAY, Manager};
use crate::apply::ApplyControl;
use crate::daemon::sm_loop::known_changes::KnownChanges;
use crate::daemon::sm_loop::pending::PendingWork;
use crate::daemon::sm_loop::reconfigure::ReconfigureOutcome;
use crate::manage::loop_status::Cause;
use crate::record::entry::EventKind;
use tokio::time::Instant;

impl Manager {
    /// Plans for the last snapshot and programs it. Returns an exit if the daemon must end.
    pub(in crate::daemon::sm_loop) async fn configure(
        &mut self,
        pending: &mut PendingWork,
    ) -> Option<Exit> {
        self.causes.append(&mut pending.causes);
        self.next_balancing = None;
        let start = Instant::now();
        let may_end_early = self.unfinished < MAX_UNFINISHED && self.reconfigurer.may_end_early();
        let is_storm = self.storm.is_storm(Instant::now());
        let known = self.known_changes();
        if may_end_early && !is_storm && self.events.has_unknown_link_change(&known) {
            self.postpone_plan(pending);
            return None;
        }
        let engine = self.engine();
        let observation = self.observation.as_mut()?;
        let control = match may_end_early {
            true if is_storm => ApplyControl::until(std::future::pending(), self.was_silent),
            true => ApplyControl::until(self.events.unknown_link_change(known), self.was_silent),
            false => ApplyControl::to_the_end(),
        };
        self.monitor.reconfigure_started();
        let run = self.reconfigurer.run(&self.context, &self.options, observation, control);
        let outcome = run.await;
        if let Some(observation) = &self.observation {
            self.show_protection(observation);
        }
        self.was_silent = false;
        let trap =
            pending.trap_arrived.filter(|_| !matches!(outcome, ReconfigureOutcome::EndedEarly(_)));
        self.record_reconfiguration(&outcome, (start, trap));
        if !matches!(outcome, ReconfigureOutcome::EndedEarly(_)) {
            self.unfinished = 0;
            self.completed = self.observation.as_ref().map(|seen| seen.fabric.clone());
            pending.trap_arrived = None;
        }
        self.check_quarantine(engine, &outcome, pending);
        pending.heavy |= std::mem::take(&mut self.reconfigurer.links_in_init);
        self.causes.clear();
        match outcome {
            ReconfigureOutcome::EndedEarly(silent) => {
                self.unfinished += 1;
                pending.causes.insert(Cause::Unfinished);
                self.was_silent = !silent.is_empty();
                pending.suspects.extend(silent);
                pending.confirmation = true;
                None
            }
            ReconfigureOutcome::Up => {
                self.context.recordings.succeeded();
                self.retry_delay = MIN_RETRY_DELAY;
                self.next_sweep = self.interval().map(|pause| Instant::now() + pause);
                self.schedule_balancing();
                (self.once && !pending.heavy).then_some(Exit::Clean)
            }
            ReconfigureOutcome::Delayed(problem) if self.once => Some(Exit::SubnetDown(problem)),
            ReconfigureOutcome::Delayed(_) => {
                self.retry_delay = MIN_RETRY_DELAY;
                let sweep = self.interval().map(|pause| Instant::now() + pause);
                self.next_sweep = sweep.into_iter().chain(self.reconfigurer.next_retry()).min();
                None
            }
            ReconfigureOutcome::Incomplete(problem) | ReconfigureOutcome::Rejected(problem) => {
                self.failed(problem)
            }
        }
    }

    /// The link changes since the last reconfiguration that did not end early. None if silent
    /// devices ended the last one: their neighbours may know more.
    fn known_changes(&self) -> KnownChanges {
        let seen = self.observation.as_ref().filter(|_| !self.was_silent);
        let fabrics = self.completed.as_ref().zip(seen);
        fabrics.map(|(last, seen)| KnownChanges::between(last, &seen.fabric)).unwrap_or_default()
    }

    /// Postpones a plan: links have changed since the sweep, so that it would be out of date at
    /// once.
    fn postpone_plan(&mut self, pending: &mut PendingWork) {
        self.record(EventKind::SweepEnded, || "links changed meanwhile, they are read first");
        self.unfinished += 1;
        pending.causes.append(&mut self.causes);
        (pending.plan, pending.confirmation) = (true, true);
    }
}
