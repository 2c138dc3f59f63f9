//! The outcome of a reconfiguration.

use crate::apply::{ApplyReport, Stop};
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::manage::loop_status::{ReconfigureFigures, ReconfigureResult};
use crate::notes::counted;

/// The outcome of a reconfiguration.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Reconfigured {
    pub result: ReconfigureResult,
    /// Devices that programming did not wait for any longer, because nothing else was left and they
    /// do not answer; of a channel adapter, the switch before it.
    pub silent: Vec<Guid>,
    /// Something was left open, so that the next sweep must be a heavy one.
    pub needs_heavy_sweep: bool,
    /// Links were taken down, which a heavy sweep must bring up at once.
    pub links_in_init: bool,
    /// Figures, apart from the duration.
    pub figures: ReconfigureFigures,
}

impl Reconfigured {
    /// Nothing was programmed, because there is no valid plan for this reason.
    pub(super) fn rejected(headline: String, figures: ReconfigureFigures) -> Self {
        Self {
            result: ReconfigureResult::Rejected(headline),
            silent: Vec::new(),
            needs_heavy_sweep: false,
            links_in_init: false,
            figures,
        }
    }
}

/// The outcome of programming, without figures.
pub(super) fn outcome(fabric: &Fabric, report: &ApplyReport) -> Reconfigured {
    let result = match (&report.stop, report.failures(), report.unacknowledged.delayed_essential) {
        (Some(_), ..) => ReconfigureResult::Interrupted,
        (None, 0, 0) => ReconfigureResult::Up,
        (None, 0, delayed) => ReconfigureResult::Delayed(format!(
            "{} for a device that refused or did not acknowledge them before",
            counted(delayed, "Set waits", "Sets wait")
        )),
        (None, failed, _) => ReconfigureResult::Incomplete(format!(
            "{} not acknowledged",
            counted(failed, "Set was", "Sets were")
        )),
    };
    // Routes over a device that does not let itself be configured come with its next attempt.
    let is_delayed = matches!(result, ReconfigureResult::Delayed(_));
    let has_withheld = report.transition.is_some_and(|order| order.withheld > 0);
    Reconfigured {
        result,
        silent: report.stop.iter().flat_map(|stop| silent_switches(fabric, stop)).collect(),
        needs_heavy_sweep: has_withheld && !is_delayed,
        links_in_init: !report.links_down.reset.is_empty(),
        figures: ReconfigureFigures::default(),
    }
}

/// The switches that are silent, or whose channel adapters are.
fn silent_switches(fabric: &Fabric, stop: &Stop) -> Vec<Guid> {
    let Stop::Silence(nodes) = stop else { return Vec::new() };
    let switches = nodes.iter().filter_map(|&node| {
        if fabric.node(node).is_switch() {
            return Some(fabric.node(node).guid());
        }
        let peer = fabric.ports_of(node).find_map(|port| port.peer)?;
        Some(fabric.node_of(peer).guid())
    });
    switches.collect()
}
