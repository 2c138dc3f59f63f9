//! Log lines of sweeps and reconfigurations. A finding that persists is logged once.

use super::fault_log::FaultLog;
use super::key_log::{self, KeyLog};
use crate::apply::ApplyReport;
use crate::apply::inherited::AdoptReport;
use crate::apply::set_id::SetId;
use crate::daemon::process::operator_log;
use crate::fabric::{Fabric, NodeId};
use crate::notes::{Note, counted, time_text};
use crate::observe::m_keys::MKeys;
use crate::observe::{Observation, SweepError};
use crate::publish::device_faults;
use crate::transport::client::SmpClient;
use crate::transport::transactions::{SmpError, SmpResultKind};
use crate::verify::Extent;
use crate::wire::attr::AttrId;
use std::collections::BTreeMap;
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// Failed Sets that are logged one by one.
pub(super) const MAX_LOGGED_FAILURES: usize = 20;

/// The findings of the last sweep and plan, which are not logged again.
#[derive(Default)]
pub(super) struct LoggedFindings {
    notes: Vec<Note>,
    faults: FaultLog,
    keys: KeyLog,
}

impl LoggedFindings {
    /// Logs the notes that the last plan did not have.
    pub(super) fn log_notes(&mut self, notes: Vec<Note>) {
        notes.iter().filter(|note| !self.notes.contains(note)).for_each(operator_log::note);
        self.notes = notes;
    }

    /// Logs the faults of the fabric that the last heavy sweep did not find.
    pub(super) fn log_faults(
        &mut self,
        observation: &Observation,
        keys: &MKeys,
        duration: Duration,
    ) {
        let fabric = &observation.fabric;
        debug!(
            "heavy sweep: {} and {} in {}",
            counted(fabric.nodes().len(), "node", "nodes"),
            counted(fabric.switches().len(), "switch", "switches"),
            time_text(duration)
        );
        for line in self.faults.new_lines(fabric, keys) {
            warn!("{line}");
        }
    }

    /// Logs the ports that did not accept Sets because of an unknown M_Key.
    pub(super) fn log_unknown_keys(&mut self, fabric: &Fabric, keys: &MKeys, report: &ApplyReport) {
        self.keys.refused(fabric, keys, report);
    }

    /// Logs why a heavy sweep failed, unless the last one failed for the same reason.
    pub(super) fn log_failure(&mut self, problem: &SweepError) {
        let text = problem.to_string();
        if !self.faults.failed(text.clone()) {
            return;
        }
        match problem {
            SweepError::LocalDown => operator_log::port_down(),
            _ => error!("heavy sweep failed: {text}{}", key_log::local_hint(problem)),
        }
    }
}

/// Logs the Sets that failed, and the durations of planning and of planning and programming.
pub(super) fn log_applied(
    observation: &Observation,
    report: &ApplyReport,
    planning: Duration,
    total: Duration,
) {
    log_failed_sets(observation, report);
    for (item, problem) in &report.unacknowledged.without_aliases {
        let port = item.describe(&observation.fabric);
        warn!("{port}: {problem}; the port's GUIDInfo table lacks its alias GUIDs");
    }
    info!(
        "programmed {} ({}); planned in {}, all in {}",
        counted(report.sets(), "Set", "Sets"),
        lft_blocks(report),
        time_text(planning),
        time_text(total)
    );
}

/// Logs how far the devices hold the plan before it is applied.
pub(super) fn log_inherited(report: Option<AdoptReport>, duration: Duration) {
    let Some(AdoptReport { devices, blocks, differing }) = report else { return };
    info!(
        "read {} of {} that hold tables from before, in {}: {} not as planned",
        counted(blocks, "table block", "table blocks"),
        counted(devices, "device", "devices"),
        time_text(duration),
        counted(differing, "block is", "blocks are")
    );
}

/// Logs the Sets that failed or were not sent.
pub(super) fn log_failed_sets(observation: &Observation, report: &ApplyReport) {
    log_links_down(observation, report);
    log_silent_devices(observation, report);
    for group in grouped(&report.unacknowledged.tolerated).iter().take(MAX_LOGGED_FAILURES) {
        let sets = group.describe(&observation.fabric);
        warn!("{sets}; the subnet is up without it, and it is sent again after a delay");
    }
    let failed = grouped(&report.unacknowledged.failed);
    for group in failed.iter().take(MAX_LOGGED_FAILURES) {
        error!("{}", group.describe(&observation.fabric));
    }
    let others = failed.iter().skip(MAX_LOGGED_FAILURES).map(|group| group.sets.len());
    let count: usize = others.sum();
    if count > 0 {
        error!("{} failed as well", counted(count, "more Set", "more Sets"));
    }
}

