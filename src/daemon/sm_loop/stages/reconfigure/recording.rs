//! Reconfigurations in the flight recorder.

use crate::apply::{ApplyReport, Stop};
use crate::daemon::process::priority::spawn_idle;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::notes::{Severity, counted};
use crate::publish::rejected::PlanRejected;
use crate::record::entry::EventKind;
use crate::record::plans::{PlanInputs, PlanResult};
use crate::verify::Verified;
use std::sync::Arc;

/// Records that planning begins; `has_previous`: another plan is in force.
pub(super) fn plan_begins(context: &ManagerContext, request: &PlanRequest, has_previous: bool) {
    context.recordings.plan_begins(|files| PlanInputs {
        has_previous,
        fabric: request.fabric.clone(),
        pkeys: request.pkeys.clone(),
        options: request.options.clone(),
        files,
        torus_config: request.torus_config.clone(),
        groups: request.registrations.groups.clone(),
        aliases: request.registrations.aliases.clone(),
        memory: request.memory.clone(),
        reregister: Arc::new(request.reregister.clone()),
    });
}

/// Records the result of planning.
pub(super) fn plan_ended(context: &ManagerContext, planned: &Result<Verified, PlanRejected>) {
    context.recordings.recorder().plan_ended(match planned {
        Ok(verified) => PlanResult::Accepted(verified.plan().clone()),
        Err(rejected) => {
            let errors = rejected.notes.iter().filter(|note| note.severity == Severity::Error);
            let errors: Vec<String> = errors.map(ToString::to_string).collect();
            PlanResult::Rejected(errors.join("; "))
        }
    });
}

/// Records what was written to the devices, and replaces the plan by its digests, on another
/// thread.
pub(super) fn applied(context: &ManagerContext, report: &ApplyReport) {
    context.recordings.event(EventKind::Applied, || {
        let mut text = counted(report.sets(), "Set", "Sets");
        let parts = [
            (report.failures(), "not acknowledged"),
            (report.unacknowledged.tolerated.len(), "refused and not essential"),
            (report.unacknowledged.delayed.len(), "delayed"),
            (report.unacknowledged.abandoned.len(), "abandoned"),
            (report.unacknowledged.dropped.len(), "dropped"),
        ];
        for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
            text += &format!(", {count} {what}");
        }
        match &report.stop {
            None => {}
            Some(Stop::Silence(nodes)) => {
                let devices = counted(nodes.len(), "silent device", "silent devices");
                text += &format!("; ended early because of {devices}");
            }
            Some(Stop::Event) => text += "; ended early because links changed",
        }
        text
    });
    let recorder = context.recordings.recorder().clone();
    // The task ends by itself.
    drop(spawn_idle(move || recorder.digest_plans()));
}
