//! Figures of a reconfiguration, and dumps on request, for the management interface.

use crate::apply::ApplyReport;
use crate::apply::program::phases::PHASES;
use crate::config::options::Options;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::file_writer::{DumpJob, FileWriter};
use crate::daemon::sm_loop::files::LOG_ROUTING;
use crate::manage::action::RequestId;
use crate::manage::loop_status::{MAX_PHASES, ReconfigureFigures};
use crate::publish::Subnet;
use std::sync::Arc;
use std::time::Duration;

const _: () = assert!(PHASES.len() == MAX_PHASES);

/// Writes all dump files of the published subnet, those of routes included, for a request. An event
/// reports the result.
pub(super) fn dump(context: &ManagerContext, writer: &mut FileWriter, request: RequestId) {
    let events = context.shared.feed.events.clone();
    let Some(subnet) = context.published.subnet.borrow().clone() else {
        events.action_ended("dump", request, Err("no subnet is configured yet".into()));
        return;
    };
    let log_flags = subnet.options.log_flags | LOG_ROUTING;
    let options = Arc::new(Options { log_flags, ..Options::clone(&subnet.options) });
    let subnet = Arc::new(Subnet { options, ..Subnet::clone(&subnet) });
    let rejected = context.published.refused.borrow().clone();
    writer.dump(DumpJob { subnet, rejected, requests: vec![request], events });
}

/// Takes the figures of a report, whose work began `start` after the reconfiguration.
pub(super) fn applied_figures(
    report: &ApplyReport,
    start: Duration,
    figures: &mut ReconfigureFigures,
) {
    figures.sets = report.sets();
    figures.phases = std::array::from_fn(|at| (PHASES[at].name(), report.sent[at].0));
    figures.lft_blocks = report.lfts.blocks;
    let written = report.lfts.done.filter(|_| report.lfts.blocks > 0);
    figures.tables_written = written.map(|time| start + time);
}