/// Sets of an attribute that failed at one device for the same reason.
struct FailedSets<'a> {
    sets: Vec<SetId>,
    problem: &'a SmpError,
}

/// Groups failed Sets by device, attribute and reason.
fn grouped(failed: &[(SetId, SmpError)]) -> Vec<FailedSets<'_>> {
    let mut groups: BTreeMap<(NodeId, u16, String), FailedSets<'_>> = BTreeMap::new();
    for (set, problem) in failed {
        let group = groups.entry((set.node, set.attr_id, problem.to_string()));
        group.or_insert(FailedSets { sets: Vec::new(), problem }).sets.push(*set);
    }
    groups.into_values().collect()
}

impl FailedSets<'_> {
    fn describe(&self, fabric: &Fabric) -> String {
        let first = self.sets[0];
        let more = match self.sets.len() - 1 {
            0 => String::new(),
            more => {
                let more = counted(more, "more Set", "more Sets");
                format!(" and {more} of this attribute to the device")
            }
        };
        let is_refused = matches!(self.problem, SmpError::Status(_));
        let remedy = if is_refused && first.attr_id == AttrId::SL_TO_VL {
            format!("; {}", device_faults::SL_TO_VL_REMEDY)
        } else {
            String::new()
        };
        format!("{}{more}: {}{remedy}", first.describe(fabric), self.problem)
    }
}

/// Logs the links that were taken down.
fn log_links_down(observation: &Observation, report: &ApplyReport) {
    let fabric = &observation.fabric;
    for &port in report.links_down.reset.iter().take(MAX_LOGGED_FAILURES) {
        let port = fabric.describe(port);
        info!("{port}: the link passes through INIT, because its MTU or operational VLs change");
    }
    for &port in report.links_down.unreachable_peers.iter().take(MAX_LOGGED_FAILURES) {
        let port = fabric.describe(port);
        warn!("{port}: the link is taken down, because the node at its far end does not answer");
    }
}

/// Logs the devices that acknowledge no Sets.
fn log_silent_devices(observation: &Observation, report: &ApplyReport) {
    let fabric = &observation.fabric;
    let mut unsent: BTreeMap<NodeId, usize> = BTreeMap::new();
    for set in &report.unacknowledged.unsent {
        *unsent.entry(set.node).or_default() += 1;
    }
    for (&node, &count) in unsent.iter().take(MAX_LOGGED_FAILURES) {
        let slot = fabric.node(node).first_port;
        let device = fabric.describe(slot);
        let route = fabric.node(node).route;
        let sets = counted(count, "further Set was", "further Sets were");
        error!("{device} at path {route} acknowledges no Sets; {sets} not sent");
    }
    if !report.unacknowledged.delayed.is_empty() {
        let sets = counted(report.unacknowledged.delayed.len(), "Set waits", "Sets wait");
        info!("{sets}, because devices refused or did not acknowledge them before");
    }
}

/// The LFT blocks written, with the time of the last one if any was.
fn lft_blocks(report: &ApplyReport) -> String {
    let blocks = counted(report.lfts.blocks, "LFT block", "LFT blocks");
    match report.lfts.done {
        Some(time) if report.lfts.blocks > 0 => {
            format!("{blocks}, the last after {}", time_text(time))
        }
        _ => blocks,
    }
}

/// Logs the SMPs sent since the start, as a measure of the load on VL15.
pub(super) fn log_traffic(client: &SmpClient) {
    let counters = client.counters();
    info!(
        "SMPs since the start: {} Gets, {} Sets, {} timed out, {} with an error status in the reply",
        counters.gets(),
        counters.sets(),
        counters.results(SmpResultKind::Unanswered),
        counters.results(SmpResultKind::Refused)
    );
}

/// Logs which differences were verified.
pub(super) fn log_extent(extent: Extent) {
    match extent {
        Extent::Full => {}
        Extent::Incremental => {
            debug!("verified the changes: old and new routes together have no credit loop");
        }
        Extent::FaultFree => {
            debug!("verified the changes from the last fault-free fabric: no credit loop");
        }
        Extent::KeptRoutes => {
            debug!("verified multicast trees and limits, with the routes in force");
        }
    }
}
